"""Measure the Bayesian GPLVM: maps, missing pixels, odd examples and speed, against what users take instead.

    python -m benchmarks.latent_variables --data FOLDER --out benchmarks/results/latent_variables

Parts: `oil_flow` (leave-one-out 1-NN errors on the map), `missing_pixels`, `odd`, `maps`, `views` and
`speed`. Every cell, one model on one set with one seed, is a process of its own and one file in OUT/cells; a
second run computes only what is missing. GPy and UMAP come with the extra `peers`; without them their cells
are left out. Times are of the processor, since the machine may be shared.
"""

from __future__ import annotations

from benchmarks.cell_runner import CellBenchmark
from benchmarks.latent_variables.plan import PARTS, cells_of, needs_package
from benchmarks.latent_variables.report import rows_of

if __name__ == "__main__":
    CellBenchmark(
        package="benchmarks.latent_variables",
        title="Latent variables",
        description=__doc__ or "",
        needs_data="tabular/, mnist/ and the image folders",
        cells={part: cells_of(part) for part in PARTS},
        rows_of=rows_of,
        needs_package=needs_package,
        peers=("GPy", "umap-learn", "scikit-learn"),
    ).main()
