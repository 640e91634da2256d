"""One sparse Gaussian-process unit and its linear algebra."""
