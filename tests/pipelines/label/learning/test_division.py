"""Groups that judge: by their names, whatever else is in the pool."""

import numpy as np
import pytest

from pipelines.label.learning.division import judging_groups


def names(count):
    return [f"group {number}" for number in range(count)]


def test_a_fifth_of_many_groups_judges():
    assert np.mean(judging_groups(names(5000), 0)) == pytest.approx(0.2, abs=0.02)


def test_seeds_set_other_groups_aside():
    assert np.any(judging_groups(names(100), 0) != judging_groups(names(100), 1))


def test_a_group_is_never_divided():
    group = [name for name in names(30) for _ in range(4)]
    judging = judging_groups(group, 0).reshape(30, 4)
    assert np.all(judging == judging[:, :1])


@pytest.mark.parametrize("seed", range(20))
def test_a_pool_that_grows_keeps_every_group_on_its_side(seed):
    rng = np.random.default_rng(seed)
    everything = [names(300)[number] for number in rng.permutation(300)]
    sides = {}
    for count in range(30, 301, 30):
        now = dict(zip(everything[:count], judging_groups(everything[:count], seed).tolist(), strict=True))
        assert {name: now[name] for name in sides} == sides
        sides = now


@pytest.mark.parametrize("seed", range(30))
def test_of_two_groups_one_judges_and_one_trains(seed):
    assert judging_groups(["a", "b", "b"], seed).tolist() in ([True, False, False], [False, True, True])


def test_one_group_trains():
    assert not judging_groups(["a", "a"], 0).any()
    assert judging_groups([], 0).shape == (0,)


def test_names_may_be_of_any_text():
    assert judging_groups(["größe\udcff", "b", "c"], 0).any()


def test_a_fraction_that_is_none_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1, but is 1"):
        judging_groups(["a"], 0, 1.0)
