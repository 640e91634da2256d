"""Telling a folder of other images from the judged part, by every score of a run's methods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from data_prep.errors import InputError
from data_prep.files.entries import IMAGE_SUFFIXES
from gpmodels.familiarity.flags import flagged, is_unfamiliar, pooled_familiarity
from pipelines.bundles.metadata import FAMILIARITY
from pipelines.bundles.sources import find_sources
from pipelines.bundles.unreadable import UnreadableSourceError, reading, require_file
from pipelines.runs.application import JudgedExample
from pipelines.runs.job import Job
from pipelines.runs.predictors import Predictor
from pipelines.runs.training_digests import input_digests
from pipelines.scores.pictures import Outputs
from pipelines.scores.unfamiliar_scores import SCORE_TITLES, UnfamiliarResult, unfamiliar_scores


@dataclass
class UnfamiliarCollector:
    """Collects, for each example that a method predicts, the scores that may tell unknown ones.

    Attributes:
        flags: Whether the method can call anything unfamiliar.
    """

    flags: bool

    _values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _familiarity: dict[str, float] = field(default_factory=dict)

    def add(self, example: JudgedExample, outputs: Outputs) -> None:
        """Add what a method predicts of an example; of maps and of several functions the mean."""
        for key in SCORE_TITLES:
            if key in outputs:
                self._values[key].append(float(np.mean(outputs[key])))
        if self.flags:
            self._values["flagged"].append(float(np.mean(flagged(outputs[FAMILIARITY]))))
            familiarity = outputs[FAMILIARITY]
            self._familiarity[example.name] = (
                float(familiarity) if familiarity.ndim == 0 else pooled_familiarity(familiarity)
            )

    def unfamiliar(self, count: int) -> tuple[str, ...]:
        """Return the names of at most `count` examples flagged as unfamiliar, the least familiar first."""
        order = sorted(self._familiarity, key=lambda name: (self._familiarity[name], name))
        return tuple(name for name in order[:count] if is_unfamiliar(self._familiarity[name]))

    def result(self, unknown: UnfamiliarCollector) -> UnfamiliarResult:
        """Return how well each score tells the examples of another collector from these."""
        found = {key: np.array(values) for key, values in self._values.items()}
        other = {key: np.array(values) for key, values in unknown._values.items()}
        shares = [
            float(values["flagged"].mean()) if "flagged" in values else np.nan for values in (found, other)
        ]
        return UnfamiliarResult(
            number=max(map(len, other.values())),
            scores={key: unfamiliar_scores(found[key], other[key]) for key in found if key != "flagged"},
            flagged_known=shares[0],
            flagged_unknown=shares[1],
        )


def read_unfamiliar(job: Job[Any, Any, Any], folder: Path, learned: frozenset[str]) -> list[JudgedExample]:
    """Return the images of a folder as `predict` gives them to the network, without a truth.

    Args:
        job: Job on the run.
        folder: Folder of image files.
        learned: Digests of what the run learned from.

    Raises:
        InputError: The application reads no images, there are none, or the run learned from some of them.
    """
    read = job.application.read_image
    if read is None:
        raise InputError(
            f"--unfamiliar: runs of `gpimaging {job.application.name}` of this kind learn from features or "
            "clips, not from images as a folder has them. Evaluate without --unfamiliar."
        )
    if not folder.is_dir():
        raise InputError(f"--unfamiliar {folder}: expected a folder of image files.")
    images: dict[str, NDArray[np.uint8]] = {}
    seen: list[str] = []
    for source in find_sources([folder], suffixes=IMAGE_SUFFIXES, kind="image"):
        try:
            require_file(source.path)
            with reading():
                image = read(source.path, job.run)
        except UnreadableSourceError as error:
            job.say(f"Left out: {error}")
            continue
        if not image.size:
            job.say(f"Left out: {source.path}: shows nothing to predict")
            continue
        images[source.path.name] = image
        if not learned.isdisjoint(input_digests([image] if image.ndim == 3 else image)):
            seen.append(source.path.name)
    if seen:
        raise InputError(
            f"--unfamiliar {folder}: the run learned from {len(seen)} of the {len(images)} images "
            f"({', '.join(seen[:3])}), so they are not unfamiliar. Pass a folder of images of another kind."
        )
    if not images:
        raise InputError(f"--unfamiliar {folder}: not one image could be read.")
    seen_by_network = job.data.encode_all(list(images.values()))
    if getattr(job.application.judge, "pools", None) is not None:  # an image by itself is a pool of one
        alone = [image.ndim == 3 for image in images.values()]
        pairs = zip(seen_by_network, alone, strict=True)
        seen_by_network = [seen[None] if is_alone else seen for seen, is_alone in pairs]
    return [JudgedExample(name, seen, None) for name, seen in zip(images, seen_by_network, strict=True)]


def predict_unfamiliar(
    job: Job[Any, Any, Any], predictor: Predictor, examples: Sequence[JudgedExample]
) -> UnfamiliarCollector:
    """Return the scores of a method for the examples of `read_unfamiliar`."""
    collector = UnfamiliarCollector(predictor.flags)
    for example in track(
        examples,
        f"{predictor.title}: unfamiliar",
        console=job.console,
        transient=True,
        disable=not job.console.is_terminal,
    ):
        collector.add(example, job.application.judge.outputs(predictor, example))
    return collector
