"""Images of any subject with one number each, from a table."""
