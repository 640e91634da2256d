"""Images with several yes/no labels as the shared steps see them, and lines of their predictions."""

from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from rich.console import Console

from data_prep.classify.prepare import prepare_classify
from data_prep.classify.settings import ClassifyPrepareSettings
from data_prep.errors import InputError
from data_prep.splits.divide import manifest_splits
from gpmodels.registry import HeadTask, head_family
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.sources import Source
from pipelines.classify.application import CLASSIFY, MULTILABEL, one_class_or_several_labels
from pipelines.classify.label_prediction import (
    LabelPrediction,
    LabelPredictSettings,
    make_predictor,
    predict_classes_or_labels,
)
from pipelines.classify.multilabel import HEADS, check_labels_can_be_learned, label_judge, require_labels
from pipelines.classify.settings import ClassifyRun, EvaluateSettings, PredictSettings, TrainSettings
from pipelines.runs.observations import Grouped, count_observations
from pipelines.runs.selection import selected_points, selection_temperature
from pipelines.scores.costs import read_label_costs
from pipelines.scores.held_out import HELD_OUT
from pipelines.scores.labels import HeldOutLabels

SETTINGS = TrainSettings(network="FE1", num_experts=2, num_inducing=5)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty images with two labels, one in five unknown."""
    folder, rng = tmp_path_factory.mktemp("labels"), np.random.default_rng(0)
    rows = ["image,red,dark"]
    for number in range(40):
        Image.fromarray(rng.integers(0, 250, (8, 8, 3), np.uint8)).save(folder / f"{number:02d}.png")
        rows.append(f"{number:02d}.png,{number % 2},{'' if number % 5 == 0 else number % 3 % 2}")
    (folder / "table.csv").write_text("\n".join(rows), encoding="utf-8")
    settings = ClassifyPrepareSettings(size=(8, 8))
    prepare_classify(folder, folder / "out", settings, table=folder / "table.csv")
    return folder / "out"


def run_of(data) -> ClassifyRun:
    facts = MULTILABEL.inputs.all_facts(data, manifest_splits(data.manifest, selection_fraction=0.15))
    return ClassifyRun(
        application="classify", size=(8, 8), batch_norm_momentum=0.9, counts={}, manifest_sha256="", **facts
    )


def test_a_folder_says_which_application_it_is_of(prepared, tmp_path):
    assert one_class_or_several_labels(prepared) is MULTILABEL
    data = MULTILABEL.inputs.open(prepared)
    run_of(data).save(tmp_path)
    assert one_class_or_several_labels(tmp_path) is MULTILABEL
    run_of(data).model_copy(update={"several_labels": False}).save(tmp_path)
    assert one_class_or_several_labels(tmp_path) is CLASSIFY
    with pytest.raises(InputError, match="does not exist"):
        one_class_or_several_labels(tmp_path / "nowhere")


def test_batches_have_all_labels(prepared):
    data = MULTILABEL.inputs.open(prepared)
    splits = manifest_splits(data.manifest, selection_fraction=0.15)
    (batch,) = MULTILABEL.inputs.plain_batches(data, splits.selection, SETTINGS, False)
    assert batch[1].shape == (len(splits.selection), 2)
    expected = np.array(data.manifest.targets(splits.selection), np.float32)
    np.testing.assert_array_equal(batch[1], expected)
    assert np.isnan(expected).any()


class Fixed(tf.Module):
    """A model that says the log-odds 2 of every label."""

    head = SimpleNamespace(is_classifier=True, standardises_targets=False, label_shape=(2,), has_votes=False)

    def __call__(self, inputs: tf.Tensor, *, training: bool) -> dict[str, tf.Tensor]:  # noqa: ARG002
        return {"logit": tf.fill([inputs.shape[0], 2], 2.0)}

    def logits(self, outputs: dict[str, tf.Tensor]) -> tf.Tensor:
        return outputs["logit"]


def test_an_unknown_label_has_no_weight_in_temperature_and_choice():
    labels = np.array([[1.0, np.nan], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.float32)
    batches = tf.data.Dataset.from_tensor_slices((np.zeros([4, 3], np.float32), labels)).batch(3)
    points = selected_points(Fixed(), batches)
    assert points.examples.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert points.weights.tolist() == [1, 0, 1, 1, 1, 1, 1, 1]
    assert np.isfinite(points.losses(1.0)).all()
    known = replace(points, **{key: getattr(points, key)[points.weights > 0] for key in vars(points)})
    assert selection_temperature(points) == pytest.approx(selection_temperature(known))
    counted = count_observations(Fixed(), Grouped(batches, list("abcd")), None, seed=0)
    assert counted.groups == 4
    assert np.isfinite(counted.effective)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"heads": ("linear", "dfgp")}, "heads: dfgp cannot learn several labels an image. Choose of linear"),
        ({"likelihood": "softmax"}, "likelihood: is for one class an image"),
        ({"class_balance": 1.0}, "class_balance: is for one class an image"),
        ({"ensemble": 5}, "ensemble: is for one class an image"),
    ],
)
def test_what_is_for_classes_alone_is_refused(prepared, settings, said):
    data = MULTILABEL.inputs.open(prepared)
    with pytest.raises(InputError, match=said):
        check_labels_can_be_learned(data, manifest_splits(data.manifest), TrainSettings(**settings))


def test_a_part_without_a_label_is_said(prepared):
    data = MULTILABEL.inputs.open(prepared)
    splits = manifest_splits(data.manifest, selection_fraction=0.15)
    assert check_labels_can_be_learned(data, splits, SETTINGS) == []
    none = [one.name for one in data.manifest.examples if one.labels[0] == 0]
    (warning,) = check_labels_can_be_learned(data, replace(splits, train=tuple(none)), SETTINGS)
    assert warning.startswith(
        "of the train images either none has, or all have, red: nothing of it is learned"
    )


@pytest.mark.parametrize("name", HEADS)
def test_the_heads_have_an_output_for_each_label(name):
    family = head_family(name)
    head = family.make(family.settings_of(SETTINGS), HeadTask(num_classes=2, likelihood="multilabel"))
    assert head.label_shape == (2,)


def test_groups_are_of_classes(prepared):
    data = MULTILABEL.inputs.open(prepared)
    assert label_judge(EvaluateSettings(), data).judged == label_judge(None, data).judged == "images"
    with pytest.raises(InputError, match="by=group is for one class an image"):
        label_judge(EvaluateSettings(by="group"), data)


def test_other_labels_are_not_judged(prepared):
    data = MULTILABEL.inputs.open(prepared)
    require_labels(data, Path("run"), run_of(data))
    with pytest.raises(InputError, match="has the labels red, dark, but run was trained on red, blue"):
        require_labels(data, Path("run"), run_of(data).model_copy(update={"class_names": ("red", "blue")}))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Of 400 held-out images the label red is right where it is certain, the label dark by chance."""
    rng = np.random.default_rng(0)
    probability, truth = rng.random((400, 2)), (rng.random((400, 2)) < 0.5).astype(float)
    certain = np.abs(probability[:, 0] - 0.5) > 0.2
    truth[certain, 0] = probability[certain, 0] > 0.5
    HeldOutLabels(probability, truth, np.arange(400)).write(tmp_path / HELD_OUT)
    Image.new("RGB", (8, 8)).save(tmp_path / "image.png")
    return tmp_path


def predictor(bundle: Path, *probability: float, **settings: object):
    metadata = SimpleNamespace(
        network_size=(8, 8), class_names=("red", "dark"), preprocessing_settings={"fit": "crop"}
    )
    said = {"probability": tf.constant([probability]), "familiarity": tf.constant([0.5])}
    return make_predictor(lambda **_: said, metadata, bundle, LabelPredictSettings(**settings), bundle)


def line_of(bundle: Path, *probability: float, **settings: object) -> LabelPrediction:
    (line,) = predictor(bundle, *probability, **settings)(Source(bundle / "image.png", "image"))
    return line


def test_a_line_answers_for_each_label(bundle):
    line = line_of(bundle, 0.75, 0.25)
    assert line.decision == {"red": "yes", "dark": "no"}
    assert line.referred is False
    columns = LabelPrediction.columns(("red", "dark"))
    assert columns[-4:] == [
        "probability of red", "probability of dark", "decision of red", "decision of dark",
    ]  # fmt: skip
    assert line.cells()["probability of red"] == 0.75
    assert line.is_finite
    assert set(columns) <= set(line.cells())


def test_answers_are_kept_as_far_as_held_out_ones_are_right(bundle):
    assert line_of(bundle, 0.95, 0.99, max_error=0.05).decision == {"red": "yes", "dark": "refer"}
    unsure = line_of(bundle, 0.55, 0.99, max_error=0.05)
    assert unsure.decision == {"red": "refer", "dark": "refer"}
    assert unsure.referred is True
    said = predictor(bundle, 0.5, 0.5, max_error=0.05).said
    assert "at most 5 % of the kept ones of each label are wrong, with 95 % confidence" in said[0]
    assert "all answers are referred, of dark: of the" in said[1]
    with pytest.raises(InputError, match=r"--max-error 0.001 can be guaranteed of no label \(red: at least"):
        line_of(bundle, 0.5, 0.5, max_error=0.001)


def test_answers_are_those_that_cost_least(bundle):
    (bundle / "costs.csv").write_text("label;missed;False alarm;refer\nDark;1;1,5;0,4\nred;9;1;3\n")
    costs = read_label_costs(bundle / "costs.csv", ("red", "dark"))
    assert list(costs) == ["red", "dark"]
    assert costs["dark"].values == ((0.0, 1.5, 0.4), (1.0, 0.0, 0.4))
    line = line_of(bundle, 0.2, 0.5, costs=costs)
    assert line.decision == {"red": "yes", "dark": "refer"}
    assert line.referred is True
    sure = line_of(bundle, 0.05, 0.9, costs=costs)
    assert (sure.decision, sure.referred) == ({"red": "no", "dark": "yes"}, False)
    turned = line_of(bundle, 0.2, 0.5, costs=dict(reversed(costs.items())))
    assert turned.decision == line.decision
    of_one = line_of(bundle, 0.2, 0.5, costs={"dark": costs["dark"]})
    assert of_one.decision == {"red": "no", "dark": "refer"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("red,1,2", "has no row for dark. Expected one for each label"),
        ("red,1,2\nRed,1,2", "line 3: 'Red' is there a second time. Expected a row for each of red, dark"),
        (
            "red,1,2\nblue,1,2",
            "line 3: 'blue' is no label of the model. Expected a row for each of red, dark",
        ),
        ("red,1,2\ndark,,2", "line 3: missed of dark is empty. Expected a cost"),
        ("red,1,2\ndark,-1,2", "line 3: missed of dark is '-1'. Expected a finite number from 0 on"),
        ("red,1,inf\ndark,1,2", "line 2: false_alarm of red is 'inf'. Expected a finite number"),
        ("red,1,nan\ndark,1,2", "line 2: false_alarm of red is 'nan'. Expected a finite number"),
    ],
)
def test_costs_of_labels_that_are_wrong_are_refused(tmp_path, text, said):
    (tmp_path / "costs.csv").write_text(f"label,missed,false_alarm\n{text}\n")
    with pytest.raises(InputError, match=said) as caught:
        read_label_costs(tmp_path / "costs.csv", ("red", "dark"))
    assert "changes no decision" not in str(caught.value)  # as it is of classes


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            "refre",
            "the column 'refre' is no cost of a label. Expected the columns label, missed, false_alarm, and",
        ),
        ("refer,Refer", "two columns are of refer"),
    ],
)
def test_other_columns_of_costs_of_labels_are_refused(tmp_path, columns, said):
    row = ",".join(["red,1,2", *("3" for _ in columns.split(","))])
    (tmp_path / "costs.csv").write_text(f"label,missed,False alarm,{columns}\n{row}\n")
    with pytest.raises(InputError, match=said):
        read_label_costs(tmp_path / "costs.csv", ("red",))


def test_huge_costs_of_labels_are_refused(tmp_path, monkeypatch):
    (tmp_path / "costs.csv").write_text("label,missed,false_alarm\nred,1,2\n")
    monkeypatch.setattr("pipelines.scores.costs._LARGEST_FILE", 10)
    with pytest.raises(InputError, match=r"more than 10 bytes\. Expected a table"):
        read_label_costs(tmp_path / "costs.csv", ("red",))


def test_every_answer_on_an_unfamiliar_image_is_referred(bundle):
    line = replace(line_of(bundle, 0.75, 0.25), familiarity=0.001, unfamiliar=True)
    half = replace(line, referred=True, decision={"red": "yes", "dark": "refer"})
    for one in (line, half):
        ruled = one.ruled(LineRules(least_familiarity=0.0, keep_unfamiliar=False))
        assert ruled.decision == {"red": "refer", "dark": "refer"}
    assert line.ruled(LineRules(least_familiarity=0.0)).decision == line.decision


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"refer": 0.1},
            r"^--refer cannot be used: .* predicts several labels an image, not one class\. Predict",
        ),
        ({"by": "folder", "coverage": 0.9}, "^--coverage, --by cannot be used"),
        ({"refer_above": 0.1}, "^--refer-above cannot"),
        ({"max_error": "red=0.1"}, "^--max-error CLASS=SHARE cannot be used"),
    ],
)
def test_what_is_of_classes_is_refused(tmp_path, monkeypatch, settings, said):
    found = SimpleNamespace(application="multilabel")
    monkeypatch.setattr("pipelines.classify.label_prediction.load_metadata", lambda _: found)
    with pytest.raises(InputError, match=said):
        predict_classes_or_labels(
            PredictSettings(**settings), model=tmp_path, inputs=[], out=tmp_path, console=Console(quiet=True)
        )


def test_warnings_of_costs_name_labels_as_they_are(tmp_path, monkeypatch):
    """No part of a label is taken for a colour, and no line is broken in its middle."""
    label = "a long name of a scratch [red] that somebody gave"
    found = SimpleNamespace(application="multilabel", class_names=(label,), label_costs={})
    monkeypatch.setattr("pipelines.classify.label_prediction.load_metadata", lambda _: found)
    monkeypatch.setattr("pipelines.classify.label_prediction.LABEL_PREDICTION", lambda *_, **__: None)
    (tmp_path / "costs.csv").write_text(f"label,missed,false_alarm,refer\n{label},1,1,9\n")
    console = Console(file=StringIO(), width=40)
    predict_classes_or_labels(
        PredictSettings(costs=tmp_path / "costs.csv"),
        model=tmp_path,
        inputs=[],
        out=tmp_path,
        console=console,
    )
    said = f"Warning: of {label}: With these costs refer is never the cheapest decision, whatever"
    assert console.file.getvalue().startswith(said)
