"""Which data sets the scoreboard has, with which seeds, cheap ones first; loads without TensorFlow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

TRUNK = "efficientnet_lite0"
ENSEMBLE = 5
SEEDS = tuple(range(7101, 7106))
"""Seeds of splits, weights and order; no other benchmark and no choice of a setting has used them."""

_FEW_STEPS = {"pretraining_epochs": 5, "head_epochs": 5}
"""500 and 500 steps of fifty images instead of 2000 and 2000, for networks that are trained from scratch."""

_LANE_STEPS = {
    "network": "C3K3",
    "pretraining_epochs": 20,
    "head_epochs": 10,
    "batch_size": 6,
    "num_experts": 4,
    "head_steps": 300,
}
"""As the benchmark of honesty trains on street scenes of the same size."""

_VIDEO_STEPS = {"batch_size": 50, "steps_per_epoch": 25, "pretraining_epochs": 10, "head_epochs": 10}
"""As the benchmark of heads on videos trains them."""

TABLES = (
    *("readme", "breast_cancer", "wine", "iris"),
    *("digits", "banana_gpflow", "ctg", "biodeg", "german_numeric", "splice", "oil_flow"),
)
"""Small tables, those of scikit-learn first; `readme` is that of the first program of docs/estimators.md."""

_CHEAP_TABLES = 4

Kind = Literal["table", "classify", "sonar", "histopathology", "lane", "video", "cells"]
"""A table, or the application whose commands prepare, train and judge."""


@dataclass(frozen=True)
class Setting:
    """A line of the scoreboard.

    Attributes:
        name: In tables and for `--only`.
        kind: What computes it.
        source: Which data, as `benchmarks.scoreboard.data_sets` names them.
        minutes: What a seed costs on one of two busy cores, for `--budget-minutes`.
        size: Groups to train on; None for half of them, or for the usual split.
        changes: Settings of the training that are not the defaults.
        ensemble: Members of the ensemble it is compared with; 0 where it would cost more than the rest. On
            frozen features its members are starts of one convex problem, and tell little.
        seeds: Its seeds, the first ones of `SEEDS`.
        data: Folder of the data sets that it needs; None where the data come with a package.
    """

    name: str
    kind: Kind
    source: str
    minutes: float
    size: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    ensemble: int = 0
    seeds: tuple[int, ...] = SEEDS[:3]
    data: str | None = None


@dataclass(frozen=True)
class Cell:
    """One seed of a setting."""

    setting: Setting
    seed: int

    @property
    def file(self) -> str:
        """Name of its record."""
        return f"{self.setting.name.replace(' ', '_').replace(',', '')}--{self.seed}.json"


def _tissue(name: str, folder: str, features: str, size: int | None) -> Setting:
    on_trunk = features == TRUNK
    return Setting(
        f"{name}, {'trunk' if on_trunk else 'handmade'}, {f'{size} groups' if size else 'half'}",
        "histopathology",
        name,
        minutes=3.0 if on_trunk else 5.0,
        size=size,
        changes={"network": features} if on_trunk else {"svms": ()},
        ensemble=ENSEMBLE if on_trunk and size is None else 0,
        data=folder,
    )


def _tissues(features: str) -> list[Setting]:
    sets = (("breast", "ucsb_breast_histology"), ("colon", "glas_colon_histology"))
    return [_tissue(*data_set, features, size) for size in (2, 4, 6, None) for data_set in sets]


def _frozen(name: str, kind: Kind, folder: str | None, minutes: float, ensemble: int = 0) -> Setting:
    return Setting(
        f"{name}, trunk", kind, name, minutes, changes={"network": TRUNK}, ensemble=ensemble, data=folder
    )


def _small_network(name: str, folder: str, minutes: float) -> Setting:
    changes = {"network": "FE1", **_FEW_STEPS}
    return Setting(f"{name}, FE1", "sonar", name, minutes, changes=changes, data=folder)


def _lane(name: str, folder: str | None, minutes: float, changes: Mapping[str, Any]) -> Setting:
    return Setting(name, "lane", name, minutes, changes=changes, data=folder)


STAGES: tuple[tuple[Setting, ...], ...] = (
    (
        *_tissues(TRUNK),
        _frozen("debris", "sonar", "marine_debris_fls", 4.0),
        _frozen("side-scan", "sonar", "sonar_sidescan_classes", 4.0),
        _frozen("BUSI", "classify", "busi_breast_ultrasound", 4.0, ENSEMBLE),
        _frozen("MHSMA head", "classify", "mhsma_sperm", 4.0, ENSEMBLE),
        *(Setting(f"table {name}", "table", name, 1.0) for name in TABLES[:_CHEAP_TABLES]),
    ),
    (
        _lane("demo", None, 4.0, {}),
        *(Setting(f"table {name}", "table", name, 2.0, data="tabular") for name in TABLES[_CHEAP_TABLES:]),
        _frozen("tiles", "sonar", "sdvd_sidescan_seg", 4.0),
        _frozen("elpv", "classify", None, 5.0),
        *_tissues("handmade"),
    ),
    (
        Setting("cells, simulated", "cells", "cells", 15.0, data="usiigaci_t98g_phase"),
        _small_network("debris", "marine_debris_fls", 15.0),
        _small_network("side-scan", "sonar_sidescan_classes", 15.0),
        _small_network("tiles", "sdvd_sidescan_seg", 15.0),
        _lane("CamVid walkable", "camvid_segnet", 15.0, _LANE_STEPS),
        _lane("CamVid pavement", "camvid_segnet", 15.0, _LANE_STEPS),
        Setting(
            "silhouettes",
            "video",
            "silhouettes",
            15.0,
            changes=_VIDEO_STEPS,
            seeds=SEEDS[:2],
            data="weizmann_silhouettes",
        ),
    ),
)
"""The settings, cheap ones first: every seed of a stage goes before the next stage."""

SETTINGS = {setting.name: setting for stage in STAGES for setting in stage}


def plan_cells(only: Collection[str], seeds: Sequence[int]) -> list[Cell]:
    """Return every cell, the cheap stage first, and in it all of a seed before the next.

    Args:
        only: Names of settings, or beginnings of names; empty for all.
        seeds: Seeds; empty for those of each setting.

    Raises:
        ValueError: A name is that of no setting.

    Example:
        >>> [cell.file for cell in plan_cells(["BUSI"], [7101, 7102])]
        ['BUSI_trunk--7101.json', 'BUSI_trunk--7102.json']
    """
    unknown = [name for name in only if not any(known.startswith(name) for known in SETTINGS)]
    if unknown:
        raise ValueError(f"no data set begins with {unknown[0]!r}; there are: {'; '.join(SETTINGS)}")
    cells = []
    for stage in STAGES:
        chosen = [one for one in stage if not only or any(one.name.startswith(name) for name in only)]
        of = {setting.name: tuple(seeds) or setting.seeds for setting in chosen}
        for number in range(max((len(found) for found in of.values()), default=0)):
            cells += [
                Cell(setting, of[setting.name][number])
                for setting in chosen
                if number < len(of[setting.name])
            ]
    return cells
