import io
import math

import pytest
from rich.console import Console

from pipelines.scores.bootstrap import PairedDifference
from pipelines.scores.tables import (
    best_methods,
    format_difference,
    format_memory,
    format_number,
    format_p_value,
    results_table,
    verdict,
)


def _score(evaluation, key):
    return next(score for score in evaluation.definitions if score.key == key)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_number(0.97236), "0.9724"),
        (format_number(math.nan), "–"),
        (format_number(None), "–"),
        (format_number(0.12345, 2), "0.12"),
        (format_difference(-0.0123456), "−0.01235"),
        (format_difference(0.5), "+0.50000"),
        (format_difference(-1e-7), "0.00000"),
        (format_difference(math.nan), "–"),
        (format_p_value(0.0123), "0.012"),
        (format_p_value(0.0009), "< 0.001"),
        (format_p_value(math.nan), "–"),
        (format_memory(1_540_000_000), "1.5 GB"),
        (format_memory(None), "–"),
    ],
)
def test_numbers_are_written_for_people(text, expected):
    assert text == expected


def test_the_best_follows_the_direction_and_the_shown_digits(evaluation):
    assert best_methods(_score(evaluation, "nll"), evaluation.results) == {"HGP"}
    # Scaling the log-odds changes no label: all methods are equally accurate, so none is emphasised.
    assert best_methods(_score(evaluation, "accuracy"), evaluation.results) == set()
    assert best_methods(_score(evaluation, "auroc_mutual_information"), evaluation.results) == set()
    # With a higher-is-better score, the highest.
    definition, results = _score(evaluation, "auroc_predictive_entropy"), evaluation.results
    values = {result.name: format_number(result.scores[definition.key]) for result in results}
    expected = {name for name, value in values.items() if value == max(values.values())}
    assert best_methods(definition, results) in (expected, set())


@pytest.mark.parametrize(
    ("key", "lower", "upper", "p_value", "expected"),
    [
        ("nll", -0.2, -0.1, 0.01, "better"),
        ("nll", 0.1, 0.2, 0.01, "worse"),
        ("f_measure", 0.1, 0.2, 0.01, "better"),
        ("f_measure", -0.2, -0.1, 0.01, "worse"),
        ("nll", -0.1, 0.1, 0.5, "no clear difference"),
        ("nll", 0.0, 0.0, 1.0, "no clear difference"),
        ("nll", -0.2, -0.1, 0.5, "no clear difference"),  # two groups that agree
        ("nll", math.nan, math.nan, math.nan, "undefined"),
    ],
)
def test_verdict(evaluation, key, lower, upper, p_value, expected):
    difference = PairedDifference((lower + upper) / 2, lower, upper, p_value, 100)
    assert verdict(_score(evaluation, key), difference) == expected


def test_console_table_fits_eighty_columns(evaluation):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(results_table(evaluation))
    text = console.export_text()
    assert "lane: 6 test examples" in text
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    for result in evaluation.results:
        assert any(
            format_number(result.scores["nll"]) in line and format_number(result.scores["ece"]) in line
            for line in text.splitlines()
        )
    assert "0.250" in text
