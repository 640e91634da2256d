"""Decisions by costs: against brute force, in closed form, in the limits, and tables that are wrong."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.errors import InputError
from pipelines.command.referral import CostSettings
from pipelines.scores.costs import REFER, CostTable, given_costs, read_costs

NAMES = ("benign", "malignant", "normal")
GOOD = "class,benign,malignant,normal,refer\nbenign,0,10,2,3\nmalignant,50,0,50,3\nnormal,2,10,0,3\n"


def table(values, *, refers: bool) -> CostTable:
    classes = tuple(f"c{place}" for place in range(len(values)))
    return CostTable(classes=classes, decisions=(*classes, REFER) if refers else classes, values=values)


def drawn(number: int, classes: int, seed: int = 0):
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), number)


@given(st.integers(0, 10_000), st.integers(2, 5), st.booleans())
def test_no_decision_has_a_smaller_expected_cost(seed, classes, refers):
    random = np.random.default_rng(seed)
    values = random.integers(0, 9, (classes, classes + refers)).astype(float)
    values -= np.diag(np.diagonal(values[:, :classes])) @ np.eye(classes, classes + refers)
    probability = drawn(20, classes, seed)
    found = table(values.tolist(), refers=refers)
    decision, cost = found.decide(probability)
    for row, (place, least) in enumerate(zip(decision, cost, strict=True)):
        by_hand = [
            sum(probability[row, c] * values[c, k] for c in range(classes)) for k in range(classes + refers)
        ]
        assert least == pytest.approx(by_hand[place])
        assert least == pytest.approx(min(by_hand))


def test_equal_costs_of_all_mistakes_take_the_most_probable_class():
    probability = drawn(500, 4)
    decision, cost = table((1.0 - np.eye(4)).tolist(), refers=False).decide(probability)
    np.testing.assert_array_equal(decision, probability.argmax(axis=1))
    np.testing.assert_allclose(cost, 1.0 - probability.max(axis=1))


def test_two_classes_have_the_threshold_of_the_closed_form():
    false_alarm, missed = 1.0, 50.0
    costs = table([[0.0, false_alarm], [missed, 0.0]], refers=False)
    limit = false_alarm / (false_alarm + missed)
    second = np.array([limit - 1e-6, limit + 1e-6])
    assert costs.decide(np.stack([1 - second, second], axis=1))[0].tolist() == [0, 1]


def test_chow_refers_between_two_thresholds():
    """With mistakes of 1 and referral of d, what is less probable than 1 - d is referred."""
    costs = table([[0, 1, 0.2], [1, 0, 0.2]], refers=True)
    second = np.array([0.1, 0.19, 0.21, 0.5, 0.79, 0.81])
    assert costs.decide(np.stack([1 - second, second], axis=1))[0].tolist() == [0, 0, 2, 2, 2, 1]


def test_free_referral_refers_all_that_is_not_certain_and_dear_referral_nothing():
    probability = drawn(200, 3)
    free = np.hstack([1.0 - np.eye(3), np.zeros((3, 1))])
    assert (table(free.tolist(), refers=True).decide(probability)[0] == 3).all()
    assert table(free.tolist(), refers=True).decide(np.eye(3))[0].tolist() == [0, 1, 2]  # a tie
    dear = np.hstack([1.0 - np.eye(3), np.full((3, 1), 1.5)])
    assert (table(dear.tolist(), refers=True).decide(probability)[0] < 3).all()


def test_ties_take_the_most_probable_class():
    nothing = table(np.zeros((3, 4)).tolist(), refers=True)
    probability = drawn(50, 3)
    np.testing.assert_array_equal(nothing.decide(probability)[0], probability.argmax(axis=1))
    even = table([[0, 1, 0.5], [1, 0, 0.5]], refers=True)
    assert even.decide(np.array([[0.5, 0.5]]))[0].tolist() == [0]


@pytest.mark.parametrize(
    ("values", "never"),
    [
        ([[0, 1, 3], [50, 0, 3]], (REFER,)),  # a false alarm is cheaper than to refer
        ([[0, 4, 3], [4, 0, 3]], (REFER,)),  # no single decision is always cheaper, but one always is
        ([[0, 4, 2], [4, 0, 2]], (REFER,)),  # at most a tie, which a class wins
        ([[0, 4, 1.9], [4, 0, 1.9]], ()),
        ([[0, 0, 9], [9, 0, 9]], ("c0", REFER)),  # the second class never costs more than the first one
    ],
)
def test_decisions_that_are_never_the_cheapest_are_named(values, never):
    costs = table(values, refers=True)
    assert costs.never_chosen() == never
    assert [name in text for name, text in zip(never, costs.warnings(), strict=True)] == [True] * len(never)
    chosen = {costs.decisions[place] for place in costs.decide(drawn(3000, 2))[0]}
    assert chosen.isdisjoint(never)


def test_two_classes_of_the_same_costs_are_no_pointless_decisions():
    """Both are sent home: it is all the same which of them is said, and one of them is."""
    costs = table([[0, 10, 0], [50, 0, 50], [0, 10, 0]], refers=False)
    assert costs.never_chosen() == ()
    assert table(np.zeros((3, 3)).tolist(), refers=False).never_chosen() == ()


def test_probabilities_of_other_classes_are_refused():
    with pytest.raises(ValueError, match=r"must be \[N, 2\]"):
        table([[0, 1], [1, 0]], refers=False).decide(np.ones((4, 3)) / 3)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.replace(",", ";").replace("10", "10,0"),
        GOOD.replace(",", "\t").upper().replace("CLASS", ""),
        "\ufeff" + GOOD.replace("\n", "\r\n"),
        "truth,refer,normal,malignant,benign\nnormal,3,0,10,2\nmalignant,3,50,0,50\nbenign,3,2,10,0\n",
    ],
)
def test_tables_are_read_whatever_their_separator_order_and_case(tmp_path, text):
    (tmp_path / "costs.csv").write_text(text, encoding="utf-8", newline="")
    costs = read_costs(tmp_path / "costs.csv", NAMES)
    assert costs.decisions == (*NAMES, REFER)
    assert costs.values == ((0, 10, 2, 3), (50, 0, 50, 3), (2, 10, 0, 3))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("normal,2,10,0,3\n", "", "has no row for normal"),
        ("class,benign,", "class,Tumor,", "the column 'Tumor' is no decision. Expected a column for each"),
        (
            "class,benign,malignant,normal,refer\nbenign,0,",
            "class,malignant,normal,refer\nbenign,",
            "no column benign",
        ),
        ("normal,refer\n", "refer,refer\n", "two columns are of refer"),
        ("\nmalignant,", "\ncancer,", "line 3: 'cancer' is no class of the model"),
        ("\nmalignant,", "\nBenign,", "line 3: 'Benign' is there a second time"),
        (",50,0,50", ",50 %,0 %,50 %", "malignant is '0 %'|benign is '50 %'.* Leave % out"),
        (",50,0,50", ",,0,50", "line 3: benign is empty"),
        (",50,0,50", ",lots,0,50", "benign is 'lots'. Expected a cost as a number"),
        (",50,0,50", ",nan,0,50", "malignant costs nan .* expected a finite number"),
        (",50,0,50", ",inf,0,50", "expected a finite number"),
        (",50,0,50", ",-50,0,50", "malignant costs -50 .* Add the same amount to all costs of the row"),
        (",50,0,50", ",50,4,50", "costs 3 where the decision is refer, less than 4 where it is malignant"),
        (",50,0,50", ',"1,000",0,50', "may mean thousands or decimals"),
        (",50,0,50,3", ",50,0,50,3,3", "more fields than the 5"),
        (GOOD, "", "the first line '' has no column benign, malignant, normal"),
        (GOOD, GOOD.replace(",", " "), "has no column benign"),
    ],
)
def test_broken_tables_are_refused_in_a_sentence_that_says_where(tmp_path, old, new, message):
    assert old in GOOD
    path = tmp_path / "costs.csv"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        read_costs(path, NAMES)
    assert str(path) in str(caught.value)


def test_thousands_of_a_decimal_comma_table_are_refused_too(tmp_path):
    path = tmp_path / "costs.csv"
    for cost in ("1,000", "1.000", "12.500,5"):
        path.write_text(GOOD.replace(",", ";").replace(";50;", f";{cost};"))
        with pytest.raises(InputError, match=r"thousands or decimals|Expected a cost as a number"):
            read_costs(path, NAMES)
    path.write_text(GOOD.replace(",", ";").replace(";50;", ";0,125;"))
    assert read_costs(path, NAMES).values[1][0] == 0.125


def test_a_class_of_the_name_of_referral_and_huge_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "costs.csv"
    path.write_text(GOOD)
    with pytest.raises(InputError, match="a class is called refer"):
        read_costs(path, ("benign", "refer"))
    monkeypatch.setattr("pipelines.scores.costs._LARGEST_FILE", 10)
    with pytest.raises(InputError, match="more than 10 bytes"):
        read_costs(path, NAMES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decisions": ("b", "a")}, "found the decisions b, a, expected the classes"),
        ({"classes": ("a",), "decisions": ("a",)}, "at least two"),
        ({"values": ((0, 1),)}, "expected 2 rows of 2 costs"),
        ({"values": ((0, 1), (1, 0, 1))}, "expected 2 rows of 2 costs"),
    ],
)
def test_tables_of_files_that_nobody_has_checked_must_fit_together(changes, message):
    good = {"classes": ("a", "b"), "decisions": ("a", "b"), "values": ((0, 1), (1, 0))}
    CostTable.model_validate(good)
    with pytest.raises(ValueError, match=message):
        CostTable.model_validate(good | changes)


def test_settings_without_costs_give_none_and_pointless_ones_are_said(tmp_path):
    path, said = tmp_path / "costs.csv", []
    path.write_text(GOOD.replace(",3\n", ",60\n"))
    assert given_costs(CostSettings(), NAMES, said.append) is None
    assert given_costs(CostSettings(costs=Path(path)), NAMES, said.append).refers
    assert [text[:60] for text in said] == [
        "Warning: With these costs refer is never the cheapest decision"[:60]
    ]
