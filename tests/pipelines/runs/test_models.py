"""What a run makes its heads with."""

import pytest

from data_prep.sonar.settings import SpeckleNormalisation
from pipelines.runs.models import SOFTMAX_VARIANCE, make_head
from pipelines.sonar.application import SONAR
from pipelines.sonar.settings import SnapshotPreprocessing, SonarRun, TrainSettings


def started(head: str, num_classes: int, likelihood: str | None = None, *, wide: bool = True) -> float:
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
    made = make_head(head, SONAR, TrainSettings(likelihood=likelihood), run)
    made.build((None, 3))
    return float(made.global_unit.variance.numpy()[0, 0])


@pytest.mark.parametrize("head", ["svgp", "hgp"])
def test_the_kernel_before_a_softmax_starts_wide(head):
    assert started(head, 3) == pytest.approx(SOFTMAX_VARIANCE)
    assert started(head, 3, "robust_max") == started(head, 2) == pytest.approx(1.0)
    assert started(head, 2, "softmax") == pytest.approx(SOFTMAX_VARIANCE)


def test_a_run_begun_before_goes_on_as_it_began():
    assert started("svgp", 3, wide=False) == pytest.approx(1.0)
