"""The deep feed-forward Gaussian process, which combines views of the features."""
