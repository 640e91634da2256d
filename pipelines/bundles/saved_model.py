"""The exported bundle: a SavedModel with everything that somebody else needs to use and to check it.

The files are:

    models_saved/<name>/
      saved_model.pb, variables/   TensorFlow Serving loads this
      metadata.json                inputs, outputs, versions, training data, checksums
      metrics.json                 how good it is, if it was evaluated
      config.yaml                  settings of the training run
      model_card.md                the same in words
      sample.npz                   an input and the outputs it must give
      preprocessing.json           for a model on features: how they are computed
      network.tflite, network_int8.tflite, network.onnx   the network and its head for other runtimes
      held_out.npz                 predictions of the held-out data, without names, for guarantees
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.files.arrays import read_arrays
from data_prep.files.atomic import atomic_folder
from data_prep.prepared.manifest import file_sha256
from data_prep.prepared.tensorflow_errors import system_errors
from pipelines.bundles.metadata import (
    CARD,
    FAMILIARITY,
    Metadata,
    SignatureDescription,
    load_metadata,
    model_card,
)
from pipelines.bundles.operations import require_own_operations
from pipelines.bundles.portable import PORTABLES, Portable, int8_portable, portable_network
from pipelines.bundles.runtimes import Signature, checked_metadata
from pipelines.bundles.serving import Server
from pipelines.command.folders import METADATA

SAMPLE = "sample.npz"
TOLERANCE = 1e-3
"""Largest difference to the stored outputs; other processors round and sum in another order."""

_FAMILIARITY_STEP = 0.1

_MAY_CHANGE = {METADATA, CARD}  # users write on the card


def write_bundle(  # noqa: PLR0913 - all of it is optional or of every bundle
    out: Path,
    server: Server,
    metadata: Metadata,
    *,
    sample: NDArray[Any],
    config: Path,
    metrics: Mapping[str, Any] | None,
    files: Mapping[str, str | Path],
    portable: Portable | None = None,
    overwrite: bool = False,
) -> None:
    """Write a bundle, complete or not at all.

    Args:
        out: Folder of the bundle.
        server: The graph to save.
        metadata: Description of the bundle, without checksums.
        sample: A decoded image `[H, W, 3]`, a clip or features, stored with the outputs for `verify_bundle`.
        config: File with the settings of the run, which is copied.
        metrics: Contents of `metrics.json`; None if the model was not evaluated.
        files: Contents of further text files, or files to copy, by name.
        portable: What to write for another runtime; None for nothing.
        overwrite: Whether to replace an existing bundle.

    Raises:
        InputError: `out` exists, or cannot be written, or the other runtime cannot compute the head.
    """
    signatures = server.signatures()
    # A bundle is not trained, and the gradients would be half of the graph.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    with atomic_folder(out, overwrite=overwrite) as folder:
        with system_errors():
            tf.saved_model.save(server, str(folder), signatures=signatures, options=options)
        (folder / "metrics.json").write_text(json.dumps(metrics or {}, indent=1, allow_nan=False) + "\n")
        (folder / CARD).write_text(model_card(metadata, metrics), encoding="utf-8")
        shutil.copyfile(config, folder / "config.yaml")
        for name, content in files.items():
            if isinstance(content, Path):
                shutil.copyfile(content, folder / name)
            else:
                (folder / name).write_text(content, encoding="utf-8")
        stored = _stored_sample(folder, server, metadata, sample)
        if portable is not None:
            stored |= _write_portable(folder, portable, server, metadata, sample)
            loss = portable.loss((folder / portable.name).read_bytes())
            metadata = metadata.model_copy(update={"int8_loss": loss})
        np.savez_compressed(folder / SAMPLE, **stored)
        complete = metadata.model_copy(update={"sha256": _checksums(folder)})
        (folder / METADATA).write_text(complete.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _stored_sample(
    folder: Path, server: Server, metadata: Metadata, sample: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Return the inputs under their names and the outputs under `signature/output`."""
    inputs = server.sample_inputs(sample)
    stored: dict[str, NDArray[Any]] = dict(inputs)
    for signature, function in server.signatures().items():
        outputs = function(**_sample_inputs(folder, inputs, signature, metadata.signatures[signature]))
        stored |= {f"{signature}/{name}": value.numpy() for name, value in outputs.items()}
    return stored


def _write_portable(
    folder: Path, portable: Portable, server: Server, metadata: Metadata, sample: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Write a file for another runtime; return the input to verify it on and the outputs by TensorFlow."""
    function, spec = server.portable()
    inputs = server.portable_sample(sample)
    network = portable_network(function, spec, metadata.head)
    content = portable.convert(network)
    (folder / portable.name).write_bytes(content)
    if portable.is_quantised:
        outputs = portable.outputs(content, inputs)
    else:
        outputs = {name: value.numpy() for name, value in function(tf.constant(inputs)).items()}
    stored = {f"{portable.name}/{name}": value for name, value in {"inputs": inputs, **outputs}.items()}
    _portable_differences(folder, portable, stored)
    return stored


def _portable_differences(
    bundle: Path, portable: Portable, stored: Mapping[str, NDArray[Any]]
) -> dict[str, float]:
    """Run a file for another runtime on its stored input; return the largest difference of each output.

    Raises:
        InputError: One is larger than the tolerance of such files, or the file cannot be run.
    """
    path = bundle / portable.name
    try:
        found = portable.outputs(path.read_bytes(), stored[f"{portable.name}/inputs"])
    except (ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be run ({error}). Export the bundle again.") from error
    outputs = {name: tf.constant(value) for name, value in found.items()}
    differences = _differences(bundle, portable.name, outputs, stored)
    bad = [f"{key} by {value:.2g}" for key, value in differences.items() if not value <= portable.tolerance]
    if bad:
        other = "where it was exported" if portable.is_quantised else "TensorFlow"
        raise InputError(
            f"{path}: {portable.runtime} computes otherwise than {other} ({', '.join(bad)}), allowed is "
            f"{portable.tolerance}. Use the bundle by TensorFlow, and export it without --format."
        )
    return differences


def _checksums(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in _MAY_CHANGE)
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}


def load_signatures(bundle: Path, *, application: str | None = None) -> dict[str, Signature]:
    """Check the metadata and the files of a bundle and return its signatures by name.

    Args:
        bundle: Folder of the bundle.
        application: The application that the bundle must be of; None for any.

    Raises:
        InputError: The bundle cannot be loaded, is of another application, or a file is missing or was
            changed.
    """
    metadata = checked_metadata(bundle, application)
    require_own_operations(bundle)
    try:
        signatures = _loaded(bundle.resolve(), tuple(sorted(metadata.sha256.items())))
    except (OSError, ValueError, LookupError, tf.errors.OpError) as error:
        raise InputError(
            f"{bundle} cannot be loaded as a SavedModel: {error}. Export the bundle again."
        ) from error
    _check_signatures(bundle, signatures, metadata)
    return signatures


@lru_cache(maxsize=1)
def _loaded(bundle: Path, _checksums: tuple[tuple[str, str], ...]) -> dict[str, Signature]:
    """Load a bundle whose files have these checksums; the last one stays in memory for later predictions."""
    with _gradient_warnings_hidden():
        return dict(tf.saved_model.load(str(bundle)).signatures)


def _check_signatures(bundle: Path, signatures: Mapping[str, Signature], metadata: Metadata) -> None:
    """Compare what the graph takes and returns with the description, before anything is computed."""
    if set(signatures) != set(metadata.signatures):
        raise InputError(
            f"{bundle}: the model has the signatures {sorted(signatures)}, but {METADATA} describes "
            f"{sorted(metadata.signatures)}. Export the bundle again."
        )
    for name, description in metadata.signatures.items():
        signature = signatures[name]
        _check_inputs(f"{bundle}: {name}", signature.structured_input_signature[1], description)
        _check_specs(f"{bundle}: {name}", signature.structured_outputs, description)


@contextmanager
def _gradient_warnings_hidden() -> Iterator[None]:
    """Hide TensorFlow's remarks that the functions of a bundle cannot be trained."""

    def wanted(record: logging.LogRecord) -> bool:
        return "with ops with unsaved custom gradients" not in record.getMessage()

    logger = logging.getLogger("absl")
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)


@dataclass(frozen=True)
class Verification:
    """How far outputs are from the stored ones.

    Attributes:
        differences: Largest difference to the stored outputs, by `signature/output`.
        not_run: Files for other runtimes that are not installed here; their checksums are right.
    """

    differences: dict[str, float]
    not_run: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """Return the largest difference; NaN if one is NaN."""
        return float(np.max(list(self.differences.values())))


def verify_bundle(bundle: Path) -> Verification:
    """Check the files, run every signature on the stored sample and compare with the stored outputs.

    Raises:
        InputError: A file is missing or was changed; the model and its description differ; an output
            differs from the stored one by more than `TOLERANCE`.
    """
    metadata = load_metadata(bundle)
    signatures = load_signatures(bundle)
    stored = _read_sample(bundle)
    differences: dict[str, float] = {}
    for name, description in metadata.signatures.items():
        inputs = _sample_inputs(bundle, stored, name, description)
        try:
            outputs = signatures[name](**inputs)
        except tf.errors.OpError as error:
            raise InputError(
                f"{bundle}: {name} fails on the stored sample ({error.message}). Export again."
            ) from error
        _check_outputs(f"{bundle}: {name}", outputs, description)
        differences |= _differences(bundle, name, outputs, stored)
    result = Verification(differences)
    if not result.worst <= TOLERANCE:
        bad = [f"{key} by {value:.2g}" for key, value in differences.items() if not value <= TOLERANCE]
        raise InputError(
            f"{bundle}: outputs differ from the stored ones ({', '.join(bad)}), allowed is {TOLERANCE}. "
            "The bundle was changed, or this machine computes differently; export again here."
        )
    not_run = []
    for portable in (*PORTABLES.values(), int8_portable(())):  # which have tolerances of their own
        if portable.name not in metadata.sha256:
            continue
        if find_spec(portable.package) is None:
            not_run.append(portable.name)
        else:
            differences |= _portable_differences(bundle, portable, stored)
    return replace(result, not_run=tuple(not_run))


def _read_sample(bundle: Path) -> dict[str, NDArray[Any]]:
    path = bundle / SAMPLE
    try:
        return read_arrays(path)
    except ValueError as error:
        raise InputError(f"{path} cannot be read ({error}). Export the bundle again.") from error


def _sample_inputs(
    bundle: Path, stored: Mapping[str, NDArray[Any]], name: str, description: SignatureDescription
) -> dict[str, tf.Tensor]:
    """Return the stored inputs of a signature; encoded files are stored as their bytes."""
    missing = [key for key in description.inputs if key not in stored]
    if missing:
        raise InputError(
            f"{bundle / SAMPLE} holds no {missing[0]!r}, which {name} takes. Export the bundle again."
        )
    return {
        key: tf.constant([stored[key].tobytes()]) if tensor.dtype == "string" else tf.constant(stored[key])
        for key, tensor in description.inputs.items()
    }


def _check_inputs(
    where: str, expected: Mapping[str, tf.TensorSpec], description: SignatureDescription
) -> None:
    """Compare names, types and shapes of what the model takes with the description."""
    taken = {name: (spec.dtype.name, tuple(spec.shape)) for name, spec in expected.items()}
    described = {name: (tensor.dtype, tensor.shape) for name, tensor in description.inputs.items()}
    if taken != described:
        raise InputError(f"{where} takes {taken}, but {METADATA} describes {described}. Export again.")


def _check_outputs(where: str, outputs: Mapping[str, tf.Tensor], description: SignatureDescription) -> None:
    """Compare names, types, shapes and ranges with the description."""
    _check_specs(where, outputs, description)
    for output, value in outputs.items():
        declared = description.outputs[output]
        least, largest = float(np.min(value)), float(np.max(value))
        low, high = declared.range
        low, high = -np.inf if low is None else low, np.inf if high is None else high
        if not low - TOLERANCE <= least <= largest <= high + TOLERANCE:
            raise InputError(
                f"{where}/{output} lies between {least:.4g} and {largest:.4g}, but {METADATA} describes "
                f"{declared.range}. Export again."
            )


def _check_specs(
    where: str, outputs: Mapping[str, tf.Tensor | tf.TensorSpec], description: SignatureDescription
) -> None:
    """Compare names, types and shapes of outputs, real or declared by the graph, with the description."""
    if set(outputs) != set(description.outputs):
        raise InputError(
            f"{where} returns {sorted(outputs)}, but {METADATA} describes {sorted(description.outputs)}. "
            "Export again."
        )
    for output, value in outputs.items():
        declared = description.outputs[output]
        if value.dtype.name != declared.dtype or not value.shape.is_compatible_with(declared.shape):
            raise InputError(
                f"{where}/{output} is {value.dtype.name} {value.shape}, but {METADATA} describes "
                f"{declared.dtype} {declared.shape}. Export again."
            )


def _differences(
    bundle: Path, name: str, outputs: Mapping[str, tf.Tensor], stored: Mapping[str, NDArray[Any]]
) -> dict[str, float]:
    """Return the largest difference of each output to the stored one, relative to 1 + its size.

    For labels it is the share of changed ones, not counting those whose two largest probabilities are too
    close to decide. Familiarity moves in steps of 1 by the number of held-out examples: rounding may move it
    by one, so it is the share of values that moved farther than by `_FAMILIARITY_STEP`.
    """
    differences = {}
    for output, tensor in outputs.items():
        wanted = stored.get(f"{name}/{output}")
        if wanted is None or wanted.shape != tensor.shape:
            raise InputError(
                f"{bundle / SAMPLE} holds no {name}/{output} of shape {tuple(tensor.shape)}. "
                "Export the bundle again."
            )
        value = tensor.numpy()
        difference = np.abs(value - wanted) / (1.0 + np.abs(wanted))
        if output == "label":
            difference = np.mean((value != wanted) & _is_decided(outputs["probability"].numpy(), value))
        if output == FAMILIARITY:
            difference = np.mean(np.abs(value - wanted) > _FAMILIARITY_STEP)
        differences[f"{name}/{output}"] = float(np.max(difference))
    return differences


def _is_decided(probability: NDArray[Any], label: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether no rounding can change each label, from probabilities of class 1, or `[..., C]`."""
    if probability.ndim == label.ndim:
        return np.asarray(np.abs(probability - 0.5) > TOLERANCE)
    least, most = np.moveaxis(np.sort(probability, axis=-1)[..., -2:], -1, 0)
    return np.asarray(most - least > 2 * TOLERANCE)
