"""Statistics of grouped and of paired observations."""
