"""The histopathology application."""
