"""Sonar images become prepared snapshots."""
