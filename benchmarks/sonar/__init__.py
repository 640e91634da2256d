"""Heads on sonar snapshots."""
