"""What the benchmarks share: the description of the host, robust summaries, and the files they write."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import resource
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

_STATUS = Path("/proc/self/status")


def host(*peers: str) -> dict[str, Any]:
    """Processor count and the versions that matter for timing; of `peers` those that are installed."""
    packages = ["tensorflow", "keras", "gpflow", "numpy"]
    for peer in peers:
        with contextlib.suppress(PackageNotFoundError):
            version(peer)
            packages.append(peer)
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        **{name: version(name) for name in packages},
    }


def fingerprint(*parts: object) -> str:
    """SHA-256 of what scores depend on, for kept ones to be repeated where it is another.

    Args:
        parts: Arrays, settings and whatever else JSON or `str` tells apart.
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype} {part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def peak_memory() -> float:
    """Peak resident memory of this process so far, MiB.

    Linux's own figure where there is one: `getrusage` gives a child its parent's peak to begin with.
    """
    if _STATUS.exists():
        fields = dict(line.split(":", 1) for line in _STATUS.read_text(encoding="utf-8").splitlines())
        if "VmHWM" in fields:
            return int(fields["VmHWM"].split()[0]) / 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def resident_memory() -> float:
    """Resident memory of this process now, MiB; its peak so far where the system does not tell."""
    if _STATUS.exists():
        fields = dict(line.split(":", 1) for line in _STATUS.read_text(encoding="utf-8").splitlines())
        if "VmRSS" in fields:
            return int(fields["VmRSS"].split()[0]) / 1024.0
    return peak_memory()


def median_and_spread(values: list[float]) -> tuple[float, float]:
    """Median and interquartile range."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float(middle), float(high - low)


def write_results(stem: Path, *, title: str, rows: list[dict[str, Any]], host: dict[str, Any]) -> None:
    """Write `stem.json` and `stem.md` and show the table."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(
        json.dumps({"title": title, "host": host, "rows": rows}, indent=1) + "\n"
    )
    columns = list(rows[0])
    lines = [f"# {title}", "", f"Host: {', '.join(f'{k} {v}' for k, v in host.items())}.", ""]
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(row[column]) for column in columns) + " |" for row in rows]
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
