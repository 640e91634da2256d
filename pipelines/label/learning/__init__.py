"""The learner behind the page: what it asks next, how it learns from an answer, what the labels bought."""
