"""Deep Gaussian processes of random features: Bayesian linear models on random functions of their inputs."""
