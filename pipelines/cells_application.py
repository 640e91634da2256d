"""What the shared steps have to know of candidates for cell events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from data_prep.cells_manifest import CellsManifest
from pipelines.cells_scores import CELL_SCORES, CellRecord, cell_statistics, missed_events
from pipelines.cells_settings import CellsRun, TrainSettings
from pipelines.evaluation import MethodResult, classification_result, score_values
from pipelines.head_application import JudgedExample, Prepared
from pipelines.predictors import Outputs
from pipelines.views_application import ViewsApplication


@dataclass(frozen=True)
class JudgedCandidate(JudgedExample):
    """A candidate, with its share of its sequence's events without one."""

    missed_events: float


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

    def examples(self, data: Prepared[CellsManifest], names: Sequence[str]) -> Iterator[JudgedCandidate]:
        """Candidates; the truth is the label."""
        candidates = [data.manifest.examples[row] for row in data.manifest.rows(names)]
        source = {candidate.name: candidate.source for candidate in candidates}
        missed = missed_events(data.manifest.sequences, source)
        for one in super().examples(data, names):
            yield JudgedCandidate(one.name, one.image, one.truth, missed[one.name])

    def record(self, example: JudgedExample, outputs: Outputs) -> CellRecord:
        """What the scores need to know of one candidate."""
        missed = example.missed_events if isinstance(example, JudgedCandidate) else 0.0
        return CellRecord(**vars(super().record(example, outputs)), missed_events=missed)

    def result(self, title: str, records: Sequence[Any], **costs: Any) -> MethodResult:
        """Scores of the events and of all classes."""
        counts = classification_result(title, records, **costs).counts
        statistics = cell_statistics(records)
        counts = {**counts, "events_without_candidate": round(statistics.dense["missed_events"].sum())}
        return MethodResult(
            title, statistics, CELL_SCORES, score_values(CELL_SCORES, statistics), counts, **costs
        )


CELLS = CellsApplication()
