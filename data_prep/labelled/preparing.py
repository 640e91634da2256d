"""Writing a prepared folder of examples with one label each, whatever they are cut out of."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from data_prep.errors import InputError, Skipped
from data_prep.files.atomic import atomic_folder
from data_prep.files.class_folders import alike_names
from data_prep.files.identical import copies, torn_copies
from data_prep.files.kinds import kinds_of
from data_prep.files.tables import write_table
from data_prep.labelled.examples import ExampleFacts, PreparedExample
from data_prep.labelled.near_duplicates import CONTRADICTIONS, Contradiction, contradicted
from data_prep.labelled.views import Views, stack_views, write_views
from data_prep.prepared.manifest import LabelledManifest, write_manifest
from data_prep.prepared.preparing import (
    Progress,
    checksums,
    not_found,
    require_good,
    run_in_rounds,
    without_skipped,
    write_skipped,
)
from data_prep.prepared.workers import Workers
from data_prep.splits.divide import Assignment
from data_prep.splits.kept import FormerSplit, kept_note, left_out, read_former_split, with_former_shares
from data_prep.splits.labelled import LabelledName, assign_labelled, one_sided_classes
from data_prep.splits.settings import SplitSettings

if TYPE_CHECKING:
    from data_prep.prepared.shards import Position


@dataclass
class SourceDigests:
    """What was cut out of each source, as digests, while examples pass by.

    Attributes:
        of_source: Digest of the pixels of a source's examples that show more than one level, by its name.
        labels: Label of each source's first example.
        first: Name of that example.
    """

    of_source: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def seen(self, examples: Iterable[PreparedExample]) -> Iterator[PreparedExample]:
        """Yield the same examples, and keep what tells their sources from others."""
        for example in examples:
            if (example.image != example.image.flat[0]).any():
                source = example.facts.source
                digest = self.of_source.setdefault(source, hashlib.blake2b(digest_size=16))
                digest.update(example.image.tobytes())
                self.labels.setdefault(source, example.facts.label)
                self.first.setdefault(source, example.facts.name)
            yield example

    def digests(self) -> dict[str, bytes]:
        """Return the digest of each source, by its name."""
        return {source: digest.digest() for source, digest in self.of_source.items()}

    def contradictions(self, class_names: Sequence[str]) -> list[Contradiction]:
        """Return the copies that have two classes."""
        return [
            (one, class_names[self.labels[one]], other, class_names[self.labels[other]])
            for one, other in copies(self.digests())
            if self.labels[one] != self.labels[other]
        ]

    def torn(self, assigned: Mapping[str, Assignment]) -> list[str]:
        """Say how many pairs of copies are on two sides of the split, by the parts of the examples."""
        sides = {source: assigned[name].side for source, name in self.first.items() if name in assigned}
        return torn_copies(self.digests(), sides)


_MANY_CLASSES = 10  # from which on it is asked whether they are classes

Source = TypeVar("Source")
ManifestKind = TypeVar("ManifestKind", bound=LabelledManifest)


@dataclass(frozen=True)
class LabelledPlan(Generic[Source]):
    """What to cut examples out of, and how they are divided.

    Attributes:
        sources: Sources in the order of their names.
        class_names: Names of the classes in the order of the labels.
        groups: Group of each source, by name, also of sources that turned out not to be usable.
        skipped: Files that cannot be used, with the reasons.
        train: Names of the sources to train on, where listed.
        test: Names of the sources to test on, where listed.
        needed: Names of classes without which the folder is of no use.
        why_lost: What is wrong where a class has no example, and the remedy, by the class' name.
        may_lack_classes: Whether a class stays that has no example.
        notes: Sentences about the files that a person should know.
        contradictions: Files that look the same and have different classes: name and class of the one, and of
            the other.
        is_compared: Whether the files were compared with each other for the plan; else exact copies are
            looked for.
    """

    sources: tuple[Source, ...]
    class_names: tuple[str, ...]
    groups: Mapping[str, str]
    skipped: tuple[Skipped, ...]
    train: tuple[str, ...] | None
    test: tuple[str, ...] | None
    needed: tuple[str, ...] = ()
    why_lost: Mapping[str, str] = field(default_factory=dict)
    may_lack_classes: bool = False
    notes: tuple[str, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    is_compared: bool = False


@dataclass(frozen=True)
class PrepareResult(Generic[ManifestKind]):
    """What `prepare` did.

    Attributes:
        manifest: Manifest of the folder that was written.
        skipped: Files that were left out, each with the reason; also in skipped.csv.
        one_sided: Warnings, one for each class of which a side of the split has no example.
        notes: Sentences about the files that a person should know.
        kept: What was kept of an earlier split, in a sentence, where one is kept.
    """

    manifest: ManifestKind
    skipped: tuple[Skipped, ...]
    one_sided: tuple[str, ...]
    notes: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def prepare_labelled(  # noqa: PLR0913 - each application gives all of them
    plan: LabelledPlan[Source],
    settings: SplitSettings,
    out: Path,
    *,
    stage: str,
    what: str,
    origin: Path,
    prepare_source: Callable[..., Sequence[PreparedExample] | Skipped],
    make_manifest: Callable[[dict[str, Any]], ManifestKind],
    file_of: Callable[[Source], Path],
    jobs: Workers,
    overwrite: bool,
    progress: Progress | None,
    missed: Callable[[Collection[str]], Iterable[Skipped]] = lambda _: (),
) -> PrepareResult[ManifestKind]:
    """Cut the examples of all sources and write shards, `manifest.json` and `skipped.csv`.

    A class of which no example is there to train or to test on is left out and reported, for a model of it
    would have learned nothing. A folder without a training example keeps its classes: a run that has them
    is judged on it.

    Args:
        plan: Plan of what to cut.
        settings: Settings of `prepare`.
        out: Folder to write; it appears when complete.
        stage: Description of the stage, for `progress`.
        what: A source's name in messages, such as "image".
        origin: Folder of the sources, for messages.
        prepare_source: Makes a source's examples from it, `settings` and the class names, in a worker.
        make_manifest: Makes the manifest from the fields that all labelled ones share, but for their size.
        file_of: Returns the file of a source.
        jobs: Number of processes, or a cluster.
        overwrite: Whether to replace `out`.
        progress: Function that is called after each source.
        missed: Says, from the names of all examples that were cut, which were asked for and are not there.

    Raises:
        InputError: Nothing can be used, fewer than two classes have an example, the splits cannot be made, or
            `out` cannot be written.
    """
    skipped, former = list(plan.skipped), None
    kept: tuple[str, ...] = ()
    if settings.keep_split is not None:
        former = read_former_split(settings.keep_split)
        settings = with_former_shares(settings, former)
    for list_file, names in ((settings.train_list, plan.train), (settings.test_list, plan.test)):
        skipped += not_found(list_file, names, plan.groups.keys(), plan.skipped)
    with atomic_folder(out, overwrite=overwrite) as folder:
        results = run_in_rounds(
            stage,
            prepare_source,
            plan.sources,
            (settings, plan.class_names),
            jobs=jobs,
            progress=progress,
            file_of=file_of,
        )
        good = without_skipped((result for _, result in results), skipped)
        views: dict[str, Views] = {}
        digests = SourceDigests()
        cut = _views_kept((example for some in good for example in some), views)
        if not plan.is_compared:
            cut = digests.seen(cut)
        stored = _write(cut, folder, settings.examples_per_shard)
        require_good(stored, what, origin, skipped)
        skipped += missed({facts.name for facts, _ in stored})
        assigned = _assigned(stored, plan, settings, former)
        if former is not None:
            kept = (kept_note(assigned, {facts.name: _digest(facts) for facts, _ in stored}, former),)
            skipped += left_out([facts.name for facts, _ in stored], assigned, former)
        lost = _lost_classes(stored, assigned, plan, settings, origin, skipped)
        class_names = tuple(name for name in plan.class_names if name not in lost)
        if lost:
            stored = _relabelled(folder, stored, plan.class_names, class_names, settings.examples_per_shard)
            skipped = [*lost.values(), *skipped]  # first: only some are shown
        write_skipped(folder, skipped)
        copied = digests.contradictions(plan.class_names)
        if plan.contradictions or copied:
            columns = ["file", "class", "other file", "other class"]
            write_table(folder / CONTRADICTIONS, columns, [*plan.contradictions, *copied])
        examples = _fields(stored, assigned)
        files = {position.shard for _, position in stored}
        if views:
            in_order = [views[example["name"]] for example in examples]
            files.add(write_views(folder, stack_views(in_order)).name)
        manifest = make_manifest(
            {
                "class_names": class_names,
                "kinds": kinds_of(map(file_of, plan.sources)),
                "num_folds": settings.folds,
                "settings": settings.model_dump(mode="json"),
                "num_examples": len(examples),
                "num_skipped": len(skipped),
                "examples": examples,
                "sha256": checksums(folder, files),
            }
        )
        write_manifest(folder, manifest)
    found = (*contradicted(copied), *digests.torn(assigned))
    notes = (*plan.notes, *found, *alike_names(class_names), *_many_single(manifest))
    return PrepareResult(manifest, tuple(skipped), one_sided_classes(manifest), notes, kept)


def _many_single(manifest: LabelledManifest) -> tuple[str, ...]:
    """Return a sentence where most classes have one example, as where a measurement is taken for a class."""
    counts = Counter(example.label for example in manifest.examples)
    single = [label for label, count in counts.items() if count == 1]
    if len(counts) < _MANY_CLASSES or 2 * len(single) <= len(counts):
        return ()
    names = ", ".join(manifest.class_names[label] for label in single[:3])
    note = (
        f"{len(single)} of {len(counts)} classes have a single example ({names}, ...): is the class a "
        "measurement, or a name of each file? No model can learn such classes."
    )
    return (note,)


def _views_kept(examples: Iterable[PreparedExample], views: dict[str, Views]) -> Iterator[PreparedExample]:
    """Yield the same examples, and keep their views in memory, for they are written as one array."""
    for example in examples:
        if example.views is not None:
            views[example.facts.name] = example.views
        yield example


def _write(
    examples: Iterable[PreparedExample], folder: Path, examples_per_shard: int
) -> list[tuple[ExampleFacts, "Position"]]:
    from data_prep.labelled.dataset import record_features  # noqa: PLC0415 - workers do without TensorFlow
    from data_prep.prepared.shards import write_shards  # noqa: PLC0415 - imports TensorFlow, which workers do without

    records = (
        (example.facts, record_features(example.facts.name, example.image, example.facts.label))
        for example in examples
    )
    return write_shards(folder, records, examples_per_shard=examples_per_shard)


def _assigned(
    stored: Sequence[tuple[ExampleFacts, "Position"]],
    plan: LabelledPlan[Any],
    settings: SplitSettings,
    former: FormerSplit | None,
) -> dict[str, Assignment]:
    labelled = [
        LabelledName(facts.name, facts.source, plan.groups[facts.source], facts.label, _digest(facts))
        for facts, _ in stored
    ]
    return assign_labelled(labelled, settings, plan.train, plan.test, former)


def _digest(facts: ExampleFacts) -> str:
    return str(facts.others.get("digest", ""))


def _lost_classes(
    stored: Sequence[tuple[ExampleFacts, "Position"]],
    assigned: Mapping[str, Assignment],
    plan: LabelledPlan[Any],
    settings: SplitSettings,
    origin: Path,
    skipped: Sequence[Skipped],
) -> dict[str, Skipped]:
    """Return what to say of each class that has no example and is left out, by its name.

    Raises:
        InputError: Fewer than two classes are left, or one is lost that is needed.
    """
    if plan.may_lack_classes or all(one.split == "test" for one in assigned.values()):
        return {}
    made = {plan.class_names[facts.label] for facts, _ in stored}
    kept = {plan.class_names[facts.label] for facts, _ in stored if facts.name in assigned}
    lost = {
        name: _unlisted(name, settings) if name in made else _unmade(name, plan, origin)
        for name in plan.class_names
        if name not in kept
    }
    needed = [name for name in plan.needed if name in lost]
    if needed or len(kept) < 2:
        expected = f"Expected {needed[0]!r} among them" if needed else "Expected two at least"
        reasons = "".join(f"\n  {entry.reason}" for entry in [*lost.values(), *skipped][:10])
        raise InputError(
            f"{origin}: only {', '.join(sorted(map(repr, kept)))} of the classes "
            f"{', '.join(map(repr, plan.class_names))} has examples. {expected}; a folder that is to be "
            f"judged alone (--test-fraction 1) keeps every class.{reasons}"
        )
    return lost


def _unlisted(name: str, settings: SplitSettings) -> Skipped:
    file = settings.train_list or settings.test_list or Path()
    return Skipped(
        file,
        f"{file}: train_list and test_list name no example of the class {name!r}, so it was left out. Add "
        "some to the lists if it is to be learned.",
    )


def _unmade(name: str, plan: LabelledPlan[Any], origin: Path) -> Skipped:
    why = plan.why_lost.get(name, "nothing that can be used shows it. Add or replace what should.")
    return Skipped(origin, f"{origin}: no example of the class {name!r}, so it was left out: {why}")


def _relabelled(
    folder: Path,
    stored: Sequence[tuple[ExampleFacts, "Position"]],
    before: Sequence[str],
    after: Sequence[str],
    examples_per_shard: int,
) -> list[tuple[ExampleFacts, "Position"]]:
    """Write the shards anew with the labels of the classes that are left, without examples of the others."""
    from data_prep.labelled.dataset import LABEL, stored_label  # noqa: PLC0415 - workers do without TensorFlow
    from data_prep.prepared.shards import read_record, write_shards  # noqa: PLC0415 - imports TensorFlow

    with TemporaryDirectory(dir=folder) as former:
        for name in {position.shard for _, position in stored}:
            (folder / name).rename(Path(former, name))
        facts_and_positions = (
            (replace(facts, label=after.index(before[facts.label])), position)
            for facts, position in stored
            if before[facts.label] in after
        )
        records = (
            (facts, read_record(Path(former), position) | {LABEL: stored_label(facts.label)})
            for facts, position in facts_and_positions
        )
        return write_shards(folder, records, examples_per_shard=examples_per_shard)


def _fields(
    stored: Sequence[tuple[ExampleFacts, "Position"]], assigned: Mapping[str, Assignment]
) -> list[dict[str, Any]]:
    """Return the fields of the examples by name, without the examples that two lists leave out."""
    return [
        {
            "name": facts.name,
            "label": facts.label,
            "height": facts.height,
            "width": facts.width,
            **facts.others,
            **asdict(position),
            **asdict(assigned[facts.name]),
        }
        for facts, position in sorted(stored, key=lambda entry: entry[0].name)
        if facts.name in assigned
    ]
