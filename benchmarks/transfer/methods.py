"""What is compared: each method takes a split and returns probabilities of its judged rows.

All peers have a temperature fitted to scores of labelled target rows by models that have not seen these, see
`benchmarks.peers.transfer_base`.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from benchmarks.peers.coregionalised_gp import CoregionalisedGPClassifier
from benchmarks.peers.geodesic_flow_kernel import GeodesicFlowKernelClassifier
from benchmarks.peers.kbtl import KBTLClassifier
from benchmarks.peers.mmdt import MMDTClassifier
from benchmarks.peers.transfer_base import Rows, TransferClassifier, scores_of_decision
from benchmarks.transfer.office import FloatArray, Split
from gpmodels.transfer.rows import mean_distance

SOURCE_WEIGHT = 0.1
"""How much a source row counts beside a target row in pooled machines."""

ICM_NOISE = 0.2
"""Noise of the coregionalised GPs beside a kernel of variance 1.

ATL-DGP's noise is 0.1 beside π² + (1 - π)², which is about ½, so that this is the same. At 0.1 their accuracy
is half a point lower."""

LOGISTIC_COST = 0.1
"""C of logistic regression: of 0.001, 0.01, 0.1 and 1 the best on the judged rows, which flatters it."""

COSTS = {"rbf": (0.1, 1.0, 10.0, 100.0), "logistic": (0.01, 0.1, 1.0)}
"""Values of C to choose from by leaving out target rows."""


@dataclass(kw_only=True, repr=False, eq=False)
class PooledClassifier(TransferClassifier):
    """A machine of scikit-learn on the rows of all domains, those of sources with a weight.

    Args:
        machine: `"rbf"` or `"linear"` for a support vector machine, `"logistic"` for logistic regression.
        cost: C.
        source_weight: How much a source row counts beside a target row; 0 leaves the sources out.
        target_weight: How much a target row counts; 0 leaves the target out.
    """

    machine: str = "rbf"
    cost: float = 10.0
    source_weight: float = SOURCE_WEIGHT
    target_weight: float = 1.0

    def _train(self, rows: Rows) -> None:
        weight = np.where(rows.is_target, self.target_weight, self.source_weight)
        used = weight > 0.0
        x, label = rows.x[used], rows.label[used]
        if self.machine == "rbf":
            model: Any = SVC(C=self.cost, gamma=0.5 / mean_distance(x) ** 2)
        elif self.machine == "linear":
            model = LinearSVC(C=self.cost, dual=True, random_state=0, max_iter=20_000)
        else:
            model = LogisticRegression(C=self.cost, max_iter=2000)
        self._model = model.fit(x, label, sample_weight=weight[used])
        self._num_classes = rows.num_classes

    def _scores(self, x: FloatArray) -> FloatArray:
        decision = self._model.decision_function(x)
        return scores_of_decision(decision, self._model.classes_, self._num_classes)


@dataclass(frozen=True)
class Method:
    """One row of the tables.

    Attributes:
        title: Name in the tables.
        probability: Takes a split and a seed; returns probabilities of the judged rows, `[n, C]`.
        is_own: Whether it is one of this package's models of transfer.
        needs: Package that must be importable, a name in it, and an argument of that; with colons between.
        all_sources: Whether both other domains are sources.
    """

    title: str
    probability: Callable[[Split, int], FloatArray]
    is_own: bool = False
    needs: str | None = None
    all_sources: bool = False

    @property
    def is_available(self) -> bool:
        """Whether what it needs is there."""
        if self.needs is None:
            return True
        package, *names = self.needs.split(":")
        if importlib.util.find_spec(package) is None:
            return False
        if not names:
            return True
        kind = getattr(importlib.import_module(package), names[0], None)
        return kind is not None and set(names[1:]) <= set(inspect.signature(kind).parameters)


def _peer(model: Any, *, wide: bool = False) -> Callable[[Split, int], FloatArray]:
    """Return what fits a transfer classifier to a split, on all columns or on principal components."""

    def probability(split: Split, seed: int) -> FloatArray:
        own = clone(model)
        if "random_state" in own.get_params():
            own.set_params(random_state=seed)
        x, test = (split.wide_x, split.wide_test_x) if wide else (split.x, split.test_x)
        if split.unlabelled and "unlabelled" in own.get_params():
            own.unlabelled = test
        own.fit(x, split.label, sample_domain=split.sample_domain, groups=split.groups)
        return np.asarray(own.predict_proba(test))

    return probability


def _best(models: list[Any]) -> Callable[[Split, int], FloatArray]:
    """Return what takes of several classifiers the one by which left-out target rows are most probable."""

    def probability(split: Split, seed: int) -> FloatArray:  # noqa: ARG001 - all methods take a seed
        fitted = [
            clone(model).fit(split.x, split.label, sample_domain=split.sample_domain, groups=split.groups)
            for model in models
        ]
        return np.asarray(min(fitted, key=lambda model: model.left_out_nll_).predict_proba(split.test_x))

    return probability


def _icm(**settings: Any) -> Callable[[Split, int], FloatArray]:
    return _peer(CoregionalisedGPClassifier(noise_variance=ICM_NOISE, **settings))


def _own(
    name: str, rows: str = "all", by: str | None = "groups", **settings: Any
) -> Callable[[Split, int], FloatArray]:
    """Return what fits one of this package's estimators to all rows, or to those of one side alone.

    Args:
        name: Of the estimator.
        rows: `"all"`, `"source"` or `"target"`.
        by: What is left out together: `"groups"` or `"patients"` of the split; None: each row alone.
        settings: Of the estimator.
    """

    def probability(split: Split, seed: int) -> FloatArray:
        import gpmodels  # noqa: PLC0415 - imports TensorFlow

        own = getattr(gpmodels, name)(random_state=seed, scaling=None, **settings)
        target = split.sample_domain < 0
        if rows == "all":
            groups = getattr(split, by) if by else None
            more = {} if groups is None else {"groups": groups}
            own.fit(split.x, split.label, sample_domain=split.sample_domain, **more)
        else:
            chosen = target if rows == "target" else ~target
            own.fit(split.x[chosen], split.label[chosen])
        return np.asarray(own.predict_proba(split.test_x))

    return probability


def _bound(form: str, max_iterations: int = 100) -> Callable[[Split, int], FloatArray]:
    """Return what trains ATL-DGP on a bound and takes the result, whether left-out rows gain by it or not."""

    def probability(split: Split, seed: int) -> FloatArray:
        import gpmodels  # noqa: PLC0415 - imports TensorFlow

        class Trained(gpmodels.ATLDGPClassifier):
            def _best(self, _exact: Any, rows: Any, _groups: Any, seed: int) -> Any:
                return self._trained(rows, seed)

        own = Trained(random_state=seed, scaling=None, max_iterations=max_iterations, latent_posterior=form)
        own.fit(split.x, split.label, sample_domain=split.sample_domain)
        return np.asarray(own.predict_proba(split.test_x))

    return probability


def _skada(adapter: str) -> Callable[[Split, int], FloatArray]:
    """Return what adapts source rows by skada, without labels, and pools them in a weighted RBF-SVM."""

    def probability(split: Split, seed: int) -> FloatArray:
        from benchmarks.transfer.skada_peers import adapted  # noqa: PLC0415 - an optional package

        return _peer(PooledClassifier())(adapted(split, adapter, seed), seed)

    return probability


def _jdot(split: Split, seed: int) -> FloatArray:
    from benchmarks.transfer.skada_peers import jdot_probability  # noqa: PLC0415 - an optional package

    return jdot_probability(split, seed)


_ATL, _STL = "gpmodels:ATLDGPClassifier", "gpmodels:STLDGPClassifier"

METHODS: dict[str, Method] = {
    "ngp_s": Method("NGP-S", _own("ATLDGPClassifier", "source"), is_own=True, needs=_ATL),
    "ngp_t": Method("NGP-T", _own("ATLDGPClassifier", "target"), is_own=True, needs=_ATL),
    "atl": Method("ATL-DGP, exact limit", _own("ATLDGPClassifier"), is_own=True, needs=_ATL),
    "atl_layers": Method(
        "ATL-DGP, two layers",
        _own("ATLDGPClassifier", output="two_layer"),
        is_own=True,
        needs=_ATL,
    ),
    "ngp_t_layers": Method(
        "NGP-T, two layers",
        _own("ATLDGPClassifier", "target", output="two_layer"),
        is_own=True,
        needs=_ATL,
    ),
    "atl_two": Method(
        "ATL-DGP, exact limit, two sources",
        _own("ATLDGPClassifier"),
        is_own=True,
        needs=_ATL,
        all_sources=True,
    ),
    "atl_trained": Method(
        "ATL-DGP, trained where left-out rows gain",
        _own("ATLDGPClassifier", max_iterations=100),
        is_own=True,
        needs=_ATL,
    ),
    "atl_start": Method("ATL-DGP, joint start", _bound("integrated", 0), is_own=True, needs=_ATL),
    "atl_bound": Method("ATL-DGP, trained", _bound("integrated"), is_own=True, needs=_ATL),
    "atl_mean_field": Method(
        "ATL-DGP, trained, the paper's q(D)", _bound("mean_field"), is_own=True, needs=_ATL
    ),
    "stl": Method("STL-DGP", _own("STLDGPClassifier", by=None), is_own=True, needs=_STL),
    "svm_linear_s": Method(
        "linear SVM, source", _peer(PooledClassifier(machine="linear", cost=0.01, target_weight=0.0))
    ),
    "svm_linear_t": Method(
        "linear SVM, target", _peer(PooledClassifier(machine="linear", cost=0.001, source_weight=0.0))
    ),
    "svm_linear": Method(
        "linear SVM, pooled", _peer(PooledClassifier(machine="linear", cost=0.001, source_weight=1.0))
    ),
    "svm_s": Method("RBF-SVM, source", _peer(PooledClassifier(target_weight=0.0))),
    "svm_t": Method("RBF-SVM, target", _peer(PooledClassifier(source_weight=0.0))),
    "svm": Method("RBF-SVM, pooled, sources weigh .1", _peer(PooledClassifier())),
    "logistic": Method(
        "logistic regression, pooled, sources weigh .1",
        _peer(PooledClassifier(machine="logistic", cost=LOGISTIC_COST)),
    ),
    "svm_chosen": Method(
        "RBF-SVM, pooled, C by leaving out", _best([PooledClassifier(cost=cost) for cost in COSTS["rbf"]])
    ),
    "logistic_chosen": Method(
        "logistic regression, pooled, C by leaving out",
        _best([PooledClassifier(machine="logistic", cost=cost) for cost in COSTS["logistic"]]),
    ),
    "icm_0": Method("coregionalised GP, ρ = 0", _icm(correlation=0.0)),
    "icm_5": Method("coregionalised GP, ρ = .5 (EasyAdapt)", _icm(correlation=0.5)),
    "icm_8": Method("coregionalised GP, ρ = .8", _icm(correlation=0.8)),
    "icm": Method("coregionalised GP, ρ by leave-one-out", _icm()),
    "fmtl": Method("FMTL", _icm(own_source_kernel=True)),
    "mmdt": Method("MMDT", _peer(MMDTClassifier())),
    "gfk": Method("GFK, 1-NN", _peer(GeodesicFlowKernelClassifier())),
    "gfk_svm": Method("GFK, RBF-SVM", _peer(GeodesicFlowKernelClassifier(machine="svm"))),
    "gfk_wide": Method(
        "GFK on all columns, 1-NN",
        _peer(GeodesicFlowKernelClassifier(num_components=20, temperature_folds=3), wide=True),
    ),
    "kbtl": Method("KBTL", _peer(KBTLClassifier())),
    "coral": Method("CORAL (skada), then pooled RBF-SVM", _skada("CORALAdapter"), needs="skada"),
    "alignment": Method(
        "subspace alignment (skada), then pooled RBF-SVM", _skada("SubspaceAlignmentAdapter"), needs="skada"
    ),
    "tca": Method(
        "TCA (skada), then pooled RBF-SVM", _skada("TransferComponentAnalysisAdapter"), needs="skada"
    ),
    "ot": Method("OT mapping (skada), then pooled RBF-SVM", _skada("OTMappingAdapter"), needs="skada"),
    "jdot": Method("JDOT (skada), no target labels", _jdot, needs="skada"),
}
"""All methods of the office part, cheap ones first among the peers."""

PATIENT_METHODS = {
    "atl_patients": Method(
        "ATL-DGP, exact limit, patients left out",
        _own("ATLDGPClassifier", by="patients"),
        is_own=True,
        needs=_ATL,
    ),
    "atl_layers_patients": Method(
        "ATL-DGP, two layers, patients left out",
        _own("ATLDGPClassifier", by="patients", output="two_layer"),
        is_own=True,
        needs=_ATL,
    ),
}
"""Of the tissue part alone, whose splits know the patients of rows."""


def measures(label: npt.NDArray[np.intp], probability: FloatArray) -> dict[str, float]:
    """Return accuracy in per cent, NLL in nats and the expected calibration error."""
    from benchmarks.tabular.measures import classification_measures  # noqa: PLC0415 - imports pipelines

    scores = classification_measures(label, probability)
    return {"accuracy": 100.0 - scores["error"], "nll": scores["nlp"], "ece": scores["ece"]}
