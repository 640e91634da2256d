"""Few labels, shifts and unknown things: every head, and what people would take instead, in one table."""
