"""Photographs with masks of the walkable lane become prepared examples."""
