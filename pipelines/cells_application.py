"""What the shared steps have to know of candidates for cell events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from data_prep.cells_manifest import CellsManifest
from pipelines.cells_scores import CELL_SCORES
from pipelines.cells_settings import CellsRun, TrainSettings
from pipelines.classification_scores import ClassificationRecord, classification_statistics
from pipelines.evaluation import MethodResult, classification_result, score_values
from pipelines.views_application import ViewsApplication


class CellsApplication(ViewsApplication[TrainSettings, CellsRun, CellsManifest]):
    """Dividing and dying cells in time-lapse microscopy (DFGP paper, section 5.3)."""

    name = "cells"
    title = "Cell events in time-lapse microscopy"
    point = "candidate"
    judged = "candidates"
    kind = "candidates"
    settings_class = TrainSettings
    run_class = CellsRun
    manifest_class = CellsManifest
    preprocessing = (
        "finding candidates in a sequence and computing their views, as preprocessing.json says; `gpimaging "
        "cells predict` does both."
    )
    intended_use = (
        "Finding events such as division and death of cells in sequences like those it was trained on, with "
        "an uncertainty that says which ones a person should look at."
    )
    limitations = (
        "Events that change little from one frame to the next are no candidates, and it cannot find them. "
        "Other cells, another magnification, contrast or time between frames is another kind of data. Judge "
        "it on your own annotated sequences with `gpimaging cells evaluate` before relying on it."
    )

    def extraction_settings(self, manifest: CellsManifest) -> dict[str, Any]:
        """How candidates are found and described."""
        return manifest.candidate_settings.model_dump(mode="json")

    def result(self, title: str, records: Sequence[ClassificationRecord], **costs: Any) -> MethodResult:
        """Scores of the events and of all classes."""
        classified = classification_result(title, records, **costs)
        statistics = classification_statistics(records)
        return MethodResult(
            title, statistics, CELL_SCORES, score_values(CELL_SCORES, statistics), classified.counts, **costs
        )


CELLS = CellsApplication()
