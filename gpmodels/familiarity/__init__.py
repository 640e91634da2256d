"""How familiar an input is, and which inputs are flagged as unfamiliar."""
