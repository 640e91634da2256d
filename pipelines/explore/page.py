"""`explore.html`: the map, its dimensions, odd examples and probable label errors, in one file.

The file loads nothing: its policy forbids it, and script, styles and pictures are inside.
Classes and groups have a colour and a shape each, so that they can be told apart without colour vision.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import cv2
import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from data_prep.files.fitting import fit_within
from pipelines.explore.examples import Examples
from pipelines.explore.latent import LatentMap
from pipelines.explore.predictions import Predicted
from pipelines.explore.settings import ExploreSettings
from pipelines.explore.suspects import Suspicion
from pipelines.scores.definitions import format_share
from pipelines.scores.inline import jpeg_uri, page_environment, png_uri
from pipelines.scores.pictures import Picture, colour_scale
from pipelines.scores.tables import UNDEFINED, format_number

MOST_KINDS = 16
"""How many classes or groups have a colour and a shape of their own; the smallest ones share the last."""


@dataclass(frozen=True)
class Colouring:
    """One way to colour N points.

    Attributes:
        key: Name in the page.
        title: Text of its button.
        explanation: What it shows, in a sentence.
        values: Index of a kind, or a number from 0 to 1, of each point; -1 where there is none.
        kinds: Names of the kinds; empty where the values are numbers.
        ends: What 0 and 1 mean, where the values are numbers.
        crossed: Rows that are drawn as a cross.
        crosses: What a cross means; empty without crosses.
    """

    key: str
    title: str
    explanation: str
    values: NDArray[Any]
    kinds: tuple[str, ...] = ()
    ends: tuple[str, str] = ("", "")
    crossed: tuple[int, ...] = ()
    crosses: str = ""


def colourings(
    examples: Examples, latent: LatentMap, suspects: tuple[int, ...], predicted: Predicted | None
) -> list[Colouring]:
    """Return the ways in which the points can be coloured, the first one to begin with.

    Args:
        examples: The examples.
        latent: Where they lie.
        suspects: Rows whose class is crossed.
        predicted: What a model said; None without predictions.
    """
    found = []
    if examples.classes is not None:
        found.append(_by_kind("class", "Class", examples.classes, suspects))
    if examples.groups is not None:
        found.append(_by_kind("group", "Group", examples.groups, ()))
    if predicted is not None and examples.classes is not None:
        found.append(_by_error(predicted, examples.classes))
    found.append(_by_oddness(latent))
    return found


def _by_kind(key: str, title: str, names: Sequence[str], suspects: tuple[int, ...]) -> Colouring:
    counts = Counter(names)
    kinds = sorted(counts)
    said = f"The {key} of each example."
    if len(kinds) > MOST_KINDS:
        kinds = sorted(name for name, _ in counts.most_common(MOST_KINDS - 1))
        others = len(counts) - len(kinds)
        kinds.append(f"{others} others")
        said = f"The {key} of each example; the {others} smallest share the last mark."
    index = {name: number for number, name in enumerate(kinds)}
    values = np.array([index.get(name, len(kinds) - 1) for name in names])
    crosses = "listed below: its neighbours have another class" if suspects else ""
    return Colouring(key, title, said, values, tuple(kinds), crossed=suspects, crosses=crosses)


def _by_error(predicted: Predicted, classes: Sequence[str]) -> Colouring:
    pairs = enumerate(zip(predicted.label, classes, strict=True))
    wrong = tuple(row for row, (label, name) in pairs if label and label != name)
    return Colouring(
        "error",
        "Model error",
        "One minus the probability that the model gave to the example's own class.",
        np.where(np.isnan(predicted.error), -1, predicted.error),
        ends=("0: sure and right", "1: sure and wrong"),
        crossed=wrong,
        crosses="the model chose another class",
    )


def _by_oddness(latent: LatentMap) -> Colouring:
    share = 1 - (latent.oddness_rank - 1) / max(len(latent.score) - 1, 1)
    return Colouring(
        "oddness",
        "Oddness",
        "Rank of the score: how unlike the others the model finds an example.",
        share,
        ends=("most ordinary", "oddest"),
    )


_TEMPLATES = {
    "report.css": "pipelines.scores",
    "explore.css": "pipelines.explore",
    "explore.js": "pipelines.explore",
    "explore.html.jinja": "pipelines.explore",
}
_CARD_SIDE = 128
_SCALE_COLOURS = "cividis_r"  # light for what is ordinary, dark for what is not
_STOPS = 17
_DIGITS = 4
_SHEET_QUALITY = 82


@dataclass(frozen=True)
class Findings:
    """What was found in a data set.

    Attributes:
        examples: What was looked at.
        latent: Where they lie.
        suspicion: What neighbours say of classes; None without classes.
        predicted: What a model said; None without a table of predictions.
    """

    examples: Examples
    latent: LatentMap
    suspicion: Suspicion | None
    predicted: Predicted | None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know, in whole sentences."""
        notes = (*self.latent.notes, *self.examples.notes)
        if self.predicted is None or not self.predicted.missing:
            return notes
        number = len(self.examples.files)
        lacking = f"The table of predictions lacks {self.predicted.missing} of the {number} examples."
        return (*notes, lacking)

    @property
    def oddest(self) -> list[int]:
        """Rows of all examples, the oddest first."""
        return np.argsort(self.latent.oddness_rank).tolist()


@dataclass(frozen=True)
class Card:
    """An example in a list.

    Attributes:
        file: Its name.
        picture: Its picture as a data URI.
        captions: Facts about it, as names and texts.
    """

    file: str
    picture: str
    captions: tuple[tuple[str, str], ...]


def render_page(title: str, findings: Findings, settings: ExploreSettings) -> str:
    """Return the page as HTML.

    Args:
        title: The heading.
        findings: What was found.
        settings: Of the step.
    """
    latent = findings.latent
    suspects = () if findings.suspicion is None else findings.suspicion.suspects[: settings.shown]
    ways = colourings(findings.examples, latent, suspects, findings.predicted)
    environment = page_environment(_TEMPLATES)
    environment.filters["share"] = format_share
    return environment.get_template("explore.html.jinja").render(
        title=title,
        created=f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC",
        version=version("gpimaging"),
        examples=findings.examples,
        latent=latent,
        suspicion=findings.suspicion,
        predicted=findings.predicted,
        notes=findings.notes,
        settings=settings,
        relevance=[
            (number + 1, float(share), f"{share:.3f}") for number, share in enumerate(latent.relevance)
        ],
        odd=[_card(findings, row) for row in findings.oddest[: settings.shown]],
        suspects=[_card(findings, row) for row in suspects],
        contradictions=[
            _card(findings, row)
            for pair in findings.examples.contradictions[: settings.shown]
            for row in pair
        ],
        poor=[
            (way, len(rows), [_card(findings, row) for row in rows[: settings.shown]])
            for way, rows in findings.examples.poor.items()
        ],
        data=_page_data(findings, ways),
        ways=ways,
        scale=png_uri(colour_scale(_SCALE_COLOURS)),
    )


def _card(findings: Findings, row: int) -> Card:
    examples = findings.examples
    picture = filling(examples.pictures[row], _CARD_SIDE)
    return Card(examples.files[row], jpeg_uri(picture), tuple(facts(findings, row)))


def facts(findings: Findings, row: int) -> list[tuple[str, str]]:
    """Return the facts about an example that the page shows, as names and texts."""
    examples, latent = findings.examples, findings.latent
    said = []
    if examples.classes is not None:
        said.append(("class", examples.classes[row]))
    if examples.groups is not None and examples.groups[row] != examples.files[row]:
        said.append(("group", examples.groups[row]))
    said.append(("score", f"{format_number(float(latent.score[row]), 1)} nats"))
    said.append(("oddness", f"rank {latent.oddness_rank[row]} of {len(latent.score)}"))
    if findings.suspicion is not None and examples.classes is not None:
        said.append(("neighbours", _neighbours(findings.suspicion, examples.classes, row)))
    if ways := [way for way, rows in examples.poor.items() if row in rows]:
        said.append(("image", ", ".join(ways)))
    if findings.predicted is not None:
        label = findings.predicted.label[row]
        error = format_number(float(findings.predicted.error[row]), 2)
        said.append(("model", f"{label}, error {error}" if label else UNDEFINED))
    return said


def _neighbours(suspicion: Suspicion, classes: Sequence[str], row: int) -> str:
    suggested = int(suspicion.suggested[row])
    if suggested < 0:
        return UNDEFINED
    name = sorted(set(classes))[suggested]
    share = suspicion.own_share[row] if name == classes[row] else suspicion.share[row]
    return f"{format_share(float(share))} {name}"


def _page_data(findings: Findings, ways: Sequence[Colouring]) -> Mapping[str, Any]:
    """Return what the script of the page needs, as plain values."""
    latent, shown = findings.latent, max(2, findings.latent.num_relevant)
    shown = min(shown, latent.position.shape[1])
    atlas = make_atlas(findings.examples.pictures)
    stops = mpl.colormaps[_SCALE_COLOURS](np.linspace(0, 1, _STOPS))[:, :3]
    return {
        "files": list(findings.examples.files),
        "facts": [facts(findings, row) for row in range(len(findings.examples.files))],
        "position": _rounded(latent.position[:, :shown].T),
        "std": _rounded(latent.std[:, :shown].T),
        "rank": latent.oddness_rank.tolist(),
        "colourings": [
            {
                "key": way.key,
                "explanation": way.explanation,
                "values": _rounded(way.values),
                "kinds": list(way.kinds),
                "ends": list(way.ends),
                "crossed": list(way.crossed),
                "crosses": way.crosses,
            }
            for way in ways
        ],
        "stops": [[round(255 * channel) for channel in stop] for stop in stops.tolist()],
        "atlas": {"side": atlas.side, "columns": atlas.columns, "sizes": list(atlas.sizes)},
        "sheet": jpeg_uri(atlas.picture, _SHEET_QUALITY),
    }


def _rounded(values: NDArray[Any]) -> Any:
    """Return an array as nested lists of numbers with few digits."""
    if values.dtype.kind != "f":
        return values.tolist()
    return np.vectorize(lambda value: float(f"{value:.{_DIGITS}g}"), otypes=[float])(values).tolist()


_SIDES = ((1000, 64), (3000, 48), (math.inf, 32))
"""Side of a thumbnail in pixels, up to how many examples."""

_BACKGROUND = 255


@dataclass(frozen=True)
class Atlas:
    """Thumbnails in rows.

    Attributes:
        picture: The sheet `[rows * side, columns * side, 3]`.
        side: Side of each thumbnail's square in pixels.
        columns: Thumbnails in a row.
        sizes: Height and width of each picture, which is in the middle of its square.
    """

    picture: Picture
    side: int
    columns: int
    sizes: tuple[tuple[int, int], ...]


def make_atlas(pictures: Sequence[Picture]) -> Atlas:
    """Return thumbnails of pictures `[H, W, 3]` of any sizes, in their order.

    Example:
        >>> make_atlas([np.zeros((4, 8, 3), np.uint8)] * 5).picture.shape
        (128, 192, 3)
    """
    side = next(size for most, size in _SIDES if len(pictures) <= most)
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    sheet = np.full((rows * side, columns * side, 3), _BACKGROUND, np.uint8)
    sizes = []
    for number, picture in enumerate(pictures):
        small = filling(picture, side)
        height, width = small.shape[:2]
        top = number // columns * side + (side - height) // 2
        left = number % columns * side + (side - width) // 2
        sheet[top : top + height, left : left + width] = small
        sizes.append((height, width))
    return Atlas(sheet, side, columns, tuple(sizes))


def filling(picture: Picture, side: int) -> Picture:
    """Return a picture whose longer side has as many pixels; enlarged ones keep their pixels distinct."""
    height, width = picture.shape[:2]
    if max(height, width) >= side:
        return fit_within(picture, side)
    scale = side / max(height, width)
    shape = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(picture, shape, interpolation=cv2.INTER_NEAREST), np.uint8)
