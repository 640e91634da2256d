"""Measure deep Gaussian processes against GPyTorch's, a feed-forward one and single ones.

    python -m benchmarks.deep_gp --data FOLDER --out benchmarks/results/deep_gp

Parts: `regression` (kin40k and pole_telecom, official splits), `rates` (learning rates, judged by training
rows that are held out), `mnist` and `speed` (the time of a step). A cell, one model on one set with one seed,
is a process of its own on one thread and one file in OUT/cells; a second run computes only what is missing.
GPyTorch comes with the extra `peers`; without it its cells are left out. Times are of the processor.
"""

from __future__ import annotations

from benchmarks.cell_runner import CellBenchmark
from benchmarks.deep_gp.plan import CELLS
from benchmarks.deep_gp.report import rows_of

if __name__ == "__main__":
    CellBenchmark(
        package="benchmarks.deep_gp",
        title="Deep Gaussian processes",
        description=__doc__ or "",
        needs_data="tabular/ and mnist/",
        cells=CELLS,
        rows_of=rows_of,
        needs_package=lambda cell: "gpytorch" if cell.model == "gpytorch" else None,
        peers=("gpytorch", "torch"),
        one_thread=True,
    ).main()
