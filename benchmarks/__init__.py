"""Measurements behind docs/results/: each is run from the checkout as `python -m benchmarks.NAME`."""
