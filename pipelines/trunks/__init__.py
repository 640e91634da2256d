"""Networks that were trained elsewhere, as the part before the heads: their weights and their features."""
