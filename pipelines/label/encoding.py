"""Features of the pool's images: computed once, while a person labels already, and kept by content."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from data_prep.errors import InputError
from data_prep.files.atomic import atomic_file
from data_prep.files.depth import read_at_levels
from data_prep.files.fitting import fit_image
from data_prep.files.image_settings import Fit, KeptLevels
from data_prep.labelled.near_duplicates import difference_hashes, small_grey
from pipelines.trunks.features import FEATURES_VERSION, IMAGES_AT_ONCE, LoadedTrunk

FEATURES_FOLDER = "features"
"""Folder of the kept features, in the folder of the labels; it may be deleted at any time."""

_IMAGES_A_FILE = 512
_DIGEST_BYTES = 16
_LOG = logging.getLogger(__name__)

Row = dict[str, NDArray[np.generic]]
"""What is kept of an image: its features, and its hashes and small grey version for near-duplicates."""


@dataclass(frozen=True)
class EncodedPool:
    """What the learner needs of the images that can be read.

    Attributes:
        rows: Numbers of these images in the pool `[N]`.
        features: Of the trunk `[N, D]`.
        hashes: For near-duplicates `[N, 4, 64]`.
        grey: For near-duplicates `[N, 16, 16]`.
        unreadable: Why each other image cannot be read, by its number.
    """

    rows: NDArray[np.intp]
    features: NDArray[np.float32]
    hashes: NDArray[np.bool_]
    grey: NDArray[np.float32]
    unreadable: dict[int, str]


@dataclass(frozen=True)
class PoolEncoder:
    """Computes features image by image, those that no file has, and keeps them.

    Attributes:
        trunk: The frozen network.
        folder: Where features are kept.
        fit: How an image gets the size that the network sees.
        levels: Levels that become 0 and 255 in images of more than 8 bits per sample.
        seen_share: Share of the height and of the width, in the middle of the image, that the network sees.
    """

    trunk: LoadedTrunk
    folder: Path
    fit: Fit
    levels: KeptLevels | None
    seen_share: tuple[float, float] = (1.0, 1.0)
    _kept: dict[bytes, Row] = field(default_factory=dict, compare=False)

    def encode(
        self, paths: Sequence[Path], *, on_done: Callable[[int], None], is_stopped: Callable[[], bool]
    ) -> EncodedPool | None:
        """Return the features of image files; None where it was stopped.

        Args:
            paths: The files.
            on_done: Called with the number of files that are done.
            is_stopped: Asked before each file. What is computed by then is kept.

        Raises:
            InputError: The features cannot be written.
        """
        self._read_kept()
        digests: dict[int, bytes] = {}
        unreadable: dict[int, str] = {}
        waiting: dict[bytes, NDArray[np.uint8]] = {}
        new: list[bytes] = []
        for number, path in enumerate(paths):
            if is_stopped():
                break
            try:
                digest = _digest(path)
                if digest not in self._kept and digest not in waiting:
                    waiting[digest] = self._read(path)
                digests[number] = digest
            except InputError as error:
                unreadable[number] = str(error)
            if len(waiting) >= IMAGES_AT_ONCE:
                new += self._compute(waiting)
            if len(new) >= _IMAGES_A_FILE:
                self._write(new)
            on_done(number + 1)
        new += self._compute(waiting)
        self._write(new)
        if len(digests) + len(unreadable) < len(paths):
            return None
        rows = [self._kept[digest] for digest in digests.values()]
        if not rows:
            raise InputError(f"None of {len(paths)} images can be read. {next(iter(unreadable.values()))}")
        stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        return EncodedPool(np.array(list(digests), np.intp), unreadable=unreadable, **stacked)  # type: ignore[arg-type]

    def _read(self, path: Path) -> NDArray[np.uint8]:
        image = read_at_levels(path, self.levels)
        height, width = image.shape[:2]
        top, left = np.rint(np.subtract(1.0, self.seen_share) / 2.0 * (height, width)).astype(int)
        image = image[top : height - top, left : width - left]
        return fit_image(image, self.trunk.facts.size, self.fit)

    def _compute(self, waiting: dict[bytes, NDArray[np.uint8]]) -> list[bytes]:
        """Keep the features of images in memory, which are then forgotten; return their digests."""
        if not waiting:
            return []
        features = self.trunk.of_batch(np.stack(list(waiting.values())))
        for (digest, image), row in zip(waiting.items(), features, strict=True):
            grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)
            self._kept[digest] = {
                "features": row,
                "hashes": difference_hashes(grey),
                "grey": small_grey(grey),
            }
        computed = list(waiting)
        waiting.clear()
        return computed

    # Files

    @property
    def _place(self) -> Path:
        """Folder of the features of this trunk, of images that are read in this way."""
        way = f"{FEATURES_VERSION} {self.trunk.facts.model_dump_json()} {self.fit} {self.levels}"
        way += "" if self.seen_share == (1.0, 1.0) else f" {self.seen_share}"
        return self.folder / FEATURES_FOLDER / hashlib.sha256(way.encode()).hexdigest()[:16]

    def _write(self, new: list[bytes]) -> None:
        """Write what is computed of some images, which are then forgotten."""
        if not new:
            return
        self._place.mkdir(parents=True, exist_ok=True)
        rows = [self._kept[digest] for digest in new]
        content = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        content["digest"] = np.frombuffer(b"".join(new), np.uint8).reshape(len(new), -1)
        name = hashlib.blake2b(b"".join(new), digest_size=8).hexdigest()
        with atomic_file(self._place / f"{name}.safetensors") as temporary:
            temporary.write_bytes(save(content))
        new.clear()

    def _read_kept(self) -> None:
        shapes = {"features": (self.trunk.facts.num_features,), "hashes": (4, 64), "grey": (16, 16)}
        for file in sorted(self._place.glob("*.safetensors")):
            try:
                content = load(file.read_bytes())
                found = {name: rows.shape[1:] for name, rows in content.items()}
                if found != {**shapes, "digest": (_DIGEST_BYTES,)}:
                    raise ValueError(f"found {found}")
            except (OSError, ValueError, SafetensorError) as error:
                _LOG.warning("%s is damaged (%s); its features are computed again", file, error)
                continue
            for number, digest in enumerate(content["digest"]):
                self._kept[digest.tobytes()] = {name: content[name][number] for name in shapes}


def _digest(path: Path) -> bytes:
    """Return a digest of a file's content.

    Raises:
        InputError: It cannot be read.
    """
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=_DIGEST_BYTES).digest()
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}).") from error
