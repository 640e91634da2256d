"""What a fit has learned, as attributes whose names end in `_`."""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Concatenate, ParamSpec, TypeVar

from gpmodels.hybrid.waiting import said_when_long

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


def warn_of_idle_settings(estimator: object) -> None:
    """Warn of settings of mini-batches that differ from their defaults, though L-BFGS is asked for.

    Args:
        estimator: A dataclass of scikit-learn's kind, or anything else, of which nothing is said.
    """
    if getattr(estimator, "optimizer", None) != "lbfgs" or not dataclasses.is_dataclass(estimator):
        return
    defaults = {field.name: field.default for field in dataclasses.fields(estimator)}
    idle = [name for name in ("learning_rate", "batch_size") if name in defaults]
    idle = [name for name in idle if getattr(estimator, name) != defaults[name]]
    if idle:
        warnings.warn(
            f"{' and '.join(idle)}: without effect, since optimizer='lbfgs' takes all rows at once. Choose "
            "optimizer='adam', or leave out what it does not use.",
            UserWarning,
            stacklevel=3,
        )


def all_or_nothing(fit: Fit[Estimator, Arguments]) -> Fit[Estimator, Arguments]:
    """Decorate `fit` so that it begins without what an earlier one learned, and leaves nothing if it fails.

    A callback makes an estimator predict while it is fitted; one that was interrupted then would go on to.
    A fit that takes long and shows no bar says so in one line.

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
        warn_of_idle_settings(estimator)
        shows_itself = getattr(estimator, "verbose", 0) or kwargs.get("callback") is not None
        line = said_when_long(f"{type(estimator).__name__}.fit", "verbose=1 shows a bar.")
        try:
            with nullcontext() if shows_itself else line:
                return fit(estimator, *args, **kwargs)
        except BaseException:  # an interruption, too
            forget(estimator)
            raise

    return fit_or_forget
