"""The learner that is measured: what it asks next, how it learns from an answer, what the labels bought."""
