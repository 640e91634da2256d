"""Results as short tables: for the console and, in Markdown, for documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from pipelines.bootstrap import PairedDifference, SeedSummary
from pipelines.evaluation import Comparison, Evaluation, MethodResult
from pipelines.scores import Score

UNDEFINED = "–"
_LARGEST_P = 0.05
"""Of a difference that counts as clear."""


def format_number(value: float | None, digits: int = 4) -> str:
    """A number with fixed digits, a dash where it is undefined.

    Example:
        >>> format_number(0.97234), format_number(math.nan)
        ('0.9723', '–')
    """
    return UNDEFINED if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def format_difference(value: float) -> str:
    """A number with its sign and five digits, a dash where it is undefined.

    Example:
        >>> format_difference(0.0123), format_difference(-1e-9)
        ('+0.01230', '0.00000')
    """
    if not math.isfinite(value):
        return UNDEFINED
    text = f"{value:+.5f}".replace("-", "−")
    return text[1:] if float(f"{value:.5f}") == 0.0 else text


def format_p_value(value: float) -> str:
    """A p-value with three digits, a dash where it is undefined."""
    if not math.isfinite(value):
        return UNDEFINED
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def format_memory(size: int | None) -> str:
    """Bytes as gigabytes, a dash where not measured."""
    return UNDEFINED if size is None else f"{size / 1e9:.1f} GB"


def best_methods(score: Score, results: Sequence[MethodResult]) -> set[str]:
    """Names of the methods with the best value as shown; none if all are alike or undefined."""
    defined = [result for result in results if math.isfinite(result.scores[score.key])]
    shown = {result.name: format_number(result.scores[score.key]) for result in defined}
    if len(set(shown.values())) < 2:
        return set()
    best = (max if score.better == "higher" else min)(shown.values(), key=float)
    return {name for name, value in shown.items() if value == best}


def verdict(score: Score, difference: PairedDifference) -> str:
    """``better``, ``worse`` or ``no clear difference``: that where the interval contains 0 or p > 0.05."""
    if not math.isfinite(difference.lower):
        return "undefined"
    if difference.lower <= 0.0 <= difference.upper or difference.p_value > _LARGEST_P:
        return "no clear difference"
    return "better" if (difference.lower > 0.0) == (score.better == "higher") else "worse"


def results_table(evaluation: Evaluation) -> Table:
    """The methods and their most important scores, the best in bold; fits a console of 80 columns."""
    examples = len(evaluation.results[0].statistics.names)
    title = f"{evaluation.application}: {examples} test examples"
    table = Table(title=title, box=SIMPLE_HEAD, padding=0, pad_edge=False)
    header = _header(evaluation)[:-1]
    table.add_column(header[0], vertical="bottom")
    for text in header[1:]:
        longest_word = max(len(word) for word in (*text.split(), "0.0000"))
        table.add_column(text, justify="right", vertical="bottom", width=longest_word)
    for name, *cells, _ in _rows(evaluation, lambda text: f"[bold]{text}[/bold]"):
        table.add_row(escape(name), *cells)
    return table


def results_markdown(evaluation: Evaluation) -> str:
    """The methods and their most important scores, and the comparisons, as Markdown tables."""
    parts = [markdown_table(_header(evaluation), _rows(evaluation, lambda text: f"**{text}**"))]
    definitions = {score.key: score for score in evaluation.definitions}
    parts += [_comparison_markdown(comparison, definitions) for comparison in evaluation.comparisons]
    return "\n".join(parts)


def seeds_markdown(definitions: Sequence[Score], summaries: Mapping[str, Mapping[str, SeedSummary]]) -> str:
    """Mean ± standard deviation over seeds of each method's most important scores, as a Markdown table.

    Args:
        definitions: of the scores; the headline ones are shown.
        summaries: method name to score key to summary, from `pipelines.bootstrap.summarise_seeds`.
    """
    shown = [score for score in definitions if score.headline]
    header = ["Method", *(_title(score) for score in shown)]
    rows = [[name, *(mean_and_spread(scores[s.key]) for s in shown)] for name, scores in summaries.items()]
    return markdown_table(header, rows)


def mean_and_spread(summary: SeedSummary) -> str:
    """Mean ± standard deviation, the latter where there are two runs or more."""
    spread = f" ± {format_number(summary.standard_deviation)}" if summary.runs > 1 else ""
    return format_number(summary.mean) + spread


def _title(score: Score) -> str:
    return f"{score.title} {'↑' if score.better == 'higher' else '↓'}"


def _header(evaluation: Evaluation) -> list[str]:
    return ["Method", *(_title(score) for score in evaluation.headline), "Seconds each", "Peak memory"]


def _rows(evaluation: Evaluation, emphasise: Callable[[str], str]) -> list[list[str]]:
    best = {score.key: best_methods(score, evaluation.results) for score in evaluation.headline}
    rows = []
    for result in evaluation.results:
        values = []
        for score in evaluation.headline:
            text = format_number(result.scores[score.key])
            values.append(emphasise(text) if result.name in best[score.key] else text)
        cost = [format_number(result.seconds_per_image, 3), format_memory(result.peak_memory_bytes)]
        rows.append([result.name, *values, *cost])
    return rows


def _comparison_markdown(comparison: Comparison, definitions: Mapping[str, Score]) -> str:
    name = f"{comparison.method} less {comparison.baseline}"
    header = [name, "Difference", "95 % interval", "p", "Verdict"]
    rows = [
        [
            _title(definitions[key]),
            format_difference(difference.difference),
            f"{format_difference(difference.lower)} to {format_difference(difference.upper)}",
            format_p_value(difference.p_value),
            verdict(definitions[key], difference),
        ]
        for key, difference in comparison.differences.items()
    ]
    return markdown_table(header, rows)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, numbers from the second column on."""
    rule = ["---", *("---:" for _ in header[1:])]
    lines = [[cell.replace("|", "\\|") for cell in row] for row in (header, rule, *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
