"""One answer for each patient, specimen or place: what the images of a group say together.

The probability of a group is the mean over its images, at a temperature of groups. Temperature and thresholds
come from the held-out examples of the bundle, whose groups are pooled alike; see
`pipelines.scores.held_out_groups`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.files.tables import FILE_ALIASES, cell_text, read_table, write_table
from gpmodels.familiarity.flags import POOLED_FACTOR
from pipelines.bundles.file_names import FileNames
from pipelines.bundles.guarantees import GuaranteeRecord
from pipelines.bundles.line_rules import NO_RULES, LineRules, rules_for
from pipelines.bundles.metadata import Metadata
from pipelines.bundles.pooled_outputs import mean_outputs
from pipelines.bundles.prediction import UNCERTAINTIES
from pipelines.bundles.prediction_lines import ClassPredictionLine, PredictionLine, class_fields, printable
from pipelines.command.console import say
from pipelines.command.referral import FOLDER_GROUPS, GroupReferralSettings
from pipelines.scores.guarantee_thresholds import SelectiveErrors
from pipelines.scores.guarantees import method_guarantees
from pipelines.scores.held_out import HELD_OUT, HeldOut, read_held_out
from pipelines.scores.held_out_groups import (
    GROUPS_JUDGED,
    lacking_groups,
    mixed_groups,
    pooled_by_unit,
)

GROUPS: Final = "groups.csv"
"""Table of the answers for groups, beside that of predictions."""


@dataclass(frozen=True)
class GroupLine(PredictionLine):
    """A line of `groups.csv`; its file is the name of the group.

    Attributes:
        images: Number of images of the group that were predicted.
        left_out: Number of those that could not be; a group with any is referred.
    """

    familiarity_factor = POOLED_FACTOR

    images: int = 0
    left_out: int = 0

    @classmethod
    def columns(cls, class_names: Iterable[str] = (), rules: LineRules = NO_RULES) -> list[str]:
        """Return the names of the cells as of any line, with the group for the file and without seconds."""
        names = super().columns(class_names, rules)
        return ["group", *(name for name in names if name not in {"file", "seconds", "status"})]

    def cells(self) -> dict[str, object]:
        """Return the value of each column by its name."""
        return {**super().cells(), "group": self.file}


@dataclass(frozen=True)
class GroupAnswer(GroupLine, ClassPredictionLine):
    """The class of a group."""

    own_columns = ("images", "left_out", "label", *UNCERTAINTIES)


_Answer = TypeVar("_Answer", bound=GroupLine)


class GroupAnswering(ABC):
    """How groups are answered, by what a bundle held out.

    Attributes:
        line_class: Class of the answers.
        rules: What is done to each answer.
        usual_size: Mean number of images of a held-out group; None where none are known.
        least_size: Number of images below which a group is referred, for the guarantee was found with more.
    """

    line_class: ClassVar[type[GroupLine]]

    rules: LineRules
    usual_size: float | None
    least_size: int

    @abstractmethod
    def answer(self, name: str, members: Sequence[Any]) -> GroupLine:
        """Return the answer for a group, referred where it is not that of all its images or of too few."""

    def ruled(self, answer: _Answer, images: Sequence[PredictionLine]) -> _Answer:
        """Return an answer by the rules; it is unfamiliar, too, where half of its images or more are.

        Familiarities pooled tell it of larger groups, and only where twice as many held-out groups are known
        as it takes for images.

        Args:
            answer: Of the group.
            images: What was predicted of its images.
        """
        if not 2 * sum(bool(one.unfamiliar) for one in images) >= len(images):
            return answer.ruled(self.rules)
        referred = answer.referred or not self.rules.keep_unfamiliar
        return replace(replace(answer, referred=referred).ruled(self.rules), unfamiliar=True)


@dataclass(frozen=True)
class GroupRules(GroupAnswering):
    """How groups are given a class.

    Attributes:
        temperature: Of the mean probability of a group.
        refer_above: Entropy above which a group is referred; None refers none for that.
        rules: What is done to each answer.
        usual_size: Mean number of images of a held-out group; None where none are known.
        least_size: Number of images below which a group is referred, for the guarantee was found with more.
    """

    line_class = GroupAnswer

    temperature: float
    refer_above: float | None
    rules: LineRules
    usual_size: float | None = None
    least_size: int = 0

    def answer(self, name: str, members: Sequence[ClassPredictionLine]) -> GroupAnswer:
        """Return the answer for a group, referred where it is not that of all its images or of too few."""
        good = [line for line in members if line.status == "ok" and line.probability]
        left_out = len(members) - len(good)
        if not good:
            return GroupAnswer(file=name, left_out=left_out, referred=True)
        class_names = tuple(good[0].probability)
        outputs = mean_outputs(
            np.array([[line.probability[one] for one in class_names] for line in good]),
            np.array([line.mutual_information for line in good], np.float64),
            familiarities(good),
            temperature=self.temperature,
        )
        fields = class_fields(outputs, class_names, self.refer_above)
        fields["referred"] |= left_out > 0 or len(good) < self.least_size
        return self.ruled(GroupAnswer(file=name, images=len(good), left_out=left_out, **fields), good)


def familiarities(lines: Sequence[PredictionLine]) -> NDArray[np.float64] | None:
    """Return the familiarity of each line; None where a bundle does not tell it."""
    found = [line.familiarity for line in lines if line.familiarity is not None]
    return np.array(found) if len(found) == len(lines) else None


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
    lacking, held_out = _held_out(metadata, bundle, judged)
    is_guaranteed = bool(settings.max_error or settings.max_false)
    if lacking and (is_guaranteed or settings.refer or settings.coverage):
        raise InputError(f"--by: nothing can be guaranteed of groups, since {lacking} Or pass --refer-above.")
    if lacking:
        say(console, f"The mean of a group is not calibrated, since {lacking}")
    groups = None if held_out is None else pooled_by_unit(held_out)
    if groups is not None:
        errors = SelectiveErrors(
            groups.predictions.uncertainty, groups.predictions.error, groups.predictions.unit, GROUPS_JUDGED
        )
        found = method_guarantees(errors, None, judged_noun=GROUPS_JUDGED, max_errors=(), source={})
        metadata = metadata.model_copy(update={"guarantee": GuaranteeRecord.of(found)})
    ruled, rules = rules_for(
        settings,
        metadata,
        bundle=bundle,
        judged=GROUPS_JUDGED,
        console=console,
        held_out=None if groups is None else groups.predictions,
    )
    refer_above = ruled.refer_above
    if groups is None:
        return GroupRules(1.0, refer_above, rules)
    say(console, f"The mean of a group is at the temperature {groups.temperature:.4g}")
    least = groups.least_size if is_guaranteed else 0
    return GroupRules(groups.temperature, refer_above, rules, float(groups.sizes.mean()), least)


def _held_out(metadata: Metadata, bundle: Path, judged: str) -> tuple[str, HeldOut | None]:
    """Return why a bundle tells nothing of groups, or its held-out predictions."""
    record = metadata.guarantee
    if record is None or not (bundle / HELD_OUT).is_file():
        return (
            f"{bundle} holds no predictions of held-out {judged}. Continue its training with --resume, and "
            "export again with the temperature."
        ), None
    if record.judged != judged:
        return f"the held-out predictions of {bundle} are of {record.judged}, not of {judged}.", None
    held_out = read_held_out(bundle / HELD_OUT)
    if lacking := lacking_groups(held_out, f"held-out {judged} of {bundle}"):
        return lacking, None
    if mixed := mixed_groups(held_out):
        return (
            f"{mixed} of the {held_out.num_units} held-out groups of {bundle} have images of several "
            "classes. Train with groups of one class."
        ), None
    return "", held_out


def write_groups(
    lines: Sequence[PredictionLine],
    groups: Mapping[str, str],
    how: GroupAnswering,
    out: Path,
    *,
    class_names: Sequence[str],
    console: Any,
) -> list[GroupLine]:
    """Write the answers for groups to `groups.csv`, and say how many there are.

    Args:
        lines: Predictions of images.
        groups: Group of each file.
        how: How groups are answered.
        out: Folder of the table.
        class_names: Names of the classes in the order of the labels.
        console: Where it is said.

    Returns:
        The answers, by the names of the groups.
    """
    members: dict[str, list[PredictionLine]] = defaultdict(list)
    for line in lines:
        members[groups[line.file]].append(line)
    answers = [how.answer(name, of_group) for name, of_group in sorted(members.items())]
    columns = how.line_class.columns(class_names, how.rules)
    rows = [[cell_text(cells.get(key)) for key in columns] for cells in (one.cells() for one in answers)]
    write_table(out / GROUPS, columns, rows)

    referred = sum(bool(one.referred) for one in answers)
    say(
        console,
        f"{len(answers)} groups of {len(lines)} inputs in {out / GROUPS}, {referred} referred to a person",
    )
    if incomplete := sum(one.left_out > 0 for one in answers):
        say(
            console,
            f"Warning: {incomplete} of them have inputs that could not be predicted: they are referred.",
        )
    if small := sum(one.images < how.least_size for one in answers):
        say(
            console,
            f"Warning: {small} of them have fewer than {how.least_size} inputs, which nearly all held-out "
            "groups have: what is guaranteed is not of these, and they are referred.",
        )
    mean = float(np.mean([one.images for one in answers]))
    if how.usual_size is not None and not 0.5 <= mean / how.usual_size <= 2.0:
        say(
            console,
            f"Warning: a group has {mean:.1f} inputs on average, and a held-out one had "
            f"{how.usual_size:.1f}: what was found on these may not hold here.",
        )
    return answers


def groups_of(files: Sequence[Path], group_by: str, console: Any) -> dict[str, str]:
    """Return the group of each file that is to be predicted, by its name in `predictions.csv`.

    Args:
        files: The files.
        group_by: `folder` for the folder of each file, or a table with the columns image and group.
        console: Where it is said what looks like a mistake.

    Raises:
        InputError: The table cannot be read, or lacks a file.
    """
    if group_by == FOLDER_GROUPS:
        folders = {file.parent for file in files}
        for folder in sorted(folders & {other.parent for other in folders}):
            say(
                console,
                f"Warning: images that lie in {folder} itself, beside folders of groups, count as one group.",
            )
        if len(folders) == 1:
            say(console, "Warning: all inputs lie in one folder, and are one group.")
        return {printable(str(file)): printable(str(file.parent)) for file in files}
    path, named = Path(group_by), [printable(str(file)) for file in files]
    names = FileNames(named)
    found: dict[str, str] = {}
    unknown: list[str] = []
    for line, row in read_table(path, ("image", "group"), aliases={"image": FILE_ALIASES}).items():
        where = f"{path}, line {line}"
        file = names.find(row["image"], where=where)
        if file is None:
            unknown.append(row["image"])
        if file is None or not row["group"]:
            continue
        if found.setdefault(file, row["group"]) != row["group"]:
            raise InputError(f"{where}: {row['image']} is in {found[file]} and {row['group']}. Keep one row.")
    missing = [file for file in named if file not in found]
    if missing:
        raise InputError(
            f"{path}: {len(missing)} of {len(files)} inputs have no group, first {missing[0]}. Expected a "
            "row for each, named as in predictions.csv or by the end of its path."
        )
    if unknown:
        say(
            console,
            f"Warning: {len(unknown)} rows of {path} name no input, first {unknown[0]}: their groups are "
            "answered without them.",
        )
    return found
