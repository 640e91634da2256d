"""Folders of small images become arrays to be looked at."""
