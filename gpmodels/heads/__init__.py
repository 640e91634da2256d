"""What a head is, and the plain heads."""
