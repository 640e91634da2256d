"""The Bayesian GPLVM: a map of rows without targets, what is odd among them, and what is missing in them."""
