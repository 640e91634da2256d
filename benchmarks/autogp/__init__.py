"""AutoGP on digits, few labels, kernels, label errors, several targets, and its speed."""
