"""Which cells each part has."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.cell_runner import Cell

OBJECTIVES = ("elbo", "loo", "loo_paper")

FEW_PROBLEMS = ("MNIST 200", "MNIST 1000", "ctg 500", "pendigits 500", "debris 500")
MORE_ROWS = "pendigits 5000"  # where leaving out begins to tell
FEW_METHODS = ("logistic", "RBF-SVM", "SVGP", "HGP", "AutoGP elbo", "AutoGP loo")

KERNELS = (
    "squared_exponential",
    *(f"arc_cosine0 depth {depth}" for depth in (1, 3)),
    *(f"arc_cosine1 depth {depth}" for depth in (1, 3, 6)),
)

MORE_INDUCING = ("squared_exponential, M = 400", "arc_cosine0 depth 3, M = 400")
"""Of MNIST's thousand: whether inducing inputs are too few for a kernel."""

LABEL_METHODS = ("cleanlab", "SVGP", "AutoGP loo", "SVGP, cross-validated", "AutoGP loo, all rows")

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
        Cell("mnist", "loo", "kernel for each class", 0),
    ],
    "few": [
        *(
            Cell("few", method, problem, seed)
            for seed in range(5)
            for problem in FEW_PROBLEMS
            for method in FEW_METHODS
        ),
        *(Cell("few", method, MORE_ROWS, seed) for seed in range(3) for method in ("SVGP", "AutoGP loo")),
    ],
    "kernels": [
        Cell("kernels", kernel, problem, seed)
        for seed in range(3)
        for problem in ("MNIST 1000", "pendigits 500")
        for kernel in (KERNELS if problem != "MNIST 1000" else (*KERNELS, *MORE_INDUCING))
    ],
    "label_errors": [
        Cell("label_errors", method, problem, seed)
        for seed in range(3)
        for problem in ("MNIST 5000", "pendigits 5000")
        for method in LABEL_METHODS
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
