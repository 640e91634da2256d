"""Names of the likelihoods of targets, for those who read them without TensorFlow."""

from typing import Final

COUNT_LIKELIHOODS: Final = ("poisson", "negative_binomial")

TARGET_LIKELIHOODS: Final = ("gaussian", *COUNT_LIKELIHOODS)
"""Likelihoods of real targets and of counts; all others are of classes."""

MULTILABEL: Final = "multilabel"
"""Likelihood of several yes/no labels."""

VOTES: Final = "votes"
"""Likelihood of the shares of votes for each class."""
