"""What a reader of an evaluation must know before believing its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from data_prep.prepared.manifest import Manifest
from pipelines.runs.description import head_folder
from pipelines.runs.ensemble import trained_members
from pipelines.runs.job import Job
from pipelines.runs.settings import HeadRun
from pipelines.runs.training_digests import LEARNED_NAME
from pipelines.scores.results import FEW_EXAMPLES, MethodResult
from pipelines.training.stages import StageState, has_checkpoint

_NEAR_CHANCE: Final = 0.99
"""A method is useless if its NLL is above this share of the NLL of the class shares."""


def unchecked_warnings(model: Path, learned: frozenset[str] | None, judged: str) -> tuple[str, ...]:
    """Warning for a run without a record of its training data.

    Args:
        model: The run.
        learned: Digests of what it learned from, None where there are none.
        judged: What is judged, in the plural.
    """
    if learned is not None:
        return ()
    warning = (
        f"{model} has no {LEARNED_NAME}: it was not checked whether the run learned from the judged {judged}."
    )
    return (warning,)


def seen_warnings(num_seen: int, num_judged: int, judged: str) -> tuple[str, ...]:
    """Warning if judged examples are the same as some that the run learned from.

    Args:
        num_seen: How many are the same.
        num_judged: How many are judged.
        judged: What they are, in the plural.
    """
    if not num_seen:
        return ()
    warning = (
        f"{num_seen} of the {num_judged} {judged} were used in training, to fit the model or to choose the "
        "best epoch: the numbers are too good. Judge others, or the test part of the training's folder."
    )
    return (warning,)


def kind_warnings(run: HeadRun, manifest: Manifest) -> tuple[str, ...]:
    """Warning if judged images are not grey, or not deep, although all training images were.

    Args:
        run: The run.
        manifest: Of the judged folder; an old one that does not list kinds gives no warning.
    """
    lacking = [kind for kind in run.kinds if kind not in manifest.kinds]
    if not lacking or "kinds" not in manifest.model_fields_set:
        return ()
    what = {"grey": "grey", "deep": "of more than 8 bits per sample"}
    warning = (
        f"All images of the training were {' and '.join(what[kind] for kind in lacking)}, and not all of "
        "the judged ones are: the numbers also say how the model does on another kind of image."
    )
    return (warning,)


def chance_warnings(results: Sequence[MethodResult], judged: str) -> tuple[str, ...]:
    """Warning if no method predicts classes better than their shares do.

    Args:
        results: Of all methods, for the same examples.
        judged: What is judged, in the plural.
    """
    if not results or "confusion" not in results[0].statistics.sums():
        return ()
    counts = results[0].confusion().sum(axis=1)
    shares = counts[counts > 0] / counts.sum()
    chance = float(-(shares * np.log(shares)).sum())
    best = min(results, key=lambda result: result.scores["nll"])
    if len(shares) < 2 or best.scores["nll"] < _NEAR_CHANCE * chance:
        return ()
    warning = (
        f"No method predicts these {judged} better than the shares of their classes, whose NLL is "
        f"{chance:.4f}: the best one, {best.name}, has {best.scores['nll']:.4f}. Are the labels right, and "
        "do the images show the classes? More labelled groups, or a pretrained network, may help."
    )
    return (warning,)


def left_out_warnings(left_out: Mapping[str, str]) -> tuple[str, ...]:
    """Warnings about methods that could not be judged.

    Args:
        left_out: What is wrong with the predictions of each method, by its title.
    """
    return tuple(f"{title} was left out: {reason}" for title, reason in left_out.items())


def group_warnings(num_judged: int, num_groups: int, judged: str) -> tuple[str, ...]:
    """Warning if many judged examples belong to few groups.

    Args:
        num_judged: Number of judged examples.
        num_groups: Number of their groups.
        judged: What they are, in the plural.
    """
    if num_groups == num_judged or num_groups >= FEW_EXAMPLES:
        return ()
    warning = (
        f"The {num_judged} {judged} are of {num_groups} groups, and those of one group are alike: the scores "
        "are as uncertain as those of so few. Intervals and p-values resample groups, and are rough."
    )
    return (warning,)


def unfamiliar_warnings(number: int | None) -> tuple[str, ...]:
    """Warning if few images of another kind were given; `number` is None if none were asked for."""
    if number is None or number >= FEW_EXAMPLES:
        return ()
    return (f"With only {number} images of another kind the AUROC of finding them is rough.",)


def ensemble_warnings(job: Job[Any, Any, Any]) -> tuple[str, ...]:
    """What to say where a run has fewer members of its ensemble than its settings ask for."""
    wanted, trained = job.settings.ensemble, len(trained_members(job)) or 1
    if trained >= wanted:
        return ()
    judged = f"the ensemble is judged with {trained}" if trained > 1 else "no ensemble is judged"
    warning = (
        f"The settings ask for an ensemble of {wanted}, whose member {trained + 1} is not trained: {judged}. "
        "Continue its training with --resume."
    )
    return (warning,)


def unfinished_warnings(job: Job[Any, Any, Any]) -> tuple[str, ...]:
    """What to say where heads that the settings ask for are not trained yet."""
    missing = [name for name in job.settings.heads if name not in job.run.heads]
    if not missing:
        return ()
    warning = (
        f"The training of {job.folder} is not finished: {', '.join(missing)} of {len(job.settings.heads)} "
        f"heads {'is' if len(missing) == 1 else 'are'} missing. Continue it with --resume."
    )
    return (warning,)


def head_epochs(model: Path, run: HeadRun) -> dict[str, int]:
    """Epochs each head of a run was to be trained for with its network, where its checkpoint says so.

    A head that was trained alone to its end, as Gaussian processes on a frozen network are, has none.

    Raises:
        InputError: A checkpoint's state is damaged.
    """
    folders = {name: head_folder(model, name) for name in run.heads}
    states = {name: StageState.load(folder) for name, folder in folders.items() if has_checkpoint(folder)}
    return {name: state.epochs for name, state in states.items() if state.epochs}


def evaluation_warnings(
    split: str, *, seen_fold: int | None, head_epochs: Mapping[str, int]
) -> tuple[str, ...]:
    """What a reader of the report must know.

    Args:
        split: Part of the data that is judged.
        seen_fold: Fold that is judged but was trained on; None if it was left out.
        head_epochs: Epochs of each head after the pretraining they share.
    """
    warnings = []
    if len(set(head_epochs.values())) > 1:
        epochs = ", ".join(f"{name} {count}" for name, count in head_epochs.items())
        warnings.append(
            f"The heads were trained for different numbers of epochs ({epochs}): no fair comparison."
        )
    seen = {"test": None, "selection": "chose the best epoch by", "train": "was fitted to"}[split]
    if seen is None and seen_fold is not None:
        seen = "was fitted to"
        split = f"fold {seen_fold}"
    if seen is not None:
        warnings.append(f"Judged on the {split} part, which training {seen}: the numbers flatter the model.")
    return tuple(warnings)
