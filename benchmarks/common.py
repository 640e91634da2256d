"""What the benchmarks share: the description of the host, robust summaries, and the files they write."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import resource
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.files.atomic import atomic_file


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


def peak_memory(pid: int | None = None) -> float:
    """Peak resident memory so far, MiB: of this process or of a child, 0 of a child that has ended.

    Linux's own figure where there is one: `getrusage` and `wait4` count the parent's peak as the child's.
    """
    peak = _status_field("VmHWM", pid)
    if peak is None and pid is None:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    return peak or 0.0


def resident_memory() -> float:
    """Resident memory of this process now, MiB; its peak so far where the system does not tell."""
    return _status_field("VmRSS") or peak_memory()


def _status_field(name: str, pid: int | None = None) -> float | None:
    """Return a size in Linux's account of a process, MiB; None where there is no account or no such size."""
    try:
        account = Path(f"/proc/{'self' if pid is None else pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = dict(line.split(":", 1) for line in account.splitlines())
    return int(fields[name].split()[0]) / 1024.0 if name in fields else None


def median_and_spread(values: list[float]) -> tuple[float, float]:
    """Median and interquartile range."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float(middle), float(high - low)


def mean_and_spread(values: Sequence[float], digits: int = 3) -> str:
    """Return the mean as text, with the standard deviation where there is more than one value.

    Example:
        >>> mean_and_spread([1.0, 2.0]), mean_and_spread([1.0])
        ('1.500 ± 0.707', '1.000')
    """
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def write_results(
    stem: Path,
    *,
    title: str,
    rows: list[dict[str, Any]],
    host: dict[str, Any],
    cells: list[dict[str, Any]] | None = None,
) -> None:
    """Write `stem.json` and `stem.md` and show the table; `cells` are the numbers that its rows sum up."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    # Complete or as before: cells may be nowhere else.
    content: dict[str, Any] = {"title": title, "host": host, "rows": rows}
    if cells is not None:
        content["cells"] = cells
    with atomic_file(stem.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    columns = list(rows[0])
    lines = [f"# {title}", "", f"Host: {', '.join(f'{k} {v}' for k, v in host.items())}.", ""]
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(row[column]) for column in columns) + " |" for row in rows]
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
