"""Measures of the Bayesian GPLVM."""
