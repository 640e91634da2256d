"""A run: one network, and heads trained from it."""
