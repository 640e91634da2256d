"""What a bundle guarantees, and what predict steps refuse."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from data_prep.errors import InputError
from pipelines.bundles.guarantees import GuaranteeRecord, with_guarantee
from pipelines.cells import settings as cells
from pipelines.command.config import load_settings
from pipelines.command.referral import ErrorLimit
from pipelines.evaluation.guarantees import guarantee_record
from pipelines.lane.settings import PredictSettings
from tests.pipelines.tiny_lane import quiet

RECORD = GuaranteeRecord(
    confidence=0.95,
    judged="images",
    units=200,
    noun="images",
    binomial=True,
    thresholds=((0.015, 0.1), (0.02, 0.15), (0.05, 0.3), (0.95, 0.69)),
)


def guaranteed(
    max_error: float, record: GuaranteeRecord | None = RECORD, judged: str = "images"
) -> PredictSettings:
    settings = PredictSettings(max_error=max_error)
    return with_guarantee(settings, record, bundle=Path("bundle"), judged=judged, console=quiet())


def test_the_threshold_is_that_of_the_nearest_smaller_error():
    assert guaranteed(0.02).refer_above == 0.15
    assert guaranteed(0.0249).refer_above == 0.15
    assert guaranteed(0.999).refer_above == 0.69
    assert guaranteed(0.05 - 1e-12).refer_above == 0.3


def test_it_says_what_is_guaranteed():
    console = quiet()
    with_guarantee(
        PredictSettings(max_error=0.02), RECORD, bundle=Path("b"), judged="images", console=console
    )
    assert console.file.getvalue().startswith(
        "Referred above an entropy of 0.15 nats: of all images below that at most 0.02 are wrong, with 95% "
    )


@pytest.mark.parametrize(
    ("max_error", "message"),
    [
        (
            0.01,
            r"There were 200 images .*, and at least 299 are needed for this one, even if none",
        ),
        (0.0005, r"at least 5990 are needed"),
        (
            0.03,
            r"were too often wrong.* The least error that can be guaranteed is 0\.015",
        ),
    ],
)
def test_what_cannot_be_guaranteed_is_refused_with_the_reason(max_error, message):
    with pytest.raises(InputError, match=message):
        guaranteed(max_error)


def test_the_units_needed_are_those_of_the_error_that_is_tested():
    record = RECORD.model_copy(update={"thresholds": RECORD.thresholds[1:], "units": 250})
    message = r"in steps, here that of 0\.01\. There were 250 .* at least 299 are needed"
    with pytest.raises(InputError, match=message):
        guaranteed(0.0149, record)  # 200 would do for 0.0149 itself


def test_another_error_that_can_be_guaranteed_is_not_taken_instead():
    """Its choice would depend on the data that the threshold was found with."""
    with pytest.raises(InputError, match="cannot be guaranteed"):
        guaranteed(0.04)


def test_a_bundle_without_guarantees_and_guarantees_of_something_else_are_refused():
    with pytest.raises(
        InputError,
        match=r"bundle holds no guarantees, since its run kept none of this model: .* Continue the training",
    ):
        guaranteed(0.02, None)
    with pytest.raises(InputError, match="are of images, and here videos are referred"):
        guaranteed(0.02, judged="videos")


@pytest.mark.parametrize("max_error", [0.0, 1.0, -0.1, 2.0])
def test_errors_outside_0_and_1_are_refused(max_error):
    with pytest.raises(InputError, match="--max-error"):
        load_settings(PredictSettings, options={"max_error": max_error})


def test_two_rules_at_once_are_refused():
    with pytest.raises(ValidationError, match="each decides what is referred"):
        PredictSettings(max_error=0.1, refer_above=0.2)
    with pytest.raises(InputError, match="max_error and refer_above are given together"):
        load_settings(PredictSettings, options={"max_error": 0.1, "refer_above": 0.2})
    with pytest.raises(ValidationError, match="max_error and refer are given together"):
        PredictSettings(max_error=0.1, refer=0.2)


@pytest.mark.parametrize("settings", [PredictSettings, cells.PredictSettings])
def test_a_guarantee_is_kept_with_the_threshold_that_it_was_made_with(settings):
    assert settings(max_error=0.1, threshold=0.5).max_error == (ErrorLimit(0.1),)
    assert settings(refer_above=0.1, threshold=0.9).threshold == 0.9
    with pytest.raises(InputError, match=r"max_error goes with threshold 0\.5 only"):
        load_settings(settings, options={"max_error": 0.1, "threshold": 0.9})


def test_nothing_to_guarantee_by_is_the_reason_that_predict_gives():
    none = RECORD.model_copy(update={"units": 0, "thresholds": ()})
    with pytest.raises(InputError, match=r"There were 0 images .* No error can be guaranteed"):
        guaranteed(0.1, none)


def test_damaged_guarantees_of_metrics_are_named():
    source = {"head": "hgp", "temperature": None, "weights_sha256": "0"}
    whole = {**RECORD.model_dump(exclude={"thresholds"}), "table": RECORD.thresholds, "source": source}
    assert guarantee_record({"methods": {"HGP": {"guarantee": whole}}}, source) == RECORD
    for missing in ("units", "table"):
        damaged = {key: value for key, value in whole.items() if key != missing}
        with pytest.raises(InputError, match="guarantees of the head hgp in the metrics are damaged"):
            guarantee_record({"methods": {"HGP": {"guarantee": damaged}}}, source)
    for other in ({}, [], "text"):
        assert guarantee_record({"methods": {"HGP": {"guarantee": other}}}, source) is None
