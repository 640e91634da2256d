"""The description of a bundle: `metadata.json` and `model_card.md`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, Self

import numpy as np
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from data_prep.errors import InputError
from data_prep.files.image_settings import ImageKinds
from data_prep.files.json_files import read_json
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.command.folders import METADATA, require_bundle
from pipelines.scores.costs import CostTable

CARD = "model_card.md"

SCHEMA_VERSION = 1

FAMILIARITY = "familiarity"
"""Output that says how familiar an input is; bundles of earlier versions have none."""


class TensorDescription(BaseModel):
    """An input or output of a signature."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shape: tuple[int | None, ...]
    dtype: str
    range: tuple[float | None, float | None]
    unit: str
    meaning: str


class SignatureDescription(BaseModel):
    """One way to call the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: dict[str, TensorDescription]
    outputs: dict[str, TensorDescription]
    notes: str = ""


class Int8Loss(BaseModel):
    """What `network_int8.tflite` predicts worse than the network in float32, by the selection part.

    Attributes:
        images: Number of its images.
        nll: Their mean negative log-likelihood by the file.
        float32_nll: The same by the network in float32.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    images: int
    nll: float
    float32_nll: float

    @property
    def sentence(self) -> str:
        """The change in words."""
        return (
            f"int8: NLL of the {self.images} held-out images {self.nll:.4f} instead of "
            f"{self.float32_nll:.4f}."
        )


class Metadata(BaseModel):
    """Contents of `metadata.json`.

    `sha256` has the checksum of every file that must not change. `preprocessing_settings` describe what
    `predict` does to an image before the graph takes it; they are empty if it does nothing. `kinds` say
    what all images of the training were. `guarantee` has
    thresholds of referral; None where its run held out nothing to make any by. `pool_temperature` is that of
    what `predict` averages over several inputs of the graph, as an image's patches, see
    `pipelines.scores.pool_calibration`; None where there is none, as in earlier versions. `predict` decides
    by `costs`, or of several labels by `label_costs`; None, or empty, where none were given. `int8_loss` is
    of `network_int8.tflite`; None where there is no such file, as in earlier versions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    name: str
    application: str
    head: str
    class_names: tuple[str, ...]
    network_size: tuple[int, int]
    preprocessing: str
    preprocessing_settings: dict[str, Any] = {}
    kinds: ImageKinds = ()
    signatures: dict[str, SignatureDescription]
    versions: dict[str, str]
    training_data: dict[str, Any]
    guarantee: GuaranteeRecord | None = Field(
        default=None,
        validation_alias=AliasChoices("guarantee", "promise"),  # the second one in bundles of version 0.1.0
    )
    pool_temperature: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    costs: CostTable | None = None
    label_costs: dict[str, CostTable] = {}
    int8_loss: Int8Loss | None = None
    intended_use: str
    limitations: str
    sha256: dict[str, str] = {}

    @property
    def command(self) -> str:
        """The command that predicts with the bundle: for several labels an image it is `classify`, too."""
        return "classify" if self.application == "multilabel" else self.application

    @property
    def least_familiarity(self) -> float | None:
        """The least value of the output `familiarity`; None where there is none, as in earlier versions."""
        described = self.signatures["serving_default"].outputs.get(FAMILIARITY)
        return None if described is None else described.range[0] or 0.0

    @model_validator(mode="after")
    def _check_costs(self) -> Self:
        if self.costs is not None and self.costs.classes != self.class_names:
            raise ValueError("the costs are of other classes than the model")
        if self.label_costs and tuple(self.label_costs) != self.class_names:
            raise ValueError("the costs are of other labels than the model")
        return self

    @field_validator("sha256")
    @classmethod
    def _check_paths_stay_inside(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\\" in name:
                raise ValueError(f"{name!r} is not a file of the bundle")
        return value


_NOT_DONE = (
    "Not done: EXIF rotation, TIFF, BMP of other than 24 bits; convert those before. An animated WebP is "
    "refused: send its first frame."
)


def _outputs(
    shape: tuple[int | None, ...],
    *,
    num_classes: int = 2,
    per_class: tuple[str, ...] = (),
    probability: str,
    label: str,
) -> dict[str, TensorDescription]:
    """Describe outputs of `shape`; those named in `per_class` have one more axis for the classes."""
    largest = float(np.log(num_classes))
    described = {
        "probability": ("float32", (0.0, 1.0), "", probability),
        "label": ("int32", (0.0, num_classes - 1.0), "", label),
        "latent_mean": ("float32", (None, None), "", "mean of the latent function"),
        "latent_variance": ("float32", (0.0, None), "", "variance of the latent function"),
        "predictive_entropy": ("float32", (0.0, largest), "nats", "total uncertainty of the prediction"),
        "mutual_information": ("float32", (0.0, largest), "nats", "the model's own share of the uncertainty"),
    }
    return {
        name: _tensor((*shape, num_classes) if name in per_class else shape, dtype, meaning, bounds, unit)
        for name, (dtype, bounds, unit, meaning) in described.items()
    }


def _tensor(
    shape: tuple[int | None, ...],
    dtype: str,
    meaning: str,
    bounds: tuple[float | None, float | None] = (None, None),
    unit: str = "",
) -> TensorDescription:
    return TensorDescription(shape=shape, dtype=dtype, range=bounds, unit=unit, meaning=meaning)


def map_signatures(size: tuple[int, int]) -> dict[str, SignatureDescription]:
    """Describe what `pipelines.bundles.serving.MapServer` takes and returns."""
    probability, label = "probability of the positive class", "1 where the probability is above one half"
    return _image_signatures(
        of_images=_outputs((None, None, None), probability=probability, label=label),
        of_encoded=_outputs((None, *size), probability=probability, label=label),
        notes=("Maps have the size of the images.", "Maps have the network's size."),
    )


def class_signatures(class_names: tuple[str, ...], *, single_latent: bool) -> dict[str, SignatureDescription]:
    """Describe what `pipelines.bundles.serving.ClassServer` takes and returns.

    Args:
        class_names: Names of the classes in the order of the labels.
        single_latent: Whether one latent function decides between two classes.
    """
    outputs = _class_outputs(class_names, single_latent=single_latent)
    notes = "One prediction for each image."
    return _image_signatures(of_images=outputs, of_encoded=outputs, notes=(notes, notes))


def number_signatures(unit: str, coverage: float) -> dict[str, SignatureDescription]:
    """Describe what `pipelines.bundles.serving.NumberServer` takes and returns.

    Args:
        unit: Of the numbers.
        coverage: Share of examples whose interval holds the truth.
    """
    interval = f"end of the {100 * coverage:g} % interval"
    meanings = {"mean": "predicted number", "lower": f"lower {interval}", "upper": f"upper {interval}"}
    outputs = {name: _tensor((None,), "float32", text, unit=unit) for name, text in meanings.items()}
    outputs["sd"] = _tensor((None,), "float32", "standard deviation of a measured number", (0.0, None), unit)
    notes = "One number for each image."
    return _image_signatures(of_images=outputs, of_encoded=outputs, notes=(notes, notes))


def label_signatures(label_names: tuple[str, ...]) -> dict[str, SignatureDescription]:
    """Describe what `pipelines.bundles.serving.LabelServer` takes and returns.

    Args:
        label_names: Names of the yes/no labels.
    """
    shape, largest = (None, len(label_names)), float(np.log(2.0))
    meanings = {
        "probability": (f"probability of yes for each of {', '.join(label_names)}", 1.0, ""),
        "predictive_entropy": ("total uncertainty of each label", largest, "nats"),
        "mutual_information": ("the model's own share of it", largest, "nats"),
    }
    outputs = {
        name: _tensor(shape, "float32", text, (0.0, most), unit)
        for name, (text, most, unit) in meanings.items()
    }
    notes = "Several yes/no labels for each image."
    return _image_signatures(of_images=outputs, of_encoded=outputs, notes=(notes, notes))


def clip_signatures(
    class_names: tuple[str, ...], shape: tuple[int, ...], *, single_latent: bool
) -> dict[str, SignatureDescription]:
    """Describe what `pipelines.bundles.serving.ClipServer` takes and returns.

    Args:
        class_names: Names of the classes in the order of the labels.
        shape: Shape of a clip: frames, height, width and 3.
        single_latent: Whether one latent function decides between two classes.
    """
    clips = _tensor((None, *shape), "uint8", "RGB clips", (0, 255), "grey levels")
    outputs = _class_outputs(class_names, single_latent=single_latent)
    return _default_signature({"clips": clips}, outputs, "One prediction for each clip.")


def view_signatures(
    class_names: tuple[str, ...], views: Mapping[str, int], *, single_latent: bool
) -> dict[str, SignatureDescription]:
    """Describe what `pipelines.bundles.serving.ViewServer` takes and returns.

    Args:
        class_names: Names of the classes in the order of the labels.
        views: Number of features of each view.
        single_latent: Whether one latent function decides between two classes.
    """
    inputs = {
        name: _tensor((None, number), "float32", f"features of the view {name}, as preprocessing.json says")
        for name, number in views.items()
    }
    outputs = _class_outputs(class_names, single_latent=single_latent)
    return _default_signature(inputs, outputs, "One prediction for each example.")


def with_familiarity(
    signatures: Mapping[str, SignatureDescription], least: float
) -> dict[str, SignatureDescription]:
    """Return the signatures of a bundle with the output `familiarity`, of the shape of `label` or `mean`.

    Where there is neither, as of several labels, it is one a row.

    Args:
        signatures: The signatures without it.
        least: The least familiarity that there can be.
    """
    meaning = "share of known examples that look at least as strange; below 0.01 it is unfamiliar"
    described = {}
    for name, signature in signatures.items():
        of_each = signature.outputs.get("label") or signature.outputs.get("mean")
        shape = (None,) if of_each is None else of_each.shape
        familiarity = _tensor(shape, "float32", meaning, (least, 1.0))
        outputs = {**signature.outputs, FAMILIARITY: familiarity}
        described[name] = signature.model_copy(update={"outputs": outputs})
    return described


def _default_signature(
    inputs: dict[str, TensorDescription], outputs: dict[str, TensorDescription], notes: str
) -> dict[str, SignatureDescription]:
    return {"serving_default": SignatureDescription(inputs=inputs, outputs=outputs, notes=notes)}


def _class_outputs(class_names: tuple[str, ...], *, single_latent: bool) -> dict[str, TensorDescription]:
    latents = () if single_latent else ("latent_mean", "latent_variance")
    return _outputs(
        (None,),
        num_classes=len(class_names),
        per_class=("probability", *latents),
        probability=f"probability of each class: {', '.join(class_names)}",
        label="index of the most probable class",
    )


def _image_signatures(
    of_images: dict[str, TensorDescription], of_encoded: dict[str, TensorDescription], notes: tuple[str, str]
) -> dict[str, SignatureDescription]:
    """Describe the two signatures of `pipelines.bundles.serving.ImageServer`."""
    images = _tensor((None, None, None, 3), "uint8", "decoded RGB images", (0, 255), "grey levels")
    encoded = _tensor((None,), "string", "contents of JPEG, PNG, WebP or 24-bit BMP files")
    original = _tensor((None, 2), "int32", "height and width of each image", (1, None), "pixels")
    return {
        **_default_signature({"images": images}, of_images, notes[0]),
        "serve_bytes": SignatureDescription(
            inputs={"encoded": encoded},
            outputs={**of_encoded, "original_size": original},
            notes=f"{notes[1]} {_NOT_DONE}",
        ),
    }


def current_versions() -> dict[str, str]:
    """Return the versions of what writes a bundle now."""
    return {name: version(name) for name in ("gpimaging", "tensorflow", "keras", "gpflow", "numpy")}


def load_metadata(bundle: Path) -> Metadata:
    """Read and check `metadata.json`.

    Raises:
        InputError: The folder is no bundle, or one of another schema version.
    """
    require_bundle(bundle)
    path = bundle / METADATA
    try:
        content = read_json(path)
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}). Export the bundle again.") from error
    found = content.get("schema_version") if isinstance(content, dict) else None
    if found != SCHEMA_VERSION:
        raise InputError(
            f"{path} has schema version {found}, but this gpimaging reads {SCHEMA_VERSION}. "
            "Export the model again, or use the version of gpimaging that wrote it."
        )
    try:
        return Metadata.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{path} does not describe a bundle: {error}. Export the bundle again.") from error


def _guarantees_text(record: GuaranteeRecord | None) -> str:
    """Return what a bundle can guarantee of what is not referred, in words."""
    if record is None or not record.thresholds:
        return "None can be given: too little was held out, or the model was too often wrong on it."
    least, limit = record.thresholds[0]
    return (
        f"Of the {record.judged} whose entropy is at most {limit:.4g} nats at most {100 * least:g} % are "
        f"wrong, with {record.confidence:.0%} confidence, by {record.units} held-out {record.noun}. "
        "`predict --max-error` takes larger shares, too. It holds for what is like the held-out data."
    )


def _costs_text(costs: CostTable) -> str:
    """Return the costs by which a bundle decides as a table: a row for each true class."""
    pairs = zip(costs.classes, costs.values, strict=True)
    rows = [["true class", *costs.decisions], ["---"] * (len(costs.decisions) + 1)]
    rows += [[name, *(f"{cost:g}" for cost in row)] for name, row in pairs]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def model_card(metadata: Metadata, metrics: Mapping[str, Any] | None) -> str:
    """Return the description of a bundle in words, as Markdown."""
    table = ["| name | dtype | range | meaning |", "|---|---|---|---|"]
    for name, output in metadata.signatures["serving_default"].outputs.items():
        bounds = " to ".join("unbounded" if bound is None else f"{bound:.4g}" for bound in output.range)
        table.append(f"| {name} | {output.dtype} | {bounds} {output.unit} | {output.meaning} |")
    data = (f"- {key.replace('_', ' ')}: {value}" for key, value in metadata.training_data.items())
    sections = {
        "Intended use": metadata.intended_use,
        "Limits": metadata.limitations,
        "Training data": "\n".join(data),
        "Preprocessing": metadata.preprocessing,
        "Outputs": "\n".join(table),
        "Guarantees": _guarantees_text(metadata.guarantee),
        **({} if metadata.costs is None else {"Costs": _costs_text(metadata.costs)}),
        **{f"Costs of {name}": _costs_text(costs) for name, costs in metadata.label_costs.items()},
        "Results": "See metrics.json." if metrics else "Not evaluated before the export.",
    }
    parts = [
        f"# {metadata.name}",
        f"A {metadata.application} model with a {metadata.head} head.",
        f"Written by gpimaging {metadata.versions['gpimaging']}.",
        *(f"## {title}\n\n{text}" for title, text in sections.items()),
    ]
    return "\n\n".join(parts) + "\n"
