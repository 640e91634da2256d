"""Further prepared folders, the sources, that some heads learn from besides a run's own data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from data_prep.errors import InputError
from data_prep.prepared.workers import Cluster
from data_prep.splits.divide import Splits
from gpmodels.heads.base import SourceContribution
from gpmodels.registry import families, in_order
from pipelines.command.console import say
from pipelines.runs.application import Application, DataKind, RunKind, SettingsKind, TransferSource


@dataclass(frozen=True)
class OpenedSource:
    """A source that was checked.

    Attributes:
        source: The source.
        digests: What tells its examples from others.
    """

    source: TransferSource
    digests: frozenset[str]


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
    cluster: Cluster | None = None,
) -> tuple[OpenedSource, ...]:
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
    opened = [inputs.encoded(inputs.open(folder), settings, None, console, cluster) for folder in folders]
    seen = {data.sha256: data.folder}
    for folder, one in zip(folders, opened, strict=True):
        if one.sha256 in seen:
            raise InputError(
                f"--source {folder} holds the same prepared data as {seen[one.sha256]}. Name another "
                "prepared folder, or leave it out."
            )
        seen[one.sha256] = folder
    sources = inputs.sources(data, splits, settings, opened)
    known = {data.folder: _digests(application, data, [example.name for example in data.manifest.examples])}
    found = []
    for folder, one, source in zip(folders, opened, sources, strict=True):
        digests = _digests(application, one, source.names)
        for other, others in known.items():
            if shared := len(others & digests):
                raise InputError(
                    f"--source {folder} has {shared} examples that are in {other} too, so that the run would "
                    "learn from what it is judged by, or twice from the same. Prepare a source without them."
                )
        known[folder] = digests
        found.append(OpenedSource(_named(source, folder, folders), digests))
        unknown = ", ".join(source.rows.left_out)
        left = f"; classes that the data do not have are left out: {unknown}" if unknown else ""
        say(console, f"Source {found[-1].source.rows.name}: {source.rows.rows} examples{left}")
    return tuple(found)


def _digests(
    application: Application[DataKind, SettingsKind, RunKind], data: DataKind, names: Sequence[str]
) -> frozenset[str]:
    return frozenset(application.judge.learned(data, names))


def _named(source: TransferSource, folder: Path, folders: Sequence[Path]) -> TransferSource:
    """Return a source whose name tells it from the others: with its parent's where two have one name."""
    if sum(other.name == folder.name for other in folders) == 1:
        return source
    return replace(source, rows=source.rows.model_copy(update={"name": "/".join(folder.parts[-2:])}))


def contribution_text(names: Sequence[str], contribution: SourceContribution) -> str:
    """Return in words what the sources gave a head.

    Args:
        names: Name of each source.
        contribution: What the head says.

    Example:
        >>> contribution_text(["lung"], SourceContribution((0.56,), (0.06,), (0.4,), 1.36, 1.53, 0.05, False))
        'lung gives 40% of what predictions vary with (56% ± 6% of the mixture); left-out NLL 1.360 with, \
1.530 without (difference -0.170 ± 0.050)'
    """
    shares = [
        f"{name} gives {weight:.0%} of what predictions vary with "
        f"({share:.0%} ± {deviation:.0%} of the mixture)"
        for name, share, deviation, weight in zip(
            names,
            contribution.mixing,
            contribution.mixing_deviation,
            contribution.transfer_weight,
            strict=True,
        )
    ]
    difference = (
        f"difference {contribution.nll - contribution.nll_without:+.3f} ± {contribution.standard_error:.3f}"
    )
    with_and_without = f"{contribution.nll:.3f} with, {contribution.nll_without:.3f} without"
    return f"{', '.join(shares)}; left-out NLL {with_and_without} ({difference})"


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
