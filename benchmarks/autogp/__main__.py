"""Measure AutoGP: learning by leaving out, few labels, kernels, label errors, several targets and speed.

    python -m benchmarks.autogp --data FOLDER --out benchmarks/results/autogp

Parts: `mnist` (all 60,000 digits, up to 6000 steps of 1000 rows, with errors over time), `few` (hundreds of
labels, against what users take instead, and several components), `kernels` (ARD against arc-cosine, and an
SVM with the latter), `label_errors` (2 % of the labels exchanged; cleanlab comes with the extra `peers`),
`gprn` (regression networks of several targets), `speed`, and `softmax_memory` (100 classes in blocks of
rows). Every cell, one method on one problem with one seed, is a process of its own and one file in OUT/cells;
a second run computes only what is missing. Times are of the processor. rectangles-image, CIFAR-10, MNIST8M
and the training file of SARCOS, which the paper has too, are not at hand.
"""

from __future__ import annotations

from benchmarks.autogp.plan import CELLS, needs_package
from benchmarks.autogp.report import rows_of
from benchmarks.cell_runner import CellBenchmark

if __name__ == "__main__":
    CellBenchmark(
        package="benchmarks.autogp",
        title="AutoGP",
        description=__doc__ or "",
        needs_data="mnist/, tabular/ and marine_debris_fls/",
        cells=CELLS,
        rows_of=rows_of,
        needs_package=needs_package,
        peers=("scikit-learn", "cleanlab"),
    ).main()
