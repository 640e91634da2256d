"""Deep Gaussian processes that let one data set help another (ATL-DGP)."""
