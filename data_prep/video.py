"""Prepare videos: folders of videos by class become shards of clips and a manifest."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from data_prep.atomic import atomic_folder
from data_prep.errors import InputError
from data_prep.labelled_splits import LabelledName, assign_labelled, one_sided_classes
from data_prep.manifest import write_manifest
from data_prep.pairing import Skipped
from data_prep.preparing import (
    Progress,
    check_destination,
    checksums,
    require_good,
    run_in_rounds,
    without_skipped,
    write_skipped,
)
from data_prep.splits import Assignment
from data_prep.video_clips import cut_clips
from data_prep.video_manifest import VideoExample, VideoManifest
from data_prep.video_plan import SurveyedVideo, VideoPlan, plan_videos
from data_prep.video_settings import VideoPrepareSettings

if TYPE_CHECKING:
    from data_prep.shards import Position


@dataclass(frozen=True)
class PrepareResult:
    """What `prepare_video` did.

    Attributes:
        manifest: of the folder that was written; its notes say which videos are damaged.
        skipped: files that were left out, each with the reason; also in skipped.csv.
        one_sided: a warning for each class of which a side of the split has no example.
    """

    manifest: VideoManifest
    skipped: tuple[Skipped, ...]
    one_sided: tuple[str, ...]


@dataclass(frozen=True)
class _Facts:
    """What the manifest says of a clip."""

    name: str
    video: str
    label: int
    height: int
    width: int
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class _PreparedClip:
    facts: _Facts
    frames: npt.NDArray[np.uint8]


def prepare_video(
    videos: Path,
    out: Path,
    settings: VideoPrepareSettings | None = None,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PrepareResult:
    """Turn videos into a prepared folder of labelled clips.

    The folder has TFRecord shards, `manifest.json` and `skipped.csv`; `data_prep.labelled` reads it. The
    result does not depend on `jobs`. What cannot be used is left out and reported; the rest is prepared. Each
    video is read twice, to find its length and to cut it, one frame after another.

    Args:
        videos: folder with a subfolder of videos for each class.
        out: folder to write; it appears when complete.
        settings: clips, classes, groups, splits.
        jobs: number of processes.
        overwrite: replace `out` if it was written by an earlier run.
        progress: called after each video.

    Returns:
        the manifest and what was left out.

    Raises:
        InputError: no video can be used, there are fewer than two classes, the splits cannot be made, or
            `out` exists or cannot be written.

    Example:
        >>> result = prepare_video(Path("UCF-101"), Path("out"))  # doctest: +SKIP
        >>> result.manifest.examples[0].name  # doctest: +SKIP
        'ApplyEyeMakeup/v_ApplyEyeMakeup_g01_c01/clip_0001'
    """
    settings = settings or VideoPrepareSettings()
    check_destination(out, (videos,), overwrite=overwrite)
    plan = plan_videos(videos, settings, jobs=jobs, progress=progress)
    skipped = list(plan.skipped)
    with atomic_folder(out, overwrite=overwrite) as folder:
        results = run_in_rounds(
            "Cutting clips",
            prepare_source,
            plan.videos,
            (settings, plan.class_names),
            jobs=jobs,
            progress=progress,
        )
        good = without_skipped((result for _, result in results), skipped)
        stored = _write((clip for some in good for clip in some), folder, settings)
        require_good(stored, "video", videos, skipped)
        labelled = [
            LabelledName(facts.name, facts.video, plan.groups[facts.video], facts.label)
            for facts, _ in stored
        ]
        assigned = assign_labelled(labelled, settings, plan.train, plan.test)
        write_skipped(folder, skipped)
        manifest = _manifest(stored, assigned, plan, settings, len(skipped), folder)
        write_manifest(folder, manifest)
    return PrepareResult(manifest, tuple(skipped), one_sided_classes(manifest))


def prepare_source(
    video: SurveyedVideo, settings: VideoPrepareSettings, class_names: Sequence[str]
) -> list[_PreparedClip] | Skipped:
    """Cut the clips of one video, or say why it cannot be used."""
    try:
        clips = cut_clips(video.survey, settings, settings.clips)
    except InputError as error:
        return Skipped(video.file.path, str(error))
    height, width = video.survey.size
    return [
        _PreparedClip(
            _Facts(
                name=f"{video.file.name}/clip_{number:04d}",
                video=video.file.name,
                label=class_names.index(video.file.class_name),
                height=height,
                width=width,
                start_seconds=clip.start_seconds,
                end_seconds=clip.end_seconds,
            ),
            clip.frames,
        )
        for number, clip in enumerate(clips, 1)
    ]


def _write(
    clips: Iterator[_PreparedClip], folder: Path, settings: VideoPrepareSettings
) -> list[tuple[_Facts, "Position"]]:
    # Workers do without TensorFlow.
    from data_prep.labelled import record_features  # noqa: PLC0415
    from data_prep.shards import write_shards  # noqa: PLC0415

    records = ((c.facts, record_features(c.facts.name, c.frames, c.facts.label)) for c in clips)
    return write_shards(folder, records, examples_per_shard=settings.examples_per_shard)


def _manifest(
    stored: Sequence[tuple[_Facts, "Position"]],
    assigned: dict[str, Assignment],
    plan: VideoPlan,
    settings: VideoPrepareSettings,
    num_skipped: int,
    folder: Path,
) -> VideoManifest:
    examples = tuple(
        VideoExample(**asdict(facts), **asdict(position), **asdict(assigned[facts.name]))
        for facts, position in sorted(stored, key=lambda entry: entry[0].name)
        if facts.name in assigned
    )
    used = {example.video for example in examples}
    notes = [v.survey.note for v in plan.videos if v.file.name in used]
    return VideoManifest(
        class_names=plan.class_names,
        size=settings.size,
        frames=settings.frames,
        num_folds=settings.folds,
        settings=settings.model_dump(mode="json"),
        num_examples=len(examples),
        num_skipped=num_skipped,
        notes=tuple(note for note in notes if note is not None),
        examples=examples,
        sha256=checksums(folder, (position.shard for _, position in stored)),
    )
