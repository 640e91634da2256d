"""Doubly stochastic deep Gaussian processes of sparse layers."""
