"""Videos as the shared steps see them: judged by their clips' mean, from clips or cached features."""

from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.video import prepare_video
from data_prep.video_settings import VideoPrepareSettings
from gpmodels.networks.res3d import res3d
from pipelines.video_application import VIDEO, PreparedFeatures, clip_strip, mean_outputs
from pipelines.video_extraction import extract_features

SETTINGS = VideoPrepareSettings(frames=2, size=(16, 16), resize=(16, 20), clip_seconds=0.5)


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Path:
    """A prepared folder of eight videos of two classes, four clips each."""
    folder = tmp_path_factory.mktemp("videos")
    for level, name in ((40, "Dark"), (200, "Light")):
        for number in range(1, 5):
            path = folder / name / f"v_{name}_g{number:02d}_c01.avi"
            path.parent.mkdir(exist_ok=True)
            writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (24, 16))
            for frame in range(15):
                writer.write(np.full((16, 24, 3), level + frame, np.uint8))
            writer.release()
    prepare_video(folder, folder / "prepared", SETTINGS)
    return folder / "prepared"


@cache
def trunk(number: int):
    """A network; another one for each number, whatever seed the tests set."""
    network = res3d(2)
    network.build((None, 2, 16, 16, 3))
    network.stem.convolution.kernel.assign_add(np.full((3, 7, 7, 3, 2), 1e-3 * number, np.float32))
    return network


def extract(clips: Path, out: Path, number: int = 0):
    out.mkdir(exist_ok=True)
    return extract_features(VIDEO.prepared(clips), trunk(number), out, clips_at_once=3)


def test_a_video_is_the_mean_of_its_clips():
    probability = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    outputs = mean_outputs(probability, np.array([0.1, 0.3]))
    np.testing.assert_allclose(outputs["probability"], [0.5, 0.5, 0.0])
    # Clips that are sure of different classes make the video unsure.
    assert outputs["predictive_entropy"] == pytest.approx(np.log(2))
    assert outputs["mutual_information"] == pytest.approx(0.2)


def test_features_of_a_video_are_judged_as_its_clips_are(clips, tmp_path):
    extraction = extract(clips, tmp_path / "features")
    assert (extraction.videos, extraction.frames) == (8, 64)
    source, features = VIDEO.prepared(clips), VIDEO.prepared(tmp_path / "features")
    assert isinstance(features, PreparedFeatures)
    names = [example.name for example in source.manifest.examples]
    assert VIDEO.num_judged(source, names) == VIDEO.num_judged(features, names) == 8
    network = trunk(0)
    for shown, cached in zip(VIDEO.examples(source, names), VIDEO.examples(features, names), strict=True):
        assert (shown.name, shown.truth) == (cached.name, cached.truth)
        assert shown.image.shape == (4, 2, 16, 16, 3)
        expected = network(shown.image, training=False)
        np.testing.assert_allclose(cached.image, expected, rtol=1e-4, atol=1e-5)
        difference = VIDEO.picture(source, shown).astype(int) - VIDEO.picture(features, cached)
        assert np.abs(difference).max() <= 16  # a JPEG
    (one,) = VIDEO.examples_named(features, [shown.name])
    assert one.name == shown.name


def test_an_interrupted_extraction_goes_on_and_a_stale_one_is_refused(clips, tmp_path):
    out = tmp_path / "features"
    extract(clips, out)
    (out / "video-000002.npz").unlink()
    (out / "manifest.json").unlink()
    assert extract(clips, out).videos == 1
    with pytest.raises(InputError, match="another network or of other clips"):
        extract(clips, out, number=1)


def test_a_strip_shows_the_middle_clip_from_first_to_last_frame():
    clips = np.arange(3 * 8, dtype=np.uint8).reshape(3, 8, 1, 1, 1) * np.ones((1, 1, 4, 5, 3), np.uint8)
    strip = clip_strip(clips)
    assert strip.shape == (4, 3 * 5 + 2 * 4, 3)
    assert [int(strip[0, column, 0]) for column in (0, 9, 18)] == [8, 11, 15]
