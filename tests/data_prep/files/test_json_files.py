"""JSON that nobody has checked is read or refused, and nothing else is raised."""

from pathlib import Path

import pytest

from data_prep.files.json_files import read_json


def test_json_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ü": [1, 0.5, null]}', encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"ü": [1, 0.5, None]}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe{", b"[" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b"9" * 10_000],
)
def test_what_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError):  # noqa: PT011 - the words are the parser's
        read_json(tmp_path / "a.json")
