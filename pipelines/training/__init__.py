"""One stage of training: resume, best epoch, divergence and TensorBoard."""
