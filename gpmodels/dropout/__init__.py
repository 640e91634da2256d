"""Monte Carlo dropout: a linear head whose features drop out, in training and in prediction."""
