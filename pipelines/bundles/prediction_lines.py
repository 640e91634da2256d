"""Lines of `predictions.csv`: the prediction for each input, or why there is none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from gpmodels.familiarity.flags import is_unfamiliar
from pipelines.bundles.line_rules import NO_RULES, LineRules
from pipelines.bundles.metadata import FAMILIARITY
from pipelines.scores.costs import REFER, CostTable
from pipelines.scores.pictures import Outputs
from pipelines.scores.prediction_sets import set_text

FAMILIARITY_COLUMNS = ("familiarity", "unfamiliar")
COST_COLUMNS = ("decision", "expected_cost")
SET_COLUMNS = ("prediction_set",)


@dataclass(frozen=True)
class PredictionLine:
    """A line of `predictions.csv`; an application adds fields of its own.

    Attributes:
        own_columns: Names of the application's cells, in the order of the table.
        familiarity_columns: Names of the cells of familiarity, where the bundle says it.
        cost_columns: Names of the cells of a decision by costs, where there are any.
        set_columns: Names of the cells of a set of classes, where there is one.
        names_classes: Whether the table has columns for each class or label.
        familiarity_factor: What the least familiarity of an input is of the bundle's: 2 where it is pooled.
        file: The file that was predicted.
        referred: Whether a person should look.
        familiarity: Share of held-out examples of the training that look at least as strange; None where the
            bundle does not say.
        unfamiliar: Whether that is below `gpmodels.familiarity.flags.UNFAMILIAR_BELOW`; None where nothing
            can be.
        seconds: Time for this line, without reading and writing.
        status: `ok`, or what was wrong.
    """

    own_columns: ClassVar[tuple[str, ...]] = ()
    familiarity_columns: ClassVar[tuple[str, ...]] = FAMILIARITY_COLUMNS
    names_classes: ClassVar[bool] = False
    familiarity_factor: ClassVar[int] = 1
    cost_columns: ClassVar[tuple[str, ...]] = ()
    set_columns: ClassVar[tuple[str, ...]] = ()

    file: str
    referred: bool | None = None
    familiarity: float | None = None
    unfamiliar: bool | None = None
    seconds: float | None = None
    status: str = "ok"

    @classmethod
    def columns(cls, class_names: Iterable[str] = (), rules: LineRules = NO_RULES) -> list[str]:
        """Return the names of the cells in the order of the table; each class has one, its probability.

        Args:
            class_names: Classes whose probabilities are in the table.
            rules: What is done to each line.
        """
        further = [
            *(cls.cost_columns if rules.costs is not None else ()),
            *(cls.set_columns if rules.sets is not None else ()),
            *(cls.familiarity_columns if rules.least_familiarity is not None else ()),
        ]
        probabilities = map(probability_column, class_names)
        return ["file", *cls.own_columns, "referred", *further, "seconds", "status", *probabilities]

    def cells(self) -> dict[str, object]:
        """Return the value of each column by its name."""
        return dict(vars(self))  # `asdict` copies values, too, which takes longer than reading an image

    @property
    def is_finite(self) -> bool:
        """Whether all numbers are finite, as those of a model in order are."""
        return all(math.isfinite(value) for value in self.cells().values() if isinstance(value, float))

    def with_possible_flags(self, least_familiarity: float) -> Self:
        """Return this line without flags that could never be raised.

        Args:
            least_familiarity: The least familiarity that the bundle can report.
        """
        possible = is_unfamiliar(self.familiarity_factor * least_familiarity)
        return self if possible else replace(self, unfamiliar=None)

    def ruled(self, rules: LineRules) -> Self:
        """Return this line with its flags, referred where it is unfamiliar, and with what is decided of it.

        Args:
            rules: What is done to each line.
        """
        if rules.least_familiarity is None or self.status != "ok":
            return self
        line = self.with_possible_flags(rules.least_familiarity)
        refers = line.unfamiliar and not rules.keep_unfamiliar
        return replace(line, referred=True) if refers else line


@dataclass(frozen=True)
class ClassPredictionLine(PredictionLine):
    """A line for what is given a class.

    Attributes:
        label: The most probable class.
        predictive_entropy: Predictive entropy, nats.
        mutual_information: Mutual information, nats.
        probability: Probability of every class by name; the cells are `probability of <class>`.
        decision: The class, or `refer`, with the least expected cost; None without costs.
        expected_cost: Its expected cost; None where it is not known.
        prediction_set: Classes of its prediction set; None where it has none.
    """

    cost_columns = COST_COLUMNS
    set_columns = SET_COLUMNS
    names_classes = True

    label: str | None = None
    predictive_entropy: float | None = None
    mutual_information: float | None = None
    probability: dict[str, float] = field(default_factory=dict)
    decision: str | None = None
    expected_cost: float | None = None
    prediction_set: str | None = None

    def ruled(self, rules: LineRules) -> Self:
        """Return this line as `PredictionLine.ruled` does; what guarantees or costs refer is referred.

        Args:
            rules: What is done to each line.
        """
        line = super().ruled(rules)
        if not (line.probability and line.label):
            return line
        names, probability = list(line.probability), list(line.probability.values())
        if rules.refers(names.index(line.label), probability, line.predictive_entropy or 0.0):
            line = replace(line, referred=True)
        if rules.sets is not None:
            members = rules.sets.contains(np.array([probability]))[0]
            line = replace(line, prediction_set=set_text(members, names))
        if rules.costs is not None:
            fields = cost_fields(rules.costs, probability, referred=bool(line.referred))
            if rules.is_guaranteed and fields["decision"] != line.label:
                fields = cost_fields(rules.costs, probability, referred=True)
            line = replace(line, **fields)
        return line

    def cells(self) -> dict[str, object]:
        """Return the value of each column by its name, one for each class among them."""
        cells = super().cells()
        del cells["probability"]
        return cells | {probability_column(name): value for name, value in self.probability.items()}


def decided_sentence(lines: Iterable[PredictionLine]) -> str:
    """Return in a sentence what costs decided; empty where they decided nothing.

    Example:
        >>> lines = [ClassPredictionLine(file=name, label="benign", decision="refer") for name in "ab"]
        >>> decided_sentence(lines)
        'Decided by costs: 2 refer; for 2 of 2 this is not the most probable class'
    """
    decided = [line for line in lines if isinstance(line, ClassPredictionLine) and line.decision is not None]
    if not decided:
        return ""
    counts = Counter(str(line.decision) for line in decided)
    listed = ", ".join(f"{number} {decision}" for decision, number in counts.most_common())
    others = sum(line.decision != line.label for line in decided)
    return f"Decided by costs: {listed}; for {others} of {len(decided)} this is not the most probable class"


def class_fields(outputs: Outputs, class_names: Sequence[str], refer_above: float | None) -> dict[str, Any]:
    """Return the fields of a `ClassPredictionLine` that follow from the outputs for what is given a class.

    Args:
        outputs: `label`, `probability`, `predictive_entropy` and `mutual_information`, without a batch axis.
        class_names: Names of the classes in the order of the labels.
        refer_above: Entropy above which a person should look; None where nobody should.
    """
    entropy = float(outputs["predictive_entropy"])
    return {
        "label": class_names[int(outputs["label"])],
        "predictive_entropy": entropy,
        "mutual_information": float(outputs["mutual_information"]),
        "probability": dict(zip(class_names, outputs["probability"].tolist(), strict=True)),
        "referred": is_referred(entropy, refer_above),
        **familiarity_fields(None if FAMILIARITY not in outputs else float(outputs[FAMILIARITY])),
    }


def cost_fields(costs: CostTable, probability: Sequence[float], *, referred: bool) -> dict[str, Any]:
    """Return the fields of a line that say what is decided by costs.

    Args:
        costs: The costs.
        probability: Probability of every class, in the order of the labels; empty decides nothing.
        referred: Whether it is referred in any case; the cost of that is known where the table has it.
    """
    if not probability:
        return {}
    expected = costs.expected(np.array([probability]))[0]
    place = int(costs.decide(np.array([probability]))[0][0])
    if referred:
        known = float(expected[-1]) if costs.refers else None
        return {"decision": REFER, "expected_cost": known, "referred": True}
    decision = costs.decisions[place]
    return {"decision": decision, "expected_cost": float(expected[place]), "referred": decision == REFER}


def familiarity_fields(familiarity: float | None, least: float = 0.0) -> dict[str, Any]:
    """Return the fields of a line that say how familiar an input is.

    Args:
        familiarity: Of the input; None of a bundle that does not say.
        least: The least that there can be; where even this is not unfamiliar, it is not said.
    """
    unfamiliar = None if familiarity is None or not is_unfamiliar(least) else is_unfamiliar(familiarity)
    return {FAMILIARITY: familiarity, "unfamiliar": unfamiliar}


def is_referred(entropy: float, refer_above: float | None) -> bool:
    """Return whether a person should look at what has this entropy; None refers nothing."""
    return refer_above is not None and entropy > refer_above


def probability_column(class_name: str) -> str:
    """Return the name of the column with the probability of a class."""
    return f"probability of {class_name}"


def printable(text: str) -> str:
    """Return the text of a path, even if its bytes are not UTF-8, as tables and terminals can take it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
