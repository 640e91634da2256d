"""Memory of a process that builds model after model, as a search over settings or a cross-validation does.

    python -m benchmarks.many_models --out benchmarks/results/many_models

Each model has a different number of inducing inputs, so that nothing traced for one serves the next. It fits,
predicts and is dropped. Each kind of model has a process of its own, whose memory is read after a search for
garbage. The growth is that over the second half of the models, since the first fill caches. A network with a
linear layer instead of a head shows what Keras itself keeps.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

import gpmodels
from benchmarks.common import host, resident_memory, write_results
from benchmarks.reliability.numbers import ESTIMATORS

COUNT = 20
ROWS, COLUMNS, WIDTH = 128, 4, 8
LEAST_INDUCING = 4

Array = npt.NDArray[Any]

HEADS: dict[str, Callable[[int], gpmodels.GPHead]] = {
    "HybridModel, SVGP": lambda size: gpmodels.SVGPHead(num_inducing=size),
    "HybridModel, HGP": lambda size: gpmodels.HGPHead(num_experts=2, num_inducing=size),
    "HybridModel, DFGP": lambda size: gpmodels.DFGPHead(
        views=[slice(0, WIDTH // 2), slice(WIDTH // 2, WIDTH)], num_inducing=size
    ),
    "HybridModel, deep GP": lambda size: gpmodels.DeepGPHead(num_inducing=size),
}
KERAS = "Keras, linear layer"
MODELS = (*ESTIMATORS, *HEADS, KERAS)


def fit_once(name: str, size: int, x: Array, y: Array) -> None:
    """Fit a model of a kind with so many inducing inputs, and predict."""
    if name in ESTIMATORS:
        getattr(gpmodels, name)(num_inducing=size, max_iterations=5, random_state=0).fit(x, y).predict(x)
        return
    network = keras.Sequential([keras.layers.Input((COLUMNS,)), keras.layers.Dense(WIDTH, "relu")])
    if name == KERAS:
        model = keras.Sequential([network, keras.layers.Dense(1, "sigmoid")])
        model.compile("adam", "binary_crossentropy")
    else:
        model = gpmodels.HybridModel(network, HEADS[name](size), num_data=len(x))
        model.initialize(x)
        model.compile("adam")
    model.fit(x, y, epochs=1, verbose=0)
    model.predict(x, verbose=0)


def memory_after_each(name: str, count: int) -> Iterator[float]:
    """Yield the process' memory in MiB after each of so many models."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.float32 if "Regressor" in name else np.int32)
    for index in range(count):
        fit_once(name, LEAST_INDUCING + index, x, y)
        gc.collect()
        yield resident_memory()


def row_of(name: str, count: int) -> dict[str, object]:
    """Return the row of the table of one kind of model, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.many_models", "--count", str(count), "--only", name]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    memory = json.loads(output.splitlines()[-1])
    half = count // 2
    return {
        "model": name,
        "MiB after one": round(memory[0]),
        f"after {half}": round(memory[half - 1]),
        f"after {count}": round(memory[-1]),
        "MiB a model": round((memory[-1] - memory[half - 1]) / (count - half), 1),
    }


def main() -> None:
    """Measure each kind of model and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=COUNT, help="models of each kind, at least 2")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/many_models"))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, metavar="MODEL")
    parser.add_argument("--only", choices=MODELS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.count < 2:
        parser.error(f"--count must be at least 2, but is {arguments.count}.")
    if arguments.only is not None:
        print(json.dumps(list(memory_after_each(arguments.only, arguments.count))))
        return
    rows = []
    for name in arguments.models:
        rows.append(row_of(name, arguments.count))
        print(rows[-1], flush=True)
    write_results(
        arguments.out, title=f"Memory of {arguments.count} models one after another", rows=rows, host=host()
    )


if __name__ == "__main__":
    main()
