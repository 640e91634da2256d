"""What a fit has learned, as attributes whose names end in `_`."""

from __future__ import annotations


def forget(estimator: object) -> None:
    """Delete what an earlier fit learned, so that a fit that fails leaves no old model.

    Args:
        estimator: Of scikit-learn's kind; its attributes that end in `_` go.

    Example:
        >>> from sklearn.linear_model import Ridge
        >>> model = Ridge().fit([[0.0], [1.0]], [0.0, 1.0])
        >>> forget(model)
        >>> hasattr(model, "coef_")
        False
    """
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)
