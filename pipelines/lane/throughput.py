"""How many frames a second each part of predicting a video takes."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass
class Stopwatch:
    """Seconds spent in its `with` blocks so far.

    Attributes:
        seconds: The sum; the current block counts when it ends.
    """

    seconds: float = 0.0
    _began: float = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began


@dataclass
class Throughput:
    """Seconds that the parts of predicting videos took.

    Attributes:
        frames: Predicted so far.
        decode: Reading and decoding the frames, those between them too.
        network: The bundle, resizing included.
        smoothing: Smoothing over time, threshold and direction.
        write: Overlays, and writing all files.
    """

    frames: int = 0
    decode: float = 0.0
    network: float = 0.0
    smoothing: float = 0.0
    write: float = 0.0

    def decoding(self, frames: Iterable[Item]) -> Iterator[Item]:
        """Yield the frames, counting the time that each takes to arrive."""
        started = time.perf_counter()
        for frame in frames:
            self.decode += time.perf_counter() - started
            yield frame
            started = time.perf_counter()
        self.decode += time.perf_counter() - started

    def add(self, network: float, smoothing: float, write: float) -> None:
        """Count a frame with the seconds that its parts took."""
        self.frames += 1
        self.network += network
        self.smoothing += smoothing
        self.write += write

    def text(self) -> str | None:
        """Return a line with the frames a second of each part and of all together; None before any frame.

        What it calls smoothing has threshold and direction in it.

        Example:
            >>> Throughput(10, decode=0.1, network=2.0, smoothing=0.1, write=0.3).text()
            'Videos: 4.0 frames a second; alone decoding 100, network 5.0, smoothing 100, writing 33'
        """
        if not self.frames:
            return None
        parts = {
            "decode": self.decode,
            "network": self.network,
            "smoothing": self.smoothing,
            "write": self.write,
        }
        parts["all"] = sum(parts.values())
        rate = {name: _rounded(self.frames / max(seconds, 1e-9)) for name, seconds in parts.items()}
        return (
            f"Videos: {rate['all']} frames a second; alone decoding {rate['decode']}, network "
            f"{rate['network']}, smoothing {rate['smoothing']}, writing {rate['write']}"
        )


def _rounded(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
