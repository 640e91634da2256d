"""A Keras network with a head: what it trains on, and what it checks before and while it trains."""
