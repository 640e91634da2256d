"""Deep GPs and deep feed-forward GPs: classifiers and regressors of several layers."""
