"""Convolutional networks that turn images into features."""
