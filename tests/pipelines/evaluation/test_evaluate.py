"""Numbers that are none are named before they become scores."""

from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from data_prep.errors import InputError
from pipelines.evaluation.evaluate import JudgedMethods, SeenExamples, judge, judge_all
from pipelines.evaluation.warnings import left_out_warnings
from pipelines.runs.application import JudgedExample


def judged(image: np.ndarray, entropy: float) -> None:
    judge_by = SimpleNamespace(
        outputs=lambda _predictor, example: {
            "predictive_entropy": np.asarray(entropy, np.float32),
            "probability": np.maximum(np.nan_to_num(example.image), 0),  # as a ReLU does
        },
        record=lambda _example, outputs: outputs,
        result=lambda _title, records, **_facts: records,
    )
    judge(judge_by, SimpleNamespace(title="Linear", details={}), [JudgedExample("clip/1", image, 0)])


def test_an_input_that_is_no_number_is_named_though_its_prediction_is_one():
    features = np.ones((3, 4), np.float32)
    judged(features, 0.5)
    judged(np.zeros((2, 2, 3), np.uint8), 0.5)
    features[1, 2], features[2, 0] = np.nan, np.inf
    with pytest.raises(InputError, match=r"clip/1: the input has 2 of 12 numbers that are NaN or infinite"):
        judged(features, 0.5)


def test_a_prediction_that_is_no_number_is_named():
    with pytest.raises(InputError, match=r"clip/1: what Linear predicts has 1 of 1 numbers that are NaN"):
        judged(np.ones(4, np.float32), np.nan)


def judged_by_all(entropies: dict[str, float]) -> tuple[JudgedMethods, int]:
    """Judge three examples, all of them learned from, by methods whose entropy of the last one is given."""

    def outputs(predictor: SimpleNamespace, example: JudgedExample) -> dict[str, np.ndarray]:
        entropy = entropies[predictor.title] if example.name == "c" else 0.5
        return {"predictive_entropy": np.asarray(entropy, np.float32)}

    image = np.ones((2, 2, 3), np.uint8)
    judge_by = SimpleNamespace(
        count=lambda _data, names: len(names),
        examples=lambda _data, names: [JudgedExample(name, image, 0) for name in names],
        digests=lambda _example: frozenset({"seen"}),
        outputs=outputs,
        record=lambda example, _outputs: example.name,
        referral=lambda _example, _outputs: (0.0, 0.0),
        refers_classes=False,
        result=lambda title, records, **_facts: (title, tuple(records)),
    )
    job = SimpleNamespace(application=SimpleNamespace(judge=judge_by), data=None, console=Console(quiet=True))
    predictors = [SimpleNamespace(title=title, details={}, flags=False) for title in entropies]
    seen = SeenExamples(job, frozenset({"seen"}))
    return judge_all(job, predictors, ("a", "b", "c"), seen), seen.number


@pytest.mark.parametrize("order", [("Linear", "SVGP", "HGP"), ("SVGP", "Linear", "HGP")])
def test_a_method_whose_prediction_is_no_number_is_left_out_and_named(order):
    entropies = {"Linear": 0.5, "SVGP": np.nan, "HGP": 0.1}
    judged, num_seen = judged_by_all({title: entropies[title] for title in order})
    assert judged.results == (("Linear", ("a", "b", "c")), ("HGP", ("a", "b", "c")))
    assert [predictor.title for predictor in judged.predictors] == ["Linear", "HGP"]
    assert [len(collector.errors().names) for collector in judged.referral] == [3, 3]
    (warning,) = left_out_warnings(judged.left_out)
    assert warning.startswith("SVGP was left out: c: what SVGP predicts has 1 of 1 numbers that are NaN")
    assert num_seen == 3


def test_nothing_is_judged_where_no_method_predicts_numbers():
    with pytest.raises(InputError, match="c: what Linear predicts has 1 of 1 numbers"):
        judged_by_all({"Linear": np.nan, "SVGP": np.inf})
