"""Videos become prepared clips."""
