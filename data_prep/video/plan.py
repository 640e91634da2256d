"""Which videos to prepare, their classes and what belongs together."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from data_prep.errors import InputError, Skipped
from data_prep.files.class_folders import ClassFile, find_class_files, first_reasons, lost_classes
from data_prep.files.split_folders import split_note
from data_prep.files.tables import whole_number
from data_prep.files.videos import VIDEO_SUFFIXES
from data_prep.labelled.preparing import LabelledPlan
from data_prep.prepared.preparing import Progress, not_found, require_good, run_in_rounds, without_skipped
from data_prep.prepared.workers import Workers
from data_prep.splits.divide import example_name, given_split, read_lines, read_lists
from data_prep.splits.groups import joined_groups, settings_groups
from data_prep.splits.labelled import LabelledName, assign_labelled
from data_prep.video.clips import VideoSurvey, survey_video
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
        raise InputError(
            f"{folder}: only the class {next(iter(kept))!r} has videos that can be used. Expected two "
            f"classes at least.{first_reasons(skipped)}"
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


_GROUP = re.compile(r"_g(\d+)(?:_c\d+)?$")  # v_Walk_g01_c02: the second video of group 1


def read_video_list(path: Path, classes: Sequence[str] | None = None) -> tuple[str, ...]:
    """Read the names of videos from a file such as `trainlist01.txt` or `testlist01.txt`.

    Args:
        path: Text file with one video (class/file) per line, perhaps with the number of its class behind it.
        classes: The classes in the order of their numbers, from 1 on; the numbers are checked against them.

    Returns:
        Names of videos, class/stem.

    Raises:
        InputError: The file cannot be read, has no names, or has a number of another class.
    """
    names = []
    for line in read_lines(path):
        match = re.fullmatch(r"(.*\S)\s+(\d+)", line)
        numbered = match if match and _is_video(match[1]) else None
        name = video_name(numbered[1] if numbered else line)
        if numbered and classes is not None:
            _check_number(path, line, name, numbered[2], classes)
        names.append(name)
    return tuple(dict.fromkeys(names))


def read_class_list(path: Path) -> tuple[str, ...]:
    """Read the names of classes from a file such as `classInd.txt`.

    Args:
        path: Text file with a class on each line, either all after their numbers, which count from 1, or all
            alone.

    Raises:
        InputError: The file cannot be read, has no names, names a class twice, or its numbers do not count
            from 1.
    """
    lines = [unicodedata.normalize("NFC", line) for line in read_lines(path)]
    numbered = [re.fullmatch(r"(\d+)\s+(\S.*)", line) for line in lines]
    pairs = [(whole_number(match[1]) or 0, match[2]) for match in numbered if match]
    if len(pairs) == len(lines):
        if sorted(number for number, _ in pairs) != list(range(1, len(lines) + 1)):
            raise InputError(
                f"{path}: the numbers of its {len(lines)} classes do not count from 1 to {len(lines)}. "
                "Correct them."
            )
        names = [name for _, name in sorted(pairs)]
    else:
        names = lines
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: lists {', '.join(twice[:5])} more than once. Expected each class once.")
    return tuple(names)


def video_name(file: str) -> str:
    """Return the name of the video that a file in a list means: class, slash and stem."""
    return example_name(file, folders=1, suffixes=VIDEO_SUFFIXES)


def video_groups(names: Iterable[str]) -> dict[str, str]:
    """Group videos by the number after `_g` in their names, as in UCF101.

    The number alone makes the group, whatever the class: one person doing several things is one group.

    Args:
        names: Names of the videos, class/stem.

    Returns:
        The group of each name; a name without such a number is a group of its own.

    Example:
        >>> video_groups(["Run/v_Run_g03_c01", "Walk/v_Walk_g03_c02", "Walk/dog"])
        {'Run/v_Run_g03_c01': 'g03', 'Walk/v_Walk_g03_c02': 'g03', 'Walk/dog': 'Walk/dog'}
    """
    matches: Mapping[str, re.Match[str] | None] = {name: _GROUP.search(name) for name in names}
    return {name: name if match is None else f"g{match[1]}" for name, match in matches.items()}


def _is_video(file: str) -> bool:
    return Path(file).suffix.lower() in VIDEO_SUFFIXES


def _check_number(path: Path, line: str, name: str, digits: str, classes: Sequence[str]) -> None:
    class_name = name.partition("/")[0]
    number = whole_number(digits) or 0
    listed = classes[number - 1] if 1 <= number <= len(classes) else "no class"
    if listed != class_name:
        raise InputError(
            f"{path}: {line[:80]!r} has the number {digits[:20]}, which is {listed} in class_list, but lies "
            f"in the folder {class_name}. Correct the list or class_list."
        )
