"""Last-layer Laplace: a Gaussian posterior of the weights of a trained linear head."""
