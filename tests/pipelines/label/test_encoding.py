"""Features of images: computed once for each content, and kept."""

from types import SimpleNamespace

import numpy as np
import pytest

from data_prep.errors import InputError
from pipelines.label import encoding
from pipelines.label.encoding import PoolEncoder
from pipelines.trunks.settings import TrunkFacts
from tests.pipelines.label.small_images import write_images

FACTS = TrunkFacts(
    name="made", sha256="0" * 64, size=(32, 32), smallest_side=32, num_features=4, unfrozen_blocks=0
)


class MadeTrunk(SimpleNamespace):
    """Mean levels of parts of the images; counts what it is given."""

    facts = FACTS

    def __init__(self):
        super().__init__(batches=[])

    def of_batch(self, images):
        self.batches.append(len(images))
        return images.reshape(len(images), 4, -1).mean(2).astype(np.float32)


def encode(folder, images, trunk=None, stop_after=10**6, fit="crop"):
    trunk, done = trunk or MadeTrunk(), []
    paths = sorted(images.glob("*.png"))
    encoder = PoolEncoder(trunk, folder, fit, None)
    found = encoder.encode(paths, on_done=done.append, is_stopped=lambda: len(done) >= stop_after)
    return found, sum(trunk.batches), done


def test_a_second_pass_computes_nothing_and_finds_the_same(tmp_path, images):
    first, computed, done = encode(tmp_path, images)
    again, computed_again, _ = encode(tmp_path, images)
    assert (computed, computed_again) == (40, 0)
    assert done == list(range(1, 41))
    for name in ("rows", "features", "hashes", "grey"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))


def test_images_that_are_added_or_renamed_cost_what_is_new(tmp_path, images):
    encode(tmp_path, images)
    (images / "00.png").rename(images / "renamed.png")
    write_images(images, ["new.png"], size=(20, 20))
    found, computed, _ = encode(tmp_path, images)
    assert computed == 1
    assert len(found.rows) == 41


def test_equal_files_are_computed_once(tmp_path, images):
    (images / "copy.png").write_bytes((images / "00.png").read_bytes())
    found, computed, _ = encode(tmp_path, images)
    assert computed == 40
    np.testing.assert_array_equal(found.features[0], found.features[-1])


def test_what_is_computed_is_kept_where_it_is_stopped(tmp_path, images):
    found, computed, _ = encode(tmp_path, images, stop_after=35)
    assert (found, computed) == (None, 35)
    assert encode(tmp_path, images)[1] == 5


def test_another_way_to_read_images_has_features_of_its_own(tmp_path, images):
    encode(tmp_path, images)
    assert encode(tmp_path, images, fit="pad")[1] == 40


@pytest.mark.parametrize("content", [b"", b"nothing", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_damaged_file_is_computed_again(tmp_path, images, content):
    encode(tmp_path, images)
    (file,) = tmp_path.glob("features/*/*.safetensors")
    file.write_bytes(content)
    found, computed, _ = encode(tmp_path, images)
    assert computed == 40
    assert np.isfinite(found.features).all()


def test_damaged_images_are_named_and_left_out(tmp_path, images):
    (images / "00.png").write_bytes(b"nothing")
    (images / "gone.png").symlink_to(images / "nowhere")
    found, _, _ = encode(tmp_path, images)
    assert found.rows.tolist() == list(range(1, 40))
    assert "unreadable" in found.unreadable[0]
    assert "cannot be opened" in found.unreadable[40]


def test_where_no_image_can_be_read_it_says_why(tmp_path):
    (tmp_path / "one.png").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"None of 1 images can be read\. .*one\.png: unreadable"):
        encode(tmp_path, tmp_path)


def test_many_images_are_kept_in_several_files(tmp_path, images, monkeypatch):
    monkeypatch.setattr(encoding, "_IMAGES_A_FILE", 10)
    monkeypatch.setattr(encoding, "IMAGES_AT_ONCE", 8)
    first, _, _ = encode(tmp_path, images)
    assert len(list(tmp_path.glob("features/*/*.safetensors"))) == 3
    again, computed, _ = encode(tmp_path, images)
    assert computed == 0
    np.testing.assert_array_equal(first.features, again.features)
