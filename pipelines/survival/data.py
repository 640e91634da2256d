"""Features of patches with the survival times of their patients, and the division of patients."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_prep.errors import InputError
from data_prep.histopathology.manifest import HistopathologyManifest
from data_prep.labelled.views import read_views
from data_prep.prepared.manifest import load_manifest
from data_prep.splits.stratified import stratified_parts
from pipelines.survival.settings import SurvivalSettings

FEWEST_EVENTS = 2
"""Patients with an event that training and test each need; with one there is no spread to explain."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SurvivalData:
    """N patches of P patients.

    Attributes:
        features: Features [N, D] of the patches, float32, the views side by side.
        views: Number of features of each view by its name.
        patient: Index of the patient of each patch [N].
        names: Names of the P patients.
        groups: Group of each patient [P]; patients of a group stay together.
        months: Time to the event or to the end of observation [P], float64.
        event: Whether the event was observed [P], bool.
    """

    features: npt.NDArray[np.float32]
    views: Mapping[str, int]
    patient: npt.NDArray[np.intp]
    names: tuple[str, ...]
    groups: tuple[str, ...]
    months: npt.NDArray[np.float64]
    event: Mask

    def patient_means(self, values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        """Return means `[P, ...]` over the patches of each patient, from values `[N, ...]`."""
        sums = np.zeros((len(self.names), *values.shape[1:]))
        np.add.at(sums, self.patient, values)
        counts = np.bincount(self.patient, minlength=len(self.names))
        return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


@dataclass(frozen=True)
class PatientSplit:
    """Which patients train and which are judged.

    Attributes:
        repeat: Number of the division.
        fold: Number of the part that is judged or, with `train_on_one`, trained on.
        train: Whether each patient trains [P], bool.
        test: Whether each patient is judged [P], bool.
    """

    repeat: int
    fold: int
    train: Mask
    test: Mask


def load_survival(folder: Path) -> SurvivalData:
    """Read a prepared folder.

    Raises:
        InputError: The folder cannot be used, or has no survival times.
    """
    manifest = load_manifest(folder, HistopathologyManifest)
    if not manifest.has_survival:
        raise InputError(
            f"{folder}: prepared without survival times. Prepare it with a table that has the columns "
            "file,months,event,patient: `gpimaging histopathology prepare --labels`."
        )
    views = read_views(folder, manifest)
    first = {example.patient: example for example in manifest.examples}
    names = tuple(sorted(first))
    number = {name: index for index, name in enumerate(names)}
    return SurvivalData(
        features=np.concatenate(list(views.values()), axis=1),
        views=manifest.views,
        patient=np.array([number[example.patient] for example in manifest.examples]),
        names=names,
        groups=tuple(first[name].group for name in names),
        months=np.array([first[name].months for name in names], np.float64),
        event=np.array([first[name].event for name in names], np.bool_),
    )


def patient_splits(data: SurvivalData, settings: SurvivalSettings) -> Iterator[PatientSplit]:
    """Yield divisions of the patients into folds with evenly spread events, once for each repeat.

    Raises:
        InputError: There are too few patients with an event.
    """
    groups = dict(zip(data.names, data.groups, strict=True))
    labels = dict(zip(data.names, data.event.astype(int).tolist(), strict=True))
    for repeat in range(settings.repeats):
        shares = (1 / settings.folds,) * settings.folds
        # Largest groups first would divide groups of different sizes in the same way in every repeat.
        parts = stratified_parts(groups, labels, shares, settings.seed + repeat, largest_first=False)
        part = np.array([parts[name] for name in data.names])
        for fold in range(settings.folds):
            chosen = part == fold
            train, test = (chosen, ~chosen) if settings.train_on_one else (~chosen, chosen)
            if min(data.event[train].sum(), data.event[test].sum()) < FEWEST_EVENTS:
                raise InputError(
                    f"{data.event.sum()} of {len(data.names)} patients have an event, which {settings.folds} "
                    f"folds leave with fewer than {FEWEST_EVENTS} to train on or to judge by. Use fewer "
                    "folds, more patients, or smaller groups of patients."
                )
            yield PatientSplit(repeat, fold, train, test)
