"""Which videos to prepare, their classes and what belongs together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_prep.class_folders import ClassFile, find_class_files, lost_classes
from data_prep.errors import InputError
from data_prep.grouping import joined_groups, listed_groups
from data_prep.labelled_preparing import LabelledPlan
from data_prep.labelled_splits import LabelledName, assign_labelled
from data_prep.pairing import Skipped
from data_prep.preparing import Progress, not_found, require_good, run_in_rounds
from data_prep.video_clips import VideoSurvey, survey_video
from data_prep.video_lists import read_class_list, read_video_list, video_groups
from data_prep.video_settings import VideoPrepareSettings
from data_prep.videos import VIDEO_SUFFIXES


@dataclass(frozen=True)
class SurveyedVideo:
    """A video that can be read."""

    file: ClassFile
    survey: VideoSurvey


def plan_videos(
    folder: Path, settings: VideoPrepareSettings, *, jobs: int, progress: Progress | None
) -> LabelledPlan[SurveyedVideo]:
    """Read all lists, and all videos once to find their lengths.

    Args:
        folder: with a subfolder of videos for each class.
        settings: of `prepare`.
        jobs: number of processes.
        progress: called after each video.

    Raises:
        InputError: no video can be used, there are fewer than two classes, or a list is not as expected.
    """
    classes = None if settings.class_list is None else read_class_list(settings.class_list)
    train, test = (
        None if path is None else read_video_list(path, classes)
        for path in (settings.train_list, settings.test_list)
    )
    found, skipped = find_class_files(folder, VIDEO_SUFFIXES, "video")
    skipped += not_found(settings.class_list, classes, {file.class_name for file in found}, skipped)
    files = _wanted(found, classes, train, test, folder)
    require_good(files, "video", folder, skipped)
    groups = _groups([file.name for file in files], settings)
    _require_split(files, groups, settings, train, test)
    videos = []
    results = run_in_rounds("Reading videos", survey_file, files, (), jobs=jobs, progress=progress)
    for _, result in results:
        if isinstance(result, Skipped):
            skipped.append(result)
        else:
            videos.append(result)
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
    return LabelledPlan(tuple(videos), tuple(class_names), groups, tuple(skipped), train, test)


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
    """The videos of the listed classes and, where both sides are listed, of the lists."""
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


def _groups(names: Sequence[str], settings: VideoPrepareSettings) -> dict[str, str]:
    if settings.group_list is None:
        return video_groups(names, settings.group_pattern)
    groups = listed_groups(settings.group_list, names)
    if settings.group_pattern is None:
        return groups
    by_pattern = video_groups(names, settings.group_pattern)
    return joined_groups(names, [groups, by_pattern], np.empty((0, 2), np.int64))
