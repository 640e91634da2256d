"""What the estimators share: weights, scaling, sizes, unusual data, and messages about settings and data."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from gpmodels import (
    HGPClassifier,
    HGPRegressor,
    SVGPClassifier,
    SVGPRegressor,
    VMGPClassifier,
    VMGPRegressor,
)
from gpmodels.estimators.fitting.sizes import default_num_experts, default_num_inducing, expert_size
from gpmodels.estimators.sparse.base import FULL_BATCH_VALUES
from tests.gpmodels.estimators.small import SMALL

CLASSIFIERS = (HGPClassifier, SVGPClassifier, VMGPClassifier)
REGRESSORS = (HGPRegressor, SVGPRegressor, VMGPRegressor)
OFTEN = (HGPClassifier, SVGPClassifier, SVGPRegressor)
"""One of each kind of fit; the rest are of the same code."""
THE_REST = (pytest.mark.slow, pytest.mark.exhaustive)
every_class = pytest.mark.parametrize(
    "cls",
    [
        pytest.param(cls, marks=() if cls in OFTEN else THE_REST, id=cls.__name__)
        for cls in (*CLASSIFIERS, *REGRESSORS)
    ],
)
two_classes = pytest.mark.parametrize("cls", [SVGPClassifier, SVGPRegressor])


def make(cls, **changes):
    experts = {} if cls.__name__.startswith("SVGP") else {"num_experts": 2}
    return cls(**SMALL | experts | changes)


def data(cls, size=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 2)) * [1.0, 30.0] + [5.0, 0.0]
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=size)
    return x, (y > 0).astype(int) if cls in CLASSIFIERS else 100.0 * y


@pytest.mark.sweep
@pytest.mark.slow
@every_class
def test_weights_count_rows(cls):
    """At fixed parameters the bound with weights is that of repeated rows."""
    x, y = data(cls)
    estimator = make(cls, max_iterations=2).fit(x, y)
    weight = np.arange(len(x)) % 4
    repeated = np.repeat(np.arange(len(x)), weight)
    bound = estimator.bound(x, y, sample_weight=weight)
    assert bound == pytest.approx(estimator.bound(x[repeated], y[repeated]), rel=1e-8)
    assert abs(bound - estimator.bound(x, y)) > 0.1


@pytest.mark.slow
@two_classes
def test_weighted_and_repeated_rows_start_from_the_same_scaling(cls):
    x, y = data(cls)
    weight = np.arange(len(x)) % 4
    repeated = np.repeat(np.arange(len(x)), weight)
    weighted = make(cls).fit(x, y, sample_weight=weight)
    plain = make(cls).fit(x[repeated], y[repeated])
    for name in ("input_mean_", "input_scale_", "target_mean_", "target_scale_"):
        if hasattr(plain, name):
            np.testing.assert_allclose(getattr(weighted, name), getattr(plain, name), rtol=1e-12)
    assert weighted.head_settings_["num_inducing"] == plain.head_settings_["num_inducing"]


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("cls", [HGPClassifier, HGPRegressor])
def test_rows_of_weight_zero_play_no_part(cls):
    x, y = data(cls)
    rng = np.random.default_rng(3)
    far = np.concatenate([x, 1000.0 * rng.normal(size=(20, 2))])
    labels = np.concatenate([y, rng.permutation(y)[:20]])
    weight = np.repeat([1.0, 0.0], [60, 20])
    padded = make(cls).fit(far, labels, sample_weight=weight)
    plain = make(cls).fit(x, y)
    for one, other in zip(padded.weights_, plain.weights_, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@two_classes
@pytest.mark.parametrize("factor", [1e-12, pytest.param(1e12, marks=pytest.mark.slow)])
def test_units_of_the_features_do_not_matter(cls, factor):
    x, y = data(cls)
    x = x - 5.0
    plain, scaled = make(cls).fit(x, y), make(cls).fit(factor * x, y)
    for name, value in plain.predict_distribution(x).items():
        np.testing.assert_allclose(scaled.predict_distribution(factor * x)[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@two_classes
def test_unusual_columns(cls):
    """Integers, one column alone, and a constant one."""
    x, y = data(cls)
    whole = np.round(10 * x).astype(int)
    np.testing.assert_array_equal(
        make(cls).fit(whole, y).predict(whole), make(cls).fit(whole.astype(float), y).predict(whole * 1.0)
    )
    single = make(cls, max_iterations=20).fit(x[:, :1], y)
    assert single.score(x[:, :1], y) > 0.5
    constant = np.column_stack([x[:, 0], np.full(len(x), 3.0)])
    with_constant = make(cls, max_iterations=20).fit(constant, y)
    assert with_constant.score(constant, y) > 0.5


@pytest.mark.sweep
@pytest.mark.slow
@every_class
def test_fewer_rows_than_inducing_points(cls):
    x, y = data(cls, 5)
    y[:2] = (0, 1)
    estimator = make(cls, num_inducing=50).fit(x, y)
    assert estimator.head_settings_["num_inducing"] == 5
    assert np.isfinite(estimator.predict_distribution(x)["latent_variance"]).all()


@pytest.mark.sweep
@pytest.mark.slow
@every_class
def test_nothing_but_duplicates(cls):
    x, y = data(cls)
    x = np.tile(x[:1], (len(x), 1))
    outputs = make(cls).fit(x, y).predict_distribution(x)
    if cls in CLASSIFIERS:
        np.testing.assert_allclose(outputs["probability"][:, 1], np.mean(y), atol=0.1)
    else:
        np.testing.assert_allclose(outputs["mean"], np.mean(y), atol=0.3 * np.std(y))


@pytest.mark.sweep
@pytest.mark.slow
@every_class
def test_data_that_cannot_be_used(cls):
    x, y = data(cls)
    broken = x.copy()
    broken[3, 1] = np.nan
    estimator = make(cls)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        estimator.predict(x)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        estimator.bound(x, y)
    with pytest.raises(ValueError, match="contains NaN"):
        estimator.fit(broken, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        estimator.fit(x, y[1:])
    with pytest.raises(ValueError, match="Negative values"):
        estimator.fit(x, y, sample_weight=-np.ones(len(x)))
    estimator.fit(x, y)
    with pytest.raises(ValueError, match="contains NaN"):
        estimator.predict(broken)
    with pytest.raises(ValueError, match=r"X has 1 features, but .* is expecting 2 features"):
        estimator.predict(x[:, :1])


@two_classes
def test_all_weights_zero_is_an_error(cls):
    x, y = data(cls)
    with pytest.raises(ValueError, match=r"weight"):
        make(cls).fit(x, y, sample_weight=np.zeros(len(x)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "sgd"}, "optimizer must be one of .*, but is 'sgd'"),
        ({"batch_size": 0}, "batch_size must be a positive integer, but is 0"),
        ({"learning_rate": -1.0}, r"learning_rate must be a finite number from 0, but is -1\.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number from 0, but is nan"),
        ({"max_iterations": 0}, "max_iterations must be a positive integer, but is 0"),
        ({"validation_fraction": 1.0}, "validation_fraction must lie between 0 and 1"),
        ({"num_inducing": 0}, 'num_inducing must be "auto" or a positive integer, but is 0'),
        ({"num_inducing": "many"}, "num_inducing must be \"auto\" or a positive integer, but is 'many'"),
        ({"num_inducing": True}, "num_inducing must be"),
        ({"num_experts": -1}, 'num_experts must be "auto" or an integer from 0, but is -1'),
        ({"num_experts": 2.5}, "num_experts must be"),
        ({"num_expert_inducing": 0}, "num_expert_inducing must be a positive integer or None, but is 0"),
        ({"kernel": "cubic"}, "cubic"),
        ({"likelihood": "poisson"}, "poisson"),
        ({"class_kernels": "none"}, "class_kernels must be one of"),
        ({"global_weight": -0.5}, r"global_weight must be a finite number from 0, but is -0\.5"),
        ({"expert_variance": "some"}, "expert_variance must be one of"),
        ({"e_step": "medium"}, "e_step must be one of"),
        ({"dtype": "float16"}, "float16"),
        ({"class_weight": "heavy"}, "class_weight"),
        ({"random_state": "today"}, "today"),
    ],
    ids=str,
)
def test_settings_out_of_range_are_named(settings, message):
    x, y = data(HGPClassifier, 20)
    with pytest.raises(ValueError, match=message):
        make(HGPClassifier, **settings).fit(x, y)


@pytest.mark.slow
def test_no_experts_at_all():
    x, y = data(HGPRegressor)
    estimator = make(HGPRegressor, num_experts=0).fit(x, y)
    assert estimator.n_experts_ == 0
    same = make(SVGPRegressor).fit(x, y)
    np.testing.assert_allclose(estimator.predict(x), same.predict(x), rtol=1e-6)
    with pytest.raises(ValueError, match="num_experts must be at least 1"):
        make(VMGPRegressor, num_experts=0).fit(x, y)


def test_sizes_by_the_number_of_rows():
    assert [default_num_inducing("auto", n) for n in (30, 1000, 4000, 10**6)] == [30, 50, 100, 250]
    assert [default_num_experts("auto", n) for n in (30, 10_000, 10**6)] == [0, 10, 30]
    assert default_num_inducing(np.int64(7), 100) == 7
    assert default_num_experts(7, 3) == 3
    assert expert_size(None, 100) == {}
    assert expert_size(8, 5) == {"num_expert_inducing": 5}


def test_optimizer_by_the_size_of_the_data():
    estimator = make(SVGPRegressor, num_inducing=100)
    estimator.head_settings_ = {"num_inducing": 100}
    assert estimator._takes_full_batch(FULL_BATCH_VALUES // 100)
    assert not estimator._takes_full_batch(FULL_BATCH_VALUES // 100 + 1)
    assert estimator.set_params(optimizer="lbfgs")._takes_full_batch(10**9)
    assert not estimator.set_params(optimizer="adam")._takes_full_batch(10)


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@two_classes
def test_float32_says_nearly_the_same(cls):
    x, y = data(cls)
    exact = make(cls, max_iterations=20).fit(x, y)
    rounded = clone(exact).set_params(dtype="float32").fit(x, y)
    assert {w.dtype.name for w in rounded.weights_ if w.dtype.kind == "f"} == {"float32"}
    assert rounded.bound(x, y) == pytest.approx(exact.bound(x, y), abs=0.05 * len(x))


@pytest.mark.slow
def test_integer_random_states_and_generators_are_repeatable():
    x, y = data(SVGPRegressor)
    first, second = (
        make(SVGPRegressor, random_state=np.random.RandomState(3)).fit(x, y).predict(x) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, make(SVGPRegressor, random_state=4).fit(x, y).predict(x))


@pytest.mark.slow
def test_prediction_by_blocks_is_prediction_at_once(monkeypatch):
    x, y = data(HGPRegressor)
    estimator = make(HGPRegressor).fit(x, y)
    expected = estimator.predict_distribution(x)
    monkeypatch.setattr("gpmodels.estimators.sparse.base.CHUNK", 7)
    for name, value in estimator.predict_distribution(x).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9)


@pytest.mark.slow
def test_an_estimator_whose_last_fit_failed_is_not_fitted():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    model = SVGPClassifier(**SMALL).fit(x, y)
    model.set_params(effective_observations=50)
    with pytest.raises(ValueError, match="effective_observations is 50"):
        model.fit(x, y)
    for use in (model.predict, model.predict_proba, lambda x: model.bound(x, y), model.summary):
        with pytest.raises(NotFittedError):
            use(*(() if use == model.summary else (x,)))


@pytest.mark.parametrize("labels", [pytest.param(np.zeros(20), marks=pytest.mark.slow), np.full(20, "left")])
def test_a_refit_to_one_class_leaves_no_model_of_the_classes_before(labels):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    model = SVGPClassifier(**SMALL).fit(x, y)
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(x, labels)
    with pytest.raises(NotFittedError):
        model.predict(x)


@pytest.mark.slow
def test_an_interrupted_fit_leaves_no_model():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    model = SVGPClassifier(**(SMALL | {"max_iterations": 20})).fit(x, y)

    def interrupt(estimator, _):
        estimator.predict(x)  # it can, at that moment
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, callback=interrupt)
    with pytest.raises(NotFittedError):
        model.predict(x)


@pytest.mark.parametrize("spread", ["auto", True, 0.0, float("nan")])
def test_a_spread_of_lengthscales_that_is_none_is_named(spread):
    with pytest.raises(ValueError, match="lengthscale_spread must be positive or None, but is"):
        SVGPRegressor(**SMALL, lengthscale_spread=spread).fit(np.eye(4), np.arange(4.0))
