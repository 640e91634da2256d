"""Digests of what a run learned from."""

import numpy as np
import pytest

from data_prep.errors import InputError
from pipelines.evaluation.warnings import unchecked_warnings
from pipelines.runs.training_digests import LEARNED_NAME, input_digests, read_learned, write_learned


def test_the_same_values_have_the_same_digest_and_blank_ones_none():
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    known = input_digests([image, np.full_like(image, 3), image[::-1], image.astype(np.float32)])
    assert len(set(known)) == len(known) == 3
    assert input_digests([image[::-1].copy()[::-1]]) == known[:1]


def test_digests_are_kept_with_a_run(tmp_path):
    assert read_learned(tmp_path) is None
    write_learned(tmp_path, iter(["b", "a", "b"]))
    assert (tmp_path / LEARNED_NAME).read_text() == "a\nb\n"
    assert read_learned(tmp_path) == {"a", "b"}
    (tmp_path / LEARNED_NAME).write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"learned\.txt cannot be read.*Put the file back, or remove it"):
        read_learned(tmp_path)


def test_what_was_not_checked_is_said(tmp_path):
    (warning,) = unchecked_warnings(tmp_path, read_learned(tmp_path), "images")
    assert "has no learned.txt: it was not checked whether the run learned from the judged images" in warning
    assert unchecked_warnings(tmp_path, frozenset(), "images") == ()
