"""Deep Gaussian processes against GPyTorch's, a feed-forward one and single ones."""
