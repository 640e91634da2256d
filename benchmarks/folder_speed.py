"""What an image of a folder costs `predict` beside its network alone, by checkouts of this project.

    python -m benchmarks.folder_speed --model BUNDLE --images FOLDER --out benchmarks/results/folder_speed

Whole commands on few and on many images take turns; the difference is what the further images cost, without
the start. The network alone sees images of its size in memory, 32 at a time, in a process of its own: no pass
can be faster. Other work on the machine changes times of the processor little.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.command_start import Cost, cost
from benchmarks.common import host, write_results
from pipelines.bundles.metadata import load_metadata

FEW, AT_ONCE, BATCHES = 50, 32, 20

ALONE = "--network-alone"


def network_alone(size: tuple[int, int]) -> None:
    """Run EfficientNet-Lite0 on batches in memory; write its times in milliseconds an image."""
    import numpy as np  # noqa: PLC0415 - the parent measures processes, and imports no TensorFlow

    from pipelines.trunks.features import BatchPass  # noqa: PLC0415 - as above
    from pipelines.trunks.weights import load_trunk  # noqa: PLC0415 - as above

    images = np.random.default_rng(0).integers(0, 256, (AT_ONCE, *size, 3), np.uint8)
    run = BatchPass(load_trunk("efficientnet_lite0", "imagenet"), images.shape[1:])
    run(images)
    processor, wall = time.process_time(), time.perf_counter()
    for _ in range(BATCHES):
        run(images)
    times = (time.process_time() - processor, time.perf_counter() - wall)
    sys.stdout.write(" ".join(str(1000.0 * one / (AT_ONCE * BATCHES)) for one in times))


def main() -> None:
    """Measure and write the table."""
    if sys.argv[1:2] == [ALONE]:
        network_alone((int(sys.argv[2]), int(sys.argv[3])))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="bundle on EfficientNet-Lite0")
    parser.add_argument("--images", type=Path, required=True, help="folder of images")
    parser.add_argument("--checkout", type=Path, nargs="+", default=[Path.cwd()], help="also older ones")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    files = sorted(path for path in arguments.images.rglob("*") if path.is_file())
    metadata = load_metadata(arguments.model)
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, chosen in ((FEW, files[:FEW]), (len(files), files)):
            (folder / f"images {number}").mkdir()
            for place, file in enumerate(chosen):
                link = folder / f"images {number}" / f"{place:05d}{file.suffix}"
                link.symlink_to(file.resolve())
        for turn, checkout in itertools.product(range(arguments.repeats), arguments.checkout):
            few, many = (
                _predicted(checkout, arguments.model, metadata.command, folder, number, turn)
                for number in (FEW, len(files))
            )
            further = (len(files) - FEW) / 1000.0
            times = (many.processor - few.processor) / further, (many.wall - few.wall) / further
            found.setdefault(f"predict, {checkout.name}", []).append(times)
            found.setdefault("network alone", []).append(_alone(metadata.network_size))
    rows = [
        {
            "what": what,
            "processor, ms an image": f"{statistics.median(processor for processor, _ in times):.1f}",
            "wall, ms an image": f"{statistics.median(wall for _, wall in times):.1f}",
            "least wall": f"{min(wall for _, wall in times):.1f}",
        }
        for what, times in found.items()
    ]
    title = f"Prediction of a folder, {len(files)} images"
    write_results(arguments.out, title=title, rows=rows, host=host())


def _predicted(checkout: Path, model: Path, application: str, folder: Path, number: int, turn: int) -> Cost:
    out = folder / f"{checkout.name} {number} {turn}"
    step = ("-m", "pipelines", application, "predict", "--model", str(model.resolve()))
    return cost(checkout, *step, "--input", str(folder / f"images {number}"), "--out", str(out))


def _alone(size: tuple[int, int]) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.folder_speed", ALONE, *map(str, size)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    processor, wall = map(float, said.split())
    return processor, wall


if __name__ == "__main__":
    main()
