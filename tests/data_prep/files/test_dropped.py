"""What is in files and is not read is said once, with a name."""

import numpy as np
import tifffile
from PIL import Image

from data_prep.files import dropped
from data_prep.files.depth import find_levels
from data_prep.files.dropped import dropped_parts

GREY = np.full((4, 6), 128, np.uint8)


def test_pages_and_frames_are_counted(tmp_path):
    tifffile.imwrite(tmp_path / "pages.tif", np.stack([GREY] * 3), photometric="minisblack")
    frames = [Image.fromarray(np.full((8, 8, 3), level, np.uint8)) for level in (0, 99)]
    frames[0].save(tmp_path / "moving.webp", save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "moving.png", save_all=True, append_images=frames[1:])
    tifffile.imwrite(tmp_path / "one.tif", GREY)
    frames[0].save(tmp_path / "one.webp")
    (tmp_path / "broken.tif").write_bytes(b"II*")
    (note,) = dropped_parts(sorted(tmp_path.iterdir()))
    assert note.startswith(
        "3 of 6 images have several pages or frames (moving.png): only the first one is read"
    )


def test_transparency_is_said_where_there_is_some(tmp_path, monkeypatch):
    colours = np.full((4, 6, 4), 255, np.uint8)
    Image.fromarray(colours).save(tmp_path / "0_opaque.png")
    Image.fromarray(GREY).save(tmp_path / "1_grey.png")
    assert dropped_parts(sorted(tmp_path.iterdir())) == ()
    colours[0, 0, 3] = 254
    Image.fromarray(colours).save(tmp_path / "2_clear.png")
    files = sorted(tmp_path.iterdir())
    (note,) = dropped_parts(files)
    assert note.startswith("1 of 3 images are transparent in places (2_clear.png): transparency is not read")
    assert find_levels(files, "auto").notes == (note,)
    monkeypatch.setattr(dropped, "_MOST_DECODED", 1)
    assert dropped_parts(files) == ()  # of large sets only so many are decoded
    assert dropped_parts(files[2:])[0].startswith("at least 1 of 1 images are transparent in places")
    palette = Image.fromarray(GREY).convert("P")
    palette.save(tmp_path / "3_palette.png", transparency=128)
    assert "3_palette.png" in dropped_parts([tmp_path / "3_palette.png"])[0]
