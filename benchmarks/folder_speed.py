"""What an image costs `predict`, and the frozen features of `train`, beside the network alone.

    gpimaging classify export --model RUN --out FLOAT --format litert
    gpimaging classify export --model RUN --out INT8 --format litert --quantise int8 --data PREPARED
    python -m benchmarks.folder_speed --model FLOAT INT8 --images FOLDER --data PREPARED \
        --out benchmarks/results/folder_speed

Of `predict`, whole commands on few and on many images take turns; the difference is what the further images
cost, without the start. The network alone sees images of its size in memory, in as many threads as `predict`
has, and for features in batches, in a process of its own: no pass can be faster. Other work on the machine
changes times of the processor little.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from joblib import cpu_count

from benchmarks.command_start import cost
from benchmarks.common import host, write_results
from data_prep.files.images import is_image_file
from pipelines.bundles.metadata import load_metadata
from pipelines.bundles.runtimes import INT8, LITERT, LiteRTSignature, Signature

FEW, ALONE = 50, "--network-alone"
TENSORFLOW, FEATURES = "tensorflow", "features"
TITLES = {
    TENSORFLOW: "predict, TensorFlow",
    LITERT: "predict, LiteRT",
    INT8: "predict, LiteRT in int8",
    FEATURES: "features for train, TensorFlow",
}
SETTINGS = {TENSORFLOW: ("--set", "runtime=tensorflow"), LITERT: (), INT8: ("--set", "runtime=int8")}


def times_of(run: Callable[[], object], images: int) -> tuple[float, float]:
    """Return milliseconds of the processor and of the wall for each image, after a run unmeasured."""
    run()
    processor, wall = time.process_time(), time.perf_counter()
    run()
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    return 1000.0 * processor / images, 1000.0 * wall / images


def network_alone(bundle: Path, runtime: str, number: int) -> tuple[float, float]:
    """Return the times of a bundle on images in memory."""
    shape = (number, *load_metadata(bundle).network_size, 3)
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    predict: Signature
    if runtime == TENSORFLOW:
        from pipelines.bundles.saved_model import load_signatures  # noqa: PLC0415 - imports TensorFlow
        from pipelines.command.tensorflow_start import start_tensorflow  # noqa: PLC0415 - as above

        start_tensorflow(None, whole_process=True, side_by_side=True)
        predict = load_signatures(bundle)["serving_default"]
    else:
        predict = LiteRTSignature(bundle / runtime, threads=1)
    with ThreadPoolExecutor(cpu_count()) as pool:
        return times_of(lambda: list(pool.map(lambda image: predict(images=image[None]), images)), number)


def features_and_network(folder: Path) -> tuple[float, ...]:
    """Return the times of the features of a prepared folder, and of their trunk alone."""
    from pipelines.classify.application import CLASSIFY  # noqa: PLC0415 - imports TensorFlow
    from pipelines.trunks.features import IMAGES_AT_ONCE, BatchPass, TrunkPass  # noqa: PLC0415 - as above
    from pipelines.trunks.weights import load_trunk  # noqa: PLC0415 - as above

    manifest, trunk = CLASSIFY.inputs.open(folder).manifest, load_trunk("efficientnet_lite0", "imagenet")
    names = [example.name for example in manifest.examples]
    names = names[: len(names) // IMAGES_AT_ONCE * IMAGES_AT_ONCE]
    features, of_batch = TrunkPass(folder, manifest, trunk), BatchPass(trunk, manifest.shape)
    images = np.zeros((IMAGES_AT_ONCE, *manifest.shape), np.uint8)
    alone = times_of(lambda: [of_batch(images) for _ in range(len(names) // IMAGES_AT_ONCE)], len(names))
    return *times_of(lambda: features(names), len(names)), *alone


def main() -> None:
    """Measure and write the table."""
    if sys.argv[1:2] == [ALONE]:
        folder, what, number = sys.argv[2:]
        times: tuple[float, ...] = features_and_network(Path(folder)) if what == FEATURES else ()
        times = times or network_alone(Path(folder), what, int(number))
        sys.stdout.write(" ".join(map(str, times)))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, nargs="+", required=True, help="bundles")
    parser.add_argument("--images", type=Path, required=True, help="folder of images")
    parser.add_argument("--data", type=Path, required=True, help="folder that `classify prepare` wrote")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    files = sorted(path for path in arguments.images.rglob("*") if is_image_file(path))
    bundles = {TENSORFLOW: arguments.model[0]}
    bundles |= {name: one for one in arguments.model for name in (LITERT, INT8) if (one / name).is_file()}
    found: dict[str, list[tuple[float, ...]]] = {what: [] for what in (*bundles, FEATURES)}
    with tempfile.TemporaryDirectory() as scratch:
        folders = {number: Path(scratch) / str(number) for number in (FEW, len(files))}
        for number, folder in folders.items():
            folder.mkdir()
            for place, file in enumerate(files[:number]):
                (folder / f"{place:05d}{file.suffix}").symlink_to(file.resolve())
        for turn in range(arguments.repeats):
            for runtime, bundle in bundles.items():
                out = Path(scratch) / f"{runtime} {turn}"
                times = _further(bundle.resolve(), runtime, folders, out)
                found[runtime].append((*times, *_alone(bundle, runtime, len(files))))
            found[FEATURES].append(_alone(arguments.data, FEATURES, 0))
    rows = []
    for what, costs in found.items():
        processor, wall, network, network_wall = map(statistics.median, zip(*costs, strict=True))
        rows.append(
            {
                "what": TITLES[what],
                "processor, ms an image": f"{processor:.2f}",
                "wall": f"{wall:.2f}",
                "network alone: processor": f"{network:.2f}",
                "its wall": f"{network_wall:.2f}",
                "its share of the processor": f"{network / processor:.2f}",
            }
        )
    title = f"Whole passes over images, {len(files)} of them predicted"
    write_results(arguments.out, title=title, rows=rows, host=host())


def _further(bundle: Path, runtime: str, folders: dict[int, Path], out: Path) -> tuple[float, float]:
    """Return the times of `predict` for each image that the largest folder has more."""
    step = ("-m", "pipelines", load_metadata(bundle).command, "predict", "--model", str(bundle))
    few, many = (
        cost(Path.cwd(), *step, *SETTINGS[runtime], "--input", str(folder), "--out", f"{out} {number}")
        for number, folder in sorted(folders.items())
    )
    further = (max(folders) - min(folders)) / 1000.0
    return (many.processor - few.processor) / further, (many.wall - few.wall) / further


def _alone(folder: Path, what: str, number: int) -> tuple[float, ...]:
    command = [sys.executable, "-m", "benchmarks.folder_speed", ALONE, str(folder), what, str(number)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return tuple(map(float, said.split()))


if __name__ == "__main__":
    main()
