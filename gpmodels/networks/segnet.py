"""SegNet and SegNet-Basic, and with dropout their Bayesian versions: images to features."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from gpmodels.networks.unpooling_network import UnpoolingNetwork

_ENCODER = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
_DECODER = ((512, 512, 512), (512, 512, 256), (256, 256, 128), (128, 64), (64, 64))

SEGNET_UNITS, BASIC_UNITS = len(_ENCODER), 4
"""Encoder units, each with a 2 x 2 pooling, of SegNet and of SegNet-Basic."""

VGG_MEAN = (103.939, 116.779, 123.68)
"""What VGG16 subtracts from blue, green and red, grey levels."""


@keras.saving.register_keras_serializable(package="gpimaging")
class SegNet(UnpoolingNetwork):
    """SegNet: the 13 convolutions of VGG16 as encoder, and their mirror image as decoder.

    Each of the 26 convolutions of 3 x 3 has a bias, batch normalisation and ReLU. Of the 29,480,064 trained
    parameters that the thesis counts (5.4.3), 14,714,688 are kernels and biases of the encoder, 14,749,376
    those of the decoder, and 16,000 the scales and offsets of the normalisations. So the classifier of the
    last 64 features is not counted, and the decoder's last convolution gives 64.

    Args:
        width: Share of the channels of every convolution, over 0 and at most 1: the number of parameters, and
            the time, are about its square. A quarter can be trained without a graphics processor.
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.
        **kwargs: `dropout`, `num_samples` and `seed` of `DropoutNetwork`, or passed to `keras.Model`.

    Raises:
        ValueError: An argument is out of range.

    Source:
        Badrinarayanan, Kendall and Cipolla, "SegNet: a deep convolutional encoder-decoder architecture for
        image segmentation", 2017; with dropout Kendall, Badrinarayanan and Cipolla, "Bayesian SegNet", 2015.

    Example:
        >>> SegNet(width=0.25)(keras.ops.zeros([1, 31, 45, 3])).shape
        TensorShape([1, 31, 45, 16])
    """

    def __init__(self, width: float = 1.0, batch_norm_momentum: float = 0.9, **kwargs: Any) -> None:
        if not 0.0 < width <= 1.0:
            raise ValueError(f"width must be over 0 and at most 1, but is {width}.")

        def narrowed(units: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
            return [tuple(max(1, round(width * channels)) for channels in unit) for unit in units]

        super().__init__(narrowed(_ENCODER), narrowed(_DECODER), 3, batch_norm_momentum, **kwargs)
        self.width = width

    def start_from_vgg16(
        self, kernels: list[npt.NDArray[np.floating[Any]]], biases: list[npt.NDArray[np.floating[Any]]]
    ) -> None:
        """Let the encoder begin with the convolutions of VGG16, of which the first is adapted.

        VGG16 takes blue, green and red less their means; this network takes red, green and blue scaled to
        -1..1. The first kernel and bias give the same responses but along the border, where padding with 0
        is another colour.

        Args:
            kernels: Of the 13 convolutions, `[3, 3, C_in, C_out]`.
            biases: Of the 13 convolutions, `[C_out]`.

        Raises:
            ValueError: The network has another width than VGG16, or the arrays are of another network.
        """
        layers = [
            step for unit in self.encoder for step in unit.steps if isinstance(step, keras.layers.Conv2D)
        ]
        expected = [tuple(layer.kernel.shape) for layer in layers]
        found = [kernel.shape for kernel in kernels]
        if expected != found:
            raise ValueError(
                f"SegNet of width {self.width} has encoder kernels of the shapes {expected}, but VGG16 gives "
                f"{found}. Only the width 1 can begin with VGG16."
            )
        first = kernels[0][:, :, ::-1]  # red, green, blue
        mean = np.array(VGG_MEAN[::-1])
        shifted = biases[0] + np.einsum("hwio,i->o", first, 127.5 - mean)
        for layer, kernel, bias in zip(
            layers, [127.5 * first, *kernels[1:]], [shifted, *biases[1:]], strict=True
        ):
            layer.kernel.assign(kernel)
            layer.bias.assign(bias)


@keras.saving.register_keras_serializable(package="gpimaging")
class SegNetBasic(UnpoolingNetwork):
    """SegNet-Basic: four encoder and four decoder units, each one convolution of 7 x 7 with 64 channels.

    Convolutions have no bias, and no ReLU follows the normalisations of the decoder.

    Args:
        batch_norm_momentum: Weight of the past in the moving averages of batch normalisation.
        **kwargs: `dropout`, `num_samples` and `seed` of `DropoutNetwork`, or passed to `keras.Model`.

    Raises:
        ValueError: An argument is out of range.

    Source:
        As `SegNet`; the input is scaled to -1..1 as in the other networks here, where the paper normalises
        local contrast.

    Example:
        >>> SegNetBasic()(keras.ops.zeros([1, 31, 45, 3])).shape
        TensorShape([1, 31, 45, 64])
    """

    use_bias = False
    rectifies_decoder = False

    def __init__(self, batch_norm_momentum: float = 0.9, **kwargs: Any) -> None:
        units = [(64,)] * BASIC_UNITS
        super().__init__(units, units, 7, batch_norm_momentum, **kwargs)
