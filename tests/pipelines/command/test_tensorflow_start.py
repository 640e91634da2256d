"""Tests of how TensorFlow is started: in processes of their own, for it is imported once."""

import subprocess
import sys

import pytest

START = (
    "import gc, sys, pipelines.command.tensorflow_start as start\n"
    "start.start_tensorflow(None, whole_process={})\n"
)
OF_A_COMMAND, OF_A_USER = START.format(True), START.format(False)


def said(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_keras_is_imported_by_whoever_needs_it() -> None:
    program = OF_A_COMMAND + (
        "import tensorflow as tf\n"
        "print('keras' in sys.modules, gc.isenabled())\n"
        "import keras\n"
        "print(tf.keras.Sequential is keras.Sequential, keras.backend.backend())\n"
        "model = keras.Sequential([keras.layers.Dense(1)])\n"
        "model.compile('adam', 'mse')\n"
        "model.fit(tf.ones([4, 2]), tf.ones([4, 1]), verbose=0)\n"
    )
    assert said(program).splitlines() == ["False True", "True tensorflow"]


@pytest.mark.slow
def test_garbage_is_never_searched_in_what_a_command_needs() -> None:
    shown = "print(gc.isenabled(), gc.get_freeze_count() > 100_000)"
    assert said(OF_A_COMMAND + shown) == "True True"
    assert said("import gc; gc.disable()\n" + OF_A_COMMAND + shown) == "False True"


@pytest.mark.slow
def test_the_process_of_a_user_keeps_its_keras_and_its_garbage_collector() -> None:
    program = "import gc; before = gc.get_freeze_count()\n" + OF_A_USER
    assert said(program + "print('keras' in sys.modules, gc.get_freeze_count() - before)") == "True 0"
