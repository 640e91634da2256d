"""Models from the literature that benchmarks compare the heads with; `base` says which."""
