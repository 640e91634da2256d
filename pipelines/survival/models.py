"""Models of survival times: regression of months from patches, averaged per patient, and Cox' model.

A regression knows only times of events, so it is fitted to the patches of patients with an event. It leaves
out the others, who live longer, so its times are too short. Cox' model uses all patients.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf
from lifelines import CoxPHFitter
from lifelines.exceptions import ApproximationWarning, ConvergenceError, ConvergenceWarning
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import BayesianRidge

from data_prep.errors import InputError
from gpmodels import DFGPRegressor, HGPRegressor, SVGPRegressor
from gpmodels.networks.view_projection import ViewProjection
from pipelines.survival.data import Mask, SurvivalData
from pipelines.survival.settings import ModelName, SurvivalSettings

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ProjectedPatches:
    """Patches as models see them.

    Attributes:
        joint: Principal components of all views together [N, K].
        apart: Principal components of each view, side by side [N, L].
        columns: Columns of each view in `apart`.
    """

    joint: Floats
    apart: Floats
    columns: tuple[slice, ...]


@dataclass(frozen=True)
class Months:
    """What a model predicts for each patient.

    Attributes:
        mean: Expected months [P].
        deviation: Standard deviation of the months [P]; None if the model has none.
        view_weights: Weight of each view, with sum 1 (`gpmodels.DFGPHead.view_weights`); empty if the model
            does not weigh views.
    """

    mean: Floats
    deviation: Floats | None
    view_weights: Mapping[str, float] = field(default_factory=dict)


def project_patches(data: SurvivalData, train: Mask, components: int) -> ProjectedPatches:
    """Return principal components of all patches, fitted on those of the training patients, `[P]`."""
    rows = train[data.patient]
    joint, apart = (
        ViewProjection(tuple(data.views.values()), components=components, by_view=by_view)
        for by_view in (False, True)
    )
    for layer in (joint, apart):
        layer.build((None, sum(data.views.values())))
    joint.adapt(data.features[rows])
    apart.set_weights(joint.get_weights())  # either holds both projections
    of_all, of_views = (layer(data.features).numpy().astype(np.float64) for layer in (joint, apart))
    return ProjectedPatches(of_all, of_views, apart.view_columns)


def predict_months(
    name: ModelName, data: SurvivalData, projected: ProjectedPatches, train: Mask, settings: SurvivalSettings
) -> Months:
    """Fit a model to the training patients and predict all patients.

    Args:
        name: Name of the model.
        data: Data of all patients.
        projected: Patches of the patients.
        train: Whether each patient trains [P].
        settings: Settings of the models.

    Raises:
        InputError: The model cannot be fitted to these patients.
    """
    if name == "cox":
        return _cox(data, projected.joint, train, settings.cox_penalty)
    inputs = projected.apart if name == "dfgp_mkl" else projected.joint
    rows = (train & data.event)[data.patient]
    model = make_regressor(name, settings, projected.columns)
    try:
        model.fit(inputs[rows], data.months[data.patient[rows]])
    except (FloatingPointError, np.linalg.LinAlgError, tf.errors.InvalidArgumentError) as error:
        raise InputError(
            f"{name} of {rows.sum()} patches could not be fitted: {str(error).splitlines()[0]} Use fewer "
            f"components or inducing points, or leave out {name}."
        ) from error
    mean, deviation = model.predict(inputs, return_std=True)
    months = average(data, mean, deviation if name != "constant" else None)
    if name != "dfgp_mkl":
        return months
    return replace(months, view_weights=dict(zip(data.views, model.view_weights_.tolist(), strict=True)))


def average(data: SurvivalData, mean: Floats, deviation: Floats | None) -> Months:
    """Average over the patches of each patient, with the deviation of the equal mixture of the patches.

    Args:
        data: Data that say whose patches they are.
        mean: Months of each patch [N].
        deviation: Standard deviation of each patch [N].
    """
    months = data.patient_means(mean)
    if deviation is None:
        return Months(months, None)
    spread = (mean - months[data.patient]) ** 2
    return Months(months, np.sqrt(data.patient_means(deviation**2 + spread)))


def make_regressor(name: ModelName, settings: SurvivalSettings, columns: tuple[slice, ...]) -> Any:
    """Return an unfitted regressor of months on rows of one patch each."""
    shared: dict[str, Any] = {
        "num_inducing": settings.num_inducing,
        "max_iterations": settings.max_iterations,
        "random_state": settings.seed,
    }
    if name == "constant":
        return DummyRegressor()
    if name == "linear":
        return BayesianRidge()
    if name == "svgp":
        return SVGPRegressor(**shared)
    if name == "hgp":
        return HGPRegressor(**shared)
    views = columns if name == "dfgp_mkl" else None
    # The paper's output kernel. With one lengthscale for each hidden unit, training without a warm-up often
    # ended at pure noise.
    return DFGPRegressor(views=views, output_kernel="rbf", **shared)


def _cox(data: SurvivalData, inputs: Floats, train: Mask, penalty: float) -> Months:
    """Return expected months by Cox' model of the patients' mean components, up to the last training time."""
    means = data.patient_means(inputs)
    means = means[:, np.ptp(means[train], axis=0) > 0]
    table = pd.DataFrame(means, columns=[f"component_{column}" for column in range(means.shape[1])])
    observed = table.assign(months=data.months, event=data.event)[train]
    with warnings.catch_warnings():
        # They advise what the penalty already does.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", ApproximationWarning)
        try:
            model = CoxPHFitter(penalizer=penalty).fit(observed, "months", "event")
        except ConvergenceError as error:
            raise InputError(
                f"Cox' model of {len(observed)} patients with {means.shape[1]} components did not converge "
                f"with cox_penalty {penalty:g}. Raise it, use fewer components, or leave out cox."
            ) from error
        curves = model.predict_survival_function(table)
    return Months(_restricted_means(curves.index.to_numpy(np.float64), curves.to_numpy(np.float64)), None)


def _restricted_means(times: Floats, alive: Floats) -> Floats:
    """Return expected months up to the last time: areas under curves `[T, P]` that are 1 before the first.

    lifelines' own expectation leaves out the months before the first time.
    """
    steps = np.diff(times, prepend=0.0)
    before = np.concatenate([np.ones((1, alive.shape[1])), alive[:-1]])
    return steps @ before
