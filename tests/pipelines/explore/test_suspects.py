"""Label errors are found by neighbours of other groups; uncertain places make no near neighbours."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from pipelines.explore import suspects
from pipelines.explore.latent import LatentMap
from pipelines.explore.suspects import find_suspects


def latent_map(position, std=0.01, relevance=None):
    """Return a map whose lengthscales are all 1, where no relevance is given."""
    position = np.asarray(position, np.float64)
    relevance = position.var(axis=0) if relevance is None else relevance
    return LatentMap(
        position=position,
        std=np.broadcast_to(np.asarray(std, np.float64), position.shape).copy(),
        relevance=np.asarray(relevance, np.float64),
        score=np.arange(len(position), dtype=np.float64),
        seconds=0.0,
    )


def two_clusters(number=20):
    rng = np.random.default_rng(0)
    position = rng.normal(size=(2 * number, 2)) * 0.1
    position[number:, 0] += 5
    return position, ["left"] * number + ["right"] * number


def test_a_wrong_label_is_found_first():
    position, classes = two_clusters()
    classes[3], classes[30] = "right", "left"
    found = find_suspects(latent_map(position), classes, None, 10)
    assert set(found.suspects) == {3, 30}
    assert found.share[3] == pytest.approx(1.0)
    assert found.agreement == pytest.approx(38 / 40)
    assert not found.tells_little
    assert replace(found, agreement=0.7, commonest=0.5).tells_little
    assert found.commonest == 0.5
    assert sorted(set(classes))[found.suggested[3]] == "left"


def test_right_labels_are_no_suspects():
    position, classes = two_clusters()
    found = find_suspects(latent_map(position), classes, None, 10)
    assert found.suspects == ()
    assert found.agreement == 1.0
    np.testing.assert_allclose(found.own_share, 1)


def test_needless_dimensions_do_not_count():
    position, classes = two_clusters()
    noise = np.random.default_rng(1).normal(size=(len(position), 1)) * 1000
    latent = latent_map(np.hstack([position, noise]), relevance=(1, 0.02, 1e-9))
    assert latent.num_relevant == 2
    assert find_suspects(latent, classes, None, 10).agreement == 1.0


def test_a_group_does_not_vouch_for_itself():
    """Five patches of one patient share a wrong label: within the group each would confirm the others."""
    position, classes = two_clusters()
    groups = [f"g{number // 5}" for number in range(len(classes))]
    classes[:5] = ["right"] * 5
    position[:5] = position[5] + np.random.default_rng(2).normal(size=(5, 2)) * 1e-3
    assert set(find_suspects(latent_map(position), classes, groups, 4).suspects) >= {0, 1, 2, 3, 4}
    assert not {0, 1, 2, 3, 4} & set(find_suspects(latent_map(position), classes, None, 4).suspects)


def test_an_uncertain_example_is_a_near_neighbour_of_none():
    position = np.array([[0.0, 0.0], [0.1, 0.0], [0.5, 0.0], [0.6, 0.0]])
    std = np.full((4, 2), 0.01)
    std[1] = 10.0
    classes = ["a", "b", "a", "a"]
    found = find_suspects(latent_map(position, std), classes, None, 2)
    assert (
        found.own_share[0] == 1.0
    )  # its neighbours are the two certain ones, not the uncertain one beside it


def test_neighbours_are_those_of_an_exhaustive_search():
    rng = np.random.default_rng(3)
    position, std = rng.normal(size=(60, 2)), rng.uniform(0.1, 1, (60, 2))
    classes = rng.choice(list("abc"), 60).tolist()
    groups = rng.choice(list("uvwxyz"), 60)
    latent = latent_map(position, std, relevance=(2.0, 1.0))
    found = find_suspects(latent, classes, groups.tolist(), 7)
    scale = np.sqrt([2.0, 1.0]) / position.std(axis=0)
    for row in range(60):
        distance = (((position - position[row]) * scale) ** 2).sum(1) + ((std * scale) ** 2).sum(1)
        distance[groups == groups[row]] = np.inf
        near = [classes[other] for other in np.argsort(distance)[:7]]
        assert found.own_share[row] == pytest.approx(near.count(classes[row]) / 7)


def test_neighbours_are_asked_in_blocks(monkeypatch):
    rng = np.random.default_rng(4)
    latent = latent_map(rng.normal(size=(50, 2)))
    classes = rng.choice(list("abc"), 50).tolist()
    groups = ["large"] * 45 + list("uvwxy")
    whole = find_suspects(latent, classes, groups, 7)
    asked = []

    class Counting(NearestNeighbors):
        def kneighbors(self, X, n_neighbors, **options):
            asked.append(len(X) * n_neighbors)
            return super().kneighbors(X, n_neighbors, **options)

    monkeypatch.setattr(suspects, "NearestNeighbors", Counting)
    monkeypatch.setattr(suspects, "_CANDIDATES", 8)
    monkeypatch.setattr(suspects, "_MOST_FOUND", 100)
    in_blocks = find_suspects(latent, classes, groups, 7)
    np.testing.assert_array_equal(in_blocks.own_share, whole.own_share)
    assert max(asked) <= 100


def test_without_other_groups_or_classes_nothing_is_said():
    position, classes = two_clusters()
    assert find_suspects(latent_map(position), ["one"] * len(classes), None, 5) is None
    found = find_suspects(latent_map(position), classes, ["all"] * len(classes), 5)
    assert found.suspects == ()
    assert np.isnan(found.share).all()
    assert (found.suggested == -1).all()
    assert np.isnan(found.agreement)
    assert not found.tells_little  # nothing was asked
