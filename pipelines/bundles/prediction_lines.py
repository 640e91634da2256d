"""Lines of `predictions.csv`: what is said of an input that was predicted, or why it could not be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self

from gpmodels.familiarity.flags import is_unfamiliar
from pipelines.bundles.metadata import FAMILIARITY
from pipelines.scores.pictures import Outputs

FAMILIARITY_COLUMNS = ("familiarity", "unfamiliar")


@dataclass(frozen=True)
class PredictionLine:
    """A line of `predictions.csv`; an application adds fields of its own.

    Attributes:
        own_columns: Names of the application's cells, in the order of the table.
        familiarity_columns: Names of the cells of familiarity, where the bundle says it.
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
    familiarity_factor: ClassVar[int] = 1

    file: str
    referred: bool | None = None
    familiarity: float | None = None
    unfamiliar: bool | None = None
    seconds: float | None = None
    status: str = "ok"

    @classmethod
    def columns(cls, class_names: Iterable[str] = (), *, familiarity: bool = False) -> list[str]:
        """Return the names of the cells in the order of the table; each class has one, its probability.

        Args:
            class_names: Classes whose probabilities are in the table.
            familiarity: Whether the bundle says how familiar an input is.
        """
        familiar = cls.familiarity_columns if familiarity else ()
        probabilities = map(probability_column, class_names)
        return ["file", *cls.own_columns, "referred", *familiar, "seconds", "status", *probabilities]

    def cells(self) -> dict[str, object]:
        """Return the value of each column by its name."""
        return asdict(self)

    def with_possible_flags(self, least_familiarity: float) -> Self:
        """Return this line without flags that could never be raised.

        Args:
            least_familiarity: The least familiarity of which the bundle is capable.
        """
        possible = is_unfamiliar(self.familiarity_factor * least_familiarity)
        return self if possible else replace(self, unfamiliar=None)


@dataclass(frozen=True)
class ClassPredictionLine(PredictionLine):
    """A line for what is given a class.

    Attributes:
        label: The most probable class.
        predictive_entropy: Predictive entropy, nats.
        mutual_information: Mutual information, nats.
        probability: Probability of every class by name; the cells are `probability of <class>`.
    """

    label: str | None = None
    predictive_entropy: float | None = None
    mutual_information: float | None = None
    probability: dict[str, float] = field(default_factory=dict)

    def cells(self) -> dict[str, object]:
        """Return the value of each column by its name, one for each class among them."""
        cells = super().cells()
        del cells["probability"]
        return cells | {probability_column(name): value for name, value in self.probability.items()}


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
