"""Prepare videos: folders of videos by class become shards of clips and a manifest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_prep.errors import InputError, Skipped
from data_prep.labelled.examples import ExampleFacts, PreparedExample
from data_prep.labelled.preparing import LabelledPlan, PrepareResult, prepare_labelled
from data_prep.prepared.manifest import check_destination
from data_prep.prepared.preparing import Progress
from data_prep.prepared.workers import Workers
from data_prep.video.clips import cut_clips
from data_prep.video.manifest import VideoManifest
from data_prep.video.plan import SurveyedVideo, plan_videos
from data_prep.video.settings import VideoPrepareSettings


def prepare_video(
    videos: Path,
    out: Path,
    settings: VideoPrepareSettings | None = None,
    *,
    jobs: Workers = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PrepareResult[VideoManifest]:
    """Turn videos into a prepared folder of labelled clips.

    The folder has TFRecord shards, `manifest.json` and `skipped.csv`; `data_prep.labelled.dataset` reads it.
    The result does not depend on `jobs`. What cannot be used is left out and reported; the rest is prepared.
    Each video is read twice, to find its length and to cut it, one frame after another.

    Args:
        videos: Folder with a subfolder of videos for each class.
        out: Folder to write; it appears when complete.
        settings: Settings of clips, classes, groups and splits.
        jobs: Number of processes, or a cluster.
        overwrite: Whether to replace `out`, if it was written by an earlier run.
        progress: Function that is called after each video.

    Returns:
        The manifest and what was left out.

    Raises:
        InputError: No video can be used, there are fewer than two classes, the splits cannot be made, or
            `out` exists or cannot be written.

    Example:
        >>> result = prepare_video(Path("UCF-101"), Path("out"))  # doctest: +SKIP
        >>> result.manifest.examples[0].name  # doctest: +SKIP
        'ApplyEyeMakeup/v_ApplyEyeMakeup_g01_c01/clip_0001'
    """
    settings = settings or VideoPrepareSettings()
    check_destination(out, (videos,), overwrite=overwrite)
    plan = plan_videos(videos, settings, jobs=jobs, progress=progress)
    return prepare_labelled(
        plan,
        settings,
        out,
        stage="Cutting clips",
        what="video",
        origin=videos,
        prepare_source=prepare_source,
        make_manifest=lambda fields: _manifest(plan, settings, fields),
        file_of=lambda video: video.file.path,
        jobs=jobs,
        overwrite=overwrite,
        progress=progress,
    )


def prepare_source(
    video: SurveyedVideo, settings: VideoPrepareSettings, class_names: Sequence[str]
) -> list[PreparedExample] | Skipped:
    """Cut the clips of one video, or say why it cannot be used.

    Args:
        video: Video with its survey.
        settings: Settings of `prepare`.
        class_names: Names of the classes, in the order of the labels.

    Returns:
        An example for each clip, or why the video cannot be used.
    """
    try:
        clips = cut_clips(video.survey, settings, settings.clips)
    except InputError as error:
        return Skipped(video.file.path, str(error))
    height, width = video.survey.size
    return [
        PreparedExample(
            ExampleFacts(
                name=f"{video.file.name}/clip_{number:04d}",
                source=video.file.name,
                label=class_names.index(video.file.class_name),
                height=height,
                width=width,
                others={
                    "video": video.file.name,
                    "start_seconds": clip.start_seconds,
                    "end_seconds": clip.end_seconds,
                },
            ),
            clip.frames,
        )
        for number, clip in enumerate(clips, 1)
    ]


def _manifest(
    plan: LabelledPlan[SurveyedVideo], settings: VideoPrepareSettings, fields: dict[str, Any]
) -> VideoManifest:
    """Return the manifest, which also says what is wrong with the videos that were used."""
    used = {example["video"] for example in fields["examples"]}
    notes = [video.survey.note for video in plan.sources if video.file.name in used]
    return VideoManifest(
        size=settings.size,
        frames=settings.frames,
        notes=tuple(note for note in notes if note is not None),
        **fields,
    )
