"""Label images one by one: the page, what it asks next, and what the answers have bought."""
