"""A Keras network with a head: the model, what it trains on, and what it checks before and while it trains."""
