"""What a bundle says of itself: ``metadata.json`` and ``model_card.md``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from data_prep.errors import InputError

SCHEMA_VERSION = 1
METADATA = "metadata.json"


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


class Metadata(BaseModel):
    """Contents of ``metadata.json``; ``sha256`` has the checksum of every file that must not change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    name: str
    application: str
    head: str
    class_names: tuple[str, ...]
    network_size: tuple[int, int]
    preprocessing: str
    signatures: dict[str, SignatureDescription]
    versions: dict[str, str]
    training_data: dict[str, Any]
    intended_use: str
    limitations: str
    sha256: dict[str, str] = {}

    @field_validator("sha256")
    @classmethod
    def _check_paths_stay_inside(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\\" in name:
                raise ValueError(f"{name!r} is not a file of the bundle")
        return value


_LOG_2 = float(np.log(2.0))

_OUTPUTS = {
    "probability": ("float32", (0.0, 1.0), "", "probability of the positive class"),
    "label": ("int32", (0.0, 1.0), "", "1 where the probability is above one half"),
    "latent_mean": ("float32", (None, None), "", "mean of the latent function"),
    "latent_variance": ("float32", (0.0, None), "", "variance of the latent function"),
    "predictive_entropy": ("float32", (0.0, _LOG_2), "nats", "total uncertainty of the prediction"),
    "mutual_information": ("float32", (0.0, _LOG_2), "nats", "the model's own share of the uncertainty"),
}


def _map_outputs(shape: tuple[int | None, ...]) -> dict[str, TensorDescription]:
    return {
        name: TensorDescription(shape=shape, dtype=dtype, range=bounds, unit=unit, meaning=meaning)
        for name, (dtype, bounds, unit, meaning) in _OUTPUTS.items()
    }


def image_signatures(size: tuple[int, int]) -> dict[str, SignatureDescription]:
    """What :class:`pipelines.serving.ImageServer` takes and returns."""
    images = TensorDescription(
        shape=(None, None, None, 3),
        dtype="uint8",
        range=(0, 255),
        unit="grey levels",
        meaning="decoded RGB images",
    )
    encoded = TensorDescription(
        shape=(None,),
        dtype="string",
        range=(None, None),
        unit="",
        meaning="contents of JPEG, PNG, WebP or 24-bit BMP files",
    )
    original = TensorDescription(
        shape=(None, 2),
        dtype="int32",
        range=(1, None),
        unit="pixels",
        meaning="height and width of each image",
    )
    return {
        "serving_default": SignatureDescription(
            inputs={"images": images},
            outputs=_map_outputs((None, None, None)),
            notes="Maps have the size of the images.",
        ),
        "serve_bytes": SignatureDescription(
            inputs={"encoded": encoded},
            outputs={**_map_outputs((None, *size)), "original_size": original},
            notes=(
                "Maps have the network's size. Not done: EXIF rotation, TIFF, BMP of other than 24 bits; "
                "convert those before. An animated WebP is refused: send its first frame."
            ),
        ),
    }


def current_versions() -> dict[str, str]:
    """Versions of what wrote the bundle."""
    return {name: version(name) for name in ("gpimaging", "tensorflow", "keras", "gpflow", "numpy")}


def load_metadata(bundle: Path) -> Metadata:
    """Read and check ``metadata.json``.

    Raises:
        InputError: No bundle, or one of another schema version.
    """
    path = bundle / METADATA
    if not path.is_file() or not (bundle / "saved_model.pb").is_file():
        raise InputError(
            f"{bundle} is no bundle: {METADATA} or saved_model.pb is missing. Pass the --out of an export."
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
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


def model_card(metadata: Metadata, metrics: Mapping[str, Any] | None) -> str:
    """The bundle in words, Markdown."""
    lines = [
        f"# {metadata.name}",
        "",
        f"A {metadata.application} model with a {metadata.head} head.",
        "",
        f"Written by gpimaging {metadata.versions['gpimaging']}.",
        "",
        "## Intended use",
        "",
        metadata.intended_use,
        "",
        "## Limits",
        "",
        metadata.limitations,
        "",
        "## Training data",
        "",
        *(f"- {key.replace('_', ' ')}: {value}" for key, value in metadata.training_data.items()),
        "",
        "## Preprocessing",
        "",
        metadata.preprocessing,
        "",
        "## Outputs",
        "",
        "| name | dtype | range | meaning |",
        "|---|---|---|---|",
    ]
    for name, output in metadata.signatures["serving_default"].outputs.items():
        bounds = " to ".join("unbounded" if bound is None else f"{bound:.4g}" for bound in output.range)
        lines.append(f"| {name} | {output.dtype} | {bounds} {output.unit} | {output.meaning} |")
    lines += ["", "## Results", ""]
    lines.append("See metrics.json." if metrics else "Not evaluated before the export.")
    return "\n".join(lines) + "\n"
