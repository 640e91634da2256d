"""A file system in memory that counts what is opened, and what tests of fetching look at."""

from pathlib import Path

import pytest

fsspec = pytest.importorskip("fsspec", reason="fsspec is optional")
known = pytest.importorskip("fsspec.registry")
memory = pytest.importorskip("fsspec.implementations.memory")

FILES = {"a.tif": b"first", "sub/b.tif": b"second", "sub/deep/c d.png": b"", "sub/é.tif": bytes(range(256))}


class Store(memory.MemoryFileSystem):
    """Counts what is opened, and spoils what a test wants."""

    protocol = "teststore"
    store = {}  # noqa: RUF012 - as in the class that it replaces
    pseudo_dirs = [""]  # noqa: RUF012 - as in the class that it replaces
    opened: list[str]
    spoilt: dict[str, list]
    listed: dict[str, dict]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("teststore://"))

    def find(self, path, **kwargs):
        found = super().find(path, **kwargs)
        return {
            **found,
            **{name: {"name": name, "type": "file", **info} for name, info in self.listed.items()},
        }

    def _open(self, path, mode="rb", **kwargs):
        if "r" in mode:
            self.opened.append(path)
            if self.spoilt.get(path):
                return self.spoilt[path].pop()()
        return super()._open(path, mode, **kwargs)


class Chunks:
    """Content that comes in the given pieces; an exception among them is raised."""

    def __init__(self, *chunks):
        self.chunks = list(chunks)
        self.closed = False

    def read(self, size):
        chunk = self.chunks.pop(0) if self.chunks else b""
        if isinstance(chunk, BaseException):
            raise chunk
        assert len(chunk) <= size
        return chunk

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True


def new_store() -> Store:
    fsspec.register_implementation("teststore", Store, clobber=True)
    fs = fsspec.filesystem("teststore")
    fs.store.clear()
    fs.opened, fs.spoilt, fs.listed = [], {}, {}
    for name, content in FILES.items():
        put(fs, name, content)
    return fs


def put(fs, name: str, content: bytes) -> None:
    fs.pipe_file(f"/slides/{name}", content)


def files(folder: Path) -> dict[str, bytes]:
    """Content of all files."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def counts(result) -> tuple[int, int, int, int]:
    return result.num_fetched, result.num_there, result.num_bytes, len(result.failed)


ADDRESS = "teststore://slides"
