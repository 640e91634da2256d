"""What a run makes its heads with."""

from typing import Any

import numpy as np
import pytest

from data_prep.sonar.settings import SpeckleNormalisation
from gpmodels.heads.base import Head
from pipelines.runs.models import SOFTMAX_VARIANCE, make_head
from pipelines.sonar.application import SONAR
from pipelines.sonar.settings import SnapshotPreprocessing, SonarRun, TrainSettings


def made(head: str, num_classes: int, likelihood: str | None = None, *, wide: bool = True) -> Head:
    run = SonarRun(
        application="sonar",
        size=(32, 32),
        num_data=10,
        batch_norm_momentum=0.9,
        counts={},
        manifest_sha256="",
        class_names=tuple("abcd"[:num_classes]),
        snapshots=SnapshotPreprocessing(
            normalisation=SpeckleNormalisation(), window=(32, 32), background_classes=()
        ),
        starts_wide=wide,
    )
    head = make_head(head, SONAR, TrainSettings(likelihood=likelihood), run)
    head.build((None, 3))
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


def test_experts_start_at_one_and_a_saved_head_remembers_where_it_started():
    head = made("hgp", 3)
    np.testing.assert_allclose(head.experts.variance, 1.0, rtol=1e-6)
    again = type(head).from_config(head.get_config())
    again.build((None, 3))
    assert float(again.global_unit.variance.numpy()[0, 0]) == pytest.approx(SOFTMAX_VARIANCE)
