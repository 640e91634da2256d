import socket
from pathlib import Path

import cv2
import numpy as np
import pytest

from data_prep.files.images import read_image, read_mask
from data_prep.lane import scene_materials
from data_prep.lane.scene_geometry import random_camera, random_lane
from data_prep.lane.scene_materials import GROUND_TEXTURES, OBSTACLES, bundled_photograph
from data_prep.lane.scenes import Scene, render_scene, write_scenes


def rendered(seed: int, texture: str = "brick", size: tuple[int, int] = (48, 64)) -> Scene:
    return render_scene(np.random.default_rng(seed), lane_texture=texture, size=size)


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [rendered(seed, GROUND_TEXTURES[seed % len(GROUND_TEXTURES)]) for seed in range(40)]


def test_an_equal_generator_gives_an_equal_scene_and_another_one_another_scene():
    first, again, other = rendered(1), rendered(1), rendered(2)
    np.testing.assert_array_equal(first.image, again.image)
    np.testing.assert_array_equal(first.mask, again.mask)
    assert (first.image != other.image).mean() > 0.5


@pytest.mark.parametrize("size", [(48, 64), (64, 48), (31, 17)])
def test_image_and_mask_have_the_size_and_type_asked_for(size):
    image, mask = rendered(0, size=size)
    assert image.shape == (*size, 3)
    assert mask.shape == size
    assert image.dtype == mask.dtype == np.uint8


@pytest.mark.slow
def test_masks_are_binary_and_neither_empty_nor_full(scenes):
    for scene in scenes:
        assert set(np.unique(scene.mask)) == {0, 255}
        assert 0.05 < (scene.mask > 0).mean() < 0.6


@pytest.mark.slow
def test_images_use_the_range_of_grey_levels_and_differ_in_light(scenes):
    assert min(scene.image.std() for scene in scenes) > 8
    assert np.ptp([scene.image.mean() for scene in scenes]) > 50


def test_lanes_narrow_upward_and_end_below_the_top(scenes):
    widths = np.mean([(scene.mask > 0).sum(axis=1) for scene in scenes], axis=0)
    upper, middle, lower = widths[19:24].mean(), widths[31:36].mean(), widths[43:48].mean()
    assert 0 < upper < 0.5 * middle
    assert middle < 0.75 * lower
    assert widths[:5].max() == 0


def test_the_average_mask_is_a_poor_prediction(scenes):
    masks = np.stack([scene.mask > 0 for scene in scenes])
    guess = masks.mean(axis=0) > 0.4
    f_measures = [2 * (guess & mask).sum() / (guess.sum() + mask.sum()) for mask in masks]
    assert np.mean(f_measures) < 0.8


def test_what_stands_on_the_lane_is_not_lane(scenes):
    # A lane without anything in front of it is one piece of a convex or bent strip: rows have one run.
    def has_gap(mask):
        return any(np.count_nonzero(np.diff((row > 0).astype(int)) == 1) > 1 for row in mask[20:])

    assert sum(has_gap(scene.mask) for scene in scenes) >= 3


def test_an_obstacle_takes_lane_away_and_leaves_the_rest_of_the_scene_as_it_is():
    for seed, obstacle in enumerate(OBSTACLES):
        free = rendered(seed)
        scene = render_scene(
            np.random.default_rng(seed), lane_texture="brick", obstacle=obstacle, size=(48, 64)
        )
        taken = (free.mask > 0) & (scene.mask == 0)
        assert not ((free.mask == 0) & (scene.mask > 0)).any()
        assert taken.sum() > 0.03 * (free.mask > 0).sum()
        changed = np.abs(free.image.astype(int) - scene.image).max(axis=-1) > 0
        assert 0.02 < changed.mean() < 0.7


def test_an_unknown_obstacle_is_named():
    with pytest.raises(ValueError, match="unknown obstacle 'dragon'"):
        render_scene(np.random.default_rng(0), lane_texture="brick", obstacle="dragon")


def test_obstacles_are_taken_in_turn(tmp_path):
    names = write_scenes(
        tmp_path, count=3, seed=0, lane_textures=["brick"], obstacles=("ihc", "retina"), size=(24, 32)
    )
    assert names == ["scene_00000_brick_ihc", "scene_00001_brick_retina", "scene_00002_brick_ihc"]
    assert (tmp_path / "masks" / "scene_00001_brick_retina.png").is_file()


def test_nothing_is_fetched_from_the_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a scene asked for the network")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    for name in scene_materials._FILES:
        assert bundled_photograph.__wrapped__(name).ndim == 3


def test_a_missing_photograph_is_named_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(scene_materials, "files", lambda _: tmp_path)
    with pytest.raises(FileNotFoundError, match=r"brick\.png is missing .* reinstall scikit-image"):
        bundled_photograph.__wrapped__("brick")


def test_unknown_textures_empty_surroundings_and_sizes_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="'lava'; expected one of brick, grass, gravel, moon"):
        render_scene(rng, lane_texture="lava")
    with pytest.raises(ValueError, match="no surroundings are left beside a lane of 'grass'"):
        render_scene(rng, lane_texture="grass", surroundings=["grass"])
    with pytest.raises(ValueError, match=r"size of a scene is \(0, 8\)"):
        render_scene(rng, lane_texture="grass", size=(0, 8))


def test_written_scenes_can_be_read_back(tmp_path: Path):
    names = write_scenes(tmp_path, count=3, seed=4, lane_textures=["brick", "moon"], size=(32, 40))
    assert names == ["scene_00000_brick", "scene_00001_moon", "scene_00002_brick"]
    for index, name in enumerate(names):
        expected = render_scene(
            np.random.default_rng([4, index]), lane_texture=["brick", "moon"][index % 2], size=(32, 40)
        )
        np.testing.assert_array_equal(read_mask(tmp_path / "masks" / f"{name}.png"), expected.mask)
        image = read_image(tmp_path / "images" / f"{name}.jpg").astype(int)
        assert np.abs(image - expected.image).mean() < 8  # red and blue in place, but for compression
    assert len(list(tmp_path.rglob("*.*"))) == 6


def test_a_folder_can_be_extended(tmp_path: Path):
    whole = write_scenes(tmp_path / "whole", count=3, seed=1, lane_textures=["moon"], size=(16, 16))
    part = write_scenes(
        tmp_path / "part", count=1, seed=1, lane_textures=["moon"], size=(16, 16), first_index=2
    )
    assert part == whole[2:]
    file = f"images/{part[0]}.jpg"
    assert (tmp_path / "part" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_projection_inverts_the_view_of_the_ground():
    camera = random_camera(np.random.default_rng(3), (60, 80))
    x, z = camera.ground()
    for row, column in [(59, 0), (45, 70), (30, 40)]:
        place = camera.project(float(x[row, column]), 0.0, float(z[row, column]))
        np.testing.assert_allclose(place, (column, row), atol=1e-3)
        pixel = camera.ground_from_pixel @ [column, row, 1.0]
        np.testing.assert_allclose(
            pixel[:2] / pixel[2], (x[row, column], z[row, column]), rtol=1e-3, atol=1e-3
        )


def test_the_camera_stands_on_the_lane():
    for seed in range(50):
        lane = random_lane(np.random.default_rng(seed))
        assert lane.outside(np.float32([[0.0]]), np.float32([[0.5]])).item() < 0


def test_the_photographs_of_the_ground_are_standardised():
    for texture in GROUND_TEXTURES:
        relief = scene_materials.relief_of(texture)
        assert abs(float(relief[0].mean())) < 0.1
        assert 0.6 < float(relief[0].std()) < 1.1  # extremes are clipped
        assert [level.shape[0] for level in relief] == [512, 256, 128, 64, 32]
        assert cv2.norm(relief[1], cv2.NORM_INF) <= 3
