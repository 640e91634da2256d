"""The sparse variational GP head against GPflow's SVGP."""

import gpflow
import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from gpmodels import HGPHead, HybridModel, SVGPHead
from gpmodels.likelihoods.probit import log_normal_cdf
from tests.gpmodels import reference
from tests.gpmodels.layer_contract import NUM_FEATURES, LayerContract
from tests.gpmodels.random_units import as_reference, randomize


class TestSVGPHeadContract(LayerContract):
    head_class = SVGPHead
    has_long_checks = True
    settings = {"num_inducing": 5}  # noqa: RUF012
    trainable_values = 5 * NUM_FEATURES + NUM_FEATURES + 1 + 5 + 5 * 6 // 2


def random_svgp(head: SVGPHead, seed: int = 0) -> SVGPHead:
    head.build((None, 2))
    randomize(head.global_unit, np.random.default_rng(seed))
    return head


def labelled_points(size: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    # Keras rounds what it is given to float32.
    return rng.normal(size=(size, 2)).astype("float32"), rng.integers(0, 2, size).astype("float32")


def gpflow_twin(head: SVGPHead, num_data: int) -> gpflow.models.SVGP:
    unit = as_reference(head.global_unit)[0]
    return gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(variance=unit.variance, lengthscales=unit.lengthscales),
        # GPflow's own probit is squashed into [0.001, 0.999].
        gpflow.likelihoods.Bernoulli(invlink=lambda f: tf.exp(log_normal_cdf(f))),
        inducing_variable=unit.inducing,
        q_mu=unit.q_mean[:, None],
        q_sqrt=unit.q_sqrt[None],
        whiten=True,
        num_data=num_data,
    )


@pytest.mark.sweep(kept=1)
@pytest.mark.slow
@pytest.mark.parametrize("num_data", [20, 5000])
@pytest.mark.parametrize(
    "head",
    [
        lambda: SVGPHead(num_inducing=4, mean="none", dtype="float64"),
        lambda: HGPHead(num_experts=0, num_inducing=4, global_weight=1.0, mean="none", dtype="float64"),
    ],
    ids=["svgp", "hgp without experts"],
)
def test_bound_is_gpflows(head, num_data):
    """Of a whole data set, and of a batch that stands for a larger one."""
    head = random_svgp(head())
    # Latent values near 0, since GPflow takes log(1 - Φ(f)) for label 0.
    head.global_unit.variance.assign([[0.1]])
    x, y = labelled_points()
    model = HybridModel(keras.layers.Identity(), head, num_data=num_data)
    model.compile()
    model.build((None, 2))
    theirs = gpflow_twin(head, num_data).elbo((x.astype("float64"), y[:, None].astype("float64")))
    # The metrics of Keras are float32; the two terms are not.
    ours = tf.reduce_sum(
        head.expected_log_likelihood(head.latent(tf.constant(x, tf.float64)), tf.constant(y))
    )
    ours = num_data / len(x) * ours - tf.reduce_sum(head.prior_kl())
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    np.testing.assert_allclose(
        -num_data * model.evaluate(x, y, verbose=0, return_dict=True)["loss"], ours, rtol=1e-6
    )


def test_outputs_equal_the_numpy_twin():
    head = random_svgp(SVGPHead(num_inducing=4, mean="none", dtype="float64"))
    x = 2 * np.random.default_rng(2).normal(size=(6, 2))
    outputs = {name: value.numpy() for name, value in head(x).items()}
    unit = as_reference(head.global_unit)[0]
    for n, point in enumerate(x):
        mean, variance = reference.global_marginal(unit, point)
        probability = reference.gaussian_expectation(special.ndtr, mean, variance)
        residual = reference.gaussian_expectation(
            lambda f: float(special.entr(special.ndtr(f)) + special.entr(special.ndtr(-f))), mean, variance
        )
        assert outputs["latent_mean"][n] == pytest.approx(mean, abs=1e-8)
        assert outputs["latent_variance"][n] == pytest.approx(variance, abs=1e-8)
        assert outputs["probability"][n] == pytest.approx(probability, abs=1e-8)
        assert outputs["predictive_entropy"][n] == pytest.approx(reference.entropy(probability), abs=1e-8)
        assert outputs["mutual_information"][n] == pytest.approx(
            reference.entropy(probability) - residual, abs=1e-8
        )


def test_initialize_spreads_the_inducing_points_over_the_features():
    features = np.random.default_rng(3).uniform(-5.0, 5.0, size=(500, 2))
    head = SVGPHead(num_inducing=20)
    head.build((None, 2))
    head.initialize(features)
    nearest = np.linalg.norm(features[:, None] - head.global_unit.inducing_inputs.numpy()[0], axis=-1).min(
        axis=1
    )
    assert nearest.mean() < 1.2
    np.testing.assert_allclose(head.lengthscales(), head.global_unit.lengthscales.numpy())
    assert 2.0 < head.lengthscales().mean() < 8.0


@pytest.mark.parametrize("lengthscale", [1e-3, 1e3])
def test_variance_is_positive_where_rounding_would_make_it_negative(lengthscale):
    head = SVGPHead(num_inducing=30)
    head.build((None, 2))
    inducing = np.random.default_rng(4).normal(size=(1, 30, 2))
    head.global_unit.place(inducing, np.full((1, 2), lengthscale))
    head.global_unit.q_sqrt.assign(1e-4 * np.eye(30)[None, None])  # nothing open about the inducing values
    for latent in (head.latent, head.for_inference()):
        assert np.all(latent(tf.constant(inducing[0], tf.float32)).variance > 0.0)


def test_heads_without_experts_have_none_to_report():
    head = random_svgp(SVGPHead(num_inducing=4))
    latent = head.latent(tf.zeros([3, 2]))
    np.testing.assert_array_equal(head.responsible_expert(latent), [0, 0, 0])
    np.testing.assert_array_equal(head.assign(tf.zeros([3, 2])), [0, 0, 0])
    assert head.num_experts == 0
    head.record_assignments(latent, tf.ones(3))
    head.reset_assignments()
    assert head.expert_occupancy() == {}
    assert head.unit_names == ("global",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_inducing": 0}, "num_inducing must be at least 1, and a whole number, but is 0"),
        ({"kernel_variance": 0.0}, "kernel_variance must be positive and finite, but is 0.0"),
        ({"kernel": "rbf"}, "Kernel 'rbf' is not known"),
    ],
)
def test_bad_settings_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        SVGPHead(**settings)


def test_failed_factorisation_names_the_head():
    head = random_svgp(SVGPHead(num_inducing=4, name="lane_head"))
    head.global_unit.lengthscales.unconstrained_variable.assign(np.full((1, 1, 2), np.nan))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="global unit of lane_head could not be factorised"
    ):
        head(tf.zeros([1, 2]))
