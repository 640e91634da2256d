"""The exported bundle: a SavedModel with everything a stranger needs to use and to check it (DESIGN section 6).

::

    models_saved/<name>/
      saved_model.pb, variables/   TensorFlow Serving loads this
      metadata.json                inputs, outputs, versions, training data
      metrics.json                 how good it is, if it was evaluated
      config.yaml                  settings of the training run
      model_card.md                the same in words
      sample.npz                   an input and the outputs it must give
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tensorflow as tf
from pydantic import BaseModel, ConfigDict, ValidationError

from data_prep.atomic import atomic_folder
from data_prep.errors import InputError
from pipelines.serving import ImageServer

SCHEMA_VERSION = 1
METADATA, SAMPLE, CARD = "metadata.json", "sample.npz", "model_card.md"
TOLERANCE = 1e-3
"""Largest difference to the stored outputs: other processors round and sum in another order."""


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
    """Contents of ``metadata.json``."""

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


_OUTPUTS = {
    "probability": ("float32", (0.0, 1.0), "", "probability of the positive class"),
    "label": ("int32", (0.0, 1.0), "", "1 where the probability is above one half"),
    "latent_mean": ("float32", (None, None), "", "mean of the latent function"),
    "latent_variance": ("float32", (0.0, None), "", "variance of the latent function"),
    "predictive_entropy": ("float32", (0.0, float(np.log(2.0))), "nats", "total uncertainty of the prediction"),
    "mutual_information": ("float32", (0.0, float(np.log(2.0))), "nats", "the model's own share of the uncertainty"),
}


def _map_outputs(shape: tuple[int | None, ...]) -> dict[str, TensorDescription]:
    return {
        name: TensorDescription(shape=shape, dtype=dtype, range=bounds, unit=unit, meaning=meaning)
        for name, (dtype, bounds, unit, meaning) in _OUTPUTS.items()
    }


def image_signatures(size: tuple[int, int]) -> dict[str, SignatureDescription]:
    """What :class:`pipelines.serving.ImageServer` takes and returns."""
    images = TensorDescription(
        shape=(None, None, None, 3), dtype="uint8", range=(0, 255), unit="grey levels", meaning="decoded RGB images"
    )
    encoded = TensorDescription(
        shape=(None,), dtype="string", range=(None, None), unit="", meaning="encoded JPEG, PNG, WebP or 24-bit BMP images"
    )
    original = TensorDescription(
        shape=(None, 2), dtype="int32", range=(1, None), unit="pixels", meaning="height and width of each image"
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
            notes="Maps have the network's size. Not done: EXIF rotation, TIFF, palette BMP; convert those before.",
        ),
    }


def current_versions() -> dict[str, str]:
    """Versions of what wrote the bundle."""
    return {name: version(name) for name in ("gpimaging", "tensorflow", "keras", "gpflow", "numpy")}


def write_image_bundle(
    out: Path,
    server: ImageServer,
    metadata: Metadata,
    *,
    sample: np.ndarray,
    config: Path,
    metrics: Mapping[str, Any] | None,
    overwrite: bool = False,
) -> None:
    """Write a bundle, complete or not at all.

    Args:
        out: Folder of the bundle.
        server: The graph.
        metadata: Its description.
        sample: A decoded image ``[H, W, 3]``, uint8, stored with its outputs for :func:`verify_bundle`.
        config: Settings of the run, copied.
        metrics: Contents of ``metrics.json``; None if the model was not evaluated.
        overwrite: Replace an existing bundle.

    Raises:
        InputError: ``out`` exists, or cannot be written.
    """
    signatures = {"serving_default": server.serving_default, "serve_bytes": server.serve_bytes}
    encoded = cv2.imencode(".png", sample[..., ::-1])[1]
    stored: dict[str, np.ndarray] = {"images": sample[None], "encoded": encoded}
    outputs = {
        "serving_default": server.serving_default(tf.constant(sample[None])),
        "serve_bytes": server.serve_bytes(tf.constant([encoded.tobytes()])),
    }
    for signature, maps in outputs.items():
        stored |= {f"{signature}/{name}": value.numpy() for name, value in maps.items()}
    with atomic_folder(out, overwrite=overwrite) as folder:
        tf.saved_model.save(server, str(folder), signatures=signatures)
        (folder / METADATA).write_text(metadata.model_dump_json(indent=1) + "\n", encoding="utf-8")
        (folder / "metrics.json").write_text(json.dumps(metrics or {}, indent=1, allow_nan=False) + "\n")
        (folder / CARD).write_text(model_card(metadata, metrics), encoding="utf-8")
        shutil.copyfile(config, folder / "config.yaml")
        np.savez_compressed(folder / SAMPLE, **stored)


def load_metadata(bundle: Path) -> Metadata:
    """Read and check ``metadata.json``.

    Raises:
        InputError: No bundle, or one of another schema version.
    """
    path = bundle / METADATA
    if not path.is_file() or not (bundle / "saved_model.pb").is_file():
        raise InputError(f"{bundle} is no bundle: {METADATA} or saved_model.pb is missing. Pass the --out of an export.")
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


def load_signatures(bundle: Path) -> dict[str, Any]:
    """The callables of a bundle, after its metadata was checked.

    Raises:
        InputError: The bundle cannot be loaded.
    """
    load_metadata(bundle)
    try:
        return dict(tf.saved_model.load(str(bundle)).signatures)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise InputError(f"{bundle} cannot be loaded as a SavedModel: {error}. Export the bundle again.") from error


@dataclass(frozen=True)
class Verification:
    """Largest difference to the stored outputs, by signature and output."""

    differences: dict[str, float]

    @property
    def worst(self) -> float:
        return max(self.differences.values())


def verify_bundle(bundle: Path) -> Verification:
    """Run every signature on the stored sample and compare with the stored outputs.

    Raises:
        InputError: A signature or output is missing, undescribed, of another type, or differs by more than 1e-3.
    """
    metadata = load_metadata(bundle)
    signatures = load_signatures(bundle)
    try:
        with np.load(bundle / SAMPLE, allow_pickle=False) as archive:
            stored = {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise InputError(f"{bundle / SAMPLE} cannot be read ({error}). Export the bundle again.") from error
    inputs = {
        "serving_default": {"images": tf.constant(stored["images"])},
        "serve_bytes": {"encoded": tf.constant([stored["encoded"].tobytes()])},
    }
    differences: dict[str, float] = {}
    for name, description in metadata.signatures.items():
        if name not in signatures:
            raise InputError(f"{bundle}: metadata.json describes signature {name!r}, which the model lacks. Export again.")
        outputs = signatures[name](**inputs[name])
        if set(outputs) != set(description.outputs):
            raise InputError(
                f"{bundle}: {name} returns {sorted(outputs)}, but metadata.json describes {sorted(description.outputs)}."
            )
        for output, value in outputs.items():
            expected = stored[f"{name}/{output}"]
            declared = description.outputs[output]
            if value.dtype.name != declared.dtype or value.shape != expected.shape:
                raise InputError(
                    f"{bundle}: {name}/{output} is {value.dtype.name} {tuple(value.shape)}, expected {declared.dtype} "
                    f"{expected.shape}. Export again."
                )
            differences[f"{name}/{output}"] = _difference(output, value.numpy(), expected)
    result = Verification(differences)
    if not result.worst <= TOLERANCE:
        worst = max(differences, key=lambda key: differences[key])
        raise InputError(
            f"{bundle}: {worst} differs by {result.worst:.2g} from the stored output, allowed is {TOLERANCE}. "
            "The bundle was changed, or this machine computes differently; export again here."
        )
    return result


def _difference(output: str, value: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference; relative to 1 + |expected| for unbounded maps; the share of flipped pixels for labels."""
    if output == "label":
        return float(np.mean(value != expected))
    return float(np.max(np.abs(value - expected) / (1.0 + np.abs(expected))))


def model_card(metadata: Metadata, metrics: Mapping[str, Any] | None) -> str:
    """The bundle in words, Markdown."""
    lines = [
        f"# {metadata.name}",
        "",
        f"A {metadata.application} model with a {metadata.head} head, written by gpimaging {metadata.versions['gpimaging']}.",
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
