"""Judging the heads of a run, and exporting the one to take."""
