"""The exact limit against GPflow, against refits, and in its limits."""

from dataclasses import replace

import gpflow
import numpy as np
import pytest
from scipy.special import softmax

from gpmodels.transfer import features
from gpmodels.transfer.exact import fit_exact
from gpmodels.transfer.features import MAX_EXACT_ROWS, place
from gpmodels.transfer.nodes import fixed_mixing, prior_concentration, prior_nodes
from gpmodels.transfer.rows import DomainRows, LeftOut, TransferRows, class_codes, mean_distance
from gpmodels.transfer.score_scale import balanced_parts, compare_with_sources, fit_score_scale, own_scale

NOISE = 0.2


def domain(rng, size, num_outputs=1, shift=0.0, num_features=2):
    x = rng.normal(size=(size, num_features)) + shift
    codes = np.stack([np.sin(x[:, 0] + c) + 0.3 * rng.normal(size=size) for c in range(num_outputs)], axis=1)
    return DomainRows(x, codes, np.ones(size), mean_distance(x))


def problem(seed=0, sizes=(9, 6), num_outputs=1):
    rng = np.random.default_rng(seed)
    domains = [domain(rng, size, num_outputs, shift=0.2 * k) for k, size in enumerate(sizes)]
    return TransferRows(tuple(domains[:-1]), domains[-1], is_classifier=False)


def kernel(a, b, lengthscale):
    return np.exp(-0.5 * np.sum(np.square((a[:, None] - b[None]) / lengthscale), axis=-1))


def slow_fit(rows, node, at, weights=None):
    """Return mean and variance at target inputs, and the log evidence, of the process of all domains."""
    domains = rows.domains
    x, y = np.concatenate([d.x for d in domains]), np.concatenate([d.codes for d in domains])
    weight = np.concatenate([d.weight for d in domains]) if weights is None else weights
    of = np.concatenate([np.full(len(d), i) for i, d in enumerate(domains)])
    target = len(domains) - 1

    def covariance(a, of_a, b, of_b):
        total = np.zeros([len(a), len(b)])
        for i, one in enumerate(domains):
            share_a = np.where(of_a == target, node[i], (of_a == i) * 1.0)
            share_b = np.where(of_b == target, node[i], (of_b == i) * 1.0)
            total += np.outer(share_a, share_b) * kernel(a, b, one.lengthscale)
        return total

    inverse = np.linalg.inv(covariance(x, of, x, of) + np.diag(NOISE / weight))
    at_target = np.full(len(at), target)
    cross = covariance(at, at_target, x, of)
    variance = np.diag(covariance(at, at_target, at, at_target)) - np.sum((cross @ inverse) * cross, axis=1)
    return cross @ inverse @ y, variance, (x, y, of, inverse)


@pytest.mark.parametrize("sizes", [(9, 6), (5, 4, 6), (6,), (3, 40)])
def test_moments_are_those_of_one_process_over_all_rows(sizes):
    rows = problem(sizes=sizes, num_outputs=2)
    node = np.array({1: [1.0], 2: [0.6, 0.4], 3: [0.3, 0.5, 0.2]}[len(sizes)])
    at = np.random.default_rng(5).normal(size=(7, 2))
    model = fit_exact(rows, fixed_mixing(node), noise=NOISE)
    mean, variance, _ = slow_fit(rows, node, at)
    np.testing.assert_allclose(model.mean(at), mean, atol=1e-6)
    np.testing.assert_allclose(model.variance(at), np.tile(variance[:, None], 2), atol=1e-6)


@pytest.mark.parametrize("sizes", [(9, 6), (5, 4, 6), (6,), (3, 40), (2, 3, 60)])
@pytest.mark.parametrize("weighted", [False, True])
def test_nodes_together_are_the_mixture_of_each_alone(sizes, weighted, monkeypatch):
    """Sums over the nodes are formed of their inverses, by rows or by features; each node has none to sum."""
    monkeypatch.setattr(features, "MAX_EXACT_ROWS", 12)
    monkeypatch.setattr(features, "NUM_INDUCING", 8)
    rows = problem(sizes=sizes, num_outputs=2)
    if weighted:
        weight = 1.0 + np.arange(len(rows.target)) % 3
        target = DomainRows(rows.target.x, rows.target.codes, weight, rows.target.lengthscale)
        rows = TransferRows(rows.sources, target, is_classifier=False)
    nodes = prior_nodes(len(sizes) - 1, 2)
    model = fit_exact(rows, nodes, noise=NOISE)
    alone = [fit_exact(rows, fixed_mixing(node), noise=NOISE) for node in nodes.values]
    weight = model.node_weight
    np.testing.assert_allclose(
        model.covariance, sum(w * one.covariance for w, one in zip(weight, alone, strict=True)), atol=1e-8
    )
    np.testing.assert_allclose(
        model.target_weights, np.array([one.target_weights[0] for one in alone]), atol=1e-8
    )
    sources = sum(w * one.source_weights for w, one in zip(weight, alone, strict=True))
    np.testing.assert_allclose(model.source_weights, sources, atol=1e-8)


@pytest.mark.parametrize("sizes", [(9, 6), (5, 4, 6), (3, 40), (2, 3, 60), (30,)])
def test_weights_are_those_of_one_linear_model(sizes, monkeypatch):
    """In its features the limit is Bayesian linear regression, also where inducing inputs are few."""
    monkeypatch.setattr(features, "MAX_EXACT_ROWS", 12)
    monkeypatch.setattr(features, "NUM_INDUCING", 8)
    rows = problem(sizes=sizes, num_outputs=2)
    node = np.array({1: [1.0], 2: [0.6, 0.4], 3: [0.3, 0.5, 0.2]}[len(sizes)])
    model = fit_exact(rows, fixed_mixing(node), noise=NOISE)
    mixing = np.repeat(node, model.sizes)
    ends = np.cumsum(model.sizes)
    designs = []
    for one, domain_rows, end in zip(model.features[:-1], rows.sources, ends, strict=False):
        design = np.zeros([len(domain_rows), ends[-1]])
        design[:, end - one.size : end] = one(domain_rows.x)
        designs.append(design)
    designs.append(np.concatenate([one(rows.target.x) for one in model.features], axis=1) * mixing)
    design = np.concatenate(designs)
    covariance = np.linalg.inv(np.eye(ends[-1]) + design.T @ design / NOISE)
    mean = covariance @ design.T @ np.concatenate([one.codes for one in rows.domains]) / NOISE
    np.testing.assert_allclose(model.target_weights[0], mixing[:, None] * mean, atol=1e-8)
    np.testing.assert_allclose(model.covariance, mixing[:, None] * covariance * mixing, atol=1e-8)
    np.testing.assert_allclose(model.source_weights, mean[: ends[-1] - model.sizes[-1]], atol=1e-8)


def test_mean_equals_coregionalised_gpflow_process():
    rows = problem()
    share, lengthscale = 0.6, 1.5
    rows = TransferRows(
        tuple(DomainRows(d.x, d.codes, d.weight, lengthscale) for d in rows.sources),
        DomainRows(rows.target.x, rows.target.codes, rows.target.weight, lengthscale),
        is_classifier=False,
    )
    model = fit_exact(rows, fixed_mixing([share, 1.0 - share]), noise=NOISE)
    coregion = gpflow.kernels.Coregion(output_dim=2, rank=1, active_dims=[2])
    coregion.W.assign([[1.0], [share]])
    coregion.kappa.assign([1e-12, (1.0 - share) ** 2])
    rbf = gpflow.kernels.SquaredExponential(lengthscales=lengthscale, active_dims=[0, 1])
    x = np.concatenate([np.c_[d.x, np.full(len(d), i)] for i, d in enumerate(rows.domains)])
    y = np.concatenate([d.codes for d in rows.domains])
    process = gpflow.models.GPR((x, y), rbf * coregion, noise_variance=NOISE)
    at = np.random.default_rng(1).normal(size=(8, 2))
    mean, variance = process.predict_f(np.c_[at, np.ones(8)])
    np.testing.assert_allclose(model.mean(at), mean, atol=1e-6)
    np.testing.assert_allclose(model.variance(at), variance, atol=1e-6)


@pytest.mark.parametrize("sizes", [(9, 6), (3, 40)])
def test_left_out_rows_are_those_of_a_refit(sizes):
    rows = problem(sizes=sizes, num_outputs=2)
    model = fit_exact(rows, fixed_mixing([0.6, 0.4]), noise=NOISE)
    target = rows.target
    for n in range(0, len(target), 5):
        kept = np.arange(len(target)) != n
        without = TransferRows(
            rows.sources,
            DomainRows(target.x[kept], target.codes[kept], target.weight[kept], target.lengthscale),
            is_classifier=False,
        )
        refit = fit_exact(without, fixed_mixing([0.6, 0.4]), noise=NOISE)
        at = target.x[n : n + 1]
        np.testing.assert_allclose(model.left_out.mean[n], refit.mean(at)[0], atol=1e-6)
        np.testing.assert_allclose(model.left_out.variance[n], refit.variance(at)[0, 0] + NOISE, atol=1e-6)


def test_left_out_groups_are_those_of_a_refit():
    rows = problem(sizes=(9, 8))
    groups = np.array([0, 0, 1, 1, 1, 2, 3, 3])
    model = fit_exact(rows, fixed_mixing([0.5, 0.5]), noise=NOISE, groups=groups)
    target = rows.target
    for name in range(4):
        kept = groups != name
        part = DomainRows(target.x[kept], target.codes[kept], target.weight[kept], target.lengthscale)
        without = TransferRows(rows.sources, part, is_classifier=False)
        refit = fit_exact(without, fixed_mixing([0.5, 0.5]), noise=NOISE)
        np.testing.assert_allclose(model.left_out.mean[~kept], refit.mean(target.x[~kept]), atol=1e-6)


def test_weights_are_repetitions():
    rows = problem()
    source, target = rows.sources[0], rows.target
    weight = np.array([2.0, 1.0, 3.0, 1.0, 1.0, 1.0])
    weighted = TransferRows(
        rows.sources, DomainRows(target.x, target.codes, weight, target.lengthscale), is_classifier=False
    )
    at = np.random.default_rng(1).normal(size=(5, 2))
    mean = fit_exact(weighted, fixed_mixing([0.6, 0.4]), noise=NOISE).mean(at)
    times = weight.astype(int)
    repeated = DomainRows(
        np.repeat(target.x, times, axis=0),
        np.repeat(target.codes, times, axis=0),
        np.ones(times.sum()),
        target.lengthscale,
    )
    both = TransferRows((source,), repeated, is_classifier=False)
    np.testing.assert_allclose(mean, slow_fit(both, [0.6, 0.4], at)[0], atol=1e-6)


def test_weights_change_certainty_as_repetitions_do():
    """Rows of weight 4 are four copies that are left out together; one new code has the noise σ² alone."""
    rows = problem()
    target, times = rows.target, 4
    heavy = DomainRows(target.x, target.codes, np.full(6, float(times)), target.lengthscale)
    copies = DomainRows(
        np.repeat(target.x, times, axis=0),
        np.repeat(target.codes, times, axis=0),
        np.ones(6 * times),
        target.lengthscale,
    )
    nodes = fixed_mixing([0.6, 0.4])
    one = fit_exact(TransferRows(rows.sources, heavy, is_classifier=False), nodes, noise=NOISE)
    groups = np.repeat(np.arange(6), times)
    many = fit_exact(
        TransferRows(rows.sources, copies, is_classifier=False), nodes, noise=NOISE, groups=groups
    )
    np.testing.assert_allclose(one.left_out.mean, many.left_out.mean[::times], atol=1e-6)
    np.testing.assert_allclose(one.left_out.variance, many.left_out.variance[::times], atol=1e-6)
    assert one.nll == pytest.approx(many.nll, abs=1e-6)


def test_the_error_of_a_difference_is_over_groups():
    gain = np.repeat([1.0, -1.0, 2.0, 0.0], 5)
    by_row = compare_with_sources(gain, np.zeros(20), np.ones(20))
    by_group = compare_with_sources(gain, np.zeros(20), np.ones(20), np.repeat(np.arange(4), 5))
    assert by_group.standard_error == pytest.approx(by_row.standard_error * np.sqrt(5.0))
    assert by_row.standard_error == pytest.approx(np.std(gain) / np.sqrt(20.0))


def test_without_a_share_the_source_does_not_matter():
    rows = problem()
    at = np.random.default_rng(1).normal(size=(5, 2))
    none = fit_exact(rows, fixed_mixing([0.0, 1.0]), noise=NOISE)
    alone = fit_exact(rows.without_sources(), fixed_mixing([1.0]), noise=NOISE)
    np.testing.assert_allclose(none.mean(at), alone.mean(at), atol=1e-12)
    assert none.transfer_weights(at).tolist() == pytest.approx([0.0, 1.0])


def test_with_the_whole_share_the_target_is_one_more_part_of_the_source():
    rows = problem()
    source, target = rows.sources[0], rows.target
    whole = fit_exact(rows, fixed_mixing([1.0, 0.0]), noise=NOISE)
    pooled = DomainRows(
        np.concatenate([source.x, target.x]),
        np.concatenate([source.codes, target.codes]),
        np.ones(15),
        source.lengthscale,
    )
    alone = fit_exact(TransferRows((), pooled, is_classifier=False), fixed_mixing([1.0]), noise=NOISE)
    at = np.random.default_rng(1).normal(size=(5, 2))
    np.testing.assert_allclose(whole.mean(at), alone.mean(at), atol=1e-6)


def test_sources_learn_from_the_target():
    rows = problem()
    model = fit_exact(rows, fixed_mixing([0.6, 0.4]), noise=NOISE)
    at = rows.sources[0].x[:3]
    _, _, (x, y, of, inverse) = slow_fit(rows, [0.6, 0.4], at)
    cross = kernel(at, x, rows.sources[0].lengthscale) * np.where(of == 1, 0.6, 1.0)
    np.testing.assert_allclose(model.source_mean(at, 0), cross @ inverse @ y, atol=1e-6)


@pytest.mark.parametrize("change", ["rows", "sources", "codes"])
def test_order_does_not_matter(change):
    rows = problem(sizes=(6, 5, 6), num_outputs=3)
    at = np.random.default_rng(1).normal(size=(5, 2))
    mean = fit_exact(rows, fixed_mixing([0.3, 0.5, 0.2]), noise=NOISE).mean(at)
    if change == "sources":
        other = TransferRows(rows.sources[::-1], rows.target, is_classifier=False)
        np.testing.assert_allclose(
            mean, fit_exact(other, fixed_mixing([0.5, 0.3, 0.2]), noise=NOISE).mean(at), atol=1e-9
        )
        return
    order = np.random.default_rng(2).permutation(3 if change == "codes" else 6)

    def changed(one):
        if change == "codes":
            return DomainRows(one.x, one.codes[:, order], one.weight, one.lengthscale)
        mixed = order[order < len(one)]
        return DomainRows(one.x[mixed], one.codes[mixed], one.weight[mixed], one.lengthscale)

    other = TransferRows(tuple(map(changed, rows.sources)), changed(rows.target), is_classifier=False)
    again = fit_exact(other, fixed_mixing([0.3, 0.5, 0.2]), noise=NOISE).mean(at)
    np.testing.assert_allclose(mean[:, order] if change == "codes" else mean, again, atol=1e-7)


@pytest.mark.slow
def test_fewer_inducing_inputs_answer_nearly_the_same():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, size=(MAX_EXACT_ROWS + 500, 2))
    codes = np.sin(x[:, :1]) + 0.3 * rng.normal(size=(len(x), 1))
    source = DomainRows(x, codes, np.ones(len(x)), mean_distance(x))
    target = domain(rng, 20)
    assert place(source, None, lengthscale_factor=1.0, seed=0).size < len(x)
    rows = TransferRows((source,), target, is_classifier=False)
    model = fit_exact(rows, fixed_mixing([0.5, 0.5]), noise=NOISE)
    at = rng.uniform(-2.0, 2.0, size=(20, 2))
    mean, variance, _ = slow_fit(rows, [0.5, 0.5], at)
    np.testing.assert_allclose(model.mean(at), mean, atol=0.01)
    np.testing.assert_allclose(model.variance(at)[:, 0], variance, atol=0.01)


def class_problem(
    seed,
    *,
    permuted=False,
    num_classes=5,
    num_features=6,
    shift=0.5,
    spread=1.5,
    source_size=100,
    target_size=15,
):
    rng = np.random.default_rng(seed)
    centres = 2.0 * rng.normal(size=(num_classes, num_features))

    def rows_of(size, offset):
        labels = np.arange(size) % num_classes
        return centres[labels] + offset + spread * rng.normal(size=(size, num_features)), labels

    def as_domain(x, labels):
        return DomainRows(x, class_codes(labels, num_classes), np.ones(len(x)), mean_distance(x))

    source, labels = rows_of(source_size, shift)
    target = as_domain(*rows_of(target_size, 0.0))
    judged = rows_of(400, 0.0)
    if permuted:
        labels = (labels + 1 + np.arange(len(labels)) % (num_classes - 1)) % num_classes
    return TransferRows((as_domain(source, labels),), target), judged


def judged_nll(model, judged):
    scores = model.score_scale * model.mean(judged[0])
    logarithms = scores - np.log(np.sum(np.exp(scores), axis=1, keepdims=True))
    return -float(np.mean(logarithms[np.arange(len(scores)), judged[1]]))


def test_a_source_that_helps_is_taken_and_one_that_misleads_is_not():
    gains, losses, shares = [], [], []
    for seed in range(6):
        found = {}
        for permuted in (False, True):
            rows, judged = class_problem(seed, permuted=permuted)
            model = fit_exact(rows, prior_nodes(1, 7), noise=0.1)
            alone = fit_exact(rows.without_sources(), prior_nodes(0, 7), noise=0.1)
            found[permuted] = (judged_nll(alone, judged) - judged_nll(model, judged), model.mixing[0])
            if permuted:
                assert model.nll > alone.nll - 0.02
        gains.append(found[False][0])
        losses.append(-found[True][0])
        shares.append(found[False][1] - found[True][1])
    assert np.mean(gains) > 0.1
    assert np.mean(losses) < 0.1
    assert np.min(shares) > 0.0


def test_the_other_half_of_the_target_helps():
    gains = []
    for seed in range(4):
        rows, judged = class_problem(seed, shift=0.0)
        model = fit_exact(rows, prior_nodes(1, 7), noise=0.1)
        alone = fit_exact(rows.without_sources(), prior_nodes(0, 7), noise=0.1)
        gains.append(judged_nll(alone, judged) - judged_nll(model, judged))
    assert min(gains) > 0.0


def test_nodes_have_the_moments_of_the_prior():
    for num_sources in (1, 2, 3):
        nodes = prior_nodes(num_sources, 15)
        weight = np.exp(nodes.log_weight)
        assert weight.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(nodes.values.sum(axis=1), 1.0)
        np.testing.assert_allclose(weight @ nodes.values, 1.0 / (num_sources + 1), atol=5e-3)
        variance = weight @ np.square(nodes.values - 1.0 / (num_sources + 1))
        total = 15 * (num_sources + 1)
        expected = 15 * (total - 15) / (total**2 * (total + 1))
        np.testing.assert_allclose(variance, expected, rtol=0.1)
    assert [prior_concentration(n) for n in (1, 3, 30, 500)] == [1, 1, 15, 15]


def test_scale_of_scores_is_finite_where_all_left_out_rows_are_right():
    codes = class_codes(np.arange(6) % 3, 3)
    rows = problem(sizes=(9, 6))
    left_out = fit_exact(rows, fixed_mixing([0.5, 0.5]), noise=NOISE).left_out
    right = left_out._replace(mean=0.2 * codes, variance=np.full(6, 0.25))
    scale = fit_score_scale(right, codes, np.ones(6))
    own = own_scale(3, 0.25)
    assert own < scale < own * np.exp(3.0)
    wrong = left_out._replace(mean=-0.2 * codes, variance=np.full(6, 0.25))
    assert fit_score_scale(wrong, codes, np.ones(6)) < own


def singles(count):
    return [np.array([n]) for n in range(count)]


def test_parts_hold_one_row_of_each_class():
    x, label = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 4
    parts = balanced_parts(x, label, singles(12))
    assert len(parts) == 3
    assert all(sorted(label[part]) == [0, 1, 2, 3] for part in parts)
    assert sorted(np.concatenate(parts)) == list(range(12))
    order = np.random.default_rng(1).permutation(12)
    moved = balanced_parts(x[order], label[order], singles(12))
    assert {frozenset(order[part].tolist()) for part in moved} == {frozenset(part.tolist()) for part in parts}


def test_groups_with_equal_rows_come_into_the_same_parts_in_any_order():
    """Two groups of a class share their smallest row."""
    x = np.array([0.0, 1.0, 0.0, 2.0, 3.0, 4.0, 3.0, 5.0])[:, None]
    label = np.repeat([0, 1], 4)
    group = np.array([0, 0, 1, 1, 2, 2, 3, 3])

    def parts(order):
        members = [
            np.flatnonzero(group[order] == number) for number in np.random.default_rng(0).permutation(4)
        ]
        found = balanced_parts(x[order], label[order], members)
        return sorted(sorted(x[order][part, 0].tolist()) for part in found)

    assert len(parts(np.arange(8))) == 2
    orders = [np.random.default_rng(seed).permutation(8) for seed in range(20)]
    assert all(parts(order) == parts(np.arange(8)) for order in orders)


def test_equal_rows_of_several_classes_come_into_the_same_parts_in_any_order():
    x = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 2.0])[:, None]
    label = np.array([0, 1, 0, 1, 1, 0])
    rows = np.column_stack([x[:, 0], label])

    def parts(order):
        found = balanced_parts(x[order], label[order], singles(6))
        return sorted(sorted(map(tuple, rows[order][part])) for part in found)

    orders = [np.random.default_rng(seed).permutation(6) for seed in range(20)]
    assert all(parts(order) == parts(np.arange(6)) for order in orders)


def test_parts_keep_groups_whole_and_have_one_of_each_class():
    groups = [np.array([0, 1]), np.array([2]), np.array([3, 4, 5]), np.array([6])]
    label = np.array([0, 0, 0, 1, 1, 0, 1])
    parts = balanced_parts(np.arange(7.0)[:, None], label, groups)
    assert len(parts) == 2
    for part in parts:
        assert set(label[part]) == {0, 1}
        assert all(set(group) <= set(part) or not set(group) & set(part) for group in groups)


def test_parts_of_unequal_classes_are_as_many_as_most_rows_have_rows_of_their_class():
    label = np.r_[np.zeros(2, int), np.ones(20, int)]
    parts = balanced_parts(np.arange(22.0)[:, None], label, singles(22))
    assert len(parts) == 20
    assert max(len(part) for part in parts) == 2
    alone = balanced_parts(np.arange(3.0)[:, None], np.arange(3), singles(3))
    assert [part.tolist() for part in alone] == [[0], [1], [2]]


def test_scale_is_that_of_refits_without_a_row_of_each_class():
    rows, _ = class_problem(0)
    target, node = rows.target, fixed_mixing([0.6, 0.4])
    label = np.argmax(target.codes, axis=1)
    mean, variance = np.empty_like(target.codes), np.empty(len(target))
    for part in balanced_parts(target.x, label, singles(len(target))):
        kept = np.delete(np.arange(len(target)), part)
        fewer = DomainRows(target.x[kept], target.codes[kept], target.weight[kept], target.lengthscale)
        refit = fit_exact(TransferRows(rows.sources, fewer), node, noise=0.1)
        mean[part], variance[part] = refit.mean(target.x[part]), refit.variance(target.x[part])[:, 0] + 0.1
    scale = fit_score_scale(LeftOut(mean, variance), target.codes, target.weight)
    assert fit_exact(rows, node, noise=0.1).score_scale == pytest.approx(scale, rel=1e-5)


@pytest.mark.slow
def test_rows_left_out_alone_make_probabilities_too_unsure():
    gains, ratios = [], []
    for seed in range(16):
        rows, judged = class_problem(
            seed, num_classes=10, num_features=20, spread=5.0, source_size=200, target_size=30
        )
        model = fit_exact(rows, prior_nodes(1, 15), noise=0.1)
        alone = fit_score_scale(model.left_out, rows.target.codes, rows.target.weight)
        before, after = (
            judged_nll(replace(model, score_scale=one), judged) for one in (alone, model.score_scale)
        )
        gains.append(before - after)
        ratios.append(model.score_scale / alone)
    assert np.mean(ratios) > 1.05
    assert np.mean(gains) > 2.0 * np.std(gains) / np.sqrt(len(gains))


def test_own_scale_is_that_of_codes_of_sum_zero():
    rng = np.random.default_rng(0)
    for num_classes in (2, 3, 10):
        codes, variance = class_codes(np.arange(num_classes), num_classes), 0.3
        centre = np.eye(num_classes) - 1.0 / num_classes
        covariance = variance * num_classes / (num_classes - 1) * centre
        np.testing.assert_allclose(np.diag(covariance), variance)
        scores = centre @ rng.normal(size=num_classes)
        distance = [(code - scores) @ np.linalg.pinv(covariance) @ (code - scores) for code in codes]
        expected = softmax(-0.5 * np.array(distance))
        np.testing.assert_allclose(softmax(own_scale(num_classes, variance) * scores), expected, rtol=1e-10)


@pytest.mark.parametrize("trouble", ["duplicates", "constant", "one row a class", "one row"])
def test_random_problems_give_numbers(trouble):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3))
    if trouble == "duplicates":
        x[6:] = x[:6]
    if trouble == "constant":
        x[:] = 1.0
    size = {"one row a class": 4, "one row": 1}.get(trouble, 12)

    def as_domain(part, labels):
        return DomainRows(part, class_codes(labels, 4), np.ones(len(part)), mean_distance(part))

    rows = TransferRows((as_domain(x, np.arange(12) % 4),), as_domain(x[:size], np.arange(size) % 4))
    model = fit_exact(rows, prior_nodes(1, 2), noise=0.1)
    assert np.isfinite(model.mean(x)).all()
    assert np.isfinite(model.variance(x)).all()
    assert np.isfinite(model.nll)
