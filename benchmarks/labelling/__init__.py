"""Simulated annotators: how many labels a strategy of asking needs."""
