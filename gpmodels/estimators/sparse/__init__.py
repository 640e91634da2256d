"""Classifiers and regressors by a sparse GP, alone or with local experts: HGP, SVGP and VMGP."""
