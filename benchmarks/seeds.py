"""Compute the tables of the thesis on feature tables, the paper's numbers beside ours.

    python -m benchmarks.seeds --data FOLDER --table 4.3 --budget 2 --work FOLDER
    python -m benchmarks.seeds --data FOLDER --work FOLDER --list

A table is a plan of `benchmarks.tabular`: each cell is a process and leaves a file in WORK/TABLE/cells, cheap
ones first, and a second run computes only what is missing. The report of a table, WORK/TABLE/report.md, is of
all that is done; its tables of results are printed too. Further options go to `benchmarks.tabular` and take
precedence over the plan, for instance `--datasets wfrn --folds 3` for a part of a table.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path

from benchmarks.tabular.__main__ import main as run_tabular
from benchmarks.tabular.__main__ import run_until_signalled

_GP_CLASSIFIERS = "hgp hgp_w1 svgp svgp_plain vmgp"
PLANS = {
    "4.3": "--tables classification --cut 10 --seeds 0 1 --datasets splice biodeg german_numeric ctg wfrn "
    f"spambase pendigits --methods {_GP_CLASSIFIERS} linear forest adaboost tree linear_svm svm trees "
    "laplace_gp",
    "4.2": "--tables inducing_points --cut 10 --folds 3 --datasets ctg wfrn --methods hgp",
    "fig4.2": "--tables experts --cut 10 --seeds 0 1 2 3 4 --datasets wfrn --experts 0 3 6 9 11 12 15 "
    "--methods hgp hgp_w1 svgp svgp_plain",
    "fig4.4-50": f"--tables time_accuracy --cut 5 --datasets spambase wfrn --inducing 50 --experts 10 "
    f"--methods {_GP_CLASSIFIERS}",
    "fig4.4-200": f"--tables time_accuracy --cut 5 --datasets spambase wfrn --inducing 200 --experts 10 "
    f"--methods {_GP_CLASSIFIERS}",
    "3.1": "--tables inducing_points --datasets kin40k pole_telecom --methods hgp",
    "3.2": "--tables regression --seeds 0 1 2 3 4 --datasets kin40k pumadyn32nm pole_telecom "
    "--methods hgp hgp_thesis svgp vmgp fitc fgp pic linear trees",
    "fig3.5": "--tables time_accuracy --datasets kin40k pole_telecom pumadyn32nm --inducing 100 "
    "--methods hgp svgp vmgp gpflow_svgp",
    "fig3.2": "--tables experts --datasets kin40k --inducing 100 --experts 0 2 5 10 30 100 "
    "--methods hgp hgp_soft svgp",
    "flights": "--tables rows --cut 12 --datasets flights_2008 "
    "--methods hgp hgp_thesis svgp deep_gp linear trees",
    "flights-late": "--tables rows --cut 12 --datasets flights_2008_late "
    "--methods hgp hgp_w1 svgp linear forest adaboost tree linear_svm trees",
}
"""Options of `benchmarks.tabular` for each table or figure of the thesis."""
ELSEWHERE = {
    "figures 3.3 and 3.4": "benchmarks.motorcycle",
    "figure 3.10, mini-batches of millions of rows": "benchmarks.many_rows",
    "table 4.5": "benchmarks.densenet_digits",
    "table 5.2": "benchmarks.lane_networks",
    "table 5.3": "benchmarks.frozen_heads",
    "table 5.4": "benchmarks.lane_methods",
    "chapter 6": "benchmarks.sonar, benchmarks.snapshot_size and benchmarks.sonar_networks",
    "deep feed-forward GPs": "benchmarks.dfgp_accuracy",
    "AutoGP": "benchmarks.autogp",
    "asymmetric transfer": "benchmarks.transfer",
    "deep GPs and latent variables": "benchmarks.deep_gp and benchmarks.latent_variables",
}


def main(stopping: threading.Event | None = None) -> int:
    """Run the plans that are asked for, or list what is done.

    Args:
        stopping: As of `benchmarks.tabular`.

    Returns:
        The highest status of `benchmarks.tabular`.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.seeds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--data", required=True, help="folder of .npz files")
    parser.add_argument("--work", type=Path, required=True, help="folder for cells and reports")
    parser.add_argument("--table", nargs="+", choices=PLANS, default=list(PLANS), help="all by default")
    parser.add_argument("--budget", type=float, help="hours after which no cell is started")
    parser.add_argument("--list", action="store_true", help="only print what is done and what is left")
    arguments, further = parser.parse_known_args()
    began, statuses = time.monotonic(), []
    for table in arguments.table:
        words = ["--data", arguments.data, "--out", str(arguments.work / table), *PLANS[table].split()]
        if arguments.list:
            print(f"{table}:")
            words.append("--list")
        if arguments.budget is not None:
            left = 60.0 * arguments.budget - (time.monotonic() - began) / 60.0
            words += ["--budget", str(max(left, 0.0))]
        statuses.append(run_tabular(stopping, [*words, *further]))
        if not arguments.list:
            print_results(arguments.work / table / "report.md")
    if arguments.list:
        for part, program in ELSEWHERE.items():
            print(f"{part}: {program}")
    return max(statuses)


def print_results(report: Path) -> None:
    """Print the parts of a report that stand for something in the thesis."""
    if report.exists():
        parts = report.read_text(encoding="utf-8").split("\n## ")
        print("\n".join(f"## {part}" for part in parts[1:] if "thesis" in part.partition("\n")[0]))


if __name__ == "__main__":
    sys.exit(run_until_signalled(main))
