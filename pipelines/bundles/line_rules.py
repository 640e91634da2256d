"""What a predict step does to each line once it is predicted: what is referred, decided and flagged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from data_prep.errors import InputError
from gpmodels.statistics.conformal import groups_needed
from pipelines.bundles.guarantees import GuaranteeRecord, with_guarantee
from pipelines.bundles.metadata import Metadata
from pipelines.command.console import say
from pipelines.command.referral import FamiliaritySettings, ReferralSettings
from pipelines.scores.class_guarantees import JointGuarantee, Limit, ReferralRule, joint_guarantee
from pipelines.scores.costs import CostTable, given_costs
from pipelines.scores.definitions import format_share
from pipelines.scores.held_out import HELD_OUT, HeldOut, class_place, read_held_out
from pipelines.scores.prediction_sets import PredictionSets, prediction_sets

Settings = TypeVar("Settings", bound=FamiliaritySettings)


@dataclass(frozen=True)
class LineRules:
    """What is done to each line.

    Attributes:
        least_familiarity: The least familiarity that the bundle can report; None if it reports none.
        keep_unfamiliar: Whether what is unfamiliar is not referred for that.
        costs: Costs by which lines get a decision; None for none.
        referral: What guarantees of single classes keep; None where there are none.
        is_guaranteed: Whether anything is guaranteed of the labels that are kept: costs may then refer, and
            not decide for another class.
        sets: Which classes are in the set of a line; None where it has none.
    """

    least_familiarity: float | None = None
    keep_unfamiliar: bool = True
    costs: CostTable | None = None
    referral: ReferralRule | None = None
    is_guaranteed: bool = False
    sets: PredictionSets | None = None

    def refers(self, predicted: int, probability: Sequence[float], entropy: float) -> bool:
        """Return whether the guarantees of single classes refer a prediction.

        Args:
            predicted: Place of the predicted class.
            probability: Probability of every class.
            entropy: Predictive entropy.
        """
        if self.referral is None:
            return False
        one = (np.array([predicted]), np.array([probability]), np.array([entropy]))
        return not self.referral.keeps(*one)[0]


NO_RULES = LineRules()
"""Leaves every line as it is."""


def rules_for(
    settings: Settings,
    metadata: Metadata,
    *,
    bundle: Path,
    judged: str,
    console: Any,
    part: str = "",
    held_out: HeldOut | None = None,
) -> tuple[Settings, LineRules]:
    """Return the settings with the entropy above which they refer, and the rules for lines, and say them.

    Args:
        settings: Settings of a predict step.
        metadata: Of the bundle.
        bundle: The bundle.
        judged: What the step refers, in the plural: guarantees must be of that.
        console: Where it is said what is guaranteed.
        part: What of these is right or wrong, as "pixels of the "; empty for each as a whole.
        held_out: Held-out predictions of what is judged; None for those of the bundle.

    Raises:
        InputError: The bundle cannot guarantee it, or its classes are others.
    """
    tell = partial(say, console)

    if not isinstance(settings, ReferralSettings):  # of numbers, which the application refers
        return settings, LineRules(metadata.least_familiarity, settings.keep_unfamiliar)
    limits, refer = asked_limits(settings, metadata.class_names), settings.refer
    coverage: float | None = getattr(settings, "coverage", None)
    given = given_costs(settings, metadata.class_names, tell)
    rules = LineRules(
        least_familiarity=metadata.least_familiarity,
        keep_unfamiliar=settings.keep_unfamiliar,
        costs=metadata.costs if given is None else given,
        is_guaranteed=bool(limits),
    )
    if limits and rules.costs is not None:
        rules = _with_guaranteed_costs(rules, limits, is_asked=given is not None, tell=tell)
    if [limit.kind for limit in limits] == ["error"]:
        settings = with_guarantee(
            settings, metadata.guarantee, bundle=bundle, judged=judged, console=console, part=part
        )
        limits = []  # the entropy decides
    if not limits and coverage is None and refer is None:
        return settings, rules
    held_out, record = held_out or read_held_out(bundle / HELD_OUT), metadata.guarantee
    if record is None or record.judged != judged:
        raise InputError(f"{bundle} holds no predictions of held-out {judged}, which are referred here.")
    if refer is not None:
        settings = _with_share(settings, refer, held_out, record, tell)
    if not limits and coverage is None:
        return settings, rules
    if not held_out.has_classes:
        raise InputError(
            f"{bundle}: here nothing is guaranteed of single classes, and several guarantees do not hold "
            f"together, since a {metadata.application} model does not give each example one class. Pass "
            "--max-error SHARE alone, --refer, or --refer-above."
        )
    return settings, replace(
        rules,
        referral=_rule(held_out, limits, metadata, record, tell) if limits else None,
        sets=None if coverage is None else _sets(held_out, coverage, metadata, record, tell),
    )


def _with_guaranteed_costs(
    rules: LineRules, limits: Sequence[Limit], *, is_asked: bool, tell: Callable[[str], None]
) -> LineRules:
    """Return the rules with costs that leave the guarantees true.

    Costs may refer where only missed ones are limited, of which fewer are left then. A share of what is kept
    may rise, so that costs have no say there.
    """
    if all(limit.kind == "missed" for limit in limits):
        tell("Guarantees are of the column label: where costs decide for another class, it is referred")
        return rules
    if is_asked:
        raise InputError(
            "--costs refer more than a guarantee does, and of the rest a larger share may be wrong than was "
            "guaranteed. Pass --costs alone, or with --max-error CLASS=SHARE, which they leave true."
        )
    tell("The costs of the bundle are left out: what they refer would change the share that is guaranteed")
    return replace(rules, costs=None)


def _with_share(
    settings: Settings, share: float, held_out: HeldOut, record: GuaranteeRecord, tell: Callable[[str], None]
) -> Settings:
    """Return the settings with the entropy above which this share of the held-out examples lies."""
    if held_out.num_units * share < 1:
        raise InputError(
            f"--refer {share:g}: {record.units} held-out {record.noun} are too few to tell which {share:.1%}"
            f" are the most uncertain; at least {math.ceil(1 / share)} are needed. Train with a larger "
            "selection_fraction, or pass --refer-above."
        )
    limit, referred = held_out.quantile(share)
    tell(
        f"Referred above an entropy of {limit:.6g} nats, as are {referred:.1%} of the {record.units} "
        f"held-out {record.noun}"
    )
    return settings.model_copy(update={"refer_above": limit})


def asked_limits(settings: ReferralSettings, class_names: Sequence[str]) -> list[Limit]:
    """Return the limits that settings have, with the places of their classes.

    Args:
        settings: Settings of a predict step.
        class_names: Names of the classes in the order of the labels.

    Raises:
        InputError: There is no such class.
    """
    limits = []
    for one in settings.max_error:
        if one.class_name is None:
            limits.append(Limit("error", one.share))
        else:
            limits.append(Limit("missed", one.share, class_place(one.class_name, class_names)))
    false = getattr(settings, "max_false", ())
    return limits + [Limit("false", one.share, class_place(one.class_name, class_names)) for one in false]


def _rule(
    held_out: HeldOut,
    limits: Sequence[Limit],
    metadata: Metadata,
    record: GuaranteeRecord,
    tell: Callable[[str], None],
) -> ReferralRule:
    found = joint_guarantee(held_out, limits, noun=record.noun, confidence=record.confidence)
    if found.refused:
        reasons = [
            f"That {limit_text(limit, metadata.class_names)} cannot be guaranteed: {given.reason}."
            for limit, given in found.refused
        ]
        raise InputError(
            f"{' '.join(reasons)}{_together(found)} Prepare more data and train with a larger "
            "selection_fraction, allow larger shares, ask for fewer guarantees, or pass --refer-above."
        )
    texts = [limit_text(limit, metadata.class_names) for limit in limits]
    kept = found.rule.keeps(held_out.predicted, held_out.probability, held_out.uncertainty)
    tell(
        f"Referred so that {'; '.join(texts)}; with {format_share(record.confidence)} confidence"
        f"{' for all together' if len(limits) > 1 else ''}, if they are like the {record.units} held-out "
        f"{record.noun}, of which {format_share(float(kept.mean()))} would be kept.{_together(found)}"
    )
    return found.rule


def limit_text(limit: Limit, class_names: Sequence[str]) -> str:
    """Return in words what a limit says.

    Example:
        >>> limit_text(Limit("missed", 0.05, 1), ["benign", "malignant"])
        'at most 5 % of the class malignant are kept as another class'
    """
    share = format_share(limit.share)
    if limit.place is None:
        return f"at most {share} of all that are kept are wrong"
    name = class_names[limit.place]
    if limit.kind == "missed":
        return f"at most {share} of the class {name} are kept as another class"
    return f"at most {share} of those kept as {name} are of another class"


def _together(found: JointGuarantee) -> str:
    """Return what it costs that several guarantees hold together; empty of a single one."""
    if len(found.guarantees) == 1:
        return ""
    divided = (
        f" The held-out data are divided into {found.parts} parts for that, so that about {found.parts} "
        "times as many are needed."
        if found.parts > 1
        else ""
    )
    confidence = format_share(found.guarantees[0][1].confidence)
    return f" Each is given with {confidence} confidence, so that all of them hold together.{divided}"


def _sets(
    held_out: HeldOut,
    coverage: float,
    metadata: Metadata,
    record: GuaranteeRecord,
    tell: Callable[[str], None],
) -> PredictionSets:
    sets = prediction_sets(held_out, coverage)
    own = [name for name, is_own in zip(metadata.class_names, sets.own, strict=True) if is_own]
    of_each = f", also of each of {', '.join(own)}" if own else ""
    text = (
        f"prediction_set holds the true class of {format_share(coverage)} of what is like the held-out "
        f"data, on average over held-out data{of_each}"
    )
    if not np.isfinite(sets.largest).all():
        needed = groups_needed(coverage)
        text += f". Every class is in every set: there are fewer than {needed} held-out {record.noun}"
    tell(text)
    return sets
