"""Images with one class each: weights of rare classes, what reports show, what bundles serve."""

from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import tensorflow as tf

from data_prep.prepared.manifest import LabelledExample, LabelledManifest
from data_prep.splits.divide import Splits
from pipelines.bundles.metadata import class_signatures
from pipelines.bundles.saved_model import _is_decided
from pipelines.bundles.serving import ClassServer
from pipelines.evaluation.evaluate import spread
from pipelines.labelled.classes import ClassJudge, class_weights, weigh
from pipelines.labelled.gallery import LabelledImage, labelled_gallery, select_labelled
from pipelines.labelled.pools import Pools, pool_of
from pipelines.runs.models import make_head, make_model
from pipelines.scores.classification import classification_record
from pipelines.scores.results import classification_result
from pipelines.sonar.application import SONAR
from pipelines.sonar.settings import SnapshotPreprocessing, SonarRun, TrainSettings

NAMES = ("a", "b", "c")


def manifest(labels: dict[str, int]) -> LabelledManifest:
    position = {"shard": "s", "offset": 0, "length": 1, "height": 8, "width": 8}
    examples = tuple(
        LabelledExample(name=name, label=label, group=name, **position) for name, label in labels.items()
    )
    return LabelledManifest(
        application="test",
        class_names=NAMES,
        size=(8, 8),
        settings={},
        num_examples=len(examples),
        num_skipped=0,
        examples=examples,
        sha256={},
    )


def test_classes_without_a_training_or_selection_example_are_told():
    data = SimpleNamespace(manifest=manifest({"1": 0, "2": 1, "3": 2, "4": 1}))
    splits = Splits(train=("1", "2", "3"), selection=("4",), test=())
    (warning,) = SONAR.inputs.warnings(data, splits, TrainSettings())
    assert warning.startswith("no selection example is of the class a, c:")
    assert SONAR.inputs.warnings(data, Splits(("1", "2", "3"), ("1", "2", "3"), ()), TrainSettings()) == []
    unlearned, unchosen = SONAR.inputs.warnings(data, Splits(("1",), ("2",), ("3",)), TrainSettings())
    assert unlearned.startswith("no training example is of the class b, c: the model learns nothing of it")
    assert unchosen.startswith("no selection example is of the class a:")


@pytest.mark.parametrize(("balance", "ratio"), [(0.0, 1.0), (0.5, 2.0), (1.0, 4.0)])
def test_rare_classes_weigh_more_and_all_weigh_one_on_average(balance, ratio):
    labels = {f"{number}": int(number >= 8) for number in range(10)} | {"other": 2}
    weights = class_weights(manifest(labels), [f"{number}" for number in range(10)], balance)
    assert weights[1] / weights[0] == pytest.approx(ratio)
    assert 0.8 * weights[0] + 0.2 * weights[1] == pytest.approx(1.0)
    assert np.isfinite(weights[2])  # of a class without training images


def test_plain_batches_of_training_examples_weigh_what_these_do_in_the_training():
    labels = {f"{number}": int(number >= 6) for number in range(8)}
    data = SimpleNamespace(manifest=manifest(labels))
    plain = tf.data.Dataset.from_tensor_slices((np.zeros((8, 2)), list(labels.values()))).batch(3)
    *_, weights = zip(*weigh(plain, data, tuple(labels), TrainSettings(class_balance=1.0)), strict=True)
    np.testing.assert_allclose(np.concatenate(weights), [2 / 3] * 6 + [2.0] * 2, rtol=1e-6)


def result(probabilities: list[list[float]], labels: list[int]):
    records = []
    for number, (probability, label) in enumerate(zip(probabilities, labels, strict=True)):
        p = np.array([probability])
        entropy = -(p * np.log(p)).sum(axis=1)
        records.append(
            classification_record(f"{number}", np.array([label]), p, {"predictive_entropy": entropy})
        )
    return classification_result("HGP", records)


PROBABILITIES = [[0.9, 0.05, 0.05], [0.6, 0.3, 0.1], [0.05, 0.9, 0.05], [0.34, 0.33, 0.33]]


def test_the_gallery_has_the_most_confident_mistakes_and_the_least_certain():
    selection = select_labelled(result(PROBABILITIES, [1, 1, 1, 0]), 2)
    assert selection.confidently_wrong == ("0", "1")
    assert selection.most_uncertain == ("3", "1")
    assert selection.most_certain == ("2", "3")
    assert selection.names == ("0", "1", "3", "2")
    outputs = {"predictive_entropy": np.array(0.5), "mutual_information": np.array(0.25)}
    images = {
        name: LabelledImage(
            name,
            np.zeros((8, 8, 3), np.uint8),
            1,
            {**outputs, "probability": np.array(PROBABILITIES[int(name)])},
        )
        for name in selection.names
    }
    wrong, uncertain, certain = labelled_gallery(selection, images, NAMES).sections
    assert [image.name for image in certain.images] == ["2", "3"]
    stranger = replace(selection, unfamiliar=("2",))
    titles = [section.title for section in labelled_gallery(stranger, images, NAMES).sections]
    assert titles[2:] == ["Unfamiliar images", "Most certain and right"]
    assert [image.name for image in wrong.images] == ["0", "1"]
    assert dict(wrong.images[0].captions)["predicted"] == "a (0.900)"
    assert dict(uncertain.images[0].captions)["true class"] == "b"


def test_recalls_and_their_mean_leave_out_classes_without_examples():
    judged = result(PROBABILITIES, [0, 1, 1, 0])
    np.testing.assert_allclose(judged.recalls(), [1.0, 0.5, np.nan])
    assert judged.scores["balanced_accuracy"] == pytest.approx(0.75)
    np.testing.assert_array_equal(judged.confusion(), [[2, 0, 0], [1, 1, 0], [0, 0, 0]])


class Constant(tf.Module):
    """A model of two classes that gives the probability of the second."""

    def __call__(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        values = tf.fill(tf.shape(images)[:1], 0.75)
        return {"probability": values, "label": tf.ones_like(values, tf.int32), "latent_mean": values}


def test_two_classes_are_served_with_a_probability_each():
    model = Constant()
    server = ClassServer(model, (8, 8))
    served = server.serving_default(tf.zeros([2, 5, 9, 3], tf.uint8))
    np.testing.assert_array_equal(served["probability"], [[0.25, 0.75]] * 2)
    np.testing.assert_array_equal(served["label"], [1, 1])
    described = class_signatures(("a", "b"), single_latent=True)["serving_default"].outputs
    assert described["probability"].shape == (None, 2)
    assert described["latent_mean"].shape == (None,)
    described = class_signatures(NAMES, single_latent=False)["serve_bytes"].outputs
    assert (described["latent_mean"].shape, described["label"].range) == ((None, 3), (0.0, 2.0))


def sonar_run(class_names: tuple[str, ...]) -> SonarRun:
    return SonarRun(
        application="sonar",
        size=(8, 8),
        num_data=10,
        batch_norm_momentum=0.9,
        counts={"train": 10, "selection": 2, "test": 3},
        manifest_sha256="",
        class_names=class_names,
        snapshots=SnapshotPreprocessing(normalisation={}, window=(8, 8), background_classes=()),
    )


@pytest.mark.slow  # the graph of DenseNet-40 alone takes ten seconds
@pytest.mark.parametrize("network", get_args(TrainSettings.model_fields["network"].annotation))
def test_every_network_can_be_written_as_a_saved_model(network, tmp_path):
    run = sonar_run(NAMES)
    server = SONAR.deployment.server(make_model("linear", SONAR, TrainSettings(network=network), run), run)
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    expected = server.serving_default(tf.constant(images))["probability"]
    tf.saved_model.save(server, str(tmp_path), signatures={"serving_default": server.serving_default})
    loaded = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    np.testing.assert_allclose(loaded(images=tf.constant(images))["probability"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("classes", "head", "likelihood", "latents"),
    [
        (2, "linear", "softmax", 1),
        (2, "hgp", None, 1),
        (2, "hgp", "bernoulli", 1),
        (2, "hgp", "softmax", 2),
        (3, "svgp", None, 3),
    ],
)
def test_a_bundle_describes_the_latent_functions_of_its_head(classes, head, likelihood, latents):
    run = sonar_run(NAMES[:classes])
    settings = TrainSettings(num_inducing=3, num_experts=2, likelihood=likelihood)
    outputs = SONAR.deployment.metadata("b", head, settings, run, "FE1").signatures["serving_default"].outputs
    made = make_head(head, SONAR, settings, run)
    found = made(tf.zeros([5, 4]))["latent_mean"].shape
    assert outputs["latent_mean"].shape == (None, *found[1:]) == (None, *((latents,) if latents > 1 else ()))


def test_a_label_near_another_is_not_compared_when_a_bundle_is_verified():
    close = np.array([[0.4995, 0.5005, 0.0], [0.1, 0.1, 0.8]])
    np.testing.assert_array_equal(_is_decided(close, np.array([1, 2])), [False, True])
    np.testing.assert_array_equal(_is_decided(np.array([0.5004, 0.6]), np.array([1, 1])), [False, True])


def test_some_of_what_is_judged_has_all_of_its_examples():
    data = SimpleNamespace(
        manifest=manifest({f"{pool}/{number}": 0 for pool in "abc" for number in range(4)})
    )
    names = [f"{pool}/{number}" for number in range(3) for pool in "cab"]
    judge = ClassJudge(pools=Pools(lambda example: pool_of(example.name)))
    some = spread(tuple(judge.groups(data, names)), 2)
    assert sorted(judge.members(data, names, some)) == ["b/0", "b/1", "b/2", "c/0", "c/1", "c/2"]
    assert ClassJudge().members(data, names, ["a/1"]) == ["a/1"]
