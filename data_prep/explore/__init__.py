"""Folders of small images, whole or with missing pixels, become arrays to be looked at."""
