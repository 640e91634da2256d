"""A look at a data set: a map, odd examples, probable label errors."""
