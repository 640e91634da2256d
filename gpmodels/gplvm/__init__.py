"""Gaussian process latent variable models: bounds, training, and the inference of new rows."""
