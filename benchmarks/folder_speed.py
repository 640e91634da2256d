"""What an image of a folder costs `predict` beside its network alone, by each runtime of some bundles.

    gpimaging classify export --model RUN --out FLOAT --format litert
    gpimaging classify export --model RUN --out INT8 --format litert --quantise int8 --data PREPARED
    python -m benchmarks.folder_speed --model FLOAT INT8 --images FOLDER --out benchmarks/results/folder_speed

Whole commands on few and on many images take turns; the difference is what the further images cost, without
the start. The network alone sees images of its size in memory, in as many threads as `predict` has and in a
process of its own: no pass can be faster. Other work on the machine changes times of the processor little.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from joblib import cpu_count

from benchmarks.command_start import Cost, cost
from benchmarks.common import host, write_results
from data_prep.files.images import is_image_file
from pipelines.bundles.metadata import load_metadata
from pipelines.bundles.runtimes import INT8, LITERT

FEW, ALONE = 50, "--network-alone"
TENSORFLOW = "tensorflow"
RUNTIMES = {TENSORFLOW: "TensorFlow", LITERT: "LiteRT", INT8: "LiteRT, int8"}
SETTINGS = {TENSORFLOW: ("--set", "runtime=tensorflow"), LITERT: (), INT8: ("--set", "runtime=int8")}


def network_alone(bundle: Path, runtime: str, number: int) -> None:
    """Run a bundle on images in memory; write its times in milliseconds an image."""
    import numpy as np  # noqa: PLC0415 - the parent measures processes, and imports nothing of them

    from pipelines.bundles.runtimes import LiteRTSignature, Signature  # noqa: PLC0415 - as above

    shape = (number, *load_metadata(bundle).network_size, 3)
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    predict: Signature
    if runtime == TENSORFLOW:
        from pipelines.bundles.saved_model import load_signatures  # noqa: PLC0415 - as above
        from pipelines.command.tensorflow_start import start_tensorflow  # noqa: PLC0415 - as above

        start_tensorflow(None, whole_process=True, side_by_side=True)
        predict = load_signatures(bundle)["serving_default"]
    else:
        predict = LiteRTSignature(bundle / runtime, threads=1)
    with ThreadPoolExecutor(cpu_count()) as pool:
        list(pool.map(lambda image: predict(images=image[None]), images[:FEW]))
        processor, wall = time.process_time(), time.perf_counter()
        list(pool.map(lambda image: predict(images=image[None]), images))
    times = (time.process_time() - processor, time.perf_counter() - wall)
    sys.stdout.write(" ".join(str(1000.0 * one / number) for one in times))


def main() -> None:
    """Measure and write the table."""
    if sys.argv[1:2] == [ALONE]:
        network_alone(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, nargs="+", required=True, help="bundles")
    parser.add_argument("--images", type=Path, required=True, help="folder of images")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    files = sorted(path for path in arguments.images.rglob("*") if is_image_file(path))
    bundles = {TENSORFLOW: arguments.model[0]}
    bundles |= {name: one for one in arguments.model for name in (LITERT, INT8) if (one / name).is_file()}
    found: dict[str, list[tuple[float, ...]]] = {runtime: [] for runtime in bundles}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, chosen in ((FEW, files[:FEW]), (len(files), files)):
            (folder / f"images {number}").mkdir()
            for place, file in enumerate(chosen):
                link = folder / f"images {number}" / f"{place:05d}{file.suffix}"
                link.symlink_to(file.resolve())
        further = (len(files) - FEW) / 1000.0
        for turn in range(arguments.repeats):
            for runtime, bundle in bundles.items():
                few, many = (
                    _predicted(bundle.resolve(), runtime, folder, size, turn) for size in (FEW, len(files))
                )
                times = (many.processor - few.processor) / further, (many.wall - few.wall) / further
                found[runtime].append((*times, *_alone(bundle, runtime, len(files))))
    rows = []
    for runtime, times in found.items():
        processor, wall, of_network, wall_of_network = map(statistics.median, zip(*times, strict=True))
        rows.append(
            {
                "runtime": RUNTIMES[runtime],
                "predict: processor, ms an image": f"{processor:.2f}",
                "wall": f"{wall:.2f}",
                "images a second": f"{1000.0 / wall:.0f}",
                "network alone: processor": f"{of_network:.2f}",
                "its wall": f"{wall_of_network:.2f}",
                "its share of the processor": f"{of_network / processor:.2f}",
            }
        )
    title = f"Prediction of a folder, {len(files)} images"
    write_results(arguments.out, title=title, rows=rows, host=host())


def _predicted(bundle: Path, runtime: str, folder: Path, number: int, turn: int) -> Cost:
    application = load_metadata(bundle).command
    step = ("-m", "pipelines", application, "predict", "--model", str(bundle), *SETTINGS[runtime])
    out = folder / f"{runtime} {number} {turn}"
    return cost(Path.cwd(), *step, "--input", str(folder / f"images {number}"), "--out", str(out))


def _alone(bundle: Path, runtime: str, number: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.folder_speed", ALONE, str(bundle), runtime, str(number)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    processor, wall = map(float, said.split())
    return processor, wall


if __name__ == "__main__":
    main()
