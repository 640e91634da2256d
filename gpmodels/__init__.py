"""Gaussian-process models and networks: tensors in, tensors out."""
