"""AutoGP: sparse GPs with a mixture of Gaussians as posterior, and learning by leaving out."""
