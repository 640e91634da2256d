"""The application for cell events."""
