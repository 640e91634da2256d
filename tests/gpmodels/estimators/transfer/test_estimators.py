"""The transfer estimators as a scikit-learn user meets them."""

import copy
import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpmodels import ATLDGPClassifier, ATLDGPRegressor, STLDGPClassifier, STLDGPRegressor
from gpmodels.estimators.transfer.base import TransferEstimator


def simulated(seed=0, num_source=60, num_target=12, shift=1.0, misleads=False):
    """Return rows, labels and domains, and rows and labels of the target to judge by."""
    rng = np.random.default_rng(seed)

    def rows(size):
        labels = np.arange(size) % 3
        centres = 3.0 * np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5], [-1.0, -1.0, 0.0]])
        return centres[labels] + 1.5 * rng.normal(size=(size, 3)), labels

    source, source_labels = rows(num_source)
    target, target_labels = rows(num_target)
    if misleads:
        source_labels = rng.permutation(source_labels)
    names = np.array(["ash", "beech", "oak"])
    x = np.concatenate([2.0 * source + shift, target])
    domain = np.r_[np.zeros(num_source, int), -np.ones(num_target, int)]
    judged, judged_labels = rows(300)
    return x, names[np.r_[source_labels, target_labels]], domain, judged, names[judged_labels]


@parametrize_with_checks(
    [ATLDGPClassifier(), ATLDGPRegressor()],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": (
            "a row that is there twice stays when one of its copies is left out; one of weight 2 does not"
        )
    },
)
def test_checks(estimator, check):
    check(estimator)


def test_source_helps_the_target():
    x, y, domain, judged, labels = simulated()
    both = ATLDGPClassifier().fit(x, y, sample_domain=domain)
    alone = ATLDGPClassifier().fit(x[domain < 0], y[domain < 0])
    assert both.score(judged, labels) > alone.score(judged, labels)
    assert both.leave_one_out_.with_sources < both.leave_one_out_.without_sources
    assert both.leave_one_out_.without_sources == pytest.approx(alone.leave_one_out_.with_sources)
    assert 0.3 < both.mixing_[0] < 0.9
    assert 0.2 < both.transfer_weight_[0] < 1.0
    assert re.search(r"source 0 gives \d+% ± \d+% of the mixture", both.summary())
    assert "there is no source" in alone.summary()


def test_a_source_that_misleads_is_said_to():
    x, y, domain, _, _ = simulated(misleads=True, num_target=30)
    with pytest.warns(UserWarning, match="The sources do not help"):
        both = ATLDGPClassifier(mixing=0.7).fit(x, y, sample_domain=domain)
    assert "The sources do not help" in both.summary()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = ATLDGPClassifier().fit(x, y, sample_domain=domain)
        helped = ATLDGPClassifier().fit(*simulated(num_target=30)[:2], sample_domain=domain)
    assert learned.mixing_[0] < helped.mixing_[0]
    assert learned.leave_one_out_.with_sources < both.leave_one_out_.with_sources


@pytest.mark.slow
def test_training_is_kept_where_left_out_rows_gain_by_it():
    x, y, domain, judged, labels = simulated()
    exact = ATLDGPClassifier().fit(x, y, sample_domain=domain)
    trained = ATLDGPClassifier(max_iterations=20).fit(x, y, sample_domain=domain)
    best = trained.leave_one_out_.with_sources
    assert best <= exact.leave_one_out_.with_sources
    assert trained.is_trained_ == (best < exact.leave_one_out_.with_sources)
    assert "chosen by left-out rows: the " in trained.summary()
    assert trained.score(judged, labels) > 0.8
    assert len(trained.learning_curve_) > 3
    with pytest.raises(ValueError, match="set max_iterations=0"):
        trained.fit(x, y, sample_domain=domain, groups=np.arange(len(x)))


@pytest.mark.slow
def test_training_that_predicts_nothing_is_not_kept(monkeypatch):
    train = TransferEstimator._trained

    def collapsed(self, rows, seed):
        return replace(train(self, rows, seed), nll=float(np.log(3.0)))

    monkeypatch.setattr(TransferEstimator, "_trained", collapsed)
    x, y, domain, _, _ = simulated()
    model = ATLDGPClassifier(max_iterations=5).fit(x, y, sample_domain=domain)
    assert not model.is_trained_
    assert "the exact limit, since training did not help" in model.summary()


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The sources do not help")
@pytest.mark.parametrize("kind", [STLDGPClassifier, STLDGPRegressor, ATLDGPClassifier])
def test_trained_models_are_saved_and_copied(kind, tmp_path):
    x, y, domain, judged, _ = simulated()
    targets = x[:, 0] + x[:, 1] if kind is STLDGPRegressor else y
    model = kind(max_iterations=15).fit(x, targets, sample_domain=domain)
    if kind is ATLDGPClassifier and not model.is_trained_:
        pytest.fail("the problem should be one where training is kept")
    model.save(tmp_path / "model.npz")
    pickled = pickle.loads(pickle.dumps(model))  # noqa: S301 - the test's own
    for other in (kind.load(tmp_path / "model.npz"), pickled):
        np.testing.assert_array_equal(model.predict(judged), other.predict(judged))
        assert model.summary() == other.summary()
    with np.load(tmp_path / "model.npz") as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "changed.npz", **(arrays | {"part_1_mean": arrays["part_1_mean"][:, :1]}))
    with pytest.raises(ValueError, match=r"changed\.npz"):
        kind.load(tmp_path / "changed.npz")
    with pytest.raises(ValueError, match="rows of the target alone"):
        model.predict(judged, sample_domain=np.zeros(len(judged)))


def test_a_second_layer_is_kept_where_it_helps_and_saved(tmp_path):
    x, y, domain, judged, _ = simulated()
    exact = ATLDGPClassifier().fit(x, y, sample_domain=domain)
    model = ATLDGPClassifier(output="two_layer").fit(x, y, sample_domain=domain)
    assert model.is_trained_
    assert "chosen by left-out rows: the second layer" in model.summary()
    assert model.leave_one_out_ == exact.leave_one_out_
    difference = np.abs(model.predict_proba(judged) - exact.predict_proba(judged)).max()
    assert 1e-6 < difference < 0.2
    model.save(tmp_path / "model.npz")
    loaded = ATLDGPClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(judged), model.predict_proba(judged))


@pytest.mark.parametrize(("seed", "size", "why"), [(2, 12, "did not gain"), (0, 6, "too few labels")])
def test_a_second_layer_that_is_not_kept_says_why(seed, size, why, tmp_path):
    x, y, domain, _, _ = simulated(seed=seed, num_target=size)
    model = ATLDGPClassifier(output="two_layer").fit(x, y, sample_domain=domain)
    assert not model.is_trained_
    assert model.second_layer_judged_ == (size == 12)
    assert why in model.summary()
    assert "training" not in model.summary()
    model.save(tmp_path / "model.npz")
    assert ATLDGPClassifier.load(tmp_path / "model.npz").summary() == model.summary()


def test_a_symmetric_model_has_no_exact_limit_for_a_second_layer():
    with pytest.raises(ValueError, match="which STLDGPClassifier does not have"):
        STLDGPClassifier(output="two_layer", max_iterations=0).fit(X, Y, sample_domain=DOMAIN)


def test_no_share_is_the_target_alone():
    x, y, domain, judged, _ = simulated()
    none = ATLDGPClassifier(mixing=0.0).fit(x, y, sample_domain=domain)
    alone = ATLDGPClassifier().fit(x[domain < 0], y[domain < 0])
    np.testing.assert_allclose(none.predict_proba(judged), alone.predict_proba(judged), atol=1e-9)


def test_two_sources_and_their_rows():
    x, y, domain, judged, labels = simulated(num_source=80)
    domain = domain.copy()
    domain[:40] = 7
    model = ATLDGPClassifier().fit(x, y, sample_domain=domain)
    assert model.domains_.sources == (0, 7)
    assert model.mixing_.shape == model.mixing_std_.shape == model.transfer_weight_.shape == (2,)
    assert model.score(judged, labels) > 0.8
    assert model.score(x[:80], y[:80], sample_domain=domain[:80]) > 0.8
    # The scales of the domains differ, so a source's rows are not answered as the target's.
    assert model.score(x[:80], y[:80]) < model.score(x[:80], y[:80], sample_domain=domain[:80])
    names = np.where(domain < 0, -3, domain)
    again = ATLDGPClassifier().fit(x, y, sample_domain=names)
    np.testing.assert_array_equal(model.predict_proba(judged), again.predict_proba(judged))
    assert "with them" in model.summary()


@pytest.mark.parametrize("mark", [-1, None, np.nan, -1.0])
@pytest.mark.parametrize("kind", ["list", "objects", "pandas"])
def test_rows_without_a_label_among_strings_are_those_among_numbers(mark, kind):
    x, y, domain, judged, _ = simulated()
    rows = np.concatenate([x, judged[:50]])
    domains = np.r_[domain, np.full(50, -1)]
    _, index = np.unique(y, return_inverse=True)
    by_number = ATLDGPClassifier().fit(rows, np.r_[index, np.full(50, -1)], sample_domain=domains)
    labels = [*y.tolist(), *[mark] * 50]
    given = {"list": labels, "objects": np.array([*labels, None], object)[:-1], "pandas": pd.Series(labels)}
    by_name = ATLDGPClassifier().fit(rows, given[kind], sample_domain=domains)
    assert by_name.classes_.tolist() == ["ash", "beech", "oak"]
    np.testing.assert_array_equal(by_name.predict_proba(judged), by_number.predict_proba(judged))
    assert set(by_name.predict(judged)) <= {"ash", "beech", "oak"}


@pytest.mark.parametrize("scaling", ["domain", "joint"])
def test_scores_of_real_targets_are_in_their_own_unit(scaling, tmp_path):
    x, _, domain, *_ = simulated(num_target=14)
    values = np.sin(x[:, 0]) + x[:, 1]
    metres = ATLDGPRegressor(scaling=scaling).fit(x, values, sample_domain=domain)
    millimetres = ATLDGPRegressor(scaling=scaling).fit(x, 1000.0 * values + 5.0, sample_domain=domain)
    for name in ("with_sources", "without_sources"):
        one, other = (getattr(model.leave_one_out_, name) for model in (metres, millimetres))
        assert other == pytest.approx(one + np.log(1000.0), abs=1e-6)
    assert millimetres.leave_one_out_.standard_error == pytest.approx(metres.leave_one_out_.standard_error)
    # the densities of the left-out values themselves
    left_out, scales = millimetres.model_.left_out, millimetres.target_scales_
    mean = left_out.mean[:, 0] * scales.deviation[-1, 0] + scales.mean[-1, 0]
    deviation = np.sqrt(left_out.variance) * scales.deviation[-1, 0]
    each = norm.logpdf(1000.0 * values[domain < 0] + 5.0, mean, deviation)
    assert millimetres.leave_one_out_.with_sources == pytest.approx(-each.mean())
    millimetres.save(tmp_path / "model.npz")
    assert ATLDGPRegressor.load(tmp_path / "model.npz").leave_one_out_ == millimetres.leave_one_out_


@pytest.mark.parametrize("text", ["", "-1", "None", "nan"])
def test_a_mark_that_became_a_text_is_no_class(text):
    x, y, domain, *_ = simulated()
    labels = np.where(np.arange(len(y)) == len(y) - 1, text, y)
    with pytest.raises(ValueError, match="by -1 or None in an array of objects"):
        ATLDGPClassifier().fit(x, labels, sample_domain=domain)
    assert text in ATLDGPClassifier().fit(x, labels).classes_


@pytest.mark.filterwarnings("ignore:y = -1 marks rows")
def test_strings_are_all_unlabelled_or_of_one_class():
    x, y, domain, *_ = simulated()
    with pytest.raises(ValueError, match="at least two classes"):
        ATLDGPClassifier().fit(x, [None] * len(y), sample_domain=domain)
    with pytest.raises(ValueError, match="contains NaN"):  # among numbers -1 alone is a mark
        ATLDGPClassifier().fit(x, [float("nan"), *[1.0, 2.0] * 35, 1.0], sample_domain=domain)
    with pytest.raises(ValueError, match="marks rows without a label"):
        ATLDGPClassifier().fit(x, ["oak"] * (len(y) - 1) + [None], sample_domain=domain)


def test_strings_with_marks_are_kept_in_files(tmp_path):
    x, y, domain, judged, _ = simulated()
    model = ATLDGPClassifier().fit(x, [*y[:-1].tolist(), None], sample_domain=domain)
    model.save(tmp_path / "model.npz")
    again = ATLDGPClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(judged), model.predict(judged))


def test_unlabelled_rows_set_the_scales_and_nothing_else():
    x, y, domain, judged, _ = simulated()
    index = np.searchsorted(["ash", "beech", "oak"], y)
    unlabelled = np.concatenate([x, judged])
    marked = np.r_[index, np.full(len(judged), -1)]
    domains = np.r_[domain, np.full(len(judged), -1)]
    more = ATLDGPClassifier().fit(unlabelled, marked, sample_domain=domains)
    less = ATLDGPClassifier().fit(x, index, sample_domain=domain)
    assert more.classes_.tolist() == [0, 1, 2]
    assert not np.array_equal(more.scales_.mean[-1], less.scales_.mean[-1])
    joint = ATLDGPClassifier(scaling=None)
    np.testing.assert_allclose(
        joint.fit(unlabelled, marked, sample_domain=domains).predict_proba(judged),
        joint.fit(x, index, sample_domain=domain).predict_proba(judged),
    )
    values = np.r_[x[:, 0], np.full(len(judged), np.nan)]
    model = ATLDGPRegressor(scaling=None).fit(unlabelled, values, sample_domain=domains)
    expected = ATLDGPRegressor(scaling=None).fit(x, x[:, 0], sample_domain=domain)
    np.testing.assert_allclose(model.predict(judged), expected.predict(judged))


def test_scales_are_the_domains_own_unless_joint():
    x, y, domain, judged, _ = simulated(shift=50.0)
    own = ATLDGPClassifier().fit(x, y, sample_domain=domain)
    moved = x.copy()
    moved[domain == 0] = 3.0 * moved[domain == 0] - 7.0
    again = ATLDGPClassifier().fit(moved, y, sample_domain=domain)
    np.testing.assert_allclose(own.predict_proba(judged), again.predict_proba(judged), atol=1e-6)
    joint = ATLDGPClassifier(scaling="joint").fit(x, y, sample_domain=domain)
    assert not np.allclose(own.predict_proba(judged), joint.predict_proba(judged), atol=1e-3)


def test_groups_are_left_out_together():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(8), 5)
    x = rng.normal(size=(8, 4))[groups] + 0.05 * rng.normal(size=(40, 4))
    y = rng.permutation(np.repeat([0, 1], 4))[groups]
    by_row = ATLDGPClassifier().fit(x, y)
    by_group = ATLDGPClassifier().fit(x, y, groups=groups)
    # The labels are of chance: rows repeat those of their group, and groups say nothing of each other.
    assert by_row.leave_one_out_.with_sources < 0.3
    assert by_group.leave_one_out_.with_sources > 0.5
    assert by_group.predict_proba(x).max() < by_row.predict_proba(x).max()


def test_regressor_is_sure_where_it_should_be():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, size=(120, 2))
    y = np.sin(x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.normal(size=120)
    domain = np.r_[np.zeros(100), -np.ones(20)]
    model = ATLDGPRegressor().fit(x, y, sample_domain=domain)
    at = rng.uniform(-3.0, 3.0, size=(500, 2))
    truth = np.sin(at[:, 0]) + 0.3 * at[:, 1] + 0.1 * rng.normal(size=500)
    mean, deviation = model.predict(at, return_std=True)
    assert model.score(at, truth) > ATLDGPRegressor().fit(x[100:], y[100:]).score(at, truth)
    assert 0.85 < np.mean(np.abs(truth - mean) < 1.96 * deviation) <= 1.0
    assert np.isfinite(model.predict(x[:5], sample_domain=domain[:5])).all()


def test_source_in_other_units_helps_a_regressor():
    rng = np.random.default_rng(1)
    x = rng.uniform(-3.0, 3.0, size=(120, 1))
    y = np.sin(x[:, 0])
    y[:100] = 40.0 * y[:100] + 300.0
    domain = np.r_[np.zeros(100), -np.ones(20)]
    model = ATLDGPRegressor().fit(x, y, sample_domain=domain)
    at = np.linspace(-3.0, 3.0, 50)[:, None]
    assert np.max(np.abs(model.predict(at) - np.sin(at[:, 0]))) < 0.3
    source = model.predict(at, sample_domain=np.zeros(50))
    assert np.max(np.abs(source - 40.0 * np.sin(at[:, 0]) - 300.0)) < 12.0


@pytest.mark.parametrize("kind", [ATLDGPClassifier, ATLDGPRegressor])
def test_saved_and_copied_estimators_predict_the_same(kind, tmp_path):
    x, y, domain, judged, _ = simulated()
    model = kind().fit(x, y if kind is ATLDGPClassifier else x[:, 0], sample_domain=domain)
    model.save(tmp_path / "model.npz")
    pickled = pickle.loads(pickle.dumps(model))  # noqa: S301 - the test's own
    others = [kind.load(tmp_path / "model.npz"), pickled, copy.deepcopy(model)]
    for other in others:
        np.testing.assert_array_equal(model.predict(judged), other.predict(judged))
        assert model.summary() == other.summary()
    with pytest.raises(ValueError, match="is of ATLDGP"):
        ({ATLDGPClassifier, ATLDGPRegressor} - {kind}).pop().load(tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("lengthscales", lambda a: -a),
        ("nodes", lambda a: a[:, :1]),
        ("covariance", lambda a: a * np.nan),
        ("classes", lambda a: a[:2]),
        ("sources", lambda a: a - 5),
        ("scale_deviation", lambda a: 0.0 * a),
    ],
)
def test_damaged_files_are_refused(name, change, tmp_path):
    x, y, domain, _, _ = simulated()
    ATLDGPClassifier().fit(x, y, sample_domain=domain).save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "changed.npz", **(arrays | {name: change(arrays[name])}))
    with pytest.raises(ValueError, match=r"changed\.npz"):
        ATLDGPClassifier.load(tmp_path / "changed.npz")


def test_domains_are_routed_through_pipelines_and_cross_validation():
    x, y, domain, _, _ = simulated(num_target=30)
    groups = np.arange(len(x)) // 2
    with config_context(enable_metadata_routing=True):
        model = ATLDGPClassifier().set_fit_request(sample_domain=True, groups=True)
        model = model.set_score_request(sample_domain=True).set_predict_request(sample_domain=True)
        pipeline = make_pipeline(FunctionTransformer(), model)
        pipeline.fit(x, y, sample_domain=domain, groups=groups)
        assert pipeline.predict(x, sample_domain=domain).shape == (len(x),)
        found = cross_validate(
            pipeline,
            x,
            y,
            cv=GroupKFold(3),
            params={"sample_domain": domain, "groups": groups},
        )
        assert found["test_score"].min() > 0.7
    assert cross_val_score(ATLDGPClassifier(), x[domain < 0], y[domain < 0], cv=KFold(3)).min() > 0.3


def test_inside_a_pipeline_of_skada():
    skada = pytest.importorskip("skada", reason="skada comes with the extra peers")
    x, y, domain, judged, _ = simulated()
    numbers, index = np.where(domain < 0, -2, 1), np.searchsorted(["ash", "beech", "oak"], y)
    request = ATLDGPClassifier().set_fit_request(sample_domain=True)
    pipeline = skada.make_da_pipeline(request, mask_target_labels=False)
    pipeline.fit(x, index, sample_domain=numbers)
    expected = ATLDGPClassifier().fit(x, index, sample_domain=numbers)
    found = pipeline.predict(judged, sample_domain=np.full(len(judged), -2))
    np.testing.assert_array_equal(found, expected.predict(judged))


X, Y, DOMAIN, _, _ = simulated()


@pytest.mark.filterwarnings("ignore:y = -1 marks rows")
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sample_domain": DOMAIN[:-1]}, "Give one number for each row"),
        ({"sample_domain": np.abs(DOMAIN)}, "no negative number"),
        ({"sample_domain": np.r_[[-2], DOMAIN[1:]]}, r"the negative numbers \[-2, -1\]"),
        ({"sample_domain": DOMAIN + 0.5}, "whole numbers"),
        ({"sample_domain": np.where(DOMAIN < 0, -np.inf, 0.0)}, "whole numbers"),
        ({"sample_domain": np.array(["a"] * len(Y))}, "whole numbers"),
        ({"y": np.where(DOMAIN < 0, -1, np.arange(len(Y)) % 3)}, "no labelled row of the target"),
        ({"y": np.where(DOMAIN == 0, -1, np.arange(len(Y)) % 3)}, "Source 0 has no labelled row"),
        ({"y": np.where(np.arange(len(Y)) % 2, -1, 1)}, "The label -1 marks rows without a label"),
        ({"sample_weight": (DOMAIN == 0).astype(float)}, "no labelled row of the target"),
        ({"X": np.where(X > 1e9, X, np.nan)}, "NaN"),
    ],
)
def test_bad_rows_are_refused_in_a_sentence(changed, message):
    arguments = {"X": X, "y": Y, "sample_domain": DOMAIN} | changed
    model = ATLDGPClassifier().fit(X, Y, sample_domain=DOMAIN)
    with pytest.raises(ValueError, match=message):
        model.fit(**arguments)
    with pytest.raises(NotFittedError):
        model.predict(X)  # nothing is left of the model before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mixing": 1.5}, "shares of the sources"),
        ({"mixing": "free"}, "learned"),
        ({"mixing": (0.3, 0.3)}, "2 shares, but there are 1 sources"),
        ({"mixing": True}, "shares of the sources"),
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"scaling": "target"}, "scaling"),
        ({"max_iterations": -1}, "max_iterations"),
        ({"latent_posterior": "point"}, "latent_posterior"),
        ({"output": "deep"}, "output must be one of"),
        ({"output": "two_layer", "max_iterations": 5}, "max_iterations=5 trains another model"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(settings, message):
    with pytest.raises(ValueError, match=message):
        ATLDGPClassifier(**settings).fit(X, Y, sample_domain=DOMAIN)


def test_rows_of_an_unknown_domain_are_refused():
    model = ATLDGPClassifier().fit(X, Y, sample_domain=DOMAIN)
    with pytest.raises(ValueError, match="Give each row one of these numbers"):
        model.predict(X, sample_domain=np.full(len(X), 5))


def test_class_that_only_one_domain_has():
    y = np.where((DOMAIN < 0) & (Y == "oak"), "ash", Y)
    with pytest.warns(UserWarning, match=r"no labelled row of the classes \['oak'\]"):
        model = ATLDGPClassifier().fit(X, y, sample_domain=DOMAIN)
    assert model.classes_.tolist() == ["ash", "beech", "oak"]
    y = np.where((DOMAIN == 0) & (Y == "oak"), "ash", Y)
    model = ATLDGPClassifier().fit(X, y, sample_domain=DOMAIN)
    assert model.predict_proba(X[DOMAIN < 0]).shape == (12, 3)


def test_a_label_of_minus_one_that_may_be_a_class_is_pointed_out():
    y = np.where(DOMAIN == 0, np.arange(len(Y)) % 3 - 1, np.arange(len(Y)) % 2)
    with pytest.warns(UserWarning, match="Where -1 is a class, give it another name"):
        model = ATLDGPClassifier().fit(X, y, sample_domain=DOMAIN)
    assert model.classes_.tolist() == [0, 1]


def test_few_values_to_standardise_by_are_pointed_out():
    few = np.r_[np.zeros(len(Y) - 3, int), -np.ones(3, int)]
    with pytest.warns(UserWarning, match=r"The target has 3 labelled rows.*scaling='joint'"):
        ATLDGPRegressor().fit(X, X[:, 0], sample_domain=few)


def test_what_was_found_goes_to_tensorboard(tmp_path):
    ATLDGPClassifier(log_dir=str(tmp_path)).fit(X, Y, sample_domain=DOMAIN)
    assert [path for path in tmp_path.iterdir() if "tfevents" in path.name]
