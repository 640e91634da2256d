"""The one list of head families: everything that tells one family from another is in its record.

Names, titles, the order of reports, settings, what a resumed run must keep, and the estimators' table are all
derived from the records. Nothing here imports TensorFlow before a head is made.

A new family is one record, registered in one line:

    register(HeadFamily("mine", "Mine", "my own head", make=make_mine, settings=MySettings))
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from gpmodels.autogp.settings import AutoGPSettings
from gpmodels.deep_gp.settings import DeepGPSettings
from gpmodels.dfgp.settings import DFGPSettings
from gpmodels.dropout.settings import DropoutSettings
from gpmodels.heads.settings import SVGPSettings
from gpmodels.hgp.settings import HGPSettings, VMGPSettings
from gpmodels.likelihoods.names import MULTILABEL, TARGET_LIKELIHOODS, VOTES
from gpmodels.random_features.settings import RandomFeatureSettings
from gpmodels.sngp.settings import SNGPSettings
from gpmodels.svdkl.settings import SVDKLSettings
from gpmodels.transfer.settings import ATLDGPSettings

if TYPE_CHECKING:
    from gpmodels.heads.base import Head

_WITHOUT_CLASSES = frozenset({*TARGET_LIKELIHOODS, MULTILABEL, VOTES})


@dataclass(frozen=True)
class HeadTask:
    """What a head is made for.

    Attributes:
        num_classes: C.
        likelihood: Likelihood of an SVGP or HGP head; None takes the head's own choice by the number of
            classes.
        views: Columns of each view of the features; None where the features come in one piece.
        seed: Seed of what a head draws once and for all, as random features and masks.
        kernel_variance: σ² with which the global unit of a GP head starts; None takes the head's own choice.
        mean_posterior: Of how many features at most the weights of a GP head's linear mean have a posterior,
            as in `gpmodels.heads.gp.GPHead`.
        domain_rows: Training points of each source, then of the run's own data; empty without a source.
    """

    num_classes: int = 2
    likelihood: str | None = None
    views: tuple[slice, ...] | None = None
    seed: int = 0
    kernel_variance: float | None = None
    mean_posterior: int = False
    domain_rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class HeadFamily:
    """A family of heads.

    Attributes:
        name: Key in settings and name of the head in its model, for example `"hgp"`.
        title: Name in tables, for example `"HGP"`.
        description: Name in bundles, in words.
        make: Returns an untrained head from the family's settings and the task.
        head_class: Returns the class of the heads, which the estimators make with settings of their own, and
            imports it, so that Keras knows it; None for a family without estimators.
        settings: Class of the family's settings; None for a family without any.
        own_table: Whether the settings are a table of their own, as in `--set mine.depth=2`. The oldest
            families share one flat list of settings, as in `--set num_experts=9`.
        starts_network: Whether the network is pretrained with this head, whose temperature is then fitted:
            the linear head alone.
        is_gaussian_process: Whether the head is placed on features and trained alone before it is trained
            with the network; only the linear head is not.
        needs_views: Whether the head works only on features that come in views.
        takes_likelihood: Whether the head has a choice of likelihoods.
        needs_sources: Whether the head learns from sources besides the run's own data, and says what they
            gave (`source_contribution`).
        weighs_views: Whether the trained head says how much each view counts (`view_weights`).
        in_runs: Whether runs offer the family; one that is only compared with has estimators alone.
        continues_linear: Whether the head is a `LinearHead` that is trained further from the weights that the
            pretraining gave the linear head, as that one is.
        fitted_on: Stage whose trained network the head is fitted on in one pass over the training examples
            (`Head.fit_to`), without epochs of its own: `"pretraining"`, or a head that goes before it in the
            order of reports and whose weights it takes. None for a head with epochs of its own.
        is_completed: Whether such a pass follows after the head's own epochs.
        for_segmentation: Whether the head is for maps too, where every pixel is a point; the others are for
            labels of images alone, most since their predictions take many times the work of an SVGP's.
        has_posterior_of_weights: Whether the head, no Gaussian process, has a posterior that follows from how
            often points count, as Laplace's approximation has.
    """

    name: str
    title: str
    description: str
    make: Callable[[Any, HeadTask], Head]
    settings: type[BaseModel] | None = None
    own_table: bool = True
    starts_network: bool = False
    is_gaussian_process: bool = True
    needs_views: bool = False
    needs_sources: bool = False
    takes_likelihood: bool = False
    weighs_views: bool = False
    in_runs: bool = True
    head_class: Callable[[], type[Head]] | None = None
    continues_linear: bool = False
    fitted_on: str | None = None
    is_completed: bool = False
    for_segmentation: bool = True
    has_posterior_of_weights: bool = False

    @property
    def counts_effective(self) -> bool:
        """Whether training points count as N_eff observations; for a head without a posterior they are N."""
        return self.is_gaussian_process or self.has_posterior_of_weights

    @property
    def flat_keys(self) -> tuple[str, ...]:
        """Names of the family's settings among the flat settings of a run; none for a family with a table."""
        return () if self.own_table or self.settings is None else tuple(self.settings.model_fields)

    @property
    def setting_keys(self) -> tuple[str, ...]:
        """Names of the family's settings in those of a run: its table, or its flat ones."""
        return (self.name,) if self.own_table and self.settings is not None else self.flat_keys

    def settings_of(self, run_settings: BaseModel) -> Any:
        """Return the family's part of a run's settings; its defaults where the run has no table of it."""
        if self.own_table and self.settings is not None:
            return getattr(run_settings, self.name, None) or self.settings()
        return run_settings

    def has_single_latent(self, task: HeadTask) -> bool:
        """Whether one latent function decides between two classes, as for all likelihoods but a softmax."""
        if task.likelihood in (MULTILABEL, VOTES):
            return False
        return task.num_classes == 2 and (not self.takes_likelihood or task.likelihood in {None, "bernoulli"})


_FAMILIES: dict[str, HeadFamily] = {}


def register(family: HeadFamily) -> HeadFamily:
    """Add a family after those that are registered, and return it.

    Raises:
        ValueError: A family of that name is registered already.
    """
    if family.name in _FAMILIES:
        raise ValueError(f"A head family named {family.name!r} is registered already. Choose another name.")
    _FAMILIES[family.name] = family
    return family


def unregister(name: str) -> None:
    """Remove a family, as a test does with its own."""
    del _FAMILIES[name]


def families() -> Mapping[str, HeadFamily]:
    """Return every family that runs offer by its name, in the order of reports."""
    return {name: family for name, family in _FAMILIES.items() if family.in_runs}


def head_family(name: str) -> HeadFamily:
    """Return the family of a name that runs offer.

    Raises:
        ValueError: There is no such family.
    """
    offered = families()
    if name not in offered:
        raise ValueError(f"There is no head family {name!r}. Choose one of {', '.join(offered)}.")
    return offered[name]


def starting_head() -> str:
    """Return the name of the head that the network of every run is pretrained with."""
    (name,) = [name for name, family in _FAMILIES.items() if family.starts_network]
    return name


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the names that runs offer, in the order of reports: the most elaborate family last."""
    wanted = set(names)
    return tuple(name for name in families() if name in wanted)


def head_class(name: str) -> type[Head]:
    """Return the class of a family's heads, whether runs offer the family or not.

    Raises:
        ValueError: There is no such family, or it has not said what its class is.
    """
    family = _FAMILIES.get(name)
    if family is None or family.head_class is None:
        known = [name for name, family in _FAMILIES.items() if family.head_class is not None]
        raise ValueError(f"There is no class of heads {name!r}. Choose one of {', '.join(known)}.")
    return family.head_class()


def import_heads() -> None:
    """Import every head class that a family names, which registers it with Keras."""
    for family in _FAMILIES.values():
        if family.head_class is not None:
            family.head_class()


# Records. Importing a head imports TensorFlow, so that it waits until a head is made.

_IN_PLACE_OF = {"width": "widths"}
"""Properties of settings that are arguments in the place of fields."""


def _register_own(
    name: str,
    title: str,
    description: str,
    head: str,
    *,
    settings: type[BaseModel] | None = None,
    of_task: tuple[str, ...] = ("num_classes",),
    lacking: Callable[[HeadTask], str] = lambda _: "",
    **others: Any,
) -> None:
    """Register a family whose heads take arguments that are called as the settings and the task call them.

    Args:
        name: Name of the heads.
        title: Name in tables.
        description: Name in bundles.
        head: Module and class of the heads, for example `"gpmodels.heads.svgp:SVGPHead"`.
        settings: Class of the settings, all of which are arguments, or what `_IN_PLACE_OF` has for them; None
            where there are none.
        of_task: What of the task is an argument, too.
        lacking: Returns what a task lacks that heads cannot be made without; empty where it lacks nothing.
        others: Further attributes of `HeadFamily`.
    """
    fields = () if settings is None else settings.model_fields
    of_settings = tuple(_IN_PLACE_OF.get(key, key) for key in fields)

    def head_class() -> type[Head]:
        found: type[Head] = pkgutil.resolve_name(head)
        return found

    def make(given: Any, task: HeadTask) -> Head:
        if problem := lacking(task):
            raise ValueError(problem)
        arguments = {key: getattr(given, key) for key in of_settings}
        arguments |= {key: getattr(task, key) for key in of_task}
        if task.likelihood in _WITHOUT_CLASSES:  # many heads have only one likelihood of classes
            arguments["likelihood"] = task.likelihood
        return head_class()(**arguments, name=name)

    register(
        HeadFamily(name, title, description, make=make, head_class=head_class, settings=settings, **others)
    )


def _lacking_views(task: HeadTask) -> str:
    if task.views is None:
        return "the head dfgp_mkl weighs views of the features, but these come in one piece; choose dfgp"
    return ""


def _lacking_source(task: HeadTask) -> str:
    if task.domain_rows:
        return ""
    return (
        "the head atl_dgp learns from a source as well; name a prepared folder with --source, or leave the "
        "head out"
    )


_LIKELIHOOD_OF_TASK = ("num_classes", "likelihood", "kernel_variance", "mean_posterior")

_register_own(
    "linear",
    "Linear",
    "linear",
    "gpmodels.heads.linear:LinearHead",
    starts_network=True,
    is_gaussian_process=False,
)
_register_own(
    "ridge_linear",
    "Linear, regularised",
    # Of a network trained from scratch the features have seen the labels of all groups: the penalty is
    # chosen too weak. The choice is clean on frozen features.
    "linear with a penalty chosen by held-out groups",
    "gpmodels.ridge.head:RidgeLinearHead",
    is_gaussian_process=False,
    fitted_on="pretraining",
)
_register_own(
    "laplace",
    "Laplace",
    "linear with a Gaussian posterior of its weights by Laplace's approximation",
    "gpmodels.laplace.head:LaplaceHead",
    is_gaussian_process=False,
    fitted_on="linear",
    has_posterior_of_weights=True,
)
_register_own(
    "dropout",
    "MC dropout",
    "linear with Monte Carlo dropout of its features",
    "gpmodels.dropout.head:DropoutHead",
    settings=DropoutSettings,
    of_task=("num_classes", "seed"),
    is_gaussian_process=False,
    continues_linear=True,
)
_register_own(
    "sngp",
    "SNGP",
    "Gaussian process by random features with Laplace's approximation",
    "gpmodels.sngp.head:SNGPHead",
    settings=SNGPSettings,
    of_task=("num_classes", "seed"),
    is_completed=True,
)
_register_own(
    "svgp",
    "SVGP",
    "sparse variational Gaussian process",
    "gpmodels.heads.svgp:SVGPHead",
    settings=SVGPSettings,
    of_task=_LIKELIHOOD_OF_TASK,
    own_table=False,
    takes_likelihood=True,
)
_register_own(
    "autogp",
    "AutoGP",
    "sparse Gaussian process with a mixture of Gaussians as posterior",
    "gpmodels.autogp.head:AutoGPHead",
    settings=AutoGPSettings,
    of_task=_LIKELIHOOD_OF_TASK,
    takes_likelihood=True,
    for_segmentation=False,
)
_register_own(
    "svdkl",
    "SVDKL",
    "Gaussian processes on groups of features, mixed linearly",
    "gpmodels.svdkl.head:SVDKLHead",
    settings=SVDKLSettings,
    of_task=("num_classes", "seed"),
    for_segmentation=False,
)
_register_own(
    "vmgp",
    "VMGP",
    "mixture of sparse Gaussian processes",
    "gpmodels.hgp.vmgp:VMGPHead",
    settings=VMGPSettings,
    of_task=("num_classes", "likelihood"),
    own_table=False,
    takes_likelihood=True,
    in_runs=False,
)
_register_own(
    "hgp",
    "HGP",
    "hierarchical Gaussian process",
    "gpmodels.hgp.head:HGPHead",
    settings=HGPSettings,
    of_task=_LIKELIHOOD_OF_TASK,
    own_table=False,
    takes_likelihood=True,
)
_register_own(
    "random_features",
    "Random features",
    "deep Gaussian process by random features",
    "gpmodels.random_features.head:RandomFeatureHead",
    settings=RandomFeatureSettings,
    of_task=(*_LIKELIHOOD_OF_TASK, "seed"),
    takes_likelihood=True,
    for_segmentation=False,
)
_register_own(
    "deep_gp",
    "Deep GP",
    "deep Gaussian process of sparse layers",
    "gpmodels.deep_gp.head:DeepGPHead",
    settings=DeepGPSettings,
    of_task=(*_LIKELIHOOD_OF_TASK, "seed"),
    takes_likelihood=True,
    for_segmentation=False,
)
_register_own(
    "dfgp",
    "DFGP",
    "deep feed-forward Gaussian process",
    "gpmodels.dfgp.head:DFGPHead",
    settings=DFGPSettings,
    own_table=False,
)
_register_own(
    "dfgp_mkl",
    "DFGP-MKL",
    "deep feed-forward Gaussian process with a unit for each view",
    "gpmodels.dfgp.head:DFGPHead",
    settings=DFGPSettings,
    of_task=("num_classes", "views"),
    lacking=_lacking_views,
    own_table=False,
    needs_views=True,
    weighs_views=True,
)
_register_own(
    "atl_dgp",
    "ATL-DGP",
    "Gaussian process that mixes what sources teach with the target's own",
    "gpmodels.transfer.head:ATLDGPHead",
    settings=ATLDGPSettings,
    of_task=("num_classes", "domain_rows"),
    lacking=_lacking_source,
    is_gaussian_process=False,
    needs_sources=True,
    fitted_on="pretraining",
)
