"""The pedestrian-lane application."""
