"""Images of any subject with one class each, from class folders or a table."""
