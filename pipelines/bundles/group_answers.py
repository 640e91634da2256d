"""One answer for each patient, specimen or place: what the images of a group say together.

The probability of a group is the mean over its images, at a temperature of groups; see
`pipelines.scores.pool_calibration`. Temperature and thresholds come from the held-out examples of the bundle,
whose groups are pooled alike: each of these is one independent unit that is right or wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from data_prep.errors import InputError
from data_prep.files.tables import FILE_ALIASES, cell_text, read_table, write_table
from gpmodels.familiarity.flags import POOLED_FACTOR
from pipelines.bundles.file_names import FileNames
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.bundles.line_rules import NO_RULES, LineRules, rules_for
from pipelines.bundles.metadata import Metadata
from pipelines.bundles.pooled_outputs import mean_outputs
from pipelines.bundles.prediction import UNCERTAINTIES
from pipelines.bundles.prediction_lines import ClassPredictionLine, class_fields, printable
from pipelines.command.referral import FOLDER_GROUPS, GroupReferralSettings
from pipelines.scores.guarantee_thresholds import SelectiveErrors
from pipelines.scores.guarantees import method_guarantees
from pipelines.scores.held_out import HELD_OUT, HeldOut, read_held_out
from pipelines.scores.pool_calibration import at_temperature, fit_pool_temperature

GROUPS: Final = "groups.csv"
"""Table of the answers for groups, beside that of predictions."""

GROUPS_JUDGED: Final = "groups"
"""What is judged, in the plural, where groups are."""

GROUPS_OF_SEVERAL: Final = 1.5
"""Mean number of examples from which held-out groups are taken for what new ones are like."""


@dataclass(frozen=True)
class GroupAnswer(ClassPredictionLine):
    """A line of `groups.csv`; its file is the name of the group.

    Attributes:
        images: Number of images of the group.
    """

    own_columns = ("images", "label", *UNCERTAINTIES)
    familiarity_factor = POOLED_FACTOR

    images: int | None = None

    @classmethod
    def columns(cls, class_names: Iterable[str] = (), rules: LineRules = NO_RULES) -> list[str]:
        """Return the names of the cells as of any line, with the group for the file and without seconds."""
        names = super().columns(class_names, rules)
        return ["group", *(name for name in names if name not in {"file", "seconds", "status"})]

    def cells(self) -> dict[str, object]:
        """Return the value of each column by its name."""
        return {**super().cells(), "group": self.file}


@dataclass(frozen=True)
class GroupRules:
    """How groups are answered.

    Attributes:
        temperature: Of the mean probability of a group.
        refer_above: Entropy above which a group is referred; None refers none for that.
        rules: What is done to each answer.
        usual_size: Mean number of images of a held-out group; None where none are known.
    """

    temperature: float
    refer_above: float | None
    rules: LineRules
    usual_size: float | None


def group_rules(
    settings: GroupReferralSettings, metadata: Metadata, *, bundle: Path, judged: str, console: Any
) -> GroupRules:
    """Return how the groups of new images are answered, and say what is guaranteed of them.

    Args:
        settings: Settings of a predict step.
        metadata: Of the bundle.
        bundle: The bundle.
        judged: What the step predicts, in the plural: the held-out examples must be that.
        console: Where it is said.

    Raises:
        InputError: The bundle cannot guarantee it, or its held-out groups have no class of their own.
    """
    record = metadata.guarantee
    held_out = read_held_out(bundle / HELD_OUT) if (bundle / HELD_OUT).is_file() else None
    if record is None or record.judged != judged:
        held_out = None
    size = 1.0 if held_out is None else held_out.unit.size / held_out.num_units
    if held_out is None or size < GROUPS_OF_SEVERAL:
        if settings.max_error or settings.max_false or settings.refer or settings.coverage:
            raise InputError(
                f"--by: nothing can be guaranteed of groups, since the held-out {judged} of {bundle} belong "
                f"to no groups of several ({size:.2g} on average). Prepare with a table whose column group "
                "names the patient or place of each, and train again; or pass --refer-above."
            )
        console.print(
            f"The mean of a group is not calibrated: held-out {judged} of the bundle belong to no groups of "
            "several",
            markup=False,
        )
        rules = LineRules(metadata.least_familiarity, settings.keep_unfamiliar, metadata.costs)
        return GroupRules(1.0, getattr(settings, "refer_above", None), rules, None)
    groups, temperature = pooled_by_unit(held_out)
    of_groups = metadata.model_copy(update={"guarantee": _record(groups)})
    ruled, rules = rules_for(
        settings, of_groups, bundle=bundle, judged=GROUPS_JUDGED, console=console, held_out=groups
    )
    return GroupRules(temperature, getattr(ruled, "refer_above", None), rules, size)


def pooled_by_unit(held_out: HeldOut) -> tuple[HeldOut, float]:
    """Return the held-out groups as one example each, and the temperature of their mean probability.

    Args:
        held_out: Predictions of held-out examples, each with the number of its group.

    Raises:
        InputError: Groups have examples of several classes, or examples have no class.

    Example:
        >>> said = np.array([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]])
        >>> one = HeldOut(np.zeros(3), np.zeros(3), np.array([0, 0, 1]), np.array([0, 0, 1]), said)
        >>> groups, temperature = pooled_by_unit(one)
        >>> groups.unit.tolist(), groups.truth.tolist(), groups.probability[:, 0].round(1).tolist()
        ([0, 1], [0, 1], [0.7, 0.1])
    """
    if not held_out.has_classes:
        raise InputError("--by: here no example is given one class, so that a group has none either.")
    _, first = np.unique(held_out.unit, return_index=True)
    truth = held_out.truth[first]
    mixed = np.unique(held_out.unit[held_out.truth != truth[held_out.unit]]).size
    if mixed:
        raise InputError(
            f"--by: {mixed} of {held_out.num_units} held-out groups have images of several classes, so that "
            "a group has no class of its own. Prepare with groups of one class, or leave --by out."
        )
    count = np.bincount(held_out.unit)
    mean = np.stack([np.bincount(held_out.unit, column) / count for column in held_out.probability.T], axis=1)
    temperature = fit_pool_temperature(mean, truth)
    probability = at_temperature(mean, temperature)
    entropy = -np.sum(probability * np.log(np.maximum(probability, np.finfo(np.float64).tiny)), axis=1)
    wrong = (probability.argmax(axis=1) != truth).astype(np.float64)
    return HeldOut(entropy, wrong, np.arange(truth.size), truth, probability), temperature


def group_temperature(held_out: HeldOut) -> float:
    """Return the temperature of groups by held-out examples; 1 where their groups have one example each.

    Args:
        held_out: Predictions of held-out examples, each with the number of its group.
    """
    if held_out.unit.size / held_out.num_units < GROUPS_OF_SEVERAL:
        return 1.0
    return pooled_by_unit(held_out)[1]


def _record(groups: HeldOut) -> GuaranteeRecord:
    errors = SelectiveErrors(groups.uncertainty, groups.error, groups.unit, GROUPS_JUDGED)
    return GuaranteeRecord.of(
        method_guarantees(errors, None, judged_noun=GROUPS_JUDGED, max_errors=(), source={})
    )


def write_groups(
    lines: Sequence[ClassPredictionLine],
    group_by: str,
    how: GroupRules,
    out: Path,
    *,
    class_names: Sequence[str],
    console: Any,
) -> list[GroupAnswer]:
    """Write the answers for groups to `groups.csv`, and say how many there are.

    Args:
        lines: Predictions of images.
        group_by: As `GroupReferralSettings.by`.
        how: How groups are answered.
        out: Folder of the table.
        class_names: Names of the classes in the order of the labels.
        console: Where it is said.

    Returns:
        The answers, by the names of the groups.

    Raises:
        InputError: The table of groups cannot be read, or an image is in no group.
    """
    good = [line for line in lines if line.status == "ok" and line.probability]
    if not good:
        raise InputError("--by: no input was given a class of its own, so that there are no groups of them.")
    members = defaultdict(list)
    for line, group in zip(good, groups_of([line.file for line in good], group_by), strict=True):
        members[group].append(line)
    answers = [
        _answer(name, of_group, how, class_names).ruled(how.rules)
        for name, of_group in sorted(members.items())
    ]
    columns = GroupAnswer.columns(class_names, how.rules)
    write_table(
        out / GROUPS, columns, [[cell_text(one.cells().get(key)) for key in columns] for one in answers]
    )
    referred = sum(bool(one.referred) for one in answers)
    console.print(
        f"{len(answers)} groups of {len(good)} inputs in {out / GROUPS}, {referred} referred to a person",
        markup=False,
    )
    if how.usual_size is not None and not 0.5 <= len(good) / len(answers) / how.usual_size <= 2.0:
        console.print(
            f"Warning: a group has {len(good) / len(answers):.1f} inputs on average, and a held-out one had "
            f"{how.usual_size:.1f}: what was found on these may not hold here.",
            markup=False,
            soft_wrap=True,
        )
    return answers


def _answer(
    name: str, members: Sequence[ClassPredictionLine], how: GroupRules, class_names: Sequence[str]
) -> GroupAnswer:
    probability = np.array([[line.probability[one] for one in class_names] for line in members])
    information = np.array([line.mutual_information or 0.0 for line in members])
    familiarity = [line.familiarity for line in members if line.familiarity is not None]
    outputs = mean_outputs(
        probability,
        information,
        np.array(familiarity) if len(familiarity) == len(members) else None,
        temperature=how.temperature,
    )
    return GroupAnswer(file=name, images=len(members), **class_fields(outputs, class_names, how.refer_above))


def groups_of(files: Sequence[str], group_by: str) -> list[str]:
    """Return the group of each predicted file.

    Args:
        files: As `predictions.csv` names them.
        group_by: `folder` for the folder of each file, or a table with the columns image and group.

    Raises:
        InputError: The table cannot be read, or lacks a file.
    """
    if group_by == FOLDER_GROUPS:
        return [printable(str(Path(file).parent)) for file in files]
    path, names = Path(group_by), FileNames(files)
    found: dict[str, str] = {}
    for line, row in read_table(path, ("image", "group"), aliases={"image": FILE_ALIASES}).items():
        where = f"{path}, line {line}"
        file = names.find(row["image"], where=where)
        if file is None or not row["group"]:
            continue
        if found.setdefault(file, row["group"]) != row["group"]:
            raise InputError(
                f"{where}: {row['image']} is in {found[file]} and in {row['group']}. Keep one row."
            )
    missing = [file for file in files if file not in found]
    if missing:
        raise InputError(
            f"{path}: {len(missing)} of {len(files)} inputs have no group, first {missing[0]}. Expected a "
            "row for each, named as in predictions.csv or by the end of its path."
        )
    return [found[file] for file in files]
