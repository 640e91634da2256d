"""What `histopathology predict` writes of an image: a line, a table of patches, maps and GeoJSON."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.atomic import atomic_file
from data_prep.errors import InputError
from data_prep.histopathology_features import describe_patch
from data_prep.histopathology_patches import Patch, cut_patches
from data_prep.histopathology_settings import PatchSettings
from data_prep.images import resize_image
from pipelines.bundle import Signature
from pipelines.histopathology_maps import PredictedPatch, geojson, write_maps
from pipelines.histopathology_settings import PredictSettings
from pipelines.pooled_application import mean_outputs
from pipelines.prediction import (
    ClassPredictionLine,
    Source,
    UnreadableSourceError,
    cell_text,
    printable,
    probability_column,
)


@dataclass(frozen=True)
class TissuePrediction(ClassPredictionLine):
    """A line of ``predictions.csv``: the mean of the patches of an image.

    Attributes:
        height: Of the image, pixels.
        width: Of the image, pixels.
        patches: How many were predicted; the others are background.
        judged: Share of the image that these cover. The rest is background, or a border that no whole patch
            fits into.
    """

    height: int | None = None
    width: int | None = None
    patches: int | None = None
    judged: float | None = None


def columns(class_names: Sequence[str]) -> tuple[str, ...]:
    """Columns of ``predictions.csv``."""
    return (
        *("file", "height", "width", "patches", "judged", "label", "predictive_entropy"),
        *("mutual_information", "referred", "seconds", "status"),
        *map(probability_column, class_names),
    )


@dataclass(frozen=True)
class TissuePredictor:
    """Predicts images with a bundle.

    Attributes:
        signature: ``serving_default`` of the bundle.
        class_names: In the order of the labels.
        patches: How training images were cut.
        views: Names of the views that the bundle takes; none where it takes patches.
        settings: Of the step.
        out: Output folder.
    """

    signature: Signature
    class_names: tuple[str, ...]
    patches: PatchSettings
    views: tuple[str, ...]
    settings: PredictSettings
    out: Path

    def __call__(self, source: Source) -> Iterator[TissuePrediction]:
        """The line of an image, after its own files are written.

        Raises:
            UnreadableSourceError: The file cannot be read or cut, or shows only background.
            InputError: A file cannot be written.
        """
        started = time.perf_counter()
        try:
            size, predicted = self._patches(source.path)
        except InputError as error:
            raise UnreadableSourceError(str(error)) from error
        if not predicted:
            raise UnreadableSourceError(
                f"{source.path}: only background: no patch has a share of tissue of "
                f"{self.patches.min_tissue}. Pass images of tissue like those of the training."
            )
        seconds = time.perf_counter() - started
        of_image = mean_outputs(
            np.stack([entry.probability for entry in predicted]),
            np.array([entry.mutual_information for entry in predicted]),
        )
        self._write_table(source, predicted)
        path = self.out / "geojson" / f"{source.stem}.geojson"
        with atomic_file(path) as temporary:
            temporary.parent.mkdir(exist_ok=True)
            temporary.write_text(geojson(predicted, self.class_names), encoding="utf-8")
        write_maps(self.out, source, predicted, self.class_names, longest_side=self.settings.map_side)
        entropy = float(of_image["predictive_entropy"])
        limit = self.settings.refer_above
        yield TissuePrediction(
            file=printable(str(source.path)),
            height=size[0],
            width=size[1],
            patches=len(predicted),
            judged=min(1.0, sum(entry.height * entry.width for entry in predicted) / (size[0] * size[1])),
            label=self.class_names[int(of_image["label"])],
            predictive_entropy=entropy,
            mutual_information=float(of_image["mutual_information"]),
            probability=dict(zip(self.class_names, of_image["probability"].tolist(), strict=True)),
            referred=limit is not None and entropy > limit,
            seconds=seconds,
        )

    def _patches(self, path: Path) -> tuple[tuple[int, int], list[PredictedPatch]]:
        """Size of an image, and its patches; a slide's are never all in memory."""
        size = (0, 0)
        predicted: list[PredictedPatch] = []
        patches = cut_patches(path, self.patches)
        while some := list(islice(patches, self.settings.patches_at_once)):
            size = some[0].whole
            predicted += self._predict(some)
        return size, predicted

    def _predict(self, patches: Sequence[Patch]) -> list[PredictedPatch]:
        outputs = {name: value.numpy() for name, value in self.signature(**self._inputs(patches)).items()}
        return [
            PredictedPatch(
                row=patch.row,
                column=patch.column,
                height=patch.height,
                width=patch.width,
                probability=outputs["probability"][row],
                predictive_entropy=float(outputs["predictive_entropy"][row]),
                mutual_information=float(outputs["mutual_information"][row]),
            )
            for row, patch in enumerate(patches)
        ]

    def _inputs(self, patches: Sequence[Patch]) -> Mapping[str, tf.Tensor]:
        if not self.views:
            images = [resize_image(patch.image, self.patches.size) for patch in patches]
            return {"images": tf.constant(np.stack(images))}
        described = [describe_patch(patch.image) for patch in patches]
        return {name: tf.constant(np.stack([views[name] for views in described])) for name in self.views}

    def _write_table(self, source: Source, predicted: Sequence[PredictedPatch]) -> None:
        """``patches/<stem>.csv``: where each patch lies in the image, and what is predicted of it."""
        path = self.out / "patches" / f"{source.stem}.csv"
        names = [probability_column(name) for name in self.class_names]
        with atomic_file(path) as temporary:
            temporary.parent.mkdir(exist_ok=True)
            with temporary.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                header = ("row", "column", "height", "width", "label")
                writer.writerow([*header, "predictive_entropy", "mutual_information", *names])
                for entry in predicted:
                    row: list[object] = [entry.row, entry.column, entry.height, entry.width]
                    row += [self.class_names[entry.label], entry.predictive_entropy, entry.mutual_information]
                    writer.writerow(cell_text(value) for value in [*row, *entry.probability.tolist()])
