"""The start of transfer models against the coregionalised GP that is their limit, and what is refused."""

import numpy as np
import pytest
import scipy.stats
from scipy.spatial.distance import cdist

from gpmodels.transfer.outputs import OutputPosterior
from gpmodels.transfer.parameters import ModelKind
from gpmodels.transfer.rows import DomainRows, TransferRows
from gpmodels.transfer.start import RIDGE, _choice, _fitted, start_parameters
from gpmodels.transfer.trained import TrainedTransfer
from gpmodels.transfer.training import train_transfer
from tests.gpmodels.transfer.problems import GAUSSIAN, bound, random_rows


def exact_limit(rows, mixing):
    """Return a start with all rows as inducing inputs, and outputs that read their units as they are."""
    weights = np.array([mixing, 1.0 - mixing])
    parameters = start_parameters(
        rows,
        GAUSSIAN,
        mixing=weights,
        concentration=None,
        num_hidden=rows.num_outputs,
        num_inducing=100,
        latent_noise=0.0,
        rng=np.random.default_rng(0),
    )
    variance = float(parameters.gain) ** 2
    # The source's units have the target's rows among their inducing inputs too: they are asked there.
    x = np.concatenate([domain.x for domain in rows.domains])
    source = parameters.domains[0]._replace(inducing=np.tile(x, (rows.num_outputs, 1, 1)))
    source = source._replace(mean=np.zeros(source.inducing.shape[:2]))
    served = np.arange(rows.num_outputs)
    fitted = _fitted([source, parameters.target], rows, served, weights, variance**-0.5, symmetric=False)
    domains = tuple(
        domain._replace(log_weights=np.full(rows.num_outputs, -14.0), log_noise=np.log(RIDGE * variance))
        for domain in fitted
    )
    return parameters._replace(domains=domains)


def coregionalised(rows, mixing, x):
    """Return the covariance of all rows' outputs of one class, and that of x with them; variance 1."""

    def kernel(a, b, domain):
        return np.exp(-0.5 * cdist(a, b, "sqeuclidean") / domain.lengthscale**2)

    source, target = rows.domains

    def of_target(a, b):
        return mixing**2 * kernel(a, b, source) + (1 - mixing) ** 2 * kernel(a, b, target)

    across = mixing * kernel(source.x, target.x, source)
    covariance = np.block(
        [[kernel(source.x, source.x, source), across], [across.T, of_target(target.x, target.x)]]
    )
    return covariance, np.hstack([mixing * kernel(x, source.x, source), of_target(x, target.x)])


@pytest.mark.parametrize("mixing", [0.0, 0.5, 1.0])
def test_the_start_with_all_rows_is_a_coregionalised_gp(mixing):
    """Its mean is exact; the bound is the evidence where source and target do not meet, else below it."""
    rng = np.random.default_rng(1)
    rows = random_rows(rng, (9, 6))
    x = rng.normal(size=(4, 2))
    parameters = exact_limit(rows, mixing)
    covariance, across = coregionalised(rows, mixing, x)
    codes = np.concatenate([domain.codes for domain in rows.domains])
    variance = float(parameters.gain) ** 2
    noisy = variance * (covariance + RIDGE * np.eye(len(codes)))
    expected = variance * across @ np.linalg.solve(noisy, codes)
    identity = OutputPosterior(parameters.gain * np.eye(3), np.zeros([3, 3]))
    model = TrainedTransfer(GAUSSIAN, parameters, (identity, identity), rows, np.ones(2), 0.0, np.zeros(1))
    np.testing.assert_allclose(model.scores(x)[0], expected, atol=1e-4)
    evidence = np.sum(scipy.stats.multivariate_normal(np.zeros(len(codes)), noisy).logpdf(codes.T))
    value = bound(parameters, GAUSSIAN, rows)
    if mixing == 0.5:
        assert evidence - 10.0 < value < evidence - 0.1
    else:
        assert value == pytest.approx(evidence, abs=2e-2)


@pytest.mark.parametrize(("size", "own"), [(3, 1), (9, 3), (12, 4), (17, 5)])
def test_a_third_of_the_inducing_rows_is_of_the_units_class(size, own):
    labels = np.repeat([0, 1, 2, 3], 5)
    chosen = _choice(labels, 2, size, len(labels), np.random.default_rng(0))
    assert len(np.unique(chosen)) == size
    assert np.sum(labels[chosen] == 2) == own


def test_where_other_classes_are_few_the_units_class_fills_up():
    labels = np.array([0, 0, 0, 0, 1, 0])
    chosen = _choice(labels, 0, 4, len(labels), np.random.default_rng(0))
    assert np.sum(labels[chosen] == 0) == 3
    assert len(_choice(labels, 1, 4, len(labels), np.random.default_rng(0))) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"form": "point"}, "form must be one of"),
        ({"kind": "both"}, "kind must be one of"),
        ({"likelihood": "softmax"}, "likelihood must be one of"),
        ({"output_prior": "one"}, "output_prior must be one of"),
        ({"mixing": 1.2}, "mixing must be 2 numbers"),
        ({"mixing": (0.2, 0.3, 0.5)}, "mixing must be 2 numbers"),
        ({"prior": 0.0}, "prior must be a number above 0"),
        ({"prior": (1.0, 2.0, 3.0)}, "prior must be a number above 0, or 2"),
        ({"kind": "symmetric", "mixing": 0.5}, "no mixing weights"),
        ({"num_hidden": 2}, "num_hidden must be at least the number of outputs, 3"),
        ({"num_inducing": 0}, "num_inducing must be at least 1"),
        ({"max_iterations": -1}, "max_iterations must not be negative"),
        ({"latent_noise": -0.1}, "latent_noise must be at least 0"),
        ({"latent_noise": 0.0, "form": "mean_field"}, "latent_noise must be above 0 with form='mean_field'"),
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        train_transfer(random_rows(np.random.default_rng(10)), **settings)


def test_domains_that_do_not_fit_are_refused():
    rng = np.random.default_rng(11)
    target = random_rows(rng).target
    with pytest.raises(ValueError, match="source 1 has 3 and 3"):
        train_transfer(TransferRows((random_rows(rng, columns=3).target,), target))
    empty = DomainRows(target.x[:0], target.codes[:0], target.weight[:0], 1.0)
    with pytest.raises(ValueError, match="the target has none"):
        train_transfer(TransferRows((target,), empty))


def test_a_kind_tells_which_names_there_are():
    with pytest.raises(ValueError, match="'integrated', 'mean_field'"):
        ModelKind(form="other").check()
