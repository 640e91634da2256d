"""MobileNetV2 as a trunk, with the weights of torchvision."""

import keras

from gpmodels.networks.inverted_residuals import Architecture, InvertedResidualTrunk, Stage


def _names(part: int, num_blocks: int, steps: int) -> list[tuple[str, str]]:
    """Return the names of convolutions and their normalisations in torchvision's file."""
    before = f"features.{part}."
    if part in (0, num_blocks + 1):
        return [(before + "0", before + "1")]
    activated = [(f"{before}conv.{step}.0", f"{before}conv.{step}.1") for step in range(steps - 1)]
    return [*activated, (f"{before}conv.{steps - 1}", f"{before}conv.{steps}")]


@keras.saving.register_keras_serializable(package="gpimaging")
class MobileNetV2(InvertedResidualTrunk):
    """MobileNetV2 without its classifier: images to the 1280 features of its last layer.

    See `InvertedResidualTrunk` for arguments and errors. It has 17 blocks, and scales colours by the means
    and standard deviations of ImageNet, as torchvision does.

    Source:
        Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, 2018, table 2.

    Example:
        >>> import tensorflow as tf
        >>> MobileNetV2()(tf.zeros([1, 64, 64, 3])).shape
        TensorShape([1, 1280])
    """

    architecture = Architecture(
        title="MobileNetV2",
        stages=(
            Stage(1, 3, 1, 1, 16),
            Stage(2, 3, 2, 6, 24),
            Stage(3, 3, 2, 6, 32),
            Stage(4, 3, 2, 6, 64),
            Stage(3, 3, 1, 6, 96),
            Stage(3, 3, 2, 6, 160),
            Stage(1, 3, 1, 6, 320),
        ),
        stem_channels=32,
        num_features=1280,
        epsilon=1e-5,
        mean=(123.675, 116.28, 103.53),
        deviation=(58.395, 57.12, 57.375),
        pads_evenly=True,
        names=_names,
        classifier="classifier.",
    )
