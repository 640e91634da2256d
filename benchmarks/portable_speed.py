r"""What the files of a bundle for other runtimes take: float32 and int8, one image and one thread each.

    gpimaging classify export --model RUN --out FLOAT --format litert
    gpimaging classify export --model RUN --out ONNX --format onnx
    gpimaging classify export --model RUN --out INT8 --format litert --quantise int8 --data PREPARED
    python -m benchmarks.portable_speed --bundle FLOAT ONNX INT8 --data PREPARED \
        --out benchmarks/results/portable_speed

It needs the packages `ai-edge-litert` and `onnxruntime`. Where `torch` and `timm` are installed, too, timm's
EfficientNet-Lite0 takes its turn, with random weights and without a head. The runtimes take turns at each
image of the test part, and the times are of the processor, so that other work changes them little.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

try:  # before TensorFlow: the compiler of PyTorch's wheel crashes where it is loaded after TensorFlow's
    import timm
    import torch
except ModuleNotFoundError:
    timm = None

import numpy as np
import onnxruntime
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from benchmarks.common import host, write_results
from pipelines.bundles.portable import ONNX
from pipelines.bundles.runtimes import INT8, LITERT
from pipelines.classify.application import CLASSIFY

Run = Callable[[Any], Mapping[str, Any]]


def _tensorflow(bundle: Path) -> Run:
    predict = tf.saved_model.load(str(bundle)).signatures["serving_default"]
    return lambda image: predict(images=tf.constant(image))


def _litert(file: Path, resolver: Any) -> Run:
    interpreter = Interpreter(
        model_content=file.read_bytes(), num_threads=1, experimental_op_resolver_type=resolver
    )
    predict = interpreter.get_signature_runner("serving_default")
    return lambda image: predict(inputs=image.astype(np.float32))


def _onnx(file: Path) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda image: dict(
        zip(names, session.run(None, {"inputs": image.astype(np.float32)}), strict=True)
    )


def _timm() -> Run:
    torch.set_num_threads(1)
    network = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0).eval()
    network = network.to(memory_format=torch.channels_last)  # which is faster here, and how images lie

    def run(image: Any) -> Mapping[str, Any]:
        with torch.inference_mode():
            network(torch.from_numpy(image.astype(np.float32)).permute(0, 3, 1, 2))
        return {}

    return run


def _quality(found: list[Any], exact: Any, labels: Any) -> dict[str, str]:
    """Return the cells that say how good probabilities are; empty ones where there are none."""
    if found[0] is None:
        return dict.fromkeys(("NLL", "right", "largest change of a probability"), "")
    probability = np.array(found)
    return {
        "NLL": f"{-np.log(probability[np.arange(len(labels)), labels]).mean():.4f}",
        "right": f"{np.mean(probability.argmax(axis=-1) == labels):.3f}",
        "largest change of a probability": f"{np.abs(probability - exact).max():.2g}",
    }


def main() -> None:
    """Measure all files and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", type=Path, nargs="+", required=True, help="bundles of one head")
    parser.add_argument("--data", type=Path, required=True, help="prepared folder; its test part is judged")
    parser.add_argument("--out", type=Path, required=True, help="result files without suffix")
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    data = CLASSIFY.inputs.open(arguments.data)
    names = [example.name for example in data.manifest.examples if example.split == "test"]
    judged = [(image[None], label) for _, image, label in data.inputs(names)]
    saved = arguments.bundle[0]
    size = sum(file.stat().st_size for file in (saved / "saved_model.pb", *(saved / "variables").iterdir()))
    runs = {"TensorFlow, SavedModel": (_tensorflow(saved), size)}
    for bundle in arguments.bundle:
        for name in (LITERT, INT8):
            if (file := bundle / name).exists():
                runs[f"LiteRT, {name}"] = _litert(file, OpResolverType.AUTO), file.stat().st_size
                plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
                runs[f"LiteRT without XNNPACK, {name}"] = _litert(file, plain), file.stat().st_size
        if (file := bundle / ONNX).exists():
            runs[f"onnxruntime, {ONNX}"] = _onnx(file), file.stat().st_size
    if timm is not None:
        runs["PyTorch, timm's network alone"] = _timm(), 0
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    found: dict[str, list[Any]] = {name: [] for name in runs}
    for image, _ in [judged[0], *judged]:  # once unmeasured
        for name, (run, _) in runs.items():
            started = time.process_time()
            outputs = run(image)
            seconds[name].append(time.process_time() - started)
            found[name].append(np.asarray(outputs["probability"])[0] if outputs else None)
    labels = np.array([label for _, label in judged])
    exact = np.array(found["TensorFlow, SavedModel"][1:])
    rows = []
    for name, (_, size) in runs.items():
        rows.append(
            {
                "runtime and file": name,
                "MB": f"{size / 1e6:.1f}" if size else "",
                "ms an image": f"{1e3 * statistics.median(seconds[name][1:]):.2f}",
                **_quality(found[name][1:], exact, labels),
            }
        )
    write_results(
        arguments.out, title=f"Files for other runtimes, {len(labels)} images", rows=rows, host=host()
    )


if __name__ == "__main__":
    main()
