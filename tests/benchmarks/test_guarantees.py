"""The benchmark of guarantees: halves of whole groups, and guarantees that break where groups are ignored."""

import numpy as np

from benchmarks.guarantees import MAX_ERRORS, counted, halves
from pipelines.scores.guarantees import ReferralErrors


def errors(of_group: np.ndarray, each: int) -> tuple[ReferralErrors, dict[str, str]]:
    """Examples of which all of a group are wrong to the same share, and none is more uncertain."""
    names = tuple(f"{number}" for number in range(len(of_group) * each))
    group_of = {name: f"{int(name) // each}" for name in names}
    return ReferralErrors(names, np.zeros(len(names)), np.repeat(of_group, each)), group_of


def test_no_group_is_in_both_halves():
    found, group_of = errors(np.zeros(21), 4)
    chooses, shows = halves(found, [group_of[name] for name in found.names], seed=0)
    groups = [{group_of[name] for name in half.names} for half in (chooses, shows)]
    assert not groups[0] & groups[1]
    assert [len(half) for half in groups] == [10, 11]
    assert sorted(chooses.names + shows.names) == sorted(found.names)


def test_what_is_never_wrong_is_guaranteed_and_kept():
    found, group_of = errors(np.zeros(400), 1)
    rows = list(counted("set", "method", found, group_of, divisions=5))
    assert [row.max_error for row in rows if row.by == "groups"] == list(MAX_ERRORS)
    for row in rows:
        assert (row.guaranteed, row.kept, row.share, row.error) == (5, 5, 1.0, 0.0)


def test_guarantees_that_ignore_groups_break():
    wrong = (np.arange(120) < 12).astype(float)  # a half with fewer than 6 of them leaves more to the other
    found, group_of = errors(wrong, 30)
    rows = {(row.by, row.max_error): row for row in counted("set", "method", found, group_of, divisions=40)}
    by_groups, by_examples = rows["groups", 0.1], rows["examples", 0.1]
    assert by_groups.guaranteed <= 2  # sixty groups with six wrong ones are too few for it
    assert by_examples.guaranteed - by_examples.kept >= 5
