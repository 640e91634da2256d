"""What `histopathology predict` writes of an image: a line, a table of patches, maps and GeoJSON."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf

from data_prep.files.atomic import atomic_file
from data_prep.files.resizing import resize_image
from data_prep.files.tables import write_table
from data_prep.histopathology.features import EXTRACTOR, describe_patch
from data_prep.histopathology.patches import Patch, cut_patches
from data_prep.histopathology.settings import PatchSettings
from data_prep.histopathology.slides import TISSUE_SUFFIXES
from gpmodels.familiarity.flags import POOLED_FACTOR
from pipelines.bundles.metadata import FAMILIARITY, Metadata
from pipelines.bundles.pooled_outputs import mean_outputs
from pipelines.bundles.prediction import UNCERTAINTIES, bundle_preprocessing
from pipelines.bundles.prediction_lines import (
    ClassPredictionLine,
    class_fields,
    printable,
    probability_column,
)
from pipelines.bundles.preprocessing import PREPROCESSING, load_preprocessing
from pipelines.bundles.runtimes import Signature
from pipelines.bundles.sources import Source
from pipelines.bundles.step import PredictStep, files_with
from pipelines.bundles.unreadable import UnreadableSourceError, reading
from pipelines.histopathology.maps import PredictedPatch, geojson, write_maps
from pipelines.histopathology.settings import APPLICATION, PredictSettings


@dataclass(frozen=True)
class TissuePrediction(ClassPredictionLine):
    """A line of `predictions.csv`: the mean of the patches of an image.

    Attributes:
        height: Of the image, pixels.
        width: Of the image, pixels.
        patches: How many were predicted; the others are background.
        judged: Share of the image that these cover. The rest is background, or a border that no whole patch
            fits into.
    """

    own_columns = ("height", "width", "patches", "judged", "label", *UNCERTAINTIES)
    familiarity_factor = POOLED_FACTOR

    height: int | None = None
    width: int | None = None
    patches: int | None = None
    judged: float | None = None


@dataclass(frozen=True)
class TissuePredictor:
    """Predicts images with a bundle.

    Attributes:
        signature: `serving_default` of the bundle.
        class_names: In the order of the labels.
        patches: How training images were cut.
        views: Names of the views that the bundle takes; none where it takes patches.
        settings: Of the step.
        out: Output folder.
        pool_temperature: Temperature of images, after the mean over their patches.
    """

    signature: Signature
    class_names: tuple[str, ...]
    patches: PatchSettings
    views: tuple[str, ...]
    settings: PredictSettings
    out: Path
    pool_temperature: float = 1.0

    def __call__(self, source: Source) -> Iterator[TissuePrediction]:
        """The line of an image, after its own files are written.

        Raises:
            UnreadableSourceError: The file cannot be read or cut, or shows only background.
            InputError: A file cannot be written.
        """
        started = time.perf_counter()
        with reading():
            size, predicted = self._patches(source.path)
        if not predicted:
            raise UnreadableSourceError(
                f"{source.path}: only background: no patch has a share of tissue of "
                f"{self.patches.min_tissue}. Pass images of tissue like those of the training."
            )
        seconds = time.perf_counter() - started
        of_image = mean_outputs(
            np.stack([entry.probability for entry in predicted]),
            np.array([entry.mutual_information for entry in predicted]),
            None
            if predicted[0].familiarity is None
            else np.array([entry.familiarity for entry in predicted]),
            temperature=self.pool_temperature,
        )
        self._write_table(source, predicted)
        path = self.out / "geojson" / f"{source.stem}.geojson"
        with atomic_file(path) as temporary:
            temporary.parent.mkdir(exist_ok=True)
            temporary.write_text(geojson(predicted, self.class_names), encoding="utf-8")
        write_maps(self.out, source, predicted, self.class_names, longest_side=self.settings.map_side)
        yield TissuePrediction(
            file=printable(str(source.path)),
            height=size[0],
            width=size[1],
            patches=len(predicted),
            judged=min(1.0, sum(entry.height * entry.width for entry in predicted) / (size[0] * size[1])),
            **class_fields(of_image, self.class_names, self.settings.refer_above),
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
                familiarity=float(outputs[FAMILIARITY][row]) if FAMILIARITY in outputs else None,
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
        """`patches/<stem>.csv`: where each patch lies in the image, and what is predicted of it."""
        names = map(probability_column, self.class_names)
        familiar = () if predicted[0].familiarity is None else (FAMILIARITY,)
        header = ["row", "column", "height", "width", "label", *UNCERTAINTIES, *familiar, *names]
        rows = (
            [
                *(entry.row, entry.column, entry.height, entry.width, self.class_names[entry.label]),
                *(entry.predictive_entropy, entry.mutual_information),
                *([entry.familiarity] if familiar else []),
                *entry.probability.tolist(),
            ]
            for entry in predicted
        )
        write_table(self.out / "patches" / f"{source.stem}.csv", header, rows)


def make_predictor(
    signature: Signature, metadata: Metadata, bundle: Path, settings: PredictSettings, out: Path
) -> TissuePredictor:
    """Return what predicts with an opened bundle, here or on a worker of a cluster.

    Raises:
        InputError: The bundle does not say how patches are cut.
    """
    views: tuple[str, ...] = ()
    if (bundle / PREPROCESSING).exists():
        preprocessing, patches = load_preprocessing(bundle, PatchSettings, extractor=EXTRACTOR)
        views = tuple(preprocessing.views)
    else:
        patches = bundle_preprocessing(metadata, bundle, PatchSettings)
    return TissuePredictor(
        signature, metadata.class_names, patches, views, settings, out, metadata.pool_temperature or 1.0
    )


HISTOPATHOLOGY_PREDICTION = PredictStep(
    application=APPLICATION,
    judged="images",
    line_class=lambda _: TissuePrediction,
    make=make_predictor,
    find=files_with(TISSUE_SUFFIXES, "image of tissue"),
)
