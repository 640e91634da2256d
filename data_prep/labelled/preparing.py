"""Writing a prepared folder of examples with one label each, whatever they are cut out of."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from data_prep.errors import Skipped
from data_prep.files.atomic import atomic_folder
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
from data_prep.splits.labelled import LabelledName, assign_labelled, one_sided_classes
from data_prep.splits.settings import SplitSettings

if TYPE_CHECKING:
    from data_prep.prepared.shards import Position

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
    """

    sources: tuple[Source, ...]
    class_names: tuple[str, ...]
    groups: Mapping[str, str]
    skipped: tuple[Skipped, ...]
    train: tuple[str, ...] | None
    test: tuple[str, ...] | None


@dataclass(frozen=True)
class ExampleFacts:
    """What the manifest says of an example.

    Attributes:
        name: Name of the example.
        source: Name of what it was cut out of.
        label: Index of the example's class.
        height: Height in pixels, before resizing.
        width: Width in pixels, before resizing.
        others: Further fields of the application's examples.
    """

    name: str
    source: str
    label: int
    height: int
    width: int
    others: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PreparedExample:
    """An example as a worker returns it.

    Attributes:
        facts: What the manifest says of it.
        image: uint8 [height, width, 3], or [frames, height, width, 3].
        views: Views of it for `features.npz`, where the application computes any.
    """

    facts: ExampleFacts
    image: npt.NDArray[np.uint8]
    views: Views | None = None


@dataclass(frozen=True)
class PrepareResult(Generic[ManifestKind]):
    """What `prepare` did.

    Attributes:
        manifest: Manifest of the folder that was written.
        skipped: Files that were left out, each with the reason; also in skipped.csv.
        one_sided: Warnings, one for each class of which a side of the split has no example.
    """

    manifest: ManifestKind
    skipped: tuple[Skipped, ...]
    one_sided: tuple[str, ...]


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
) -> PrepareResult[ManifestKind]:
    """Cut the examples of all sources and write shards, `manifest.json` and `skipped.csv`.

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

    Raises:
        InputError: Nothing can be used, the splits cannot be made, or `out` cannot be written.
    """
    skipped = list(plan.skipped)
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
        cut = _views_kept((example for some in good for example in some), views)
        stored = _write(cut, folder, settings.examples_per_shard)
        require_good(stored, what, origin, skipped)
        write_skipped(folder, skipped)
        examples = _assigned(stored, plan, settings)
        files = {position.shard for _, position in stored}
        if views:
            in_order = [views[example["name"]] for example in examples]
            files.add(write_views(folder, stack_views(in_order)).name)
        manifest = make_manifest(
            {
                "class_names": plan.class_names,
                "num_folds": settings.folds,
                "settings": settings.model_dump(mode="json"),
                "num_examples": len(examples),
                "num_skipped": len(skipped),
                "examples": examples,
                "sha256": checksums(folder, files),
            }
        )
        write_manifest(folder, manifest)
    return PrepareResult(manifest, tuple(skipped), one_sided_classes(manifest))


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
    from data_prep.prepared.shards import write_shards  # noqa: PLC0415 - likewise

    records = (
        (example.facts, record_features(example.facts.name, example.image, example.facts.label))
        for example in examples
    )
    return write_shards(folder, records, examples_per_shard=examples_per_shard)


def _assigned(
    stored: Sequence[tuple[ExampleFacts, "Position"]], plan: LabelledPlan[Any], settings: SplitSettings
) -> list[dict[str, Any]]:
    """Return the fields of the examples by name, without the examples that two lists leave out."""
    labelled = [
        LabelledName(facts.name, facts.source, plan.groups[facts.source], facts.label) for facts, _ in stored
    ]
    assigned = assign_labelled(labelled, settings, plan.train, plan.test)
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
