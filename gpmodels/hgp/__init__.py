"""The hierarchical Gaussian process: a global sparse unit and gated local experts."""
