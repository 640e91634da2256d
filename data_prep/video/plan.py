"""Which videos to prepare, their classes and what belongs together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import ClassFile, find_class_files, lost_classes
from data_prep.files.split_folders import split_note
from data_prep.files.videos import VIDEO_SUFFIXES
from data_prep.labelled.preparing import LabelledPlan
from data_prep.prepared.preparing import Progress, not_found, require_good, run_in_rounds, without_skipped
from data_prep.prepared.workers import Workers
from data_prep.splits.divide import given_split, read_lists
from data_prep.splits.groups import joined_groups, settings_groups
from data_prep.splits.labelled import LabelledName, assign_labelled
from data_prep.video.clips import VideoSurvey, survey_video
from data_prep.video.lists import read_class_list, read_video_list, video_groups
from data_prep.video.settings import VideoPrepareSettings


@dataclass(frozen=True)
class SurveyedVideo:
    """A video that can be read.

    Attributes:
        file: File in the folder of its class.
        survey: What is known of it after it has been read once.
    """

    file: ClassFile
    survey: VideoSurvey


def plan_videos(
    folder: Path, settings: VideoPrepareSettings, *, jobs: Workers, progress: Progress | None
) -> LabelledPlan[SurveyedVideo]:
    """Read all lists, and all videos once to find their lengths.

    Args:
        folder: Folder with a subfolder of videos for each class.
        settings: Settings of `prepare`.
        jobs: Number of processes, or a cluster.
        progress: Function that is called after each video.

    Raises:
        InputError: No video can be used, there are fewer than two classes, or a list is not as expected.
    """
    classes = None if settings.class_list is None else read_class_list(settings.class_list)
    read = partial(read_video_list, classes=classes)
    lists = read_lists(settings.train_list, settings.test_list, read)
    found, skipped = find_class_files(folder, VIDEO_SUFFIXES, "video")
    train, test = given_split({file.name: file.side for file in found}, settings, lists, folder)
    skipped += not_found(settings.class_list, classes, {file.class_name for file in found}, skipped)
    files = _wanted(found, classes, train, test, folder)
    require_good(files, "video", folder, skipped)
    names = [file.name for file in files]
    groups = joined_groups(names, settings_groups(names, settings) or [video_groups(names)])
    _require_split(files, groups, settings, train, test)
    results = run_in_rounds(
        "Reading videos",
        survey_file,
        files,
        (),
        jobs=jobs,
        progress=progress,
        file_of=lambda file: file.path,
    )
    videos = list(without_skipped((result for _, result in results), skipped))
    require_good(videos, "video", folder, skipped)
    kept = {video.file.class_name for video in videos}
    skipped += lost_classes({file.class_name for file in files} - kept, folder, "video")
    if len(kept) < 2:
        reasons = "".join(f"\n  {entry.reason}" for entry in skipped[:10])
        raise InputError(
            f"{folder}: only the class {next(iter(kept))!r} has videos that can be used. Expected two "
            f"classes at least.{reasons}"
        )
    class_names = sorted(kept) if classes is None else [name for name in classes if name in kept]
    return LabelledPlan(
        tuple(videos),
        tuple(class_names),
        groups,
        tuple(skipped),
        train,
        test,
        notes=(*split_note(folder), *_repeated_frames(videos, settings)),
    )


def _repeated_frames(videos: Sequence[SurveyedVideo], settings: VideoPrepareSettings) -> tuple[str, ...]:
    """Return a sentence about videos with fewer frames in a clip than a clip shows; none without."""
    frames = {
        video.file.name: video.survey.num_frames * min(1.0, settings.clip_seconds / video.survey.seconds)
        for video in videos
        if video.survey.seconds > 0
    }
    few = [name for name, number in frames.items() if number < settings.frames - 0.5]
    if not few:
        return ()
    note = (
        f"{len(few)} of {len(videos)} videos have fewer frames in {settings.clip_seconds:g} s than the "
        f"{settings.frames} of a clip ({few[0]}: {frames[few[0]]:.0f}): frames are repeated. Prepare with "
        "fewer --frames or a larger clip_seconds, or leave these videos out."
    )
    return (note,)


def survey_file(file: ClassFile) -> SurveyedVideo | Skipped:
    """Read a video once, or say why it cannot be used."""
    try:
        return SurveyedVideo(file, survey_video(file.path))
    except InputError as error:
        return Skipped(file.path, str(error))


def _wanted(
    files: Sequence[ClassFile],
    classes: Sequence[str] | None,
    train: Sequence[str] | None,
    test: Sequence[str] | None,
    folder: Path,
) -> list[ClassFile]:
    """Return the videos of the listed classes and, where both sides are listed, of the lists."""
    if classes is not None:
        files = [file for file in files if file.class_name in classes]
        if not files:
            raise InputError(
                f"{folder}: none of its class folders is in class_list ({', '.join(classes[:5])}). Expected "
                "folders with the names of the classes. Correct the list or the path."
            )
    if train is None or test is None:
        return list(files)
    listed = {*train, *test}
    if not any(file.name in listed for file in files):
        raise InputError(
            f"{folder}: none of its {len(files)} videos ({files[0].name}) is among the {len(listed)} names "
            f"of train_list and test_list ({train[0]}). Expected class/file as in the folder."
        )
    return [file for file in files if file.name in listed]


def _require_split(
    files: Sequence[ClassFile],
    groups: dict[str, str],
    settings: VideoPrepareSettings,
    train: Sequence[str] | None,
    test: Sequence[str] | None,
) -> None:
    """Fail before the long part where the videos cannot be divided."""
    labels = {name: label for label, name in enumerate(sorted({file.class_name for file in files}))}
    examples = [LabelledName(f.name, f.name, groups[f.name], labels[f.class_name]) for f in files]
    assign_labelled(examples, settings, train, test)
