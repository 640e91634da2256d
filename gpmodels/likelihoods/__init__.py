"""Likelihoods: expectations of log p(y | f) for training, and predictive distributions."""
