"""Bundles, run folders, prepared folders and estimator files, altered in ways that must be noticed.

Each kind takes a copy of a good one and a generator, and alters the copy. Where whoever alters a bundle would
renew its checksums, the kind does so.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.hostile_images import Rng, flipped, truncated

Alter = Callable[[Path, Rng], None]

_LEAVING = ("../outside", "/etc/passwd", "a/../../outside", "..\\outside", "variables/../../outside", "")
_NUMBERS: tuple[Any, ...] = (0, -1, 2**31, 2**63, 10**30, 1e308, 0.5, None, "7", [], {}, True)
_TEXTS = ("", "../outside", "linear", "no such thing", "\x00", "a" * 100_000, 7, None, ["a"], {})


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(value), encoding="utf-8")


def renew_checksums(bundle: Path) -> None:
    """Write the checksums of the files that are there into the metadata of a bundle."""
    metadata = read_json(bundle / "metadata.json")
    for name in metadata["sha256"]:
        metadata["sha256"][name] = hashlib.sha256((bundle / name).read_bytes()).hexdigest()
    write_json(bundle / "metadata.json", metadata)


def _any_file(folder: Path, rng: Rng, *, but: tuple[str, ...] = ()) -> Path:
    names = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in but)
    return names[int(rng.integers(0, len(names)))]


def lying_json(name: str, places: Mapping[str, tuple[Any, ...]]) -> Alter:
    """Return what gives one place of a JSON file another value.

    Args:
        name: The file.
        places: Values by the way to their place, with dots; `*` stands for any part of a list or mapping.
    """

    def alter(folder: Path, rng: Rng) -> None:
        content = read_json(folder / name)
        way = list(places)[int(rng.integers(0, len(places)))]
        values = places[way]
        *parts, last = way.split(".")
        value = content
        for part in parts:
            value = value[_key(value, part, rng)]
        key = _key(value, last, rng)
        former = value[key]
        others = [each for each in values if type(each) is not type(former) or each != former]
        value[key] = others[int(rng.integers(0, len(others)))]
        write_json(folder / name, content)

    return alter


def _key(value: Any, part: str, rng: Rng) -> Any:
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if part == "*":
        return keys[int(rng.integers(0, len(keys)))]
    return part if isinstance(value, dict) else int(part)


def no_json(name: str) -> Alter:
    """Return what writes into a JSON file what JSON, or a parser of it, does not take."""

    def alter(folder: Path, rng: Rng) -> None:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(
            (
                b"[" * 200_000,
                b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
                b"9" * 100_000,
                b"[]",
                b"null",
                b'"text"',
                b"\xff\xfe" + whole,
                whole[: len(whole) // 2],
                b"",
                whole.replace(b"{", b'{"' + b"x" * 50 + b'": NaN, ', 1),
                whole.decode().encode("utf-16"),
            )[int(rng.integers(0, 11))]
        )

    return alter


def leaving(name: str, field: str) -> Alter:
    """Return what names a file outside the folder in the checksums of a JSON file."""

    def alter(folder: Path, rng: Rng) -> None:
        content = read_json(folder / name)
        content[field][_LEAVING[int(rng.integers(0, len(_LEAVING)))]] = "0" * 64
        write_json(folder / name, content)

    return alter


def damaged(*but: str) -> Alter:
    """Return what cuts, alters, removes or replaces a file; those named are left alone."""

    def alter(folder: Path, rng: Rng) -> None:
        path = _any_file(folder, rng, but=but)
        content = path.read_bytes()
        match int(rng.integers(0, 5)):
            case 0:
                path.write_bytes(truncated(content, rng) if content else b"x")
            case 1:
                path.write_bytes(flipped(content, rng) if content else b"x")
            case 2:
                path.unlink()
            case 3:
                path.unlink()
                os.mkfifo(path)
            case _:
                path.unlink()
                path.symlink_to(("/dev/zero", path.name, "/proc/self/mem")[int(rng.integers(0, 3))])

    return alter


def swapped(*but: str) -> Alter:
    """Return what swaps the contents of two files that differ."""

    def alter(folder: Path, rng: Rng) -> None:
        first = _any_file(folder, rng, but=but)
        content = first.read_bytes()
        others = [
            path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in but and path.read_bytes() != content
        ]
        second = others[int(rng.integers(0, len(others)))]
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)

    return alter


def huge_arrays(name: str) -> Alter:
    """Return what puts an array into an archive whose header claims terabytes, and renews checksums."""

    def alter(folder: Path, rng: Rng) -> None:
        path = folder / name
        rewrite_archive(path, rng, _claims_much)
        if (folder / "metadata.json").exists():
            renew_checksums(folder)

    return alter


def rewrite_archive(path: Path, rng: Rng, change: Callable[[dict[str, bytes], Rng], None]) -> None:
    """Change the members of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members, rng)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _claims_much(members: dict[str, bytes], rng: Rng) -> None:
    names = sorted(members)
    name = names[int(rng.integers(0, len(names)))]
    shape = ((2**40,), (2**62, 4), (10**6, 10**6), (2**31, 2**31))[int(rng.integers(0, 4))]
    members[name] = npy(shape, "<f8", b"\0" * 64)


def npy(shape: tuple[int, ...], dtype: str, content: bytes) -> bytes:
    """Return an array file with whatever shape in its header."""
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


# Bundles ----------------------------------------------------------------------------------------------------


def foreign_graph(bundle: Path, rng: Rng) -> None:
    """Replace the graph by one that reads or writes files, has other signatures, or returns other things."""
    import tensorflow as tf  # noqa: PLC0415 - only the process that alters graphs takes seconds to import it

    target = str(bundle.parent / "outside")
    kind = int(rng.integers(0, 4))

    class Foreign(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, None, None, 3), tf.uint8, "images")])
        def serve(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
            found = tf.zeros(tf.shape(images)[:1])
            if kind == 0:
                tf.io.write_file(target, "written")
            if kind == 1:
                found += tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32)
            return {"probability": found}

    module = Foreign()
    name = "other" if kind == 2 else "serving_default"
    tf.saved_model.save(module, str(bundle), signatures={name: module.serve})
    renew_checksums(bundle)


_METADATA = {
    "network_size": (*_NUMBERS, [0, 0], [-1, 8], [10**9, 10**9], [8], [8, 8, 8]),
    "class_names": (["a"], [], ["a"] * 50, "ab", None, [1, 2], {}),
    "schema_version": _NUMBERS,
    "application": _TEXTS,
    "signatures": ({}, None, [], {"other": {}}),
    "signatures.serving_default.inputs": ({}, None, []),
    "signatures.serving_default.outputs": ({}, None, []),
    "signatures.serving_default.inputs.*.shape": _NUMBERS,
    "signatures.serving_default.inputs.*.dtype": _TEXTS,
    "signatures.serving_default.outputs.*.shape": _NUMBERS,
    "signatures.serving_default.outputs.*.dtype": _TEXTS,
    "preprocessing_settings": ({"fit": "../x"}, {"size": 10**9}, None, [], {"fit": 10**30}),
    "sha256": ({}, None, [], {"saved_model.pb": 0}),
    "sha256.*": ("", "0" * 64, None, 7),
    "guarantee": ({}, 7, [], {"rows": [1e308]}),
}

BUNDLES: Mapping[str, Alter] = {
    "paths that leave": leaving("metadata.json", "sha256"),
    "sizes and names that lie": lying_json("metadata.json", _METADATA),
    "no JSON": no_json("metadata.json"),
    "damaged file": damaged("metadata.json", "model_card.md"),
    "swapped files": swapped("metadata.json", "model_card.md"),
    "huge arrays": huge_arrays("sample.npz"),
    "foreign graph": foreign_graph,
}
"""Kinds of altered bundles."""

# Runs -------------------------------------------------------------------------------------------------------


def hostile_yaml(run: Path, rng: Rng) -> None:
    """Write settings that would run code, grow without end, or are none."""
    whole = (run / "config.yaml").read_bytes()
    (run / "config.yaml").write_bytes(
        (
            b"seed: !!python/object/apply:os.system ['touch outside']\n",
            b"a: &a [x, x]\nb: &b [*a, *a]\n" + b"".join(b"c%d: &c%d [*b, *b]\n" % (i, i) for i in range(50)),
            b"[" * 100_000,
            b"- a list\n",
            whole + b"no_such_setting: 1\n",
            whole + whole,
            b"\xff\xfe\x00",
            b"num_inducing: 99999999999999\n",
            b"num_inducing: -1\n",
            b"seed: .nan\n",
        )[int(rng.integers(0, 10))]
    )


_RUN = {
    "size": (*_NUMBERS, [0, 0], [-1, 8], [8]),
    "num_data": (0, -1, 10**400, "x", None, [], {}),
    "heads": (["../../outside"], ["no such head"], ["hgp"], "linear", None, [7]),
    "schema_version": _NUMBERS,
    "application": _TEXTS,
    "temperature": ("x", [], {}, -1.0, 0.0),
    "counts": (None, [], {"train": "x"}),
    "batch_norm_momentum": ("x", None, [], {}),
    "class_names": (["a"], [], None, 7),
}
_STATE = {
    "weights": ("../outside", "/etc/passwd", "a/b", "..", "", None, 7),
    "epochs_done": ("x", None, [], {}),
}


def cut_weights(run: Path, rng: Rng) -> None:
    """Cut, empty or remove the weights of a head, or write other bytes into them."""
    path = run / "heads" / str(rng.choice(["linear", "svgp"])) / "best.weights.h5"
    content = path.read_bytes()
    match int(rng.integers(0, 4)):
        case 0:
            path.write_bytes(truncated(content, rng))
        case 1:
            path.write_bytes(rng.bytes(len(content)))
        case 2:
            path.unlink()
        case _:
            path.write_bytes(b"")


RUNS: Mapping[str, Alter] = {
    "sizes and names that lie": lying_json("run.json", _RUN),
    "no JSON": no_json("run.json"),
    "state that lies": lying_json("heads/linear/state.json", _STATE),
    "hostile settings": hostile_yaml,
    "swapped files": swapped("learned.txt"),
    "cut weights": cut_weights,
}
"""Kinds of altered run folders."""


# Prepared folders -------------------------------------------------------------------------------------------

_MANIFEST = {
    "size": (*_NUMBERS, [0, 0], [-1, 8], [10**9, 10**9], [8], [7, 9]),
    "num_examples": _NUMBERS,
    "class_names": (["a"], [], None, 7),
    "schema_version": _NUMBERS,
    "application": _TEXTS,
    "examples": ([], None, {}, 7),
    "examples.*.offset": (-1, 1, 10**15, 2**63, None, "x"),
    "examples.*.length": (-1, 0, 1, 10**15, 2**63, None, "x"),
    "examples.*.shard": ("../outside", "/etc/passwd", "no such shard", "skipped.csv", None, 7),
    "examples.*.label": (-1, 99, 2**40, None, "x"),
    "examples.*.height": (0, -1, None, "x"),
    "examples.*.name": (None, 7, []),
    "examples.*.group": (None, 7, []),
    "sha256": ({}, None, []),
    "sha256.*": ("", "0" * 64, None, 7),
}

PREPARED: Mapping[str, Alter] = {
    "paths that leave": leaving("manifest.json", "sha256"),
    "sizes and places that lie": lying_json("manifest.json", _MANIFEST),
    "no JSON": no_json("manifest.json"),
    "damaged file": damaged("manifest.json"),
    "swapped files": swapped(),
}
"""Kinds of altered prepared folders."""

# Estimator files --------------------------------------------------------------------------------------------


def _description(change: Callable[[dict[str, Any], Rng], None]) -> Alter:
    """Return what changes the description in an estimator's file."""

    def alter(folder: Path, rng: Rng) -> None:
        def members(found: dict[str, bytes], rng: Rng) -> None:
            content = json.loads(str(np.load(io.BytesIO(found["description.npy"]))[()]))
            change(content, rng)
            stream = io.BytesIO()
            np.save(stream, np.array(json.dumps(content)))
            found["description.npy"] = stream.getvalue()

        rewrite_archive(folder / "model.npz", rng, members)

    return alter


def _lying_description(content: dict[str, Any], rng: Rng) -> None:
    part = content["head_settings"] if rng.random() < 0.5 else content
    keys = sorted(set(part) - {"versions", "parameters"})
    values = [*_NUMBERS, *_TEXTS]
    key = keys[int(rng.integers(0, len(keys)))]
    others = [each for each in values if type(each) is not type(part[key]) or each != part[key]]
    part[key] = others[int(rng.integers(0, len(others)))]


def _other_arrays(members: dict[str, bytes], rng: Rng) -> None:
    """Give an array another shape, type or numbers, or a name that leaves the folder."""
    names = sorted(set(members) - {"description.npy"})
    name = names[int(rng.integers(0, len(names)))]
    match int(rng.integers(0, 5)):
        case 0:
            members[name] = npy((3, 7), "<f8", np.full(21, 0.5).tobytes())
        case 1:
            members[name] = npy((1,), "|O", b"\x80\x04cposix\nsystem\n(X\x0d\x00\x00\x00touch outsidetR.")
        case 2:
            members[name] = npy((2,), "<f8", np.array([np.nan, np.inf]).tobytes())
        case 3:
            members["../../outside.npy"] = members.pop(name)
        case _:
            del members[name]


def _damaged_archive(folder: Path, rng: Rng) -> None:
    content = (folder / "model.npz").read_bytes()
    alter = (truncated, flipped)[int(rng.integers(0, 2))]
    (folder / "model.npz").write_bytes(alter(content, rng))


ESTIMATORS: Mapping[str, Alter] = {
    "description that lies": _description(_lying_description),
    "other arrays": lambda folder, rng: rewrite_archive(folder / "model.npz", rng, _other_arrays),
    "huge arrays": huge_arrays("model.npz"),
    "damaged file": _damaged_archive,
}
"""Kinds of altered estimator files."""
