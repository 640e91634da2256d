"""The parts of the application for cell events: candidates, their scores and what a bundle is for."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from data_prep.cells.manifest import CellsManifest
from pipelines.cells.events import called_events
from pipelines.cells.scores import CELL_SCORES, NO_EVENT, CellRecord, cell_statistics, missed_events
from pipelines.cells.settings import APPLICATION, CellsRun, TrainSettings
from pipelines.labelled.classes import (
    ClassDeployment,
    ClassJudge,
    class_record,
    labelled_inputs,
    lacking_classes,
    of_classes,
)
from pipelines.labelled.data import PreparedViews, open_views
from pipelines.labelled.rivals import SupportVectorMachines, separable_classes
from pipelines.labelled.sources import labelled_sources
from pipelines.labelled.views import (
    DEPLOYED_VIEWS,
    VIEWS_NETWORK,
    ViewFacts,
    described_image,
)
from pipelines.runs.application import Application, JudgedExample
from pipelines.scores.pictures import Outputs
from pipelines.scores.results import MethodResult, classification_result, score_values
from pipelines.scores.uncertainty import PREDICTIVE_ENTROPY

CellsData = PreparedViews[CellsManifest]


def missed_of_candidates(data: CellsData, names: Sequence[str]) -> Mapping[str, float]:
    """Return each candidate's share of its sequence's events without a candidate, by name."""
    candidates = [data.manifest.examples[row] for row in data.manifest.rows(names)]
    return missed_events(data.manifest.sequences, {one.name: one.source for one in candidates})


def cell_record(example: JudgedExample, outputs: Outputs) -> CellRecord:
    """Return what the scores need to know of one candidate."""
    return CellRecord(**vars(class_record(example, outputs)), missed_events=example.fact or 0.0)


def event_referral(example: JudgedExample, outputs: Outputs) -> tuple[float, float] | None:
    """Return the entropy of a candidate that is called an event, and 1 where it is another kind or none.

    `predict` lists events alone, so a candidate that is called none is neither kept nor referred.
    """
    (label,) = called_events(of_classes(outputs)["probability"][None], 0.5)
    if label == NO_EVENT:
        return None
    return float(outputs[PREDICTIVE_ENTROPY]), float(label != example.truth)


def cell_result(title: str, records: Sequence[Any], **costs: Any) -> MethodResult:
    """Return a method's scores of the events and of all classes."""
    counts = classification_result(title, records, **costs).counts
    statistics = cell_statistics(records)
    counts = {**counts, "events_without_candidate": round(statistics.dense["missed_events"].sum())}
    return MethodResult(
        title, statistics, CELL_SCORES, score_values(CELL_SCORES, statistics), counts, **costs
    )


_FEATURES = ViewFacts(lambda manifest: manifest.candidate_settings.model_dump(mode="json"))

CELLS: Application[CellsData, TrainSettings, CellsRun] = Application(
    name=APPLICATION,
    title="Cell events in time-lapse microscopy",
    settings=TrainSettings,
    run=CellsRun,
    fixed_settings=("components", "steps_per_epoch", "class_balance"),
    fixed_gp_settings=("likelihood",),
    inputs=labelled_inputs(
        sources=labelled_sources,
        open=partial(open_views, manifest=CellsManifest),
        facts=(_FEATURES.of_run,),
        checks=(separable_classes, lacking_classes),
        fitting=(_FEATURES.require_same,),
    ),
    network=VIEWS_NETWORK,
    judge=ClassJudge(
        judged="candidates",
        picture=described_image,
        facts=missed_of_candidates,
        record=cell_record,
        referral=event_referral,
        refers_classes=False,  # what is no event is neither kept nor referred
        result=cell_result,
    ),
    deployment=ClassDeployment(
        application="cells",
        kind="candidates",
        intended_use=(
            "Finding events such as division and death of cells in sequences like those it was trained on, "
            "with an uncertainty that says which ones a person should look at."
        ),
        limitations=(
            "Events that change little from one frame to the next are no candidates, and it cannot find "
            "them. Other cells, another magnification, contrast or time between frames is another kind of "
            "data. Judge it on your own annotated sequences with `gpimaging cells evaluate` before relying "
            "on it."
        ),
        preprocessing=(
            "finding candidates in a sequence and computing their views, as preprocessing.json says; "
            "`gpimaging cells predict` does both."
        ),
        **DEPLOYED_VIEWS,
    ),
    rivals=(SupportVectorMachines(),),
)
"""Dividing and dying cells in time-lapse microscopy (DFGP paper, section 5.3)."""
