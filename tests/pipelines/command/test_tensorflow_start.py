"""Tests of how TensorFlow is started: in processes of their own, for it is imported once."""

import subprocess
import sys

START = "import sys, pipelines.command.tensorflow_start as start; start.start_tensorflow(None)\n"


def said(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_keras_is_imported_by_whoever_needs_it() -> None:
    program = START + (
        "import gc, tensorflow as tf\n"
        "print('keras' in sys.modules, gc.isenabled())\n"
        "import keras\n"
        "print(tf.keras.Sequential is keras.Sequential, keras.backend.backend())\n"
        "model = keras.Sequential([keras.layers.Dense(1)])\n"
        "model.compile('adam', 'mse')\n"
        "model.fit(tf.ones([4, 2]), tf.ones([4, 1]), verbose=0)\n"
    )
    assert said(program).splitlines() == ["False True", "True tensorflow"]


def test_garbage_is_left_where_it_was_left() -> None:
    assert said("import gc; gc.disable()\n" + START + "print(gc.isenabled())") == "False"
