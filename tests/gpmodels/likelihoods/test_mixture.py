"""Mixtures of latent marginals, for every likelihood: loops in NumPy, Monte Carlo, and limit cases."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from scipy import special

from gpmodels import DFGPHead, HGPHead, SVGPHead
from gpmodels.heads.base import Latent
from gpmodels.likelihoods import mixture
from gpmodels.likelihoods.base import Likelihood
from gpmodels.likelihoods.factory import make_likelihood

NUM_CLASSES = {"bernoulli": 2, "logistic": 2, "robust_max": 3, "softmax": 3, "noisy_probit": 2, "gaussian": 0}
POINTS, COMPONENTS = 5, 3
UNIT = tf.constant([0, 1, 1, 0, 1])

every = pytest.mark.parametrize("name", [*NUM_CLASSES, "noisy_probit of 3 classes"])
classifying = pytest.mark.parametrize(
    "name", [*(name for name in NUM_CLASSES if name != "gaussian"), "noisy_probit of 3 classes"]
)

Mixture = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


def make(name: str) -> Likelihood:
    kind, *of_classes = name.split(" of ")
    num_classes = 3 if of_classes else NUM_CLASSES[kind]
    likelihood = make_likelihood(kind, num_classes=num_classes, num_units=2, dtype="float64")
    if kind == "gaussian":
        likelihood.noise_variance.assign([0.3, 0.7])
    return likelihood


def components(likelihood: Likelihood, count: int = COMPONENTS, *, seed: int = 0) -> Mixture:
    """Means, variances and log weights of a mixture of which no two components are alike."""
    rng = np.random.default_rng(seed)
    shape = (count, POINTS, likelihood.num_latents)
    weights = rng.dirichlet(np.ones(count), size=POINTS).T
    parts = rng.normal(0, 1.5, shape), np.exp(rng.normal(-0.5, 0.7, shape)), np.log(weights)
    return tuple(tf.constant(part) for part in parts)


def labels(likelihood: Likelihood) -> tf.Tensor:
    if not likelihood.is_classifier:
        return tf.constant([0.3, -1.0, 2.0, 0.0, 0.5], tf.float64)
    return tf.constant(np.arange(POINTS) % max(likelihood.num_latents, 2))


def everything(likelihood: Likelihood, parts: tuple[Any, ...]) -> dict[str, npt.NDArray[Any]]:
    """Both densities and all predictions."""
    label = labels(likelihood)
    outputs = {
        **mixture.predictions(likelihood, *parts, UNIT),
        "expected": mixture.expected_log_likelihood(likelihood, *parts, label, UNIT),
        "density": mixture.log_predictive_density(likelihood, *parts, label, UNIT),
    }
    return {name: value.numpy() for name, value in outputs.items()}


def entropy(probability: npt.NDArray[Any]) -> float:
    p = np.array([1 - probability, probability]) if probability.ndim == 0 else probability
    return float(special.entr(p).sum())


def by_loops(likelihood: Likelihood, mean: Any, variance: Any, log_weight: Any) -> dict[str, Any]:
    """The same point by point and component by component."""
    label, outputs = labels(likelihood), []
    for n in range(POINTS):
        weight, parts, expected, density = np.exp(log_weight[:, n]), [], 0.0, 0.0
        for s, w in enumerate(weight):
            point = mean[s, n][None], variance[s, n][None]
            unit, y = UNIT[n][None], label[n][None]
            parts.append({k: v.numpy()[0] for k, v in likelihood.predictions(*point, unit).items()})
            expected += w * likelihood.expected_log_likelihood(*point, y, unit).numpy()[0]
            density += w * np.exp(likelihood.log_predictive_density(*point, y, unit).numpy()[0])

        def mixed(name: str, weight: Any = weight, parts: Any = parts) -> Any:
            return sum(w * part[name] for w, part in zip(weight, parts, strict=True))

        def spread(moment: str, of: str, weight: Any = weight, parts: Any = parts) -> Any:
            second = sum(w * (p[moment] + p[of] ** 2) for w, p in zip(weight, parts, strict=True))
            return second - sum(w * p[of] for w, p in zip(weight, parts, strict=True)) ** 2

        point_outputs = {"expected": expected, "density": np.log(density)}
        if likelihood.is_classifier:
            probability = mixed("probability")
            noise = mixed("predictive_entropy") - mixed("mutual_information")
            point_outputs |= {
                "probability": probability,
                "label": int(probability > 0.5) if probability.ndim == 0 else int(probability.argmax()),
                "latent_mean": mixed("latent_mean"),
                "latent_variance": spread("latent_variance", "latent_mean"),
                "predictive_entropy": entropy(probability),
                "mutual_information": entropy(probability) - noise,
            }
        else:
            point_outputs |= {
                "mean": mixed("mean"),
                "variance": spread("variance", "mean"),
                "latent_variance": spread("latent_variance", "mean"),
            }
        outputs.append(point_outputs)
    return {name: np.array([output[name] for output in outputs]) for name in outputs[0]}


def assert_alike(ours: dict[str, Any], theirs: dict[str, Any], **tolerance: float) -> None:
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        np.testing.assert_allclose(
            ours[name], value, err_msg=name, **({"rtol": 1e-9, "atol": 1e-12} | tolerance)
        )


@every
def test_mixture_equals_a_loop(name):
    likelihood = make(name)
    parts = components(likelihood)
    assert_alike(everything(likelihood, parts), by_loops(likelihood, *parts))


@every
def test_without_the_axis_the_likelihood_itself_answers(name):
    likelihood = make(name)
    mean, variance = (part[0] for part in components(likelihood)[:2])
    ours = everything(likelihood, (mean, variance, None))
    label = labels(likelihood)
    theirs = likelihood.predictions(mean, variance, UNIT)
    theirs["expected"] = likelihood.expected_log_likelihood(mean, variance, label, UNIT)
    theirs["density"] = likelihood.log_predictive_density(mean, variance, label, UNIT)
    for key, value in theirs.items():
        np.testing.assert_array_equal(ours[key], value, err_msg=key)


@every
def test_one_component_equals_no_axis(name):
    likelihood = make(name)
    mean, variance, _ = components(likelihood, 1)
    one = everything(likelihood, (mean, variance, tf.zeros([1, POINTS], tf.float64)))
    assert_alike(one, everything(likelihood, (mean[0], variance[0], None)))


@every
def test_equal_components_equal_one(name):
    likelihood = make(name)
    mean, variance, _ = components(likelihood, 1)
    weights = components(likelihood, 4)[2]
    many = tf.repeat(mean, 4, axis=0), tf.repeat(variance, 4, axis=0), weights
    assert_alike(everything(likelihood, many), everything(likelihood, (mean[0], variance[0], None)))


@every
def test_order_of_the_components_does_not_matter(name):
    likelihood = make(name)
    parts = components(likelihood)
    shuffled = tuple(tf.gather(part, [2, 0, 1]) for part in parts)
    assert_alike(everything(likelihood, shuffled), everything(likelihood, parts), rtol=1e-12)


@every
def test_a_component_of_no_weight_does_not_count(name):
    likelihood = make(name)
    mean, variance, log_weight = components(likelihood, 2)
    lightest = tf.concat([log_weight, tf.fill([1, POINTS], tf.constant(-800.0, tf.float64))], axis=0)
    more = tf.concat([mean, mean[:1] + 5.0], axis=0), tf.concat([variance, variance[:1]], axis=0), lightest
    assert_alike(everything(likelihood, more), everything(likelihood, (mean, variance, log_weight)))


def conditional(likelihood: Likelihood, f: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """p(y = c | f) of latent values `[..., P]`, `[..., C]`."""
    if type(likelihood).__name__ == "SoftmaxLikelihood":
        return special.softmax(f, axis=-1)
    if type(likelihood).__name__ == "RobustMaxLikelihood":
        largest = np.eye(3)[f.argmax(axis=-1)]
        return np.where(largest == 1.0, 1.0 - likelihood.epsilon, likelihood.epsilon / 2)
    one = special.ndtr(f[..., 0])
    return np.stack([1.0 - one, one], axis=-1)


@pytest.mark.parametrize("name", ["bernoulli", "softmax", "robust_max"])
def test_classification_equals_monte_carlo(name):
    likelihood = make(name)
    mean, variance, log_weight = (part.numpy() for part in components(likelihood))
    rng, draws = np.random.default_rng(1), 200_000
    outputs = everything(likelihood, components(likelihood))
    for n in range(POINTS):
        s = rng.choice(COMPONENTS, size=draws, p=np.exp(log_weight[:, n]))
        f = rng.normal(mean[s, n], np.sqrt(variance[s, n]))
        p = conditional(likelihood, f)
        probability, y = p.mean(axis=0), int(labels(likelihood)[n])
        ours = outputs["probability"][n]
        np.testing.assert_allclose(ours, probability if ours.ndim else probability[1], atol=0.006)
        assert outputs["density"][n] == pytest.approx(np.log(probability[y]), abs=0.05)
        assert outputs["expected"][n] == pytest.approx(np.log(p[:, y]).mean(), abs=0.05)
        np.testing.assert_allclose(outputs["predictive_entropy"][n], entropy(probability), atol=0.01)
        information = entropy(probability) - special.entr(p).sum(axis=-1).mean()
        np.testing.assert_allclose(outputs["mutual_information"][n], information, atol=0.01)
        moments = (f.mean(axis=0), f.var(axis=0))
        for key, moment in zip(("latent_mean", "latent_variance"), moments, strict=True):
            np.testing.assert_allclose(
                outputs[key][n], moment if ours.ndim else moment[0], rtol=0.03, atol=0.03
            )


def test_regression_equals_monte_carlo():
    likelihood = make("gaussian")
    parts = components(likelihood)
    mean, variance, log_weight = (part.numpy() for part in parts)
    noise = likelihood.noise_variance.numpy()[UNIT.numpy()]
    rng, outputs = np.random.default_rng(2), everything(likelihood, parts)
    for n in range(POINTS):
        s = rng.choice(COMPONENTS, size=400_000, p=np.exp(log_weight[:, n]))
        f = rng.normal(mean[s, n, 0], np.sqrt(variance[s, n, 0]))
        y = rng.normal(f, np.sqrt(noise[n]))
        assert outputs["mean"][n] == pytest.approx(y.mean(), abs=0.02)
        assert outputs["variance"][n] == pytest.approx(y.var(), rel=0.02)
        assert outputs["latent_variance"][n] == pytest.approx(f.var(), rel=0.02)
        near = np.mean(np.abs(y - labels(likelihood)[n].numpy()) < 0.05) / 0.1
        assert outputs["density"][n] == pytest.approx(np.log(near), abs=0.1)


@classifying
def test_components_that_disagree_are_information(name):
    """Each component is certain, and they contradict each other: all entropy is the model's."""
    likelihood = make(name)
    first = np.eye(likelihood.num_latents)[0] * 16.0 - 8.0
    mean = tf.constant(np.stack([np.tile(first, (POINTS, 1)), np.tile(-first, (POINTS, 1))]))
    if likelihood.num_latents > 1:  # the first class against the second
        mean = tf.constant(np.stack([np.tile(np.eye(3)[c] * 16.0 - 8.0, (POINTS, 1)) for c in (0, 1)]))
    even = tf.fill([2, POINTS], tf.constant(np.log(0.5)))
    outputs = everything(likelihood, (mean, tf.fill(mean.shape, tf.constant(1e-8, tf.float64)), even))
    np.testing.assert_allclose(outputs["predictive_entropy"], np.log(2.0), atol=0.02)
    np.testing.assert_allclose(outputs["mutual_information"], np.log(2.0), atol=0.02)


@every
def test_gradients_reach_means_variances_and_weights(name):
    likelihood = make(name)
    parts = components(likelihood)
    with tf.GradientTape() as tape:
        tape.watch(parts)
        value = tf.reduce_sum(
            mixture.expected_log_likelihood(likelihood, *parts, labels(likelihood), UNIT)
            + mixture.log_predictive_density(likelihood, *parts, labels(likelihood), UNIT)
        )
    for gradient in tape.gradient(value, parts):
        assert np.all(np.isfinite(gradient))
        assert np.any(gradient != 0.0)


@every
def test_shapes_of_a_mixture_are_checked(name):
    likelihood = make(name)
    mean, variance, log_weight = components(likelihood)
    for wrong in (
        (mean, variance, log_weight[:2]),
        (mean, variance, None),
        (mean[0], variance[0], log_weight),
    ):
        with pytest.raises(Exception, match="shape"):
            mixture.predictions(likelihood, *wrong, UNIT)


HEADS: dict[str, Callable[[], Any]] = {
    "svgp": lambda: SVGPHead(num_inducing=3, dtype="float64"),
    "svgp of 3 classes": lambda: SVGPHead(num_inducing=3, num_classes=3, dtype="float64"),
    "dfgp": lambda: DFGPHead(num_inducing=3, num_hidden=2, dtype="float64"),
    "regression": lambda: SVGPHead(num_inducing=3, likelihood="gaussian", dtype="float64"),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_mixes_what_its_latent_says(name):
    head = HEADS[name]()
    head.build((None, 2))
    parts = components(head.likelihood)
    latent, label = Latent(*parts), labels(head.likelihood)
    unit = tf.zeros(POINTS, tf.int32)
    pairs = [
        (head.expected_log_likelihood(latent, label), mixture.expected_log_likelihood),
        (head.log_predictive_density(latent, label), mixture.log_predictive_density),
    ]
    for ours, function in pairs:
        np.testing.assert_array_equal(ours, function(head.likelihood, *parts, label, unit))
    theirs = mixture.predictions(head.likelihood, *parts, unit)
    for key, value in head.predictions(latent).items():
        np.testing.assert_array_equal(value, theirs[key])


@pytest.mark.slow
def test_a_mixture_goes_through_a_compiled_function():
    head = SVGPHead(num_inducing=3, dtype="float64")
    head.build((None, 2))
    parts = components(head.likelihood)

    @tf.function
    def shifted(latent: Latent) -> Latent:
        return Latent(latent.mean + 1.0, latent.variance, latent.log_weight)

    latent = shifted(Latent(*parts))
    assert isinstance(latent, Latent)
    np.testing.assert_array_equal(latent.mean, parts[0] + 1.0)
    expected = head.predictions(latent)
    for key, value in tf.function(head.predictions)(latent).items():
        np.testing.assert_allclose(value, expected[key], rtol=1e-12)


@pytest.mark.slow
def test_records_of_a_family_go_through_a_compiled_function():
    head = HGPHead(num_experts=2, num_inducing=3)
    head.build((None, 2))
    x = tf.constant(np.random.default_rng(0).normal(size=(6, 2)), tf.float32)
    latent = head.latent(x)
    compiled = tf.function(head.latent)(x)
    assert type(compiled) is type(latent)
    np.testing.assert_array_equal(compiled.expert, latent.expert)
    np.testing.assert_allclose(compiled.global_mean, latent.global_mean, rtol=1e-5)
    with pytest.raises(TypeError, match="marginals of type GatedLatent, but got Latent"):
        head.responsible_expert(Latent(latent.mean, latent.variance))
