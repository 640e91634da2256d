"""Heads on feature tables, in the manner of the thesis."""
