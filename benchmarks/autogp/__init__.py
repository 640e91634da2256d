"""AutoGP on digits, few labels, kernels, label errors, and its speed."""
