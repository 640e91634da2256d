"""Settings of the lane steps: what cannot be trained is refused before anything is written."""

import pytest

from data_prep.errors import InputError
from gpmodels import SVGPHead
from gpmodels.networks.encoder_decoder import encoder_decoder
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.command.config import load_settings
from pipelines.lane.settings import LanePreprocessing, TrainSettings


def load(*overrides: str) -> TrainSettings:
    return load_settings(TrainSettings, overrides=overrides)


@pytest.mark.parametrize("network", ["C1K1", "C4K5", "C9K9"])
def test_networks_of_the_thesis(network):
    assert load(f"network={network}").network == network
    encoder_decoder(network)


@pytest.mark.parametrize("network", ["C0K3", "C10K3", "C4K4", "K5C4", "c4k5", "C4K5x", "resnet"])
def test_other_networks_are_refused(network):
    with pytest.raises(
        InputError, match=rf"network is {network}; expected C\{{units\}}K\{{kernel\}} \| segnet"
    ):
        load(f"network={network}")


@pytest.mark.parametrize("network", ["segnet", "segnet_basic", "efficientnet_lite0"])
def test_other_published_networks(network):
    assert load(f"network={network}").network == network


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["network=segnett"], "segnet"),
        (["width=0.5"], "width: of use with segnet alone, but the network is C4K5"),
        (["network=segnet", "width=0"], "width is 0"),
        (["network_dropout=1"], "network_dropout is 1"),
        (["network_dropout=-0.1"], "network_dropout is -0.1"),
        (["network_samples=1"], "network_samples is 1"),
        (["network=segnet", "width=0.5", "weights=vgg16.h5"], "for a segnet of width 1 alone"),
        (["network=segnet_basic", "weights=vgg16.h5"], "of use with a trunk alone"),
    ],
)
def test_settings_of_networks_that_do_not_go_together_are_refused(given, said):
    with pytest.raises(InputError, match=said):
        load(*given)


@pytest.mark.parametrize("kernel", ["squared_exponential", "matern12", "matern32", "matern52"])
def test_kernels_are_those_of_the_heads(kernel):
    SVGPHead(kernel=load(f"kernel={kernel}").kernel)


def test_an_unknown_kernel_is_refused():
    with pytest.raises(InputError, match=r"kernel is rbf; expected squared_exponential \| matern12"):
        load("kernel=rbf")


@pytest.mark.parametrize(
    ("given", "heads"),
    [
        ("[hgp, linear]", ("linear", "hgp")),
        ("[hgp, svgp, linear]", ("linear", "svgp", "hgp")),
        ("[svgp]", ("svgp",)),
    ],
)
def test_heads_have_the_order_of_the_report(given, heads):
    assert load(f"heads={given}").heads == heads


@pytest.mark.parametrize("given", ["[hgp, hgp]", "[linear, hgp, linear]", "[forest]", "[]"])
def test_heads_that_cannot_be_compared_are_refused(given):
    with pytest.raises(InputError, match="--set: heads is"):
        load(f"heads={given}")


@pytest.mark.parametrize("name", ["autogp", "svdkl", "deep_gp", "random_features"])
def test_heads_that_are_for_labels_of_images_are_refused(name):
    with pytest.raises(InputError, match=f"{name} is for labels of images, not for maps"):
        load(f"heads=[linear, {name}]")
    with pytest.raises(InputError, match=f"{name}"):
        load(f"{name}.num_layers=3")


def test_no_setting_of_the_network_hides_one_of_a_head():
    assert load("dropout.num_samples=7", "network_dropout=0.5").dropout.num_samples == 7


def test_settings_of_heads_that_are_not_trained_are_named() -> None:
    heads = "heads=[linear, hgp]"
    (warning,) = load(heads, "num_experts=2", "output_kernel=rbf", "sngp.num_features=64").unheeded()
    assert warning == "sngp, output_kernel: without effect, since no head of linear, hgp uses it"
    assert load(heads, "num_experts=2", "head_steps=7").unheeded() == load().unheeded() == []


@pytest.mark.parametrize("kind", [ImagePreprocessing, LanePreprocessing])
def test_preprocessing_of_before_is_read_and_written_as_now(kind):
    now = {"fit": "crop"} if kind is ImagePreprocessing else {}
    before = kind.model_validate({**now, "kinds": ["grey"]})
    assert before.model_dump(exclude_defaults=True) == now
