"""Gaussian-process output layers for Keras networks: mathematics and networks, tensors in and tensors out."""

from gpmodels.hgp import HGPHead
from gpmodels.hybrid import HybridModel
from gpmodels.linear import LinearHead
from gpmodels.svgp import SVGPHead
from gpmodels.vmgp import VMGPHead

__all__ = ["HGPHead", "HybridModel", "LinearHead", "SVGPHead", "VMGPHead"]
