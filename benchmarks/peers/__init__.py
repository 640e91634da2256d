"""Methods from the literature that benchmarks compare the heads with.

`base` says which models there are; `traditional` holds lane detectors that learn nothing.
"""
