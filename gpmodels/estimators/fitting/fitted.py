"""What a fit has learned, as attributes whose names end in `_`."""

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

Estimator = TypeVar("Estimator")
Arguments = ParamSpec("Arguments")

Fit = Callable[Concatenate[Estimator, Arguments], Estimator]


def forget(estimator: object) -> None:
    """Delete what a fit learned.

    Args:
        estimator: Of scikit-learn's kind; its attributes that end in `_` go.
    """
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)


def all_or_nothing(fit: Fit[Estimator, Arguments]) -> Fit[Estimator, Arguments]:
    """Decorate `fit` so that it begins without what an earlier one learned, and leaves nothing if it fails.

    A callback makes an estimator predict while it is fitted; one that was interrupted then would go on to.

    Example:
        >>> class Mean:
        ...     @all_or_nothing
        ...     def fit(self, y):
        ...         self.rows_ = len(y)
        ...         self.mean_ = sum(y) / len(y)
        ...         return self
        >>> model = Mean().fit([1.0, 3.0])
        >>> model.fit([])
        Traceback (most recent call last):
        ZeroDivisionError: division by zero
        >>> vars(model)
        {}
    """

    @functools.wraps(fit)
    def fit_or_forget(
        estimator: Estimator, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Estimator:
        forget(estimator)
        try:
            return fit(estimator, *args, **kwargs)
        except BaseException:  # an interruption, too
            forget(estimator)
            raise

    return fit_or_forget
