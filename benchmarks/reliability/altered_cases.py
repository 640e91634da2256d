"""The cases of altered bundles, runs, prepared folders and estimator files: what is altered, and how."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.reliability.alterations import BUNDLES, ESTIMATORS, PREPARED, RUNS, Alter

SUBJECTS: Mapping[str, tuple[str, Mapping[str, Alter], int]] = {
    "bundle": ("export", BUNDLES, 3),
    "run": ("train", RUNS, 2),
    "prepared folder": ("prepare", PREPARED, 2),
    "estimator file": ("estimator", ESTIMATORS, 3),
}
"""Of each subject the folder of the good one, the kinds of its alterations, and its share of all cases."""

REFUSED, SAME = "refused", "the same"
LONGEST = 60
"""Seconds for one case."""


@dataclass(frozen=True)
class Case:
    """An altered folder.

    Attributes:
        number: Its number, and the name of its folder.
        subject: Key of `SUBJECTS`.
        kind: How it is altered.
    """

    number: int
    subject: str
    kind: str

    def folder(self, work: Path) -> Path:
        """Return where it lies, in a folder of its own, so that files beside it are noticed."""
        return work / "cases" / f"{self.number:04d}" / "altered"


def draw_case(number: int, seed: int) -> Case:
    """Return the case of a number, always the same."""
    rng = np.random.default_rng([25, seed, number])
    turns = [subject for subject, (_, _, share) in SUBJECTS.items() for _ in range(share)]
    subject = turns[number % len(turns)]
    kinds = list(SUBJECTS[subject][1])
    return Case(number, subject, kinds[int(rng.integers(0, len(kinds)))])


def write_case(case: Case, seed: int, work: Path) -> None:
    """Copy the good one and alter the copy."""
    good, kinds, _ = SUBJECTS[case.subject]
    folder = case.folder(work)
    shutil.copytree(work / "classify" / good, folder)
    kinds[case.kind](folder, np.random.default_rng([26, seed, case.number]))
