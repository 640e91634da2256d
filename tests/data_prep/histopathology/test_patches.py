"""Patches lie where they should, background is left out, stains are those of the whole image."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from data_prep.errors import InputError
from data_prep.histopathology import patches
from data_prep.histopathology.features import VIEWS, describe_patch
from data_prep.histopathology.patches import count_places, cut_patches, is_tissue, tissue_share
from data_prep.histopathology.settings import PatchSettings
from data_prep.histopathology.slides import Level, Slide
from data_prep.histopathology.stains import fit_macenko, fit_reinhard
from data_prep.labelled.texture import box_counting, dense_sift, intensity_histogram, lbp_histogram
from tests.data_prep.tissue_files import tissue


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """90 x 130 pixels, the upper 32 rows of them glass."""
    Image.fromarray(tissue(1, (90, 130), glass_rows=32)).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def test_the_views_are_those_of_the_paper():
    assert VIEWS == {"intensity": 78, "box_counting": 21, "lbp": 174, "sift": 384}
    assert sum(VIEWS.values()) == 657
    rgb = tissue(0)
    views = describe_patch(rgb)
    assert {name: view.shape for name, view in views.items()} == {name: (n,) for name, n in VIEWS.items()}
    parts = {
        "intensity": intensity_histogram,
        "box_counting": box_counting,
        "lbp": lbp_histogram,
        "sift": dense_sift,
    }
    for name, extract in parts.items():  # red, green, blue
        np.testing.assert_array_equal(
            views[name].reshape(3, -1), [extract(rgb[..., c].copy()) for c in range(3)]
        )
    with pytest.raises(ValueError, match="height, width, 3"):
        describe_patch(rgb[..., 0])


def test_squares_from_the_corner_without_background(path: Path) -> None:
    patches = list(cut_patches(path, PatchSettings(patch_size=30)))
    assert [(p.row, p.column) for p in patches] == [(r, c) for r in (30, 60) for c in (0, 30, 60, 90)]
    assert {(p.height, p.width, p.whole) for p in patches} == {(30, 30, (90, 130))}
    np.testing.assert_array_equal(patches[1].image, tissue(1, (90, 130), glass_rows=32)[30:60, 30:60])
    everything = PatchSettings(patch_size=30, min_tissue=0)
    assert len(list(cut_patches(path, everything))) == count_places(path, everything) == 12
    assert [(p.row, p.column) for p in cut_patches(path, everything, 3, 6)] == [(0, 90), (30, 0), (30, 30)]


def test_a_grid_of_equal_patches(path: Path) -> None:
    patches = list(cut_patches(path, PatchSettings(grid=(4, 7), min_tissue=0)))
    assert len(patches) == 28
    assert {p.image.shape for p in patches} == {(22, 18, 3)}
    assert [p.row for p in patches[::7]] == [0, 22, 45, 67]


def test_places_of_a_huge_slide_take_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def huge(_: Path) -> Iterator[Slide]:
        yield Slide([Level((10**6, 10**6), lambda *_: np.zeros((16, 16, 3), np.uint8))], None)

    monkeypatch.setattr(patches, "open_slide", huge)
    settings = PatchSettings(patch_size=16, min_tissue=0.0)
    assert count_places(tmp_path / "a.svs", settings) == 62_500**2
    found = cut_patches(tmp_path / "a.svs", settings, first=62_501, last=62_503)
    assert [(patch.row, patch.column) for patch in found] == [(16, 16), (16, 32)]


def test_tissue_is_coloured_and_not_black():
    pixels = np.array([[[255, 255, 255], [200, 100, 180], [240, 225, 240], [9, 0, 5]]], np.uint8)
    assert tissue_share(pixels, 0.1) == 0.25
    assert tissue_share(pixels, 0.05) == 0.5
    assert tissue_share(pixels, 0) == 0.75


def test_images_are_reduced_to_the_wanted_resolution(tmp_path: Path) -> None:
    image = tissue(2, (120, 160))
    resolution = {"resolution": (40_000, 40_000), "resolutionunit": "CENTIMETER"}  # 0.25 micrometres
    tifffile.imwrite(tmp_path / "a.tif", image, photometric="rgb", **resolution)
    patches = list(cut_patches(tmp_path / "a.tif", PatchSettings(patch_size=20, mpp=0.5)))
    assert [(p.row, p.column, p.height, p.width) for p in patches[:5]] == [
        *((0, column, 40, 40) for column in (0, 40, 80, 120)),
        (40, 0, 40, 40),
    ]
    assert np.abs(patches[0].image - image[:40, :40].reshape(20, 2, 20, 2, 3).mean(axis=(1, 3))).max() <= 0.5
    Image.fromarray(image).save(tmp_path / "b.png")
    with pytest.raises(InputError, match=r"b\.png: does not say how large a pixel is.*pixel_size"):
        next(cut_patches(tmp_path / "b.png", PatchSettings(patch_size=20, mpp=0.5)))
    given = PatchSettings(patch_size=20, mpp=0.5, pixel_size=0.25)
    np.testing.assert_array_equal(next(cut_patches(tmp_path / "b.png", given)).image, patches[0].image)
    with pytest.raises(InputError, match=r"a\.tif: has 0\.25 .*coarser than mpp=0\.1"):
        next(cut_patches(tmp_path / "a.tif", PatchSettings(patch_size=20, mpp=0.1)))


@pytest.mark.parametrize(("stain", "fit"), [("macenko", fit_macenko), ("reinhard", fit_reinhard)])
def test_stains_are_fitted_to_the_tissue_of_the_whole_image(path: Path, stain: str, fit: Callable) -> None:
    settings = PatchSettings(patch_size=30, stain=stain)
    image = tissue(1, (90, 130), glass_rows=32)
    covered = image[:90, :120].reshape(-1, 3)
    normalise = fit(covered[is_tissue(covered, 0.1)])
    patch = next(cut_patches(path, settings))
    assert np.abs(patch.image.astype(int) - normalise(image[30:60, :30])).max() <= 1
    part = list(cut_patches(path, settings, 8, 9))  # also where only a piece is cut
    np.testing.assert_array_equal(part[0].image, list(cut_patches(path, settings))[4].image)


def test_images_too_small_and_grids_too_coarse_are_refused(path: Path) -> None:
    with pytest.raises(InputError, match=r"130 x 90 pixels, too small for a patch of 200 x 200"):
        next(cut_patches(path, PatchSettings()))
    with pytest.raises(InputError, match=r"too small for 100 x 2 patches"):
        next(cut_patches(path, PatchSettings(grid=(100, 2))))
