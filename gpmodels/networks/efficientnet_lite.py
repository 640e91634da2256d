"""EfficientNet-Lite0, -Lite1 and -Lite2 as trunks."""

import keras

from gpmodels.networks.inverted_residuals import Architecture, InvertedResidualTrunk, Stage

# Tan and Le (2019), table 1, with the Lite variants' changes: no squeeze-and-excitation, ReLU6.
_LITE0 = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
# Depths times 1.1 and 1.2, rounded up, but for the first and last stage; widths times 1.1 to multiples of 8.
_LITE1 = tuple(
    stage._replace(repeats=repeats) for stage, repeats in zip(_LITE0, (1, 3, 3, 4, 4, 5, 1), strict=True)
)
_LITE2 = tuple(
    stage._replace(channels=channels)
    for stage, channels in zip(_LITE1, (16, 24, 48, 88, 120, 208, 352), strict=True)
)


def _names(part: int, num_blocks: int, steps: int) -> list[tuple[str, str]]:
    """Return the names of convolutions and their normalisations in the published files."""
    if part == 0:
        return [("_conv_stem", "_bn0")]
    if part > num_blocks:
        return [("_conv_head", "_bn1")]
    names = ("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")
    before = f"_blocks.{part - 1}."
    return [(before + convolution, before + normalisation) for convolution, normalisation in names[-steps:]]


def _architecture(title: str, stages: tuple[Stage, ...]) -> Architecture:
    return Architecture(
        title=title,
        stages=stages,
        stem_channels=32,
        num_features=1280,
        epsilon=1e-3,
        mean=127.0,
        deviation=128.0,
        pads_evenly=False,
        names=_names,
        classifier="_fc",
    )


@keras.saving.register_keras_serializable(package="gpimaging")
class EfficientNetLite0(InvertedResidualTrunk):
    """EfficientNet-Lite0 without its classifier: images to the 1280 features of its last layer.

    See `InvertedResidualTrunk` for arguments and errors. It has 16 blocks.

    Source:
        Tan and Le, EfficientNet: Rethinking Model Scaling for CNNs, 2019, table 1; the Lite variants of 2020
        have no squeeze-and-excitation, ReLU6 for swish, and first and last layers that are not scaled.

    Example:
        >>> import tensorflow as tf
        >>> trunk = EfficientNetLite0()
        >>> trunk(tf.zeros([1, 64, 64, 3])).shape
        TensorShape([1, 1280])
    """

    architecture = _architecture("EfficientNet-Lite0", _LITE0)


@keras.saving.register_keras_serializable(package="gpimaging")
class EfficientNetLite1(InvertedResidualTrunk):
    """EfficientNet-Lite1, deeper than Lite0: 21 blocks.

    Example:
        >>> EfficientNetLite1().architecture.num_blocks
        21
    """

    architecture = _architecture("EfficientNet-Lite1", _LITE1)


@keras.saving.register_keras_serializable(package="gpimaging")
class EfficientNetLite2(InvertedResidualTrunk):
    """EfficientNet-Lite2, wider than Lite1.

    Example:
        >>> EfficientNetLite2().architecture.stages[-1].channels
        352
    """

    architecture = _architecture("EfficientNet-Lite2", _LITE2)
