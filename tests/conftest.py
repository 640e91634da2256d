"""What every test gets: a quiet TensorFlow, a fixed seed, failure where AutoGraph gives up."""

import gc
import logging
import os
import sys
import time
import zlib
from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import settings

# Tests are about results: on a busy machine any example may take long. Commands choose how many there are.
for name, number in {"fast": 25, "slow": 200, "thorough": 2000}.items():
    settings.register_profile(name, deadline=None, max_examples=number)
settings.load_profile("fast")

# TensorFlow reads these when it is imported, so before any test module.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("MPLBACKEND", "agg")
if "PYTEST_XDIST_WORKER" in os.environ:  # one process of tests for each processor
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Graphs are a few Python objects that hold megabytes: Python's own count of objects looks for garbage often
# where there is none and seldom where there is. See `_Collector`.
gc.set_threshold(50_000, 20, 100)

SECONDS_BETWEEN_COLLECTIONS = 5.0
"""Processor time between two searches for garbage, which take a twentieth of a second."""


def _seed(test: str) -> None:
    """Seed everything, without TensorFlow's preparing every operation again: a fifth of the tests' time.

    A seed throws prepared operations away since those that draw numbers would draw on. With a seed for each
    test they are others. TensorFlow has no public way to set a seed and keep them: `tf.random.set_seed`
    always calls the function that is replaced here.
    """
    import keras  # noqa: PLC0415 - see `_keras_defaults`
    import tensorflow as tf  # noqa: PLC0415 - as above
    from tensorflow.python.eager import context  # noqa: PLC0415 - as above

    with mock.patch.object(context.pywrap_tfe, "TFE_ContextClearCaches"):
        keras.utils.set_random_seed(0)
        tf.random.set_seed(zlib.crc32(test.encode()))


@pytest.fixture(autouse=True)
def _keras_defaults(request: pytest.FixtureRequest) -> Iterator[None]:
    """Seed Keras, and refuse a test that leaves its float settings changed for the next one.

    Tests of data preparation never import Keras; they do not pay for its import here.
    """
    keras = sys.modules.get("keras")
    if keras is None:
        yield
        return
    _seed(request.node.nodeid)
    yield
    settings = (keras.config.floatx(), keras.config.dtype_policy().name)
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    assert settings == ("float32", "float32"), "the test left Keras' float settings changed"


@pytest.fixture(autouse=True)
def _logged_to_all() -> None:
    """Undo for the next test what a command sets of logging: pytest's `caplog` listens at the root."""
    for package in ("pipelines", "gpmodels", "data_prep"):
        logger = logging.getLogger(package)
        logger.handlers = []
        logger.propagate = True


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but the first and the last parameters of a sweep to `make test-exhaustive`.

    A sweep that is marked with "slow" leaves them to `make test-slow`, of those that are not slow anyway. One
    with `kept=1` keeps the last alone.
    """
    sweeps: dict[tuple[str, str, int], list[pytest.Item]] = {}
    for item in items:
        if marker := item.get_closest_marker("sweep"):
            left_to = marker.args[0] if marker.args else "exhaustive"
            if item.get_closest_marker(left_to) is None:
                key = (item.nodeid.partition("[")[0], left_to, marker.kwargs.get("kept", 2))
                sweeps.setdefault(key, []).append(item)
    for (_, left_to, kept), sweep in sweeps.items():
        for item in sweep[kept - 1 : -1]:
            item.add_marker(left_to)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Run graphs as they are written: to rewrite each new one costs TensorFlow a fifth of the tests' time.

    It is set before any fixture, so that all tests of a process have it, bit for bit. Commands, examples and
    other programs that tests start have their graphs rewritten, as those of users are.
    """
    if any("data_prep" not in item.path.parts for item in session.items):
        import tensorflow as tf  # noqa: PLC0415 - tests of data preparation do not pay for its import

        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    gc.freeze()  # half a million objects of imported modules, which every search for garbage went through


class _Deadline:
    """Passes over the tests that come after so many seconds, as `make test-changed` does."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if time.monotonic() >= self._end:
            pytest.skip(f"left to `make test`: {self._seconds:.0f} seconds have passed")


class _Collector:
    """Frees the models of earlier tests; without it a process holds tens of gigabytes.

    TensorFlow keeps what it has prepared for operations of dead models until Keras' session is cleared:
    870 MB after sixteen slow tests of HGP and of held-out logits.
    """

    def __init__(self) -> None:
        self._next = SECONDS_BETWEEN_COLLECTIONS

    def pytest_runtest_logfinish(self) -> None:
        if time.process_time() >= self._next:
            if "keras" in sys.modules:
                sys.modules["keras"].utils.clear_session(free_memory=False)
            gc.collect()
            self._next = time.process_time() + SECONDS_BETWEEN_COLLECTIONS


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Collector())
    if "TEST_SECONDS" in os.environ:
        config.pluginmanager.register(_Deadline(float(os.environ["TEST_SECONDS"])))


class _AutoGraphFallback(logging.Handler):
    """Collects TensorFlow's notes that a function could not be turned into a graph."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "AutoGraph could not transform" in record.getMessage():
            self.messages.append(record.getMessage())


@pytest.fixture(autouse=True)
def _no_autograph_fallback() -> Iterator[None]:
    """Fail where TensorFlow runs a function unconverted: its conditions are decided once, when tracing."""
    handler = _AutoGraphFallback()
    logger = logging.getLogger("tensorflow")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    assert not handler.messages, "\n".join(handler.messages)


@pytest.fixture(scope="session")
def cluster() -> Iterator[object]:
    """A Dask cluster of two workers, which are threads of this process and so start at once."""
    from data_prep.prepared.workers import Cluster  # noqa: PLC0415 - only where it is used

    distributed = pytest.importorskip("distributed", reason="Dask is optional (gpimaging[cluster])")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as threads,
        distributed.Client(threads, set_as_default=False) as client,
    ):
        yield Cluster("local:2", client)
