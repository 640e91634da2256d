"""How a bundle serves many requests at once, with TensorFlow and nothing else."""
