"""Images with one number each as the shared steps see them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from pydantic import ValidationError
from rich.console import Console

from data_prep.errors import InputError
from data_prep.files.images import encode_picture
from data_prep.measure.prepare import prepare_measure
from data_prep.measure.scale import TargetScale
from data_prep.measure.settings import MeasurePrepareSettings
from data_prep.splits.divide import manifest_splits
from gpmodels.registry import HeadTask, head_family
from pipelines.bundles.serving import NumberServer
from pipelines.measure.application import MEASURE
from pipelines.measure.judging import number_judge
from pipelines.measure.settings import COUNT_HEADS, HEADS, EvaluateSettings, MeasureRun, TrainSettings
from pipelines.runs.application import JudgedExample
from pipelines.runs.predictors import Predictor
from pipelines.scores.numbers import NORMAL_FACTORS

SETTINGS = TrainSettings(network="FE1", num_experts=2)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty images, the brighter the larger their numbers, which are skewed."""
    folder, rng = tmp_path_factory.mktemp("numbers"), np.random.default_rng(0)
    rows = ["image,value [mm]"]
    for number in range(40):
        Image.fromarray(rng.integers(0, 6 * number + 9, (8, 8, 3), np.uint8)).save(
            folder / f"{number:02d}.png"
        )
        rows.append(f"{number:02d}.png,{1.2**number:.4f}")
    (folder / "table.csv").write_text("\n".join(rows), encoding="utf-8")
    settings = MeasurePrepareSettings(size=(8, 8))
    prepare_measure(folder, folder / "out", settings, table=folder / "table.csv")
    return folder / "out"


def opened(folder: Path, settings: TrainSettings = SETTINGS, run: Path | None = None):
    console = Console(quiet=True)
    return MEASURE.inputs.encoded(MEASURE.inputs.open(folder), settings, run, console)


def run_of(data) -> MeasureRun:
    facts = MEASURE.inputs.all_facts(data, manifest_splits(data.manifest, selection_fraction=0.15))
    return MeasureRun(
        application="measure", size=(8, 8), batch_norm_momentum=0.9, counts={}, manifest_sha256="", **facts
    )


def test_numbers_are_learned_standardised_by_the_training_part(prepared):
    data = opened(prepared)
    splits = manifest_splits(data.manifest, selection_fraction=SETTINGS.selection_fraction)
    learned = np.concatenate([label.numpy() for _, label in data.dataset(splits.train, batch_size=50)])
    assert learned.dtype == np.float32
    assert abs(learned.mean()) < 1e-5
    assert learned.std() == pytest.approx(1.0, rel=1e-5)
    assert data.manifest.scale.transform == "log"
    assert (
        opened(prepared, SETTINGS.model_copy(update={"transform": "none"})).manifest.scale.transform == "none"
    )


def test_a_trained_run_gives_its_own_scale(prepared, tmp_path):
    run = run_of(opened(prepared))
    moved = run.model_copy(update={"scale": run.scale.model_copy(update={"centre": 0.0})})
    moved.save(tmp_path)
    data = opened(prepared, run=tmp_path)
    assert data.manifest.scale == moved.scale
    assert [one.standardised for one in data.manifest.examples] != [
        one.standardised for one in opened(prepared).manifest.examples
    ]


def test_numbers_that_a_run_cannot_judge_are_refused(prepared):
    data = opened(prepared)
    run = run_of(data)
    MEASURE.inputs.require_fitting(data, Path("run"), run)
    of_cm = run.model_copy(update={"scale": run.scale.model_copy(update={"unit": "cm"})})
    with pytest.raises(InputError, match="has numbers in mm, but run was trained on cm"):
        MEASURE.inputs.require_fitting(data, Path("run"), of_cm)
    negative = data.manifest.examples[0].model_copy(update={"value": -1.0})
    manifest = data.manifest.model_copy(update={"examples": (negative, *data.manifest.examples[1:])})
    with pytest.raises(InputError, match="has the number -1, but run learned logarithms"):
        MEASURE.inputs.require_fitting(replace(data, manifest=manifest), Path("run"), run)


@pytest.mark.parametrize(("value", "transform"), [(0.0, "log"), (-1.0, "none")])
def test_a_run_can_judge_its_own_test_part(prepared, value, transform):
    data = MEASURE.inputs.open(prepared)
    (test, *_) = manifest_splits(data.manifest, selection_fraction=0.15).test
    examples = tuple(
        one.model_copy(update={"value": value}) if one.name == test else one for one in data.manifest.examples
    )
    changed = replace(data, manifest=data.manifest.model_copy(update={"examples": examples}))
    scaled = MEASURE.inputs.encoded(changed, SETTINGS, None, Console(quiet=True))
    assert scaled.manifest.scale.transform == transform
    MEASURE.inputs.require_fitting(scaled, Path("run"), run_of(scaled))


def test_equal_numbers_to_train_on_are_refused(prepared):
    data = MEASURE.inputs.open(prepared)
    equal = tuple(one.model_copy(update={"value": 2.0}) for one in data.manifest.examples)
    same = replace(data, manifest=data.manifest.model_copy(update={"examples": equal}))
    with pytest.raises(InputError, match=r"cannot be trained on: all .* are 2; nothing can be learned"):
        MEASURE.inputs.encoded(same, SETTINGS, None, Console(quiet=True))


COUNTS = TrainSettings(network="FE1", likelihood="poisson", num_experts=2)


def counted(prepared: Path, value: float = 7.0):
    """The prepared images with counts, the first of another value."""
    data = MEASURE.inputs.open(prepared)
    values = [value, *range(1, len(data.manifest.examples))]
    examples = tuple(
        one.model_copy(update={"value": float(count)})
        for one, count in zip(data.manifest.examples, values, strict=True)
    )
    return replace(data, manifest=data.manifest.model_copy(update={"examples": examples}))


def test_counts_are_learned_as_they_are(prepared):
    data = MEASURE.inputs.encoded(counted(prepared), COUNTS, None, Console(quiet=True))
    assert [one.target for one in data.manifest.examples] == [7.0, *range(1, 40)]
    assert data.manifest.scale.in_words() == "counts, as they are"
    run = run_of(data)
    MEASURE.inputs.require_fitting(data, Path("run"), run)
    with pytest.raises(InputError, match=r"cannot be judged by run, .* the number 2.5, which is no count"):
        MEASURE.inputs.require_fitting(counted(prepared, 2.5), Path("run"), run)


@pytest.mark.parametrize("value", [-1.0, 2.5])
def test_what_is_no_count_is_refused_in_training(prepared, value):
    with pytest.raises(InputError, match=rf"cannot be trained on: found the number {value:g}, which is no"):
        MEASURE.inputs.encoded(counted(prepared, value), COUNTS, None, Console(quiet=True))


def test_counts_have_heads_of_their_own():
    assert COUNTS.heads == ("linear", "svgp", "hgp")
    with pytest.raises(
        ValidationError, match=r"ridge_linear is for likelihood gaussian. Choose of linear, svgp"
    ):
        TrainSettings(likelihood="poisson", heads=("linear", "ridge_linear"))
    with pytest.raises(
        ValidationError, match="transform: log is for likelihood gaussian, but that is poisson"
    ):
        TrainSettings(likelihood="poisson", transform="log")


@pytest.mark.parametrize("name", COUNT_HEADS)
def test_every_head_that_is_offered_knows_counts(name):
    head = head_family(name).make(head_family(name).settings_of(COUNTS), HeadTask(2, "negative_binomial"))
    head.build((None, 3))
    assert sorted(head(tf.zeros([2, 3]))) == ["latent_mean", "latent_variance", "mean", "variance"]


@pytest.mark.parametrize("name", HEADS)
def test_every_head_that_is_offered_knows_numbers(name):
    head = head_family(name).make(head_family(name).settings_of(SETTINGS), HeadTask(2, "gaussian"))
    head.build((None, 3))
    assert sorted(head(tf.zeros([2, 3]))) == ["latent_variance", "mean", "variance"]


def test_a_head_for_classes_is_refused():
    with pytest.raises(ValidationError, match="laplace is for classes, not for numbers"):
        TrainSettings(heads=("linear", "laplace"))


@pytest.mark.parametrize("transform", ["none", "log", "count"])
def test_a_bundle_answers_as_the_judge_in_the_unit(transform):
    scale = TargetScale(unit="mm", transform=transform, centre=1.0, spread=0.5, lowest=0.1, highest=9.0)
    variance = 25.0 if transform == "count" else 0.25  # an interval of a count ends at 0
    numbers = {"mean": 0.4, "variance": variance, "familiarity": 1.0}
    said = {name: tf.constant([number]) for name, number in numbers.items()}
    server = NumberServer(scale, NORMAL_FACTORS[2], lambda _: said, (4, 4))
    served = server.serving_default(tf.zeros([1, 4, 4, 3], tf.uint8))
    predictor = Predictor("one", lambda _: said, {})
    data = MEASURE.judge
    example = JudgedExample("a", np.zeros([4, 4, 3]), 3.0, (_Measured("a", "g", 3.0), scale))
    record = data.record(example, data.outputs(predictor, example))
    assert float(served["mean"][0]) == pytest.approx(record.row["mean"], rel=1e-6)
    assert float(served["lower"][0]) == pytest.approx(record.row["lower"][2], rel=1e-6)
    assert float(served["upper"][0]) == pytest.approx(record.row["upper"][2], rel=1e-6)
    assert sorted(served) == ["familiarity", "lower", "mean", "sd", "upper"]
    encoded = server.serve_bytes(tf.constant([encode_picture(np.zeros((5, 6, 3), np.uint8))]))
    assert float(encoded["sd"][0]) == pytest.approx(float(served["sd"][0]))


class _Measured:
    def __init__(self, name: str, group: str, value: float) -> None:
        self.name, self.group, self.value = name, group, value


def in_pairs(prepared: Path, settings: TrainSettings, **changes: object):
    """The folder with two images in each group."""
    data = opened(prepared, settings)
    pairs = [
        one.model_copy(update={"group": f"g{n // 2:02d}"}) for n, one in enumerate(data.manifest.examples)
    ]
    return replace(data, manifest=data.manifest.model_copy(update={"examples": tuple(pairs), **changes}))


def test_groups_are_judged_by_the_mean_of_what_is_learned(prepared):
    data = in_pairs(prepared, SETTINGS)
    judge = number_judge(EvaluateSettings(by="group"), data)
    names = [one.name for one in data.manifest.examples[:4]]
    first, second = judge.examples(data, names)
    assert (first.name, second.name) == ("g00", "g01")
    assert first.fact[0].value == pytest.approx(np.sqrt(1.0 * 1.2), rel=1e-6)  # of logarithms
    said = {"mean": tf.constant([0.5]), "variance": tf.constant([4.0])}
    method = Predictor("one", lambda _: said, {}, group_pooling=(0.0, 1.0, 1.0, 2.0, 3.0, 4.0))
    outputs = judge.outputs(method, first)
    assert (float(outputs["mean"]), float(outputs["variance"])) == pytest.approx((0.5, 2.0))
    assert outputs["factors"].tolist() == [1.0, 2.0, 3.0, 4.0]
    unknown = judge.outputs(Predictor("one", lambda _: said, {}), first)
    assert float(unknown["variance"]) == pytest.approx(
        4.0
    )  # nothing is known of groups: two are no surer than one


def test_the_mean_of_counts_is_judged_as_a_number(prepared):
    counts = TargetScale(transform="count", centre=0.0, spread=1.0, lowest=0.0, highest=99.0)
    data = in_pairs(prepared, SETTINGS, scale=counts)
    (group,) = number_judge(EvaluateSettings(by="group"), data).examples(
        data, [one.name for one in data.manifest.examples[:2]]
    )
    assert group.fact[0].value == pytest.approx(1.1)
    assert group.fact[1].transform == "none"


def test_groups_of_one_image_are_not_judged(prepared):
    data = opened(prepared)
    assert number_judge(None, data).judged == number_judge(EvaluateSettings(), data).judged == "images"
    with pytest.raises(InputError, match="by=group, but each image is a group of its own"):
        number_judge(EvaluateSettings(by="group"), data)
