"""What applications with one label per example share."""
