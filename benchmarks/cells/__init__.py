"""Simulated dividing and dying cells, for benchmarks and tests."""
