"""Gaussian-process output layers for Keras networks: mathematics and networks, tensors in and tensors out."""

from gpmodels.hgp import HGPHead
from gpmodels.hybrid import HybridModel
from gpmodels.linear import LinearHead
from gpmodels.svgp import SVGPHead

__all__ = ["HGPHead", "HybridModel", "LinearHead", "SVGPHead"]
