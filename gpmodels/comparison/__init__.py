"""Models from the literature that the heads are compared with; `base` says which."""
