"""Frame sequences from folders, stacks and videos, in the order of time, with what is damaged left out."""

from pathlib import Path

import numpy as np
import pytest
import tifffile

from data_prep.cells.sequences import CellSequence, find_sequences, missing_numbers, read_sequence
from data_prep.errors import InputError, Skipped
from tests.data_prep.cell_files import still_frames, write_folder, write_stack
from tests.data_prep.video_files import LEVEL_STEP, write_video


def numbered(count: int, dtype: type = np.uint8) -> list[np.ndarray]:
    return [np.full((20, 24), 10 * number, dtype) for number in range(count)]


def levels_of(sequence: CellSequence, first: int = 0) -> list[tuple[int, int]]:
    """Number and level of each good frame."""
    return [
        (number, int(frame[0, 0]))
        for number, frame in read_sequence(sequence, first)
        if not isinstance(frame, Skipped)
    ]


def test_folders_stacks_and_videos_are_found(tmp_path: Path) -> None:
    write_folder(tmp_path / "well_2", numbered(12))
    write_stack(tmp_path / "well_1.tif", numbered(3, np.uint16))
    write_video(tmp_path / "day_2" / "well_3.avi", 4)
    (tmp_path / "day_2" / ".hidden.png").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("none")
    sequences, skipped = find_sequences(tmp_path)
    assert [one.name for one in sequences] == ["day_2/well_3", "well_1", "well_2"]
    assert skipped == []
    video, stack, folder = sequences
    assert levels_of(folder) == [(number, 10 * number) for number in range(12)]  # frame2 before frame10
    assert levels_of(stack, first=1) == [(1, 10), (2, 20)]
    assert next(iter(read_sequence(stack)))[1].dtype == np.uint16
    assert levels_of(video, first=2) == [
        (2, pytest.approx(2 * LEVEL_STEP, abs=4)),
        (3, pytest.approx(3 * LEVEL_STEP, abs=4)),
    ]


def test_single_pages_and_single_files(tmp_path: Path) -> None:
    folder = tmp_path / "frames"
    for number, frame in enumerate(numbered(3)):
        write_stack(folder / f"{number}.tif", [frame])
    (sequence,), _ = find_sequences(folder)
    assert (sequence.name, len(sequence.frames)) == ("frames", 3)
    stack = write_stack(tmp_path / "stack.TIF", numbered(2))
    assert find_sequences(stack)[0] == [CellSequence("stack", stack)]


def test_what_is_damaged_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "frames", numbered(4))
    (folder / "frame2.png").write_bytes(b"no image")
    (sequence,), _ = find_sequences(folder)
    assert [number for number, _ in levels_of(sequence)] == [0, 2, 3]
    stack = write_stack(tmp_path / "stack.tif", still_frames(6))
    stack.write_bytes(stack.read_bytes()[:-9000])
    frames = list(read_sequence(CellSequence("stack", stack)))
    bad = [frame.reason for _, frame in frames if isinstance(frame, Skipped)]
    assert len(bad) == 1
    assert "pages from" in bad[0]
    assert 0 < len(frames) - 1 < 6


def test_nothing_to_find_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no sequence found"):
        find_sequences(tmp_path)
    write_stack(tmp_path / "alone.tif", numbered(1))
    with pytest.raises(InputError, match="a single image"):
        find_sequences(tmp_path)
    with pytest.raises(InputError, match=r"no sequence\. Expected a folder"):
        find_sequences(tmp_path / "missing.avi")
    write_stack(tmp_path / "a.tif", numbered(2))
    write_video(tmp_path / "a.avi", 2)
    with pytest.raises(InputError, match="the name 'a'"):
        find_sequences(tmp_path)


def test_a_missing_number_is_named_and_an_empty_file_keeps_its_place(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "well", numbered(12))
    (folder / "frame6.png").unlink()
    (sequence,), _ = find_sequences(folder)
    (gap,) = missing_numbers(sequence)
    assert gap.file == folder / "frame7.png"
    assert "the number 6 is missing between 'frame5.png' and 'frame7.png'" in gap.reason
    assert levels_of(sequence)[4:6] == [(4, 40), (5, 60)]
    (folder / "frame6.png").touch()
    (folder / "frame9.png").unlink()
    (folder / "frame10.png").unlink()
    (sequence,), _ = find_sequences(folder)
    assert levels_of(sequence)[4:6] == [(4, 40), (6, 60)]
    (gap,) = missing_numbers(sequence)
    assert "the numbers 9 to 10 are missing" in gap.reason


@pytest.mark.parametrize(
    "names",
    [
        ("f0", "f2", "f4"),  # every second frame
        ("at 0955", "at 1000", "at 1005"),
        ("day1_8", "day1_9", "day3_1", "day3_2"),
        ("a", "b", "d"),
        ("f1", "f01", "f2"),
        ("f1_c0", "f3_c1"),
    ],
)
def test_names_that_do_not_count_by_one_miss_nothing(names: tuple[str, ...]) -> None:
    frames = tuple(Path(f"{name}.png") for name in names)
    assert missing_numbers(CellSequence("well", Path("well"), frames)) == []


@pytest.mark.parametrize(
    ("axes", "kind"), [("TCYX", "2 channels"), ("TZYX", "2 depths"), ("CYX", "4 channels")]
)
def test_pages_of_channels_or_depths_are_no_times(tmp_path: Path, axes: str, kind: str) -> None:
    shape = (4, 2, 20, 24) if len(axes) == 4 else (4, 20, 24)
    tifffile.imwrite(tmp_path / "a.tif", np.zeros(shape, np.uint8), imagej=True, metadata={"axes": axes})
    ((sequence,), _) = find_sequences(tmp_path / "a.tif")
    with pytest.raises(InputError, match=f"{kind} for each time.* Export one of the"):
        list(read_sequence(sequence))


@pytest.mark.parametrize("axes", ["TYX", "ZYX", "TYXS"])
def test_stacks_of_times_slices_or_colours_are_sequences(tmp_path: Path, axes: str) -> None:
    """ImageJ calls the images of an imported sequence slices."""
    frames = np.stack([np.full((20, 24, *[3] * ("S" in axes)), 10 * t, np.uint8) for t in range(4)])
    tifffile.imwrite(tmp_path / "a.tif", frames, imagej=True, metadata={"axes": axes})
    ((sequence,), _) = find_sequences(tmp_path / "a.tif")
    assert levels_of(sequence) == [(0, 0), (1, 10), (2, 20), (3, 30)]
