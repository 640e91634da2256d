"""The step `predict` of an application: files are found, predicted with a bundle, and summarised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Console

from data_prep.errors import InputError, Skipped
from data_prep.prepared.workers import Cluster
from pipelines.bundles.group_answers import GROUPS, GroupAnswering, group_rules, groups_of, write_groups
from pipelines.bundles.line_rules import LineRules, rules_for
from pipelines.bundles.metadata import Metadata
from pipelines.bundles.prediction import Line, open_bundle, predict_sources
from pipelines.bundles.prediction_run import open_run
from pipelines.bundles.remote import MOST_THREADS, in_threads, on_cluster
from pipelines.bundles.sources import (
    Source,
    find_sources,
    print_unlike_kinds,
    print_unsearched,
    with_subfolders,
)
from pipelines.command.referral import FamiliaritySettings, GroupSettings

Predictor = TypeVar("Predictor", bound=Callable[..., Any])

FindSources = Callable[[Sequence[Path], Path, Console], tuple[list[Source], list[Skipped]]]
"""Returns the sources of `--input` and what of it cannot be used; says what is passed over."""


def files_with(suffixes: Collection[str], kind: str) -> FindSources:
    """Return what finds files with such suffixes; of other kinds of files nothing is said.

    Args:
        suffixes: Suffixes of the files that are taken from a folder, in lower case.
        kind: What these files are, for messages.
    """

    def find(inputs: Sequence[Path], out: Path, console: Console) -> tuple[list[Source], list[Skipped]]:
        sources = find_sources(inputs, suffixes=suffixes, kind=kind)
        print_unsearched(inputs, out, console, suffixes=suffixes)
        return sources, []

    return find


@dataclass(frozen=True)
class FinishedPrediction(Generic[Predictor, Line]):
    """What was predicted, for what an application says and writes at the end.

    Attributes:
        predictor: What predicted.
        sources: The sources.
        lines: The lines of the table.
        out: The folder that was written.
        console: Where it is said.
        cluster: The cluster whose workers predicted, None for this process.
    """

    predictor: Predictor
    sources: Sequence[Source]
    lines: Sequence[Line]
    out: Path
    console: Console
    cluster: Cluster | None


@dataclass(frozen=True)
class PredictStep(Generic[Predictor, Line]):
    """How an application predicts with a bundle.

    Attributes:
        application: Name of the application, which the bundle must be of.
        judged: What is referred to a person, in the plural.
        line_class: Class of the lines of its table, by the settings.
        make: Makes what predicts from signature, metadata, bundle, settings and `out`; importable by workers.
        find: Finds what is to be predicted.
        part: What a guarantee is of, such as `"pixels of the "`, before `judged`.
        left_out: Returns the list to which what predicts adds what it leaves out; None where it leaves out
            nothing.
        group_rules: Returns how groups are answered, where the settings ask for them.
        write_more: Writes further tables of all lines before the run is complete.
        finish: Says and writes what is more than the table.
    """

    application: str
    judged: str
    line_class: Callable[[Any], type[Line]]
    make: Callable[..., Predictor]
    find: FindSources
    part: str = ""
    group_rules: Callable[..., GroupAnswering] = group_rules
    left_out: Callable[[Predictor], list[Skipped] | None] = lambda _: None
    write_more: Callable[[Sequence[Line], Path, Metadata, LineRules], None] = lambda *_: None
    finish: Callable[[FinishedPrediction[Predictor, Line]], None] = lambda _: None

    def __call__(
        self,
        settings: FamiliaritySettings,
        *,
        inputs: Sequence[Path],
        model: Path,
        out: Path,
        console: Console,
        cluster: Cluster | None = None,
        threads: int = 1,
    ) -> list[Line]:
        """Predict files with a bundle; nothing else of the training is needed.

        With a cluster its workers predict, and write the files of each source; the same call goes on where
        it was stopped.

        Args:
            settings: Settings of the step.
            inputs: Files and folders.
            model: Folder of the bundle.
            out: Folder to write.
            console: Where progress is shown.
            cluster: The cluster, None for this process.
            threads: How many files to predict at a time; above 1 what predicts keeps nothing between files.

        Returns:
            The lines of `predictions.csv`.

        Raises:
            ClusterLost: The cluster no longer answers.
            InputError: The bundle cannot be loaded, or nothing can be predicted.
        """
        by = settings.by if isinstance(settings, GroupSettings) else None
        if by is not None:
            if Path(by).resolve() == (out / GROUPS).resolve():
                raise InputError(
                    f"--by {by}: the answers are written to this file. Move the table elsewhere."
                )
            inputs = with_subfolders(inputs, out)
        sources, unusable = self.find(inputs, out, console)
        groups = {} if by is None else groups_of([source.path for source in sources], by, console)
        signature, metadata = open_bundle(model, self.application, settings, console)
        how = None
        if isinstance(settings, GroupSettings) and by is not None:
            how = self.group_rules(settings, metadata, bundle=model, judged=self.judged, console=console)
            rules = LineRules(metadata.least_familiarity, settings.keep_unfamiliar)
            settings = settings.of_members()
        else:
            settings, rules = rules_for(
                settings, metadata, bundle=model, judged=self.judged, console=console, part=self.part
            )
        predictor, line_class = (
            self.make(signature, metadata, model, settings, out),
            self.line_class(settings),
        )
        if (left_out := self.left_out(predictor)) is not None:
            left_out.extend(unusable)
        run = open_run(out, application=self.application, bundle=model, settings=settings, sources=sources)
        if by is not None:
            (out / GROUPS).unlink(missing_ok=True)  # of an earlier command, until all is predicted
        remote = on_cluster(
            cluster, run, make=self.make, line_class=line_class, bundle=model, settings=settings
        )
        if remote is None and threads > 1:
            remote = in_threads(min(threads, MOST_THREADS), predictor, line_class, out)
        lines = predict_sources(
            line_class,
            predictor,
            sources,
            out,
            console,
            class_names=metadata.class_names if line_class.names_classes else (),
            rules=rules,
            left_out=left_out,
            run=run,
            remote=remote,
            write_more=lambda done: self.write_more(done, out, metadata, rules),
        )
        if how is not None:
            write_groups(lines, groups, how, out, class_names=metadata.class_names, console=console)
        print_unlike_kinds(sources, metadata.kinds, console)
        self.finish(FinishedPrediction(predictor, sources, lines, out, console, cluster))
        return lines
