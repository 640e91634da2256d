"""The sonar application."""
