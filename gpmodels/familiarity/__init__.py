"""How familiar an input is, and what that says of it."""
