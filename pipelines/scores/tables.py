"""Results as short tables: for the console and, in Markdown, for documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from pipelines.scores.bootstrap import PairedDifference, SeedSummary
from pipelines.scores.cost_results import cost_sentence
from pipelines.scores.definitions import Score, format_share
from pipelines.scores.guarantees import MethodGuarantees
from pipelines.scores.results import Evaluation, MethodResult

UNDEFINED = "–"
PEAK_MEMORY = "Peak memory of the process so far"

_LARGEST_P = 0.05
"""The largest p-value of a difference that counts as clear."""


def format_number(value: float | None, digits: int = 4) -> str:
    """Return a number with fixed digits, or a dash where it is undefined.

    Example:
        >>> format_number(0.97234), format_number(math.nan)
        ('0.9723', '–')
    """
    return UNDEFINED if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def format_difference(value: float) -> str:
    """Return a number with its sign and five digits, or a dash where it is undefined.

    Example:
        >>> format_difference(0.0123), format_difference(-1e-9)
        ('+0.01230', '0.00000')
    """
    if not math.isfinite(value):
        return UNDEFINED
    text = f"{value:+.5f}".replace("-", "−")
    return text[1:] if float(f"{value:.5f}") == 0.0 else text


def format_p_value(value: float) -> str:
    """Return a p-value with three digits, or a dash where it is undefined."""
    if not math.isfinite(value):
        return UNDEFINED
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def format_memory(size: int | None) -> str:
    """Return bytes as gigabytes, or a dash where they were not measured."""
    return UNDEFINED if size is None else f"{size / 1e9:.1f} GB"


def best_methods(score: Score, results: Sequence[MethodResult]) -> set[str]:
    """Return the methods with the best value as it is shown; none if all are alike or undefined."""
    defined = [result for result in results if math.isfinite(result.scores[score.key])]
    shown = {result.name: format_number(result.scores[score.key]) for result in defined}
    if len(set(shown.values())) < 2:
        return set()
    best = (max if score.better == "higher" else min)(shown.values(), key=float)
    return {name for name, value in shown.items() if value == best}


def verdict(score: Score, difference: PairedDifference) -> str:
    """Return `better`, `worse` or `no clear difference`, the latter if 0 is in the interval or p > 0.05."""
    if not math.isfinite(difference.lower):
        return "undefined"
    if difference.lower <= 0.0 <= difference.upper or difference.p_value > _LARGEST_P:
        return "no clear difference"
    return "better" if (difference.lower > 0.0) == (score.better == "higher") else "worse"


def cost_sentences(evaluation: Evaluation) -> tuple[str, ...]:
    """Return what the decisions of the main method cost, of several labels a sentence for each."""
    sentences = {name: cost_sentence(one, evaluation.main.name) for name, one in evaluation.all_costs.items()}
    return tuple(f"{name}: {text}" if name else text for name, text in sentences.items())


def guarantee_sentences(evaluation: Evaluation) -> tuple[str, ...]:
    """Return what came of the guarantees of the chosen method, or of the last that has any.

    Of several labels there is a sentence for each.
    """
    chosen = dict([evaluation.chosen_guarantees] if evaluation.chosen_guarantees else [])
    if not (found := chosen or evaluation.label_guarantees):
        reason = evaluation.no_guarantee
        return (f"No guarantee for --max-error was given. {reason}",) if reason else ()
    return tuple(_guarantee_text(name, guarantees) for name, guarantees in found.items())


def _guarantee_text(method: str, guarantees: MethodGuarantees) -> str:
    made = [row for row in guarantees.rows if row.guarantee.threshold is not None]
    parts = [
        f"at most {format_share(row.guarantee.max_error)} wrong: {format_share(row.judged_kept)} kept, "
        f"{format_share(row.judged_error)} of these wrong"
        for row in made
    ]
    if len(made) < len(guarantees.rows):
        refused = [row.guarantee for row in guarantees.rows if row.guarantee.threshold is None]
        shown = ", ".join(format_share(guarantee.max_error) for guarantee in refused)
        last = refused[-1]
        parts.append(f"{shown}: not guaranteed (for {format_share(last.max_error)}, {last.reason})")
    return f"Guarantees of {method}: {'; '.join(parts)}"


def kept_sentence(evaluation: Evaluation) -> str:
    """Return how much the chosen method keeps with the smallest error that it guarantees, if any."""
    chosen = evaluation.chosen_guarantees
    made = [] if chosen is None else [row for row in chosen[1].rows if row.guarantee.threshold is not None]
    if not made:
        return ""
    smallest = min((row.guarantee for row in made), key=lambda guarantee: guarantee.max_error)
    return (
        f"Of what is like the held-out data it keeps {format_share(smallest.kept)}, of which at most "
        f"{format_share(smallest.max_error)} are wrong, with {smallest.confidence:.0%} confidence; "
        f"{format_share(1.0 - smallest.kept)} go to a person."
    )


def class_sentence(evaluation: Evaluation) -> str:
    """Return what the chosen method guarantees not to miss of single classes; empty without any."""
    chosen = evaluation.chosen_guarantees
    if chosen is None or chosen[1].classes is None:
        return ""
    shares = [
        f"at most {format_share(limit.guarantee.max_error)} of {limit.class_name}"
        for limit in chosen[1].classes.limits
        if limit.kind == "missed" and limit.guarantee.threshold is not None
    ]
    listed = ", ".join(shares)
    return f"Each by itself, it can guarantee that {listed} are kept as another class." if shares else ""


def referral_sentence(evaluation: Evaluation) -> str:
    """Return above which entropy to refer to a person, for each error that the chosen method guarantees."""
    chosen = evaluation.chosen_guarantees
    if chosen is None:
        return evaluation.no_guarantee and f"No referral threshold is guaranteed. {evaluation.no_guarantee}"
    method, guarantees = chosen
    made = [row for row in guarantees.rows if row.guarantee.threshold is not None]
    if not made:
        if not guarantees.rows:
            return ""
        refused, least = guarantees.rows[-1].guarantee, guarantees.table
        return (
            f"No referral threshold is guaranteed with {method}: for at most "
            f"{format_share(refused.max_error)} wrong, {refused.reason}."
            + (f" The least that it can guarantee is {format_share(least[0][0])}." if least else "")
        )
    parts = [
        f"at most {format_share(row.guarantee.max_error)} wrong above an entropy of "
        f"{format_number(row.guarantee.threshold)} ({format_share(row.judged_kept)} of the judged are kept, "
        f"{format_share(row.judged_error)} of these wrong)"
        for row in made
    ]
    return f"Refer to a person, with {method}: for {'; for '.join(parts)}."


def results_table(evaluation: Evaluation) -> Table:
    """Return the methods and their most important scores, the best in bold, for a console of 80 columns."""
    examples = len(evaluation.results[0].statistics.names)
    title = f"{evaluation.application}: {examples} test examples"
    table = Table(title=title, box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("Method", vertical="bottom")
    columns = {
        titled(score): [format_number(result.scores[score.key]) for result in evaluation.results]
        for score in evaluation.headline
    }
    for text, numbers in {**columns, "Seconds each": ["0.0000"]}.items():
        widest = max(map(len, (*text.split(), *numbers, "0.0000")))
        table.add_column(text, justify="right", vertical="bottom", width=widest)
    best = {score.key: best_methods(score, evaluation.results) for score in evaluation.headline}
    for result in evaluation.results:
        texts = {score.key: format_number(result.scores[score.key]) for score in evaluation.headline}
        cells = (f"[bold]{text}[/bold]" if result.name in best[key] else text for key, text in texts.items())
        table.add_row(escape(result.name), *cells, format_number(result.seconds_per_image, 3))
    return table


def mean_and_spread(summary: SeedSummary, digits: int = 4) -> str:
    """Return mean ± standard deviation, the latter where there are two runs or more."""
    spread = f" ± {format_number(summary.standard_deviation, digits)}" if summary.runs > 1 else ""
    return format_number(summary.mean, digits) + spread


def titled(score: Any) -> str:
    """Return the title of a score (a `Score` or the like) with an arrow for the better direction."""
    return f"{score.title} {'↑' if score.better == 'higher' else '↓'}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown with numbers from the second column on."""
    rule = ["---", *("---:" for _ in header[1:])]
    lines = [[cell.replace("|", "\\|") for cell in row] for row in (header, rule, *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
