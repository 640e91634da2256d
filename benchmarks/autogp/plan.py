"""Which cells each part has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchmarks.cell_runner import Cell

OBJECTIVES = ("elbo", "loo", "loo_paper")

MNIST_STEPS, MNIST_NUM_INDUCING = 6000, 200
MNIST_KERNELS = ("shared kernel", "kernel for each class")
FEWER_STEPS = "500 steps"
"""For MNIST with a kernel for each class: one of its steps takes as long as 3.5 others."""

FEW_PROBLEMS = ("MNIST 200", "MNIST 1000", "ctg 500", "pendigits 500", "debris 500")
MORE_ROWS = "pendigits 5000"  # where leaving out begins to tell
FEW_METHODS = ("logistic", "RBF-SVM", "SVGP", "HGP", "AutoGP elbo", "AutoGP loo")

SEVERAL_COMPONENTS = ("AutoGP elbo, K = 2", "AutoGP elbo, K = 4")
COMPONENT_PROBLEMS = ("ctg 500", "pendigits 500")

KERNELS = (
    "squared_exponential",
    *(f"arc_cosine0 depth {depth}" for depth in (1, 3)),
    *(f"arc_cosine1 depth {depth}" for depth in (1, 3, 6)),
)

MORE_INDUCING = ("squared_exponential, M = 400", "arc_cosine0 depth 3, M = 400")
"""Of MNIST's thousand: whether inducing inputs are too few for a kernel."""

SVM_KERNELS = (
    *(f"SVM, arc_cosine1 depth {depth}" for depth in (1, 3)),
    *(f"SVM, arc_cosine0 depth {depth}" for depth in (1, 3, 6)),
)
"""The SVM that the paper quotes has degree 0 and depth 6."""

SAMPLES = (10, 100, 1000)
"""Numbers of draws by which a regression network's expected log density is estimated."""

LABEL_METHODS = ("cleanlab", "SVGP", "AutoGP loo", "SVGP, cross-validated", "AutoGP loo, all rows")

NETWORKS = ("ridge", "SVGP of each target", "GPRN, Q = 2", "GPRN, Q = 4")

SPEED = (
    *(f"AutoGP {name} over SVGP" for name in ("K = 1", "K = 4 full", "K = 4 diagonal")),
    "arc_cosine1 depth 3 over squared_exponential",
)

SOFTMAX = ("blocks of rows", "all rows at once")
SOFTMAX_SETTINGS = (
    "terms of the data with their gradient",
    "gradient of the sites",
    "SVGP step of Adam, M = 100",
)

CELLS: Mapping[str, list[Cell]] = {
    "mnist": [
        *(Cell("mnist", objective, "shared kernel", 0) for objective in OBJECTIVES),
        *(Cell("mnist", objective, "shared kernel, M = 10", 0) for objective in ("elbo", "loo")),
        *(Cell("mnist", "loo", f"{kernel}, {FEWER_STEPS}", 0) for kernel in MNIST_KERNELS),
    ],
    "few": [
        *(
            Cell("few", method, problem, seed)
            for seed in range(5)
            for problem in FEW_PROBLEMS
            for method in FEW_METHODS
        ),
        *(Cell("few", method, MORE_ROWS, seed) for seed in range(3) for method in ("SVGP", "AutoGP loo")),
        *(
            Cell("few", method, problem, seed)
            for problem in COMPONENT_PROBLEMS
            for seed in range(3)
            for method in SEVERAL_COMPONENTS
        ),
    ],
    "kernels": [
        Cell("kernels", kernel, problem, seed)
        for seed in range(3)
        for problem in ("MNIST 1000", "pendigits 500")
        for kernel in (*KERNELS, *(MORE_INDUCING if problem == "MNIST 1000" else ()), *SVM_KERNELS)
    ],
    "label_errors": [
        Cell("label_errors", method, problem, seed)
        for seed in range(3)
        for problem in ("MNIST 5000", "pendigits 5000")
        for method in LABEL_METHODS
    ],
    "gprn": [
        Cell("gprn", method, "oil flow, 4 of 12 columns", seed) for seed in range(3) for method in NETWORKS
    ],
    "speed": [Cell("speed", name, "B = 1000, M = 100, D = 20", 0) for name in SPEED],
    "softmax_memory": [
        Cell("softmax_memory", method, f"{setting}, C = 100, B = 1000, float32", 0)
        for setting in SOFTMAX_SETTINGS
        for method in SOFTMAX
    ],
}


def needs_package(cell: Cell) -> str | None:
    """Return the package of the extra `peers` that a cell needs."""
    return "cleanlab" if cell.method == "cleanlab" else None


def fit_size(setting: str) -> tuple[str, int, int]:
    """Return whose kernels, how many inducing inputs and how many steps a setting of `mnist` names.

    Args:
        setting: The kernel, and what differs from `MNIST_NUM_INDUCING` and `MNIST_STEPS`.

    Example:
        >>> fit_size("shared kernel, M = 10"), fit_size("kernel for each class, 500 steps")
        (('shared', 10, 6000), ('separate', 200, 500))
    """
    num_inducing, steps = re.search(r"M = (\d+)", setting), re.search(r"(\d+) steps", setting)
    return (
        "shared" if setting.startswith("shared kernel") else "separate",
        int(num_inducing[1]) if num_inducing else MNIST_NUM_INDUCING,
        int(steps[1]) if steps else MNIST_STEPS,
    )
