"""Which cells each part has."""

from __future__ import annotations

from benchmarks.cell_runner import Cell

PARTS = ("oil_flow", "missing_pixels", "odd", "maps", "views", "speed")

SEEDS = range(5)

DIGITS, SILHOUETTES = "MNIST 14 x 14", "silhouettes 24 x 16"
TISSUE, HALVES = "tissue, four views", "silhouettes, upper and lower half"
ODD_CLASSES = ("bottle", "can", "drink-carton", "tire")


def cells_of(part: str) -> list[Cell]:
    """Return the cells of a part, the most telling first."""
    if part == "oil_flow":
        ours = [Cell(part, method, "Q 10, M 50", seed) for method in ("gaussian", "map") for seed in SEEDS]
        return [Cell(part, "pca", "Q 10, M 50", 0), *ours, Cell(part, "gpy", "Q 10, M 50", 0)]
    if part == "missing_pixels":
        methods = ("mean", "knn", "ppca", "gplvm")
        holes = ("half at random", "lower half")
        return [
            Cell(part, method, f"{pictures}, {hole}", 0)
            for pictures in (DIGITS, SILHOUETTES)
            for hole in holes
            for method in methods
        ]
    if part == "odd":
        return [
            Cell(part, "all", f"{name}, {kind}", seed)
            for seed in range(2)
            for name in ODD_CLASSES
            for kind in ("another class", "upside down")
        ]
    if part == "maps":
        methods = ("pca", "umap", "gplvm", "gplvm-map")
        return [Cell(part, method, name, 0) for name in ("tissue", "sonar") for method in methods]
    if part == "views":
        tissue = [Cell(part, "gplvm, views", TISSUE, seed) for seed in range(3)]
        rivals = ("mean", "ridge", "kernel cca", "knn", "gplvm, one kernel", "gplvm, views")
        halves = [Cell(part, method, HALVES, seed) for seed in range(3) for method in rivals]
        return [*tissue, *halves]
    return [Cell(part, name, "", 0) for name in ("evaluation", "transform", "memory", "gpy")]


def needs_package(cell: Cell) -> str | None:
    """Return the package of the extra `peers` that a cell needs."""
    return {"gpy": "GPy", "umap": "umap"}.get(cell.method)
