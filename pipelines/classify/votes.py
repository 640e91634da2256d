"""The application for images on whose classes several people voted, which `classify` is for them.

The record is that of classes with another likelihood and judge: heads learn the shares of the votes, the
report says how well they are met, and everything that needs one class takes that with most votes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from data_prep.classify.manifest import VoteManifest
from data_prep.errors import InputError
from data_prep.splits.divide import Splits
from gpmodels import HybridModel
from gpmodels.likelihoods.names import VOTES
from pipelines.bundles.metadata import class_signatures
from pipelines.classify.settings import ClassifyRun, TrainSettings
from pipelines.labelled.classes import (
    ClassDeployment,
    ClassJudge,
    class_facts,
    of_classes,
    plain_batches,
    require_classes,
    steps_per_epoch,
    training_batches,
)
from pipelines.labelled.data import PreparedImages, open_images
from pipelines.labelled.images import IMAGE_NETWORK, fit_facts, require_fit
from pipelines.runs.application import Application, Inputs, JudgedExample, require_size
from pipelines.runs.settings import EvaluateSettings, GroupEvaluateSettings
from pipelines.scores.pictures import Outputs
from pipelines.scores.results import MethodResult
from pipelines.scores.votes import VoteRecord, vote_record, vote_result

VoteData = PreparedImages[VoteManifest]

HEADS = ("linear", "ridge_linear", "svgp", "hgp")
"""Heads that know votes."""


def vote_facts(data: VoteData, splits: Splits) -> dict[str, Any]:
    """Return what a run records about its classes; N is the number of training images, not of votes."""
    return {**class_facts(data, splits), "votes": True}


def check_votes_can_be_learned(data: VoteData, _splits: Splits, settings: TrainSettings) -> list[str]:
    """Refuse settings that votes do not go with.

    Raises:
        InputError: A setting is for one class an image alone.
    """
    unknown = [name for name in settings.heads if name not in HEADS]
    if unknown:
        raise InputError(f"heads: {', '.join(unknown)} cannot learn votes. Choose of {', '.join(HEADS)}.")
    defaults = type(settings)()
    for name in ("likelihood", "class_balance", "ensemble"):
        if getattr(settings, name) != getattr(defaults, name):
            raise InputError(f"{name}: is for one class an image, and {data.folder} has votes. Leave it out.")
    return []


def record_votes(example: JudgedExample, outputs: Outputs) -> VoteRecord:
    """Return what the scores need to know of one prediction."""
    probability: NDArray[Any] = of_classes(outputs)["probability"]
    return vote_record(example.name, example.fact, probability, outputs)


@dataclass(frozen=True, kw_only=True)
class VoteJudge(ClassJudge[Any]):
    """Judges the classes of images by the votes; the class of an image is the one with most.

    Attributes:
        record: Returns what the scores need to know of a prediction.
        result: Returns a method's scores from its name and its records.
    """

    record: Callable[[JudgedExample, Outputs], Any] = record_votes
    result: Callable[..., MethodResult] = vote_result

    def examples(self, data: Any, names: Sequence[str]) -> Iterator[JudgedExample]:
        """Yield the images, one in memory at a time, with the class of most votes and their shares."""
        for example in super().examples(data, names):
            shares = np.asarray(example.truth, np.float64)
            yield replace(example, truth=int(shares.argmax()), fact=shares)

    def selection_scores(self, model: HybridModel, data: Any, names: Sequence[str]) -> dict[str, float]:
        """Return mean recall and ECE of the selection images."""
        return super().selection_scores(model, _OfMostVotes(data), names)


@dataclass(frozen=True)
class _OfMostVotes:
    """Data whose batches have the class of most votes."""

    data: Any

    @property
    def judged_at_once(self) -> int:
        return int(self.data.judged_at_once)

    def dataset(self, names: Sequence[str], **options: Any) -> Any:
        batches = self.data.dataset(names, **options)
        return batches.map(lambda inputs, shares: (inputs, tf.argmax(shares, axis=-1)))


def vote_judge(settings: EvaluateSettings | None, data: VoteData) -> VoteJudge:
    """Return the judge of votes.

    Raises:
        InputError: The settings ask for one answer for a group, which has no votes.
    """
    if isinstance(settings, GroupEvaluateSettings) and settings.by != "image":
        raise InputError(f"{data.folder} has votes for images, none for groups: leave by=group out.")
    return VoteJudge()


def of_votes(
    classes: Application[Any, TrainSettings, ClassifyRun],
) -> Application[Any, TrainSettings, ClassifyRun]:
    """Return the application for votes from that for one class an image."""
    deployment: ClassDeployment[Any, Any] = classes.deployment  # type: ignore[assignment]
    return replace(
        classes,
        title="Images by class, with votes",
        inputs=Inputs(
            open=partial(open_images, manifest=VoteManifest),
            training_batches=training_batches,
            plain_batches=plain_batches,
            steps_per_epoch=steps_per_epoch,
            facts=(vote_facts, fit_facts),
            checks=(check_votes_can_be_learned,),
            fitting=(require_size, require_classes, require_fit),
        ),
        network=replace(IMAGE_NETWORK, likelihood=lambda _: VOTES),
        judge=VoteJudge(),
        judge_for=vote_judge,
        deployment=replace(
            deployment, signatures=lambda run, _: class_signatures(run.class_names, single_latent=False)
        ),
    )
