"""What a run makes its heads with."""

from typing import Any

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.sonar.settings import SpeckleNormalisation
from gpmodels.heads.base import Head
from pipelines.command.config import describe_settings, load_settings
from pipelines.runs.models import (
    SOFTMAX_VARIANCE,
    SOFTMAX_VARIANCE_BESIDE_MEAN,
    VARIANCE_BESIDE_MEAN,
    make_head,
    num_experts_for,
)
from pipelines.sonar.application import SONAR
from pipelines.sonar.settings import SnapshotPreprocessing, SonarRun, TrainSettings


def made(
    head: str,
    num_classes: int,
    likelihood: str | None = None,
    *,
    wide: bool = True,
    means: bool = False,
    posteriors: bool = False,
    fixed: bool = False,
    num_data: int = 10,
    wide_posteriors: bool = False,
    features: int = 3,
    **settings: Any,
) -> Head:
    """A head of a run, which an earlier version began unless the run has linear means."""
    run = SonarRun(
        application="sonar",
        size=(32, 32),
        num_data=num_data,
        batch_norm_momentum=0.9,
        counts={},
        manifest_sha256="",
        class_names=tuple("abcd"[:num_classes]),
        snapshots=SnapshotPreprocessing(
            normalisation=SpeckleNormalisation(), window=(32, 32), background_classes=()
        ),
        starts_wide=wide,
        linear_means=means,
        mean_posteriors=posteriors,
        wide_posteriors=wide_posteriors,
    )
    training = TrainSettings.with_tables()(likelihood=likelihood, **settings)
    head = make_head(head, SONAR, training, run, on_fixed_features=fixed)
    head.build((None, features))
    return head


def started(*arguments: Any, **options: Any) -> float:
    return float(made(*arguments, **options).global_unit.variance.numpy()[0, 0])


@pytest.mark.parametrize("head", ["svgp", "hgp"])
def test_the_kernel_before_a_softmax_starts_wide(head):
    assert started(head, 3) == pytest.approx(SOFTMAX_VARIANCE)
    assert started(head, 3, "robust_max") == started(head, 2) == pytest.approx(1.0)
    assert started(head, 2, "softmax") == pytest.approx(SOFTMAX_VARIANCE)


def test_a_run_begun_before_goes_on_as_it_began():
    assert started("svgp", 3, wide=False) == pytest.approx(1.0)


@pytest.mark.parametrize("head", ["svgp", "hgp", "dfgp", "autogp", "deep_gp", "random_features"])
def test_a_run_without_a_word_of_linear_means_has_heads_without_them(head):
    assert made(head, 2).mean == "none"
    assert made(head, 2, means=True).mean == "linear"


@pytest.mark.parametrize("head", ["svgp", "hgp", "autogp"])
def test_few_points_of_fixed_features_make_the_weights_of_the_mean_uncertain(head):
    now = {"means": True, "posteriors": True, "fixed": True}
    assert made(head, 2, **now).linear_mean.posterior is not None
    assert made(head, 3, **now).linear_mean.posterior is not None
    for change in ({"posteriors": False}, {"fixed": False}, {"num_data": 5001}):
        assert made(head, 2, **{**now, **change}).linear_mean.posterior is None
    assert made("dfgp", 2, **now).linear_mean.posterior is None


@pytest.mark.parametrize(
    ("is_wide", "features", "is_uncertain"),
    [(True, 1280, True), (True, 2049, False), (False, 512, True), (False, 513, False)],
)
def test_a_run_begun_before_has_certain_weights_of_many_features(is_wide, features, is_uncertain):
    now = {"means": True, "posteriors": True, "fixed": True}
    head = made("svgp", 2, **now, wide_posteriors=is_wide, features=features)
    assert (head.linear_mean.posterior is not None) == is_uncertain


@pytest.mark.parametrize("head", ["svgp", "hgp"])
def test_heads_of_the_common_list_take_its_mean(head):
    """Beside a linear mean a kernel starts less wide: the layer gives the logits their size."""
    for num_classes, start in ((2, VARIANCE_BESIDE_MEAN), (3, SOFTMAX_VARIANCE_BESIDE_MEAN)):
        assert started(head, num_classes, means=True) == pytest.approx(start)
    assert made(head, 3, means=True, mean="none").mean == "none"
    assert started(head, 3, means=True, mean="none") == pytest.approx(SOFTMAX_VARIANCE)


@pytest.mark.parametrize(("common", "own"), [("linear", "none"), ("none", "linear")])
def test_a_head_with_a_table_of_its_own_starts_by_the_mean_in_it(common, own):
    head = made("autogp", 3, means=True, mean=common, autogp={"mean": own})
    assert head.mean == own
    start = SOFTMAX_VARIANCE if own == "none" else SOFTMAX_VARIANCE_BESIDE_MEAN
    np.testing.assert_allclose(head.unit.variance, start, rtol=1e-6)


def test_the_mean_is_a_key_of_the_common_list_and_of_the_tables_of_heads_that_can_have_one():
    settings = TrainSettings.with_tables()
    rows = {row.key: row for row in describe_settings(settings)}
    keys = ("mean", "autogp.mean", "deep_gp.mean", "random_features.mean")
    assert [key for key in rows if key.split(".")[-1] == "mean"] == [key for key in rows if key in keys]
    for key in keys:
        assert (rows[key].type, rows[key].default) == ("linear | none", "linear")
    with pytest.raises(InputError, match=r"mean is constant; expected linear \| none"):
        load_settings(settings, overrides=["mean=constant"])


def test_experts_start_at_one_and_a_saved_head_remembers_where_it_started():
    head = made("hgp", 3)
    np.testing.assert_allclose(head.experts.variance, 1.0, rtol=1e-6)
    again = type(head).from_config(head.get_config())
    again.build((None, 3))
    assert float(again.global_unit.variance.numpy()[0, 0]) == pytest.approx(SOFTMAX_VARIANCE)


def test_the_number_of_experts_follows_the_training_points_unless_it_is_given():
    assert [num_experts_for(points) for points in (10, 299, 600, 900, 10**6)] == [1, 1, 2, 3, 3]
    assert made("hgp", 2).num_experts == num_experts_for(10)
    assert made("hgp", 2, num_experts=4).num_experts == 4
    assert made("hgp", 2, num_experts=0).num_experts == 0
