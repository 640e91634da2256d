"""What TensorBoard shows of a head's units, under the same tags in pipelines and estimators."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from gpmodels.head import Head


def write_unit_summaries(head: Head) -> None:
    """Write KL, occupancy and lengthscales of each unit to the default summary writer, at its step.

    Tags: ``kl/<unit>``, ``occupancy/expert_<k>``, ``lengthscales/<unit>``, ``median_lengthscale/<unit>``.

    Example:
        >>> from gpmodels import SVGPHead
        >>> head = SVGPHead(num_inducing=2)
        >>> head.build((None, 3))
        >>> write_unit_summaries(head)  # without a default writer nothing is written
    """
    for name, kl in zip(head.unit_names, np.asarray(head.prior_kl()), strict=True):
        tf.summary.scalar(f"kl/{name}", kl)
    for expert, share in head.expert_occupancy().items():
        tf.summary.scalar(f"occupancy/expert_{expert + 1}", share)
    for name, lengthscales in zip(head.unit_names, head.lengthscales(), strict=True):
        tf.summary.histogram(f"lengthscales/{name}", lengthscales)
        tf.summary.scalar(f"median_lengthscale/{name}", np.median(lengthscales))
