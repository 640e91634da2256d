"""A session of labelling: what comes next, what is said of it, and what becomes of an answer.

One lock joins the answers and the learner. Until the features are computed, images come in a random order;
from then on the learner chooses. It is fitted anew in the background, at most half of the time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from data_prep.errors import InputError
from data_prep.labelled.near_duplicates import LEAST_CORRELATION, duplicate_pairs
from data_prep.splits.groups import joined_groups
from pipelines.label.answers import BOTH_SIDES, Answer, Answers, Verdict
from pipelines.label.exchange import ExportedImage
from pipelines.label.learning.learner import Learner
from pipelines.label.learning.progress import Progress
from pipelines.label.pool import Pool
from pipelines.label.sides import assigned_sides

if TYPE_CHECKING:
    from pipelines.label.encoding import EncodedPool  # imports TensorFlow

_LOG = logging.getLogger(__name__)

Mode = Literal["ask", "review"]
"""What comes next: images without a label, or labels to look at again, what is unsure and what is unlike."""

ALIKE_IMAGES = 20
"""Images of the grid."""

_SIMILAR = 3
_HELD_SECONDS = 600.0
"""How long an image that one page shows is kept from others."""
_UNLIKE, _RATHER_UNLIKE = 0.05, 0.2
"""Familiarity below which an image is said to be unlike those with a label."""
_UNFAMILIAR_FOR_REVIEW = 20


@dataclass(frozen=True)
class _Learned:
    """What is there once the features are.

    Attributes:
        learner: The learner, whose rows are images that can be read.
        rows: Numbers of these in the pool.
        row_of: Row of each number; -1 for an image that cannot be read.
    """

    learner: Learner
    rows: NDArray[np.intp]
    row_of: NDArray[np.intp]


class Session:
    """What the pages of a pool share; safe to call from several threads.

    Args:
        pool: The images.
        classes: Names of the classes, two or more.
        answers: Where answers are kept.
        seed: Seed of every choice.

    Raises:
        InputError: There are fewer than two classes, or a table cannot be written.
    """

    def __init__(self, pool: Pool, classes: Sequence[str], answers: Answers, *, seed: int = 0) -> None:
        if len(classes) < 2:
            named = ", ".join(classes) or "none"
            raise InputError(
                f"{pool.folder}: {len(classes)} classes are known ({named}); expected two at least. Name "
                "them with --classes a,b, or give class folders or a --table with classes."
            )
        self.pool, self.classes = pool, tuple(classes)
        self._answers, self._seed = answers, seed
        self._number = {image.name: number for number, image in enumerate(pool.images)}
        self._groups = [image.group for image in pool.images]
        self._random = np.random.default_rng(seed).permutation(len(pool.images))
        self._lock = threading.RLock()
        self._shown: dict[str, tuple[int, float]] = {}
        self._num_encoded = 0
        self._unreadable: dict[int, str] = {}
        self._learned: _Learned | None = None
        self._failure = ""
        self._is_changed, self._is_closed = threading.Event(), threading.Event()
        self._refitting = threading.Thread(target=self._refit_often, name="refit", daemon=True)
        self._standing: list[Answer | None] = [None] * len(pool.images)
        self._labels = [""] * len(pool.images)
        self._sides = [""] * len(pool.images)
        self._read_answers(range(len(pool.images)))
        self._divide()

    def close(self) -> None:
        """End what runs in the background."""
        self._is_closed.set()
        self._is_changed.set()
        if self._refitting.is_alive():
            self._refitting.join()

    @property
    def is_closed(self) -> bool:
        """Whether the session is over."""
        return self._is_closed.is_set()

    # Features

    def encoded(self, count: int) -> None:
        """Take note of how many images have features."""
        self._num_encoded = count

    def fail(self, reason: str) -> None:
        """Take note of why there will be no features; images come in a random order then."""
        with self._lock:
            self._failure = reason
            self._write_tables()

    def learn_from(self, encoded: EncodedPool) -> None:
        """Begin to choose and to predict by the features of the images, and fit anew in the background."""
        names = [image.name for image in self.pool.images]
        distance = self.pool.searched_distance
        groups = dict(zip(names, self._groups, strict=True))
        if distance >= 0:
            pairs = duplicate_pairs(
                encoded.hashes, distance, encoded.grey, least_correlation=LEAST_CORRELATION
            )
            groups = joined_groups(names, [groups], encoded.rows[pairs].astype(np.int64))
        with self._lock:
            self._groups = [groups[name] for name in names]
            self._divide()
        judges = np.array([side == "test" and self.pool.purpose == "learn" for side in self._sides])
        of_rows = [self._groups[row] for row in encoded.rows]
        learner = Learner(
            encoded.features,
            of_rows,
            len(self.classes),
            seed=self._seed,
            is_judging=judges[encoded.rows],
        )
        row_of = np.full(len(names), -1)
        row_of[encoded.rows] = np.arange(len(encoded.rows))
        with self._lock:
            learner.set_labels([self._class_of(int(number)) for number in encoded.rows])
            self._learned = _Learned(learner, encoded.rows, row_of)
            self._unreadable = encoded.unreadable
            self._write_tables()
        self._is_changed.set()
        self._refitting.start()

    def _refit_often(self) -> None:
        """Fit anew whenever there are new answers; wait as long as it took in between."""
        learned = self._learned
        while learned is not None and self._is_changed.wait() and not self.is_closed:
            self._is_changed.clear()
            started = time.monotonic()
            try:
                learned.learner.refit()
            except Exception:  # noqa: BLE001 - nothing else reads this thread's errors; the last fit stays
                _LOG.exception("The model could not be fitted again; the page goes on with the last fit")
            self._is_closed.wait(time.monotonic() - started)

    # Questions

    def question(self, tab: str, mode: Mode = "ask") -> dict[str, Any] | None:
        """Return the next question for a page, the same again until it is answered; None where all is done.

        Args:
            tab: The page.
            mode: What to ask for.
        """
        with self._lock:
            held = self._shown.get(tab)
            number = held[0] if held is not None and held[0] not in self._unreadable else None
            if number is None:
                number = self._next(tab, mode)
            if number is None:
                return None
            self._shown[tab] = (number, time.monotonic())
            return self._described(number, mode)

    def skip(self, tab: str) -> None:
        """Ask a page something else, as when it changes its mode."""
        with self._lock:
            self._shown.pop(tab, None)

    def alike(self, number: int) -> dict[str, Any]:
        """Return images that resemble one and have the same predicted class, to confirm at once.

        Args:
            number: Of the image.

        Returns:
            `class`, its predicted class, and `images`, their numbers and names, the image first; no images
            before the learner can say, nor for an image that judges, whose prediction nobody is to see.
        """
        with self._lock:
            learned = self._learned
            row = -1 if learned is None else int(learned.row_of[number])
            if learned is None or row < 0 or learned.learner.judging[row]:
                return {"class": "", "images": []}
            learner = learned.learner
            found = [int(learned.rows[one]) for one in learner.alike(row, 3 * ALIKE_IMAGES)]
            free = [one for one in found if self._standing[one] is None and self._sides[one] != BOTH_SIDES]
            predicted = self.classes[int(learner.probability()[row].argmax())]
            return {"class": predicted, "images": self._named([number, *free][:ALIKE_IMAGES])}

    def progress(self) -> dict[str, Any]:
        """Return how far the labelling is, and what it has bought."""
        with self._lock:
            learned = self._learned
            counts = Counter(self._labels)
            done = sum(answer is not None for answer in self._standing)
            judges_left = sum(
                side == "test" and not label and answer is None and number not in self._unreadable
                for number, (side, label, answer) in enumerate(
                    zip(self._sides, self._labels, self._standing, strict=True)
                )
            )
            learned_so_far: Progress | None = None if learned is None else learned.learner.progress()
        return {
            "images": len(self.pool.images),
            "answered": done,
            "labelled": {name: counts[name] for name in self.classes},
            "encoded": self._num_encoded,
            "ready": learned is not None,
            "failure": self._failure,
            "unreadable": len(self._unreadable),
            "learned": vars(learned_so_far) if learned_so_far and self.pool.purpose == "learn" else None,
            "judges_left": judges_left,
        }

    def labelled_images(self) -> list[ExportedImage]:
        """Return all images with their labels, and what the model, fitted anew, says of those without one."""
        learned = self._learned
        if learned is not None:
            learned.learner.refit()
        with self._lock:
            found = [ExportedImage(*one, None) for one in zip(self.pool.images, self._labels, strict=True)]
            if learned is not None:
                probability = learned.learner.probability()
                for row, number in enumerate(learned.rows):
                    if not learned.learner.judging[row]:
                        found[number] = found[number]._replace(probability=probability[row])
        return found

    # Answers

    def write_tables(self) -> None:
        """Write what is known so far.

        Raises:
            InputError: A table cannot be written.
        """
        with self._lock:
            self._write_tables()

    def answer(
        self,
        numbers: Sequence[int],
        verdict: Verdict,
        *,
        class_name: str = "",
        who: str = "",
        tab: str = "",
        mode: Mode = "ask",
    ) -> None:
        """Keep an answer about one image, or the same about several, and learn from it.

        Args:
            numbers: Of the images.
            verdict: What is answered, but no undo.
            class_name: The class.
            who: Who answers.
            tab: The page.
            mode: What the page asked for.

        Raises:
            InputError: The class or an image is unknown, or the disk does not take the answer.
        """
        known = class_name in self.classes if verdict == "class" else not class_name
        if not known or not numbers or not all(0 <= number < len(self.pool.images) for number in numbers):
            raise InputError(f"{class_name[:80]!r} or {list(numbers)[:5]} is unknown. Load the page again.")
        with self._lock:
            names = [self.pool.images[number].name for number in numbers]
            groups = {name: self._groups[number] for name, number in zip(names, numbers, strict=True)}
            self._answers.add(
                names,
                verdict,
                class_name=class_name,
                groups=groups,
                who=who,
                tab=tab,
                is_review=mode == "review",
            )
            self._shown.pop(tab, None)
            self._take_note(numbers)

    def undo(self, tab: str, *, who: str = "") -> bool:
        """Take the last answer of a page back, whose image the page is asked about again.

        Returns:
            Whether there was one.

        Raises:
            InputError: The disk does not take it.
        """
        with self._lock:
            undone: list[Answer] = self._answers.undo(tab, who=who)
            numbers = [self._number[one.image] for one in undone if one.image in self._number]
            if numbers:
                self._shown[tab] = (numbers[0], time.monotonic())
                self._take_note(numbers)
            return bool(numbers)

    # Within the lock

    def _take_note(self, numbers: Iterable[int]) -> None:
        self._read_answers(numbers)
        self._write_tables()
        learned = self._learned
        if learned is None:
            return
        for number in numbers:
            if (row := int(learned.row_of[number])) >= 0:
                learned.learner.update(row, self._class_of(number))
        self._is_changed.set()

    def _divide(self) -> None:
        """Give each image its side; what was answered keeps the side that it had."""
        known = [
            image.split or (side if answer is not None else "")
            for image, side, answer in zip(self.pool.images, self._sides, self._standing, strict=True)
        ]
        if self.pool.purpose == "learn" or any(known):
            self._sides = assigned_sides(self._groups, known, self._seed)

    def _write_tables(self) -> None:
        """Write the tables, with sides as soon as no near-duplicates can move a group any more."""
        is_divided = self._learned is not None or self._failure or any(one.split for one in self.pool.images)
        sides = self._sides if is_divided else [""] * len(self._sides)
        self._answers.write_tables(
            (image.name, group, image.label, side)
            for image, group, side in zip(self.pool.images, self._groups, sides, strict=True)
        )

    def _read_answers(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            image = self.pool.images[number]
            answer = self._answers.standing(image.name)
            label = image.label if answer is None else answer.class_name
            self._standing[number], self._labels[number] = answer, label if label in self.classes else ""

    def _class_of(self, number: int) -> int:
        label = self._labels[number]
        return self.classes.index(label) if label else -1

    def _next(self, tab: str, mode: Mode) -> int | None:
        now = time.monotonic()
        held = {
            number
            for other, (number, since) in self._shown.items()
            if other != tab and now - since < _HELD_SECONDS
        }
        allowed = [
            number not in held and number not in self._unreadable for number in range(len(self.pool.images))
        ]
        if mode == "review":
            return next((number for number in self._for_review() if allowed[number]), None)
        is_ordered, learned = self.pool.purpose == "referred", self._learned
        # Before near-duplicates are found, nothing judges that something like it may have trained.
        is_early = self.pool.purpose == "learn" and learned is None and not self._failure
        for number, image in enumerate(self.pool.images):
            is_asked = bool(image.reason) if is_ordered else not image.label
            is_asked &= self._sides[number] != BOTH_SIDES and (self._sides[number] != "test" or not is_early)
            allowed[number] &= self._standing[number] is None and is_asked
        if is_ordered or learned is None:
            order = range(len(allowed)) if is_ordered else self._random
            return next((int(number) for number in order if allowed[number]), None)
        found = learned.learner.next(1, skip=~np.array(allowed)[learned.rows])
        return int(learned.rows[found[0]]) if len(found) else None

    def _for_review(self) -> list[int]:
        """Return doubtful labels, what nobody was sure of, and unfamiliar images, once each."""
        learned = self._learned
        is_suspect = self.pool.purpose == "suspects"
        given = [number for number, image in enumerate(self.pool.images) if is_suspect and image.reason]
        if learned is None:
            return [number for number in given if self._standing[number] is None]
        suspects = [int(learned.rows[row]) for row in learned.learner.suspects(len(learned.rows))]
        answers = self._standing
        unsure = [number for number, one in enumerate(answers) if one is not None and one.verdict == "unsure"]
        unlike = [int(learned.rows[row]) for row in learned.learner.unfamiliar(_UNFAMILIAR_FOR_REVIEW)]
        unlike = [one for one in unlike if answers[one] is None and self._sides[one] != BOTH_SIDES]
        found = dict.fromkeys([*given, *suspects, *unsure, *unlike])
        return [number for number in found if (one := answers[number]) is None or not one.is_review]

    def _named(self, numbers: Iterable[int]) -> list[dict[str, Any]]:
        return [{"number": number, "name": self.pool.images[number].name} for number in numbers]

    def _described(self, number: int, mode: Mode) -> dict[str, Any]:
        image, learned = self.pool.images[number], self._learned
        question: dict[str, Any] = {
            **self._named([number])[0],
            "label": self._labels[number],
            "reason": image.reason,
            "judges": False,
            "prediction": None,
        }
        if learned is None:
            return question
        learner, row = learned.learner, int(learned.row_of[number])
        if learner.judging[row]:
            return {**question, "judges": True}  # a prediction beside it would lead the answer
        if mode == "review" and not image.reason:
            question["reason"] = self._reason(number)
        familiarity = float(learner.familiarity([row])[0])
        similar = [
            {**self._named([int(learned.rows[one])])[0], "similarity": likeness}
            for one, likeness in learner.nearest(row, _SIMILAR)
        ]
        for one in similar:
            one["label"] = self._labels[one["number"]]
        question["prediction"] = {
            "probability": learner.probability()[row].tolist(),
            "familiarity": _familiarity_in_words(familiarity),
            "similar": similar,
        }
        return question

    def _reason(self, number: int) -> str:
        answer = self._standing[number]
        if answer is not None and answer.verdict == "unsure":
            return f"{answer.who or 'Somebody'} was not sure."
        if label := self._labels[number]:
            return (
                f"It is labelled {label}. The model expects something else where this label is left out; the "
                "shares below know it."
            )
        return "It is among the images that are least like those with a label."


def _familiarity_in_words(familiarity: float) -> str:
    if np.isnan(familiarity):
        return "not known before five groups have a label"
    if familiarity < _UNLIKE:
        return "unlike all images with a label"
    return "rather unlike those with a label" if familiarity < _RATHER_UNLIKE else "like those with a label"
