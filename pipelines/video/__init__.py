"""The video application."""
