"""`prepare_video` from folders of videos to a prepared folder, with good and with bad input."""

import csv
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from data_prep.errors import InputError
from data_prep.labelled.dataset import labelled_dataset, labelled_records
from data_prep.prepared.manifest import load_manifest
from data_prep.prepared.workers import Cluster
from data_prep.video.clips import cut_clips, survey_video
from data_prep.video.manifest import VideoManifest
from data_prep.video.prepare import prepare_video
from data_prep.video.settings import VideoPrepareSettings
from tests.data_prep.video_files import write_video

SMALL = VideoPrepareSettings(frames=4, resize=(12, 16), size=(8, 8), clips=2, test_fraction=0.5)


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """Two classes, four people, each video of 2.5 seconds; one person jumps twice."""
    folder = tmp_path / "videos"
    for person in range(1, 5):
        write_video(folder / "Walk" / f"v_Walk_g0{person}_c01.avi", 25)
        write_video(folder / "High jump" / f"v_HighJump_g0{person}_c01.avi", 25)
    write_video(folder / "High jump" / "v_HighJump_g01_c02.mp4", 25, fourcc="mp4v")
    return folder


def changed(**settings: object) -> VideoPrepareSettings:
    return VideoPrepareSettings.model_validate(SMALL.model_dump() | settings)


def sides(manifest: VideoManifest) -> dict[str, set[object]]:
    """Sides on which each group is found."""
    found: dict[str, set[object]] = {}
    for example in manifest.examples:
        found.setdefault(example.group, set()).add(example.split or example.fold)
    return found


def reasons(out: Path) -> list[str]:
    with (out / "skipped.csv").open(newline="", encoding="utf-8") as file:
        return sorted(row["reason"] for row in csv.DictReader(file))


def test_folders_become_clips(videos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = prepare_video(videos, out, changed(examples_per_shard=7))
    manifest = load_manifest(out, VideoManifest)
    assert manifest == result.manifest
    assert manifest.kinds == ("grey",)
    assert (manifest.class_names, manifest.shape) == (("High jump", "Walk"), (4, 8, 8, 3))
    assert manifest.num_examples == 18
    assert len(list(out.glob("*.tfrecord"))) == 3
    example = manifest.select(["Walk/v_Walk_g03_c01/clip_0002"])[0]
    assert (example.video, example.label, example.group) == ("Walk/v_Walk_g03_c01", 1, "g03")
    assert (example.start_seconds, example.end_seconds) == (pytest.approx(1.5), pytest.approx(2.5))
    assert (example.height, example.width) == (32, 48)
    ((_, frames, label),) = labelled_records(out, manifest, [example.name])
    expected = cut_clips(survey_video(videos / "Walk" / "v_Walk_g03_c01.avi"), manifest.clip_settings, 2)[1]
    np.testing.assert_array_equal(frames, expected.frames)
    assert label == 1
    batch, labels = next(iter(labelled_dataset(out, manifest, [example.name] * 3, batch_size=3)))
    np.testing.assert_array_equal(batch, [frames] * 3)
    assert labels.numpy().tolist() == [1, 1, 1]
    assert (result.skipped, result.one_sided, manifest.notes) == ((), (), ())


def test_videos_with_fewer_frames_than_a_clip_are_named(videos: Path, tmp_path: Path) -> None:
    write_video(videos / "Walk" / "v_Walk_g01_c02.avi", 2)
    note, *_ = prepare_video(videos, tmp_path / "out", SMALL).notes  # then: they all look alike
    assert note.startswith(
        "1 of 10 videos have fewer frames in 1 s than the 4 of a clip (Walk/v_Walk_g01_c02: 2)"
    )


def test_groups_stay_on_one_side(videos: Path, tmp_path: Path) -> None:
    manifest = prepare_video(videos, tmp_path / "half", SMALL).manifest
    assert Counter(next(iter(side)) for side in sides(manifest).values()) == {"train": 2, "test": 2}
    left_out = prepare_video(videos, tmp_path / "folds", changed(folds=4)).manifest
    assert sorted(sides(left_out).values(), key=str) == [{0}, {1}, {2}, {3}]
    groups = tmp_path / "groups.csv"
    lines = [f"{path.parent.name},{path.name},{path.stem[-5] in '12'}" for path in videos.glob("*/*")]
    groups.write_text("\n".join(["class,file,group", *lines]))
    listed = prepare_video(videos, tmp_path / "listed", changed(group_list=groups)).manifest
    assert sorted(sides(listed)) == ["False", "True"]
    assert all(len(side) == 1 for side in sides(listed).values())
    pattern = changed(group_pattern=r"_(g\d+)_", group_list=groups)
    joined = prepare_video(videos, tmp_path / "joined", pattern).manifest
    assert len(sides(joined)) == 2


def test_splits_and_classes_as_ucf101_lists_them(videos: Path, tmp_path: Path) -> None:
    lists = {
        "class_list": "1 Walk\n2 High jump\n3 Swim",
        "train_list": "Walk/v_Walk_g01_c01.avi 1\nHigh jump/v_HighJump_g01_c01.avi 2\nWalk/v_lost.avi 1\n",
        "test_list": "Walk/v_Walk_g02_c01.avi\nHigh jump/v_HighJump_g03_c01.avi\n",
    }
    for name, content in lists.items():
        (tmp_path / name).write_text(content)
    settings = changed(**{name: tmp_path / name for name in lists})
    read: list[tuple[str, int, int]] = []
    result = prepare_video(videos, tmp_path / "out", settings, progress=lambda *c: read.append(c))
    manifest = result.manifest
    what = "is not among what there is to prepare. Add it or correct the list."
    assert [entry.reason for entry in result.skipped] == [
        f"{tmp_path / 'class_list'}: 'Swim' {what}",
        f"{tmp_path / 'train_list'}: 'Walk/v_lost' {what}",
    ]
    assert manifest.class_names == ("Walk", "High jump")
    assert {(e.video, e.split) for e in manifest.examples} == {
        ("Walk/v_Walk_g01_c01", "train"),
        ("High jump/v_HighJump_g01_c01", "train"),
        ("Walk/v_Walk_g02_c01", "test"),
        ("High jump/v_HighJump_g03_c01", "test"),
    }
    assert read == [(stage, n, 4) for stage in ("Reading videos", "Cutting clips") for n in range(1, 5)]
    (tmp_path / "test_list").write_text("Walk/v_Walk_g01_c01.avi\n")
    with pytest.raises(InputError, match="1 names are in both train_list and test_list"):
        prepare_video(videos, tmp_path / "out", settings, overwrite=True)


def test_a_cluster_prepares_the_same_folder(videos: Path, tmp_path: Path, cluster: Cluster) -> None:
    (videos / "Walk" / "v_Walk_g02_c01.avi").write_text("a diary, not a video")
    results = [
        prepare_video(videos, tmp_path / name, SMALL, jobs=jobs)
        for name, jobs in (("one", 1), ("cluster", cluster))
    ]
    assert results[0] == results[1]
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "cluster" / path.name).read_bytes()


def test_bad_files_are_listed_and_the_rest_does_not_depend_on_jobs(videos: Path, tmp_path: Path) -> None:
    (videos / "Walk" / "empty.avi").touch()
    (videos / "Walk" / "v_Walk_g02_c01.avi").write_text("a diary, not a video")
    (videos / "Walk" / "v_Walk_g03_c01.mp4").touch()
    (videos / "Swim").mkdir()
    (videos / "Swim" / "v_Swim_g01_c01.mp4").write_bytes(b"\x00\x00\x00\x18ftypmp42")
    (videos / "Run").mkdir()
    half = videos / "High jump" / "v_HighJump_g04_c01.avi"
    half.write_bytes(half.read_bytes()[: half.stat().st_size * 3 // 4])
    results = [prepare_video(videos, tmp_path / str(jobs), SMALL, jobs=jobs) for jobs in (1, 2)]
    assert results[0] == results[1]
    for path in (tmp_path / "1").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes()
    assert results[0].manifest.class_names == ("High jump", "Walk")
    (note,) = results[0].manifest.notes
    assert re.match(r"v_HighJump_g04_c01\.avi: \d+ of the 25 frames that the file announces", note)
    expected = [
        r"Run: a class without a video file",
        r"Swim/v_Swim_g01_c01\.mp4: no frame can be decoded",
        r"Swim: none of the class's videos can be read",
        r"Walk/empty\.avi: no frame can be decoded\. Expected a video such as MP4 or AVI\. Convert it",
        r"Walk/v_Walk_g02_c01\.avi: no frame can be decoded",
        r"Walk/v_Walk_g03_c01\.avi: several files with the stem 'v_Walk_g03_c01' \(.*avi, .*mp4\)\. Keep one",
        r"Walk/v_Walk_g03_c01\.mp4: several files with the stem",
    ]
    found = reasons(tmp_path / "1")
    assert len(found) == results[0].manifest.num_skipped == len(expected)
    for reason, pattern in zip(found, expected, strict=True):
        assert re.search(pattern, reason), reason


def test_nothing_to_prepare(videos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(InputError, match=r"9 folds were asked for, but there are 4 groups"):
        prepare_video(videos, out, changed(folds=9))
    (tmp_path / "classes").write_text("Swim\n")
    with pytest.raises(InputError, match=r"videos: none of its class folders is in class_list \(Swim\)"):
        prepare_video(videos, out, changed(class_list=tmp_path / "classes"))
    (tmp_path / "names").write_text("other/a.avi\n")
    with pytest.raises(InputError, match=r"none of its 9 videos \(.*\) is among the 1 names of train_list"):
        prepare_video(videos, out, changed(train_list=tmp_path / "names", test_list=tmp_path / "names"))
    for path in (videos / "Walk").iterdir():
        path.write_bytes(b"")
    with pytest.raises(InputError, match=r"only the class 'High jump' has videos.*\n.*no frame can be"):
        prepare_video(videos, out, SMALL)
    with pytest.raises(InputError, match=r"Walk: 0 class folders with video files; expected a folder for"):
        prepare_video(videos / "Walk", out, SMALL)
    assert not out.exists()


def test_worker_processes_do_without_tensorflow() -> None:
    code = "import sys, data_prep.video.prepare; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_settings_that_contradict_each_other() -> None:
    with pytest.raises(ValidationError, match="give either folds or lists"):
        changed(folds=3, train_list="a")
    with pytest.raises(ValidationError, match="must be from 1 to 4096 pixels"):
        changed(size=(0, 8))
