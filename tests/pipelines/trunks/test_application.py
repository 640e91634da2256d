"""What is said of images that a trunk enlarges."""

import pytest

from data_prep.prepared.manifest import LabelledExample, LabelledManifest
from pipelines.trunks.application import enlargement


def manifest(original: tuple[int, int], size: tuple[int, int] = (64, 64)) -> LabelledManifest:
    height, width = original
    place = {"shard": "s", "offset": 0, "length": 1, "group": "g", "height": height, "width": width}
    return LabelledManifest(
        application="test",
        class_names=("a", "b"),
        size=size,
        settings={},
        num_examples=1,
        num_skipped=0,
        examples=(LabelledExample(name="1", label=0, **place),),
        sha256={},
    )


@pytest.mark.parametrize(("original", "side"), [((300, 200), 160), ((100, 120), 100)])
def test_images_that_preparing_made_small_can_be_prepared_larger(original, side):
    said = enlargement(manifest(original), "efficientnet_lite0", 128)
    assert said.startswith("The images of 64 x 64 are smaller than efficientnet_lite0 makes use of")
    assert f"their shorter sides have {min(original)} pixels" in said
    assert said.endswith(f"Prepare with --set size=[{side},{side}] to let it see more of them.")


def test_images_that_are_small_are_only_enlarged():
    said = enlargement(manifest((64, 80)), "efficientnet_lite0", 128)
    assert said.endswith("has 128 pixels (smallest_side).")


def test_nobody_is_told_to_prepare_images_no_larger_than_they_are():
    said = enlargement(manifest((300, 300), (192, 192)), "efficientnet_lite0", 224)
    assert said.endswith("Prepare with --set size=[224,224] to let it see more of them.")
    said = enlargement(manifest((200, 200), (160, 160)), "efficientnet_lite0", 161)
    assert "size=[161,161]" in said
