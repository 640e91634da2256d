"""Models of survival times, compared on patches of tissue."""
