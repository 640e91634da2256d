"""Side-scan recordings: generated files, read through a stand-in for pyxtf, and pyxtf where installed."""

import errno
import pickle
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from data_prep.errors import InputError
from data_prep.sonar.images import read_sonar

PORT, STARBOARD = 1, 2
_PING_BYTES, _CHANNEL_BYTES = 256, 64


def write_recording(path: Path, pings: list[tuple[np.ndarray, np.ndarray]], weight: int = 0) -> None:
    """A minimal recording of two channels, port and starboard, with the fields that a reader needs."""
    header = bytearray(1024)
    header[0] = 123  # XTF
    struct.pack_into("<H", header, 166, 2)  # sonar channels
    for number, side in enumerate((PORT, STARBOARD)):
        start = 256 + 128 * number
        struct.pack_into("<BBHHH", header, start, side, number, 0, 0, pings[0][0].itemsize)
    content = bytes(header)
    for sides in pings:
        record = bytearray(_PING_BYTES)
        length = _PING_BYTES + sum(_CHANNEL_BYTES + samples.nbytes for samples in sides)
        struct.pack_into("<HBBHHHI", record, 0, 0xFACE, 0, 0, 2, 0, 0, length)
        record[16:18] = bytes([1, 1])  # month and day
        content += bytes(record)
        for number, samples in enumerate(sides):
            channel = bytearray(_CHANNEL_BYTES)
            struct.pack_into("<H", channel, 0, number)
            struct.pack_into("<I", channel, 42, len(samples))
            struct.pack_into("<h", channel, 58, weight)
            content += bytes(channel) + samples.tobytes()
    path.write_bytes(content)


def stand_in(kind: str = "u") -> ModuleType:
    """As much of pyxtf as is used, for recordings of `write_recording` with samples of a kind."""
    module = ModuleType("pyxtf")

    def read(path: str, types: list[int]) -> Iterator[SimpleNamespace]:
        assert types == [0]
        content = Path(path).read_bytes()
        sides = [content[256 + 128 * number] for number in range(2)]
        dtype = f"<{kind}{struct.unpack_from('<H', content, 262)[0]}"
        yield SimpleNamespace(sonar_info=[SimpleNamespace(TypeOfChannel=side) for side in sides])
        position = 1024
        while position < len(content):
            position += _PING_BYTES
            packet = SimpleNamespace(data=[], ping_chan_headers=[])
            for _ in sides:
                (number,) = struct.unpack_from("<I", content, position + 42)
                (weight,) = struct.unpack_from("<h", content, position + 58)
                (channel,) = struct.unpack_from("<H", content, position)
                packet.ping_chan_headers.append(SimpleNamespace(ChannelNumber=channel, Weight=weight))
                packet.data.append(np.frombuffer(content, dtype, number, position + _CHANNEL_BYTES))
                position += _CHANNEL_BYTES + packet.data[-1].nbytes
            yield packet

    module.XTFHeaderType = SimpleNamespace(sonar=0)  # type: ignore[attr-defined]
    module.xtf_read_gen = read  # type: ignore[attr-defined]
    return module


@pytest.fixture(params=["stand-in", "pyxtf"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pyxtf":
        pytest.importorskip("pyxtf", reason="pyxtf is optional (gpimaging[sonar])")
    else:
        monkeypatch.setitem(sys.modules, "pyxtf", stand_in())


def pings(dtype: str) -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(0)
    return [
        (generator.integers(1, 200, port).astype(dtype), generator.integers(1, 200, starboard).astype(dtype))
        for port, starboard in ((5, 6), (4, 6), (5, 3))
    ]


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("dtype", ["<u1", "<u2"])
def test_pings_become_rows_around_the_middle(tmp_path: Path, dtype: str) -> None:
    recorded = pings(dtype)
    write_recording(tmp_path / "line.xtf", recorded)
    image = read_sonar(tmp_path / "line.xtf")
    assert (image.shape, image.dtype) == ((3, 11), np.dtype(dtype))
    for row, (port, starboard) in zip(image, recorded, strict=True):
        expected = [*[0] * (5 - len(port)), *port, *starboard, *[0] * (6 - len(starboard))]
        assert row.tolist() == expected


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(("dtype", "weight"), [("<u2", 3), ("<u4", 0)])
def test_other_samples_fill_sixteen_bits(tmp_path: Path, dtype: str, weight: int) -> None:
    recorded = pings(dtype)
    write_recording(tmp_path / "line.xtf", recorded, weight)
    image = read_sonar(tmp_path / "line.xtf")
    assert image.dtype == np.uint16
    assert image.max() == 65535
    highest = max(side.max() for ping in recorded for side in ping)
    np.testing.assert_allclose(image[0], np.concatenate(recorded[0]) * (65535 / highest), atol=0.51)


@pytest.mark.usefixtures("reader")
def test_a_spike_leaves_the_other_levels_their_depth(tmp_path: Path) -> None:
    recorded = [(port.copy(), starboard) for port, starboard in 20 * pings("<u4")]
    highest = max(int(side.max()) for ping in recorded for side in ping)
    recorded[1][0][2] = 2**31
    write_recording(tmp_path / "line.xtf", recorded)
    image = read_sonar(tmp_path / "line.xtf")
    assert image[1, 3] == 65535
    assert image[2].max() > 65535 * int(recorded[2][1].max()) / highest / 5


def test_samples_that_are_no_numbers_are_dark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyxtf", stand_in("f"))
    recorded = pings("<f4")
    recorded[0][0][:3] = np.nan, np.inf, -np.inf
    write_recording(tmp_path / "line.xtf", recorded)
    image = read_sonar(tmp_path / "line.xtf")
    assert image[0, :3].tolist() == [0, 0, 0]
    assert image[0, 3:].min() > 0
    assert image.max() == 65535


@pytest.mark.usefixtures("reader")
def test_an_index_beside_the_file_is_not_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (tmp_path / "exploded",)  # type: ignore[return-value]

    write_recording(tmp_path / "line.xtf", pings("<u1"))
    (tmp_path / "line.pyxtf_idx").write_bytes(pickle.dumps(Bomb()))
    assert read_sonar(tmp_path / "line.xtf").shape == (3, 11)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.usefixtures("reader")
def test_damaged_recordings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "line.xtf"
    write_recording(path, pings("<u1"))
    content = path.read_bytes()
    endless = bytearray(content)
    struct.pack_into("<I", endless, 1024 + 10, 0)
    for damaged, message in (
        (content[:-3], r"line\.xtf: damaged or truncated \(no complete record at byte"),
        (bytes(endless), r"no complete record at byte 1,024"),
        (content[:1030], r"it ends within the record at byte 1,024"),
        (content[:1024], r"no side-scan ping found"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=message):
            read_sonar(path)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("weight", [-32768, -513, 513, 32767])
def test_a_weight_that_leaves_the_range_of_numbers_is_refused(tmp_path: Path, weight: int) -> None:
    write_recording(tmp_path / "line.xtf", pings("<u2"), weight)
    with pytest.raises(InputError, match=rf"line\.xtf: damaged .*a ping has the weight {weight}"):
        read_sonar(tmp_path / "line.xtf")


@pytest.mark.usefixtures("reader")
def test_one_endless_ping_makes_no_endless_image(tmp_path: Path) -> None:
    short, long = np.ones(1, np.uint8), np.ones(30_000, np.uint8)
    write_recording(tmp_path / "line.xtf", [(long, long), *[(short, short)] * 1400])
    with pytest.raises(InputError, match=r"line\.xtf: 1,401 pings hold 62,800 samples, .* 60,000\. Expected"):
        read_sonar(tmp_path / "line.xtf")


@pytest.mark.usefixtures("reader")
def test_a_full_temporary_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_recording(tmp_path / "line.xtf", pings("<u2"))
    reserved = []

    def full(_file: int, start: int, size: int) -> None:
        reserved.append((start, size))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(InputError, match=r"line\.xtf: 3 pings .*temporary files, /.* \(No space.*TMPDIR"):
        read_sonar(tmp_path / "line.xtf")
    assert reserved == [(0, 3 * 11 * 2)]


LIES = (0, 1, 2, 3, 8, 255, 32_767, 32_768, 65_535)
"""What altered fields claim."""

FIELDS = {
    "format of the file": 0,
    "number of channels": 166,
    "side of a channel": 256,
    "bytes of a sample": 262,
    "type of a record": 1024 + 2,
    "channels of a record": 1024 + 4,
    "length of a record": 1024 + 10,
    "month": 1024 + 16,
    "number of a channel": 1024 + 256,
    "number of samples": 1024 + 256 + 42,
    "weight": 1024 + 256 + 58,
}
"""Where these stand that a reader believes."""


@pytest.mark.parametrize("field", FIELDS)
def test_headers_that_lie_are_read_or_refused(tmp_path: Path, field: str) -> None:
    pytest.importorskip("pyxtf", reason="pyxtf is optional (gpimaging[sonar])")
    path = tmp_path / "line.xtf"
    for lie in LIES:
        for size in ("<H", "<I"):
            write_recording(path, pings("<u2"))
            content = bytearray(path.read_bytes())
            struct.pack_into(size, content, FIELDS[field], lie)
            path.write_bytes(content)
            try:
                image = read_sonar(path)
            except InputError as error:
                assert "line.xtf" in str(error)  # noqa: PT017 - both a good end and this one are allowed
            else:
                assert image.ndim == 2
                assert image.size <= 3 * 65_535 * 2


def test_the_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyxtf", None)
    with pytest.raises(InputError, match=r"line\.xtf: .* package pyxtf, which is not installed.*\[sonar\]"):
        read_sonar(tmp_path / "line.xtf")
