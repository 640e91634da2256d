"""Weights of the video network in files: read, refused, written, told apart."""

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file

from data_prep.errors import InputError
from data_prep.video.settings import ClipSettings
from gpmodels.networks.res3d import Res3D, torchvision_state
from pipelines.video.trunk import load_video_trunk, save_video_trunk, start_from, video_trunk_facts

CLIP = np.random.default_rng(0).uniform(0, 255, (1, 2, 16, 16, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def trunk():
    network = Res3D(2)
    network.build((None, *CLIP.shape[1:]))
    return network


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_files_of_a_user_are_read_whatever_their_width(trunk, tmp_path, suffix):
    state = torchvision_state(trunk) | {
        "fc.weight": np.zeros((400, 16), np.float32),
        "stem.1.num_batches_tracked": np.array([7]),
    }
    path = tmp_path / f"weights.{suffix}"
    if suffix == "npz":
        np.savez(path, **state)
    else:
        save_file(state, path)
    loaded = load_video_trunk(path)
    assert loaded.width == 2
    np.testing.assert_array_equal(loaded(CLIP, training=False), trunk(CLIP, training=False))


def test_what_is_written_is_read_again(trunk, tmp_path):
    save_video_trunk(trunk, tmp_path / "trunk.safetensors")
    other = Res3D(2)
    other.build((None, *CLIP.shape[1:]))
    other.stem.convolution.kernel.assign_add(1e-6 * tf.ones_like(other.stem.convolution.kernel))
    clips = ClipSettings()
    assert video_trunk_facts(other, clips) != video_trunk_facts(trunk, clips)
    start_from(other, tmp_path / "trunk.safetensors")
    assert video_trunk_facts(other, clips) == video_trunk_facts(trunk, clips)
    # Features depend on how clips are cut as well.
    assert video_trunk_facts(trunk, ClipSettings(frames=16)) != video_trunk_facts(trunk, clips)


def test_a_full_disk_is_told_and_others_may_read_the_file(trunk, tmp_path, monkeypatch):
    save_video_trunk(trunk, tmp_path / "trunk.safetensors")
    (tmp_path / "other").touch()
    assert (tmp_path / "trunk.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode
    monkeypatch.setattr("data_prep.files.atomic._temporary_sibling", lambda _: full)
    full = tmp_path / "full.safetensors"
    full.symlink_to("/dev/full")
    with pytest.raises(InputError, match="cannot be written"):
        save_video_trunk(trunk, tmp_path / "trunk.safetensors")


def test_files_that_hold_something_else_are_refused(trunk, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"no weights")
    np.save(tmp_path / "b", np.zeros(3))
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", **{"stem.0.weight": np.zeros((2, 3, 3, 7, 7), np.float32)})
    np.savez(tmp_path / "d.npz", other=np.zeros(3))
    np.savez(tmp_path / "texts.npz", **{"stem.0.weight": np.full((2, 3, 3, 7, 7), "a")})
    np.savez(tmp_path / "narrow.npz", **{"stem.0.weight": np.zeros((0, 3, 3, 7, 7), np.float32)})
    expected = {
        "a.safetensors": "cannot be read as weights",
        "b.npz": "a single array",
        "c.npz": "lacks 99 arrays",
        "d.npz": r"has no stem\.0\.weight",
        "texts.npz": r"stem\.0\.weight is of <U1",
        "narrow.npz": r"has no stem\.0\.weight",
        "missing.npz": "cannot be read as weights",
        "e.pt": r"from \.safetensors and \.npz files",
    }
    for name, message in expected.items():
        with pytest.raises(InputError, match=message):
            load_video_trunk(tmp_path / name)
    save_video_trunk(trunk, tmp_path / "narrow.safetensors")
    wide = Res3D(3)
    wide.build((None, *CLIP.shape[1:]))
    with pytest.raises(InputError, match="but a network of width 3 needs"):
        start_from(wide, tmp_path / "narrow.safetensors")
