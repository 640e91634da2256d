"""SNGP: a Gaussian process by random Fourier features with a Laplace approximation of its posterior."""
