"""SVDKL: Gaussian processes on features or groups of them, mixed into latent functions."""
