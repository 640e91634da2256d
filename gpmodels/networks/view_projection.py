"""Views of features, scaled and reduced to their principal components, as the input of a head."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from check_shapes import check_shapes
from sklearn.decomposition import PCA

from gpmodels.units.configured import Configured

_LEAST_VARIANCE = 1e-10
"""Least variance of a component, in shares of the first one's."""


@keras.saving.register_keras_serializable(package="gpimaging")
class ViewProjection(Configured):
    """Principal components of all views together, or of each view apart.

    A view has a mean variance of one before the components are taken, so that a view of large numbers or of
    many columns that vary little does not crowd out the others; within a view one deviation scales all
    columns, since one that hardly varies in the training data would otherwise decide everything where it does
    vary. The components have a mean variance of one again, over all or over those of each view. Holds both
    projections, so that layers that differ in `by_view` have the same weights. Does nothing sensible before
    `adapt`; is not trained.

    Args:
        views: Columns of each view, in their order.
        components: Most components of all views together, or of each view.
        by_view: Whether the views stay apart.
        **kwargs: Of `keras.layers.Layer`.

    Raises:
        ValueError: A view without columns, or no component.

    Source:
        Paper (deep feed-forward GP), section 5: 50 components of patch features.

    Example:
        >>> layer = ViewProjection([3, 2], components=2, by_view=True)
        >>> layer.build((None, 5))
        >>> layer.adapt(np.random.default_rng(0).normal(size=(20, 5)))
        >>> layer(tf.zeros([7, 5])).shape, layer.view_columns
        (TensorShape([7, 4]), (slice(0, 2, None), slice(2, 4, None)))
    """

    def __init__(
        self, views: Sequence[int], *, components: int = 50, by_view: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not views or min(views) < 1 or components < 1:
            raise ValueError(f"Every view needs a column, and 1 component; got {views!r} and {components}.")
        self.views = tuple(views)
        self.components = components
        self.by_view = by_view

    @property
    def view_columns(self) -> tuple[slice, ...]:
        """Columns of the output that belong to each view, with `by_view`."""
        return _consecutive([min(self.components, columns) for columns in self.views])

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the projections of features `[..., input_shape[-1]]`."""
        total = sum(self.views)
        if input_shape[-1] != total:
            raise ValueError(f"The views have {total} columns together, but the input {input_shape[-1]}.")
        self.mean = self.add_weight(name="mean", shape=(total,), initializer="zeros", trainable=False)
        widths = {"joint": min(self.components, total), "by_view": self.view_columns[-1].stop}
        self.joint, self.apart = (
            self.add_weight(name=name, shape=(total, width), initializer="zeros", trainable=False)
            for name, width in widths.items()
        )

    @check_shapes("features: [N, D]")
    def adapt(self, features: npt.NDArray[np.floating[Any]]) -> None:
        """Take means, scales and components from training features.

        Where there are fewer examples or independent columns than components, the rest of these is 0.
        """
        features = np.asarray(features, np.float64)
        mean = features.mean(axis=0)
        centred = features - mean
        scales = np.ones(centred.shape[1])
        columns = _consecutive(self.views)
        for view in columns:
            scales[view] = _inverse_deviation(centred[:, view])
        centred *= scales
        joint = _principal_components(centred, self.joint.shape[1])
        apart = np.zeros(self.apart.shape)
        for view, projected in zip(columns, self.view_columns, strict=True):
            apart[view, projected] = _principal_components(centred[:, view], projected.stop - projected.start)
        self.mean.assign(mean)
        self.joint.assign(scales[:, None] * joint)
        self.apart.assign(scales[:, None] * apart)

    def call(self, features: tf.Tensor) -> tf.Tensor:
        """Return the components `[..., K]`."""
        return tf.matmul(features - self.mean, self.apart if self.by_view else self.joint)

    def typical_features(self) -> npt.NDArray[np.float64]:
        """Return features `[D]` as of a training example: one from the mean along the first component.

        With `by_view` along the first of each view. One is the components' mean deviation, and a first
        component's is no smaller.
        """
        components = np.asarray(self.apart if self.by_view else self.joint, np.float64)
        along = np.zeros(components.shape[1])
        along[[view.start for view in self.view_columns] if self.by_view else 0] = 1.0
        offset, *_ = np.linalg.lstsq(components.T, along, rcond=None)  # of all such, the nearest to the mean
        return np.asarray(self.mean, np.float64) + offset

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the input's shape with as many columns as there are components."""
        width = self.view_columns[-1].stop if self.by_view else min(self.components, sum(self.views))
        return (*input_shape[:-1], width)


def _consecutive(widths: Sequence[int]) -> tuple[slice, ...]:
    ends = list(accumulate(widths))
    return tuple(slice(end - width, end) for end, width in zip(ends, widths, strict=True))


def _inverse_deviation(centred: npt.NDArray[np.float64]) -> float:
    """Return one over the root of the mean variance; 1 where nothing varies."""
    variance = float(np.mean(centred**2))
    return variance**-0.5 if variance > 0.0 else 1.0


def _principal_components(centred: npt.NDArray[np.float64], wanted: int) -> npt.NDArray[np.float64]:
    """Return principal components `[D, wanted]` that project to columns of mean variance one."""
    projection = np.zeros((centred.shape[1], wanted))
    if not centred.any():  # scikit-learn divides by the variance
        return projection
    found = min(wanted, *centred.shape)
    rows, columns = centred.shape
    # Of many rows the covariance is small, where a singular value decomposition takes copies of all of them.
    solver = "covariance_eigh" if rows > columns else "full"
    fitted = PCA(found, svd_solver=solver).fit(centred)
    # N centred examples vary along N - 1 directions. What rounding makes of a further one is nothing in
    # training and anything in new examples.
    varying = fitted.explained_variance_ > _LEAST_VARIANCE * fitted.explained_variance_[0]
    directions = fitted.components_[varying].T
    projection[:, : directions.shape[1]] = directions * _inverse_deviation(centred @ directions)
    return projection
