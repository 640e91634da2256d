"""A bundle without a model, and what `predict` might have written with it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from data_prep.files.tables import write_table
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.bundles.line_rules import LineRules
from pipelines.bundles.metadata import Metadata, class_signatures, with_familiarity
from pipelines.bundles.prediction_lines import ClassPredictionLine
from pipelines.bundles.prediction_run import bundle_sha256
from pipelines.cli import make_app

NAMES = ("benign", "malignant")
HELD_OUT = 300
THRESHOLD = 0.3


class PlainLine(ClassPredictionLine):
    own_columns = ("label", "predictive_entropy", "mutual_information")


def write_bundle(folder: Path, **changes) -> Path:
    folder.mkdir()
    (folder / "saved_model.pb").touch()
    signatures = class_signatures(NAMES, single_latent=True)
    described = {
        "name": "lesions",
        "application": "classify",
        "head": "hgp",
        "class_names": NAMES,
        "network_size": (8, 8),
        "preprocessing": "",
        "signatures": with_familiarity(signatures, 1 / (HELD_OUT + 1)),
        "versions": {},
        "training_data": {},
        "intended_use": "",
        "limitations": "",
        "guarantee": GuaranteeRecord(
            confidence=0.95,
            judged="images",
            units=HELD_OUT,
            noun="images",
            binomial=True,
            thresholds=((0.02, THRESHOLD), (0.1, 0.5)),
        ),
        **changes,
    }
    (folder / "metadata.json").write_text(Metadata.model_validate(described).model_dump_json())
    return folder


@dataclass(frozen=True)
class Place:
    """A folder with a bundle and predictions."""

    folder: Path
    bundle: Path

    def predictions(
        self,
        name: str,
        familiarity: Sequence[float],
        *,
        entropy: Sequence[float] | None = None,
        seconds=0.1,
        settings: dict | None = None,
    ) -> Path:
        """Write a table as `predict` would, of images that are all called benign."""
        out = self.folder / name
        out.mkdir(exist_ok=True)
        lines = [
            ClassPredictionLine(
                file=f"{name}/{number}.png",
                label="benign",
                predictive_entropy=0.1 if entropy is None else float(entropy[number]),
                mutual_information=0.0,
                referred=False,
                probability={"benign": 0.9, "malignant": 0.1},
                familiarity=float(value),
                seconds=seconds,
            ).cells()
            for number, value in enumerate(familiarity)
        ]
        columns = PlainLine.columns(NAMES, LineRules(least_familiarity=0.001))
        write_table(out / "predictions.csv", columns, ([line[key] for key in columns] for line in lines))
        header = {"bundle": bundle_sha256(self.bundle), "settings": settings or {}}
        (out / "predict_run.json").write_text(json.dumps(header))
        return out / "predictions.csv"

    def run(self, command: str, *tables: Path, **options) -> Result:
        given = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        arguments = [command, f"--model={self.bundle}", *given, "--predictions", *map(str, tables)]
        return CliRunner().invoke(make_app(), arguments, env={"COLUMNS": "300"})


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path, write_bundle(tmp_path / "bundle"))


@pytest.fixture
def draw() -> Callable[..., np.ndarray]:
    """Familiarities of images beside held-out ones that are drawn anew for each stream."""

    def drawn(rng: np.random.Generator, number: int, held_out: int = HELD_OUT, strange=None) -> np.ndarray:
        reference = np.sort(rng.random(held_out))
        strange = rng.random(number) if strange is None else strange
        return (1 + held_out - np.searchsorted(reference, strange)) / (held_out + 1)

    return drawn
