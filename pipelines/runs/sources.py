"""Further prepared folders, the sources, that some heads learn from besides a run's own data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from data_prep.errors import InputError
from data_prep.splits.divide import Splits
from gpmodels.heads.base import Gift
from gpmodels.registry import families, in_order
from pipelines.runs.application import Application, DataKind, RunKind, SettingsKind, Source


def with_transfer_heads(settings: SettingsKind) -> SettingsKind:
    """Return the settings with the heads that learn from sources, where they name a source."""
    if not getattr(settings, "sources", ()):
        return settings
    needing = [name for name, family in families().items() if family.needs_sources]
    return settings.model_copy(update={"heads": in_order([*settings.heads, *needing])})


def open_sources(
    application: Application[DataKind, SettingsKind, RunKind],
    settings: SettingsKind,
    data: DataKind,
    splits: Splits,
    console: Console,
) -> tuple[Source, ...]:
    """Return the sources that the settings name, checked; none where they name none.

    Raises:
        InputError: A source cannot be used: it is the data themselves, shares an example with them, or was
            prepared in another way.
    """
    folders = getattr(settings, "sources", ())
    inputs = application.inputs
    if not folders:
        return ()
    if inputs.sources is None:
        raise InputError(f"gpimaging {application.name} learns from no further folders. Leave --source out.")
    opened = [inputs.seen(inputs.open(folder), settings, None, console) for folder in folders]
    for folder, one in zip(folders, opened, strict=True):
        if one.sha256 == data.sha256:
            raise InputError(
                f"--source {folder} holds the same prepared data as {data.folder}. Name another prepared "
                "folder, or train without --source."
            )
    sources = inputs.sources(data, splits, settings, opened)
    own = frozenset(application.judge.learned(data, [example.name for example in data.manifest.examples]))
    for folder, source in zip(folders, sources, strict=True):
        shared = len(own & source.digests)
        if shared:
            raise InputError(
                f"--source {folder} has {shared} examples that are in {data.folder} too, so that the run "
                "would learn from what it is judged by. Prepare a source without these images."
            )
        console.print(f"Source {source.rows.name}: {source.rows.rows} examples", markup=False)
    return sources


def gift_text(names: Sequence[str], gift: Gift) -> str:
    """Return in words what the sources gave a head.

    Args:
        names: Name of each source.
        gift: What the head says.

    Example:
        >>> gift_text(["lung"], Gift((0.56,), (0.06,), (0.4,), 1.36, 1.53, False))
        'lung gives 56% ± 6% of the mixture (40% of the predictions); left-out NLL 1.360 with, 1.530 without'
    """
    shares = [
        f"{name} gives {share:.0%} ± {deviation:.0%} of the mixture ({weight:.0%} of the predictions)"
        for name, share, deviation, weight in zip(
            names, gift.mixing, gift.mixing_deviation, gift.transfer_weight, strict=True
        )
    ]
    return f"{', '.join(shares)}; left-out NLL {gift.nll:.3f} with, {gift.nll_without:.3f} without"


def joined_classes(
    source: Sequence[str], target: Sequence[str], renamed: Mapping[str, str], folder: Any
) -> dict[int, int]:
    """Return the run's label of each label of a source whose class the run's own data have too.

    Args:
        source: Classes of the source.
        target: Classes of the run's own data.
        renamed: Name in the run of a source's class, where it differs.
        folder: The source's folder, for messages.

    Raises:
        InputError: Source and data share no class.

    Example:
        >>> joined_classes(["benign", "odd"], ["malignant", "normal"], {"benign": "normal"}, "a")
        {0: 1}
    """
    labels = {
        label: list(target).index(renamed.get(name, name))
        for label, name in enumerate(source)
        if renamed.get(name, name) in target
    }
    if not labels:
        raise InputError(
            f"--source {folder} has the classes {', '.join(source)}, none of which is one of the data's: "
            f"{', '.join(target)}. Say which is which, as in "
            f"--set 'source_classes={{{_as_yaml(source[0])}: {_as_yaml(target[0])}}}'."
        )
    return labels


def _as_yaml(name: str) -> str:
    """Return the name of a class as settings take it: in quotes where it might be read as a number.

    Example:
        >>> _as_yaml("benign"), _as_yaml("0")
        ('benign', '"0"')
    """
    is_plain = name.isidentifier() and name.lower() not in {"true", "false", "null"}
    return name if is_plain else json.dumps(name, ensure_ascii=False)


def require_known(
    renamed: Mapping[str, str], sources: Sequence[Sequence[str]], target: Sequence[str]
) -> None:
    """Raise `InputError` where a class to be renamed is of no source, or its new name of no class.

    Args:
        renamed: Name in the run of a source's class.
        sources: Classes of each source.
        target: Classes of the run's own data.
    """
    found = sorted({name for names in sources for name in names})
    for name, new in renamed.items():
        if name not in found or new not in target:
            raise InputError(
                f"source_classes says {name}: {new}, but the sources have the classes {', '.join(found)}, "
                f"and the data {', '.join(target)}. Give a class of a source, then its name in the data."
            )
