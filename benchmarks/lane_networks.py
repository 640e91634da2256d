"""How deep the encoder-decoder C{units}K{kernel} should be and how wide its kernels (thesis Table 5.2).

    python -m benchmarks.lane_networks --data FOLDER --out out/lane_networks

FOLDER holds `camvid_segnet`. Every network learns walkable surface from the same images, the same number of
epochs: three with a linear head, then one more with an HGP of nine experts at the start, as in the thesis.
A network leaves one file in OUT/runs; a second call computes what is missing. The table is of all networks
that were run with this seed and size.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.common import host, write_results
from benchmarks.lane_methods import run_name, run_record
from data_prep.files.atomic import atomic_file
from gpmodels.networks.encoder_decoder import encoder_decoder

EPOCHS = 3

THESIS = dict(
    zip(
        [f"C{units}K{kernel}" for units, kernel in product((2, 3, 4, 5, 6), (3, 5, 7))],
        (
            *((92.87, 92.93), (94.50, 94.56), (94.54, 94.61)),
            *((95.71, 93.51), (96.80, 95.75), (96.61, 95.24)),
            *((96.28, 94.78), (97.22, 96.23), (97.07, 95.48)),
            *((96.91, 96.03), (97.24, 96.19), (97.01, 95.88)),
            *((95.97, 94.52), (96.58, 95.64), (96.12, 95.35)),
        ),
        strict=True,
    )
)
"""Table 5.2 of the thesis: accuracy and F-measure in per cent, on 306 x 306 images of its own (PLVP2)."""


def parameters(network: str, size: tuple[int, int]) -> int:
    """Return how many trained numbers a network has, without its head."""
    built = encoder_decoder(network)
    built.build((None, *size, 3))
    return sum(int(variable.shape.num_elements()) for variable in built.trainable_variables)


def row_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return what people read of a run: the scores of HGP + temperature, the thesis' beside them."""
    scores = record["methods"]["HGP + temperature"]
    return {
        "network": record["network"],
        "parameters": parameters(record["network"], tuple(record["size"])),
        **{
            title: f"{scores[key]:.4f}"
            for key, title in (
                ("accuracy", "accuracy"),
                ("f_measure", "F-measure"),
                ("nll", "NLL"),
                ("auroc_predictive_entropy", "AUROC of errors"),
            )
        },
        "minutes of training": f"{sum(record['training_seconds'].values()) / 60.0:.1f}",
        "thesis: accuracy, F-measure in %": ", ".join(f"{one:.2f}" for one in THESIS[record["network"]]),
    }


def main() -> None:
    """Compute what is missing, then write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/lane_networks"))
    parser.add_argument("--networks", nargs="+", default=list(THESIS), choices=THESIS)
    parser.add_argument("--size", type=int, nargs=2, default=[96, 128], help="height and width")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    (arguments.out / "runs").mkdir(parents=True, exist_ok=True)
    for network in arguments.networks:
        task = {
            "data": str(arguments.data.resolve()),
            "out": str(arguments.out.resolve()),
            "surface": "walkable",
            "network": network,
            "seed": arguments.seed,
            "size": arguments.size,
            "changes": {
                "heads": ["hgp"],
                "num_experts": 9,
                "pretraining_epochs": EPOCHS,
                "head_epochs": 1,
            },
        }
        path = arguments.out / "runs" / f"{run_name(task)}.json"
        if not path.exists():
            record = run_record(task)
            with atomic_file(path) as temporary:
                temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        records = [json.loads(file.read_text(encoding="utf-8")) for file in path.parent.glob("*.json")]
        alike = [one for one in records if (one["seed"], one["size"]) == (arguments.seed, arguments.size)]
        alike.sort(key=lambda one: list(THESIS).index(one["network"]))
        title = (
            f"Encoder-decoders with an HGP on walkable surface, {EPOCHS} + 1 epochs, seed {arguments.seed}"
        )
        rows = [row_of(record) for record in alike]
        write_results(arguments.results, title=title, rows=rows, host=host(), cells=alike)


if __name__ == "__main__":
    main()
