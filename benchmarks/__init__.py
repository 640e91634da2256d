"""Measurements behind docs/results.md: each is run from the checkout as `python -m benchmarks.NAME`."""
