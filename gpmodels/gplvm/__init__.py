"""Gaussian process latent variable models: the bounds, where training starts, and the inference of new rows."""
