"""Bundles: a SavedModel with its description, written and read."""
