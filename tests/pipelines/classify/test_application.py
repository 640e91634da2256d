"""Images of any subject as the shared steps see them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.errors import InputError
from data_prep.files.fitting import fit_image
from data_prep.files.images import encode_picture
from data_prep.splits.divide import manifest_splits
from pipelines.bundles.preprocessing import ImagePreprocessing
from pipelines.bundles.serving import ClassServer
from pipelines.classify.application import CLASSIFY, fitting_server
from pipelines.classify.settings import ClassifyRun
from pipelines.labelled.images import fitting_in_words


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, generator = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for name in ("ant", "bee"):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(4):
            image = generator.integers(0, 256, (8, 10, 3), dtype=np.uint8)
            Image.fromarray(image).save(folder / "images" / name / f"{number}.png")
    for fit in ("crop", "pad"):
        prepare_classify(folder / "images", folder / fit, ClassifyPrepareSettings(size=(8, 8), fit=fit))
    return folder


def run_of(folder: Path) -> ClassifyRun:
    data = CLASSIFY.inputs.open(folder)
    facts = CLASSIFY.inputs.all_facts(data, manifest_splits(data.manifest, selection_fraction=0))
    return ClassifyRun(
        application="classify", size=(8, 8), batch_norm_momentum=0.9, counts={}, manifest_sha256="", **facts
    )


def test_images_fitted_in_another_way_are_not_judged(prepared: Path) -> None:
    run = run_of(prepared / "crop")
    assert run.images == ImagePreprocessing(fit="crop")
    CLASSIFY.inputs.require_fitting(CLASSIFY.inputs.open(prepared / "crop"), Path("run"), run)
    with pytest.raises(InputError, match=r"prepared with fit pad, but run was .* fit crop. .*--fit crop"):
        CLASSIFY.inputs.require_fitting(CLASSIFY.inputs.open(prepared / "pad"), Path("run"), run)


def test_deep_images_of_another_range_are_not_judged(prepared: Path) -> None:
    run = run_of(prepared / "crop")
    data = CLASSIFY.inputs.open(prepared / "crop")
    deep = replace(data, manifest=data.manifest.model_copy(update={"levels": (0, 4095)}))
    CLASSIFY.inputs.require_fitting(deep, Path("run"), run)
    other = run.model_copy(update={"images": run.images.model_copy(update={"levels": (0, 1023)})})
    CLASSIFY.inputs.require_fitting(data, Path("run"), other)
    with pytest.raises(
        InputError, match=r"here .*levels 0 to 4095 .* in the training .*0 to 1023\. .* levels='\[0, 1023\]'"
    ):
        CLASSIFY.inputs.require_fitting(deep, Path("run"), other)
    each = run.model_copy(update={"images": run.images.model_copy(update={"levels": "each"})})
    with pytest.raises(
        InputError,
        match=r"here .*levels 0 to 4095 .* in the training two percentiles of each image\. .* levels=each",
    ):
        CLASSIFY.inputs.require_fitting(deep, Path("run"), each)
    assert "of PNG files of 16 bits, two percentiles of each image become 0 to 255" in fitting_in_words(each)


def test_a_bundle_stretches_deep_images_as_prepare_does(prepared: Path) -> None:
    run = run_of(prepared / "crop")
    run = run.model_copy(update={"images": run.images.model_copy(update={"levels": (0, 4095)})})
    server = fitting_server(Means(), run)
    for deep in (np.full((8, 8), 1024, np.uint16), np.full((8, 8, 3), 1024, np.uint16)):
        served = server.serve_bytes(tf.constant([encode_picture(deep)]))["probability"][0]
        np.testing.assert_array_equal(served, np.full(8 * 8 * 3, 64.0))
    plain = server.serve_bytes(tf.constant([encode_picture(np.full((8, 8), 200, np.uint8))]))["probability"][
        0
    ]
    np.testing.assert_array_equal(plain, np.full(8 * 8 * 3, 200.0))
    assert "levels 0 to 4095 become 0 to 255" in fitting_in_words(run)


class Means:
    """A model whose only output is what it was given."""

    def inference_function(self):
        return lambda images: {"probability": tf.reshape(images, [-1, 8 * 8 * 3])}


@pytest.mark.parametrize("fit", ["crop", "pad"])
def test_a_bundle_fits_images_as_prepare_does(prepared: Path, fit: str) -> None:
    server = fitting_server(Means(), run_of(prepared / fit))
    assert isinstance(server, ClassServer)
    image = np.random.default_rng(1).integers(0, 256, (24, 40, 3), dtype=np.uint8)
    expected = fit_image(image, (8, 8), fit).ravel()
    decoded = server.serving_default(tf.constant(image[None]))["probability"][0]
    encoded = server.serve_bytes(tf.constant([encode_picture(image)]))["probability"][0]
    np.testing.assert_allclose(decoded, expected, atol=1.0)
    np.testing.assert_array_equal(encoded, decoded)
    assert ("middle part" if fit == "crop" else "grey borders") in fitting_in_words(run_of(prepared / fit))


def test_the_sample_of_a_bundle_has_other_proportions_than_the_network(prepared: Path) -> None:
    sample = CLASSIFY.deployment.sample(run_of(prepared / "crop"), None)
    assert sample.shape == (12, 16, 3)
