#!/usr/bin/env python3
"""Ask TensorFlow Serving what a bundle of gpimaging says of image files; copy it and change what you need.

Start the server with a folder that has the bundle as version 1 (a number is the name of a version):

    mkdir -p served/lane && cp -r models_saved/lane served/lane/1
    docker run -p 8500:8500 -p 8501:8501 -v "$PWD/served:/models" -e MODEL_NAME=lane tensorflow/serving

and ask it by REST, which needs numpy alone, or by gRPC, which is faster for maps and needs
`pip install 'gpimaging[serving]'`:

    python examples/client.py photo.jpg --rest http://localhost:8501 --model lane
    python examples/client.py photo.jpg --grpc localhost:8500 --model lane

The files are sent as they are, JPEG, PNG, WebP or BMP of 24 bits; the server decodes and resizes them. It
applies no EXIF rotation and reads no TIFF: rotate and convert such files first.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNATURE, INPUT = "serve_bytes", "encoded"
TIMEOUT = 60.0
"""Seconds to wait for an answer."""

Outputs = dict[str, NDArray[Any]]


def rest_request(files: Sequence[bytes]) -> bytes:
    """Return the body of a request `POST /v1/models/NAME:predict`."""
    instances = [{INPUT: {"b64": base64.b64encode(file).decode()}} for file in files]
    return json.dumps({"signature_name": SIGNATURE, "instances": instances}).encode()


def rest_outputs(body: bytes) -> Outputs:
    """Return the named outputs, one row for each file, from the body of an answer."""
    rows = json.loads(body)["predictions"]
    return {name: np.asarray([row[name] for row in rows]) for name in rows[0]}


def ask_rest(server: str, model: str, files: Sequence[bytes]) -> Outputs:
    """Return what a server says by REST; `server` begins with http:// or https://."""
    if not server.startswith(("http://", "https://")):
        raise SystemExit(f"--rest is {server!r}; expected an address that begins with http:// or https://.")
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        f"{server.rstrip('/')}/v1/models/{model}:predict",
        data=rest_request(files),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 - as above
            return rest_outputs(answer.read())
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{server} refused the request: {error.read().decode(errors='replace')}") from error
    except (urllib.error.URLError, TimeoutError) as error:
        raise SystemExit(f"{server} does not answer ({error}). Is the server running?") from error


def ask_grpc(server: str, model: str, files: Sequence[bytes]) -> Outputs:
    """Return what a server says by gRPC; `server` is a host and a port."""
    import grpc  # noqa: PLC0415 - the REST client needs no TensorFlow
    import tensorflow as tf  # noqa: PLC0415 - as above
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc  # noqa: PLC0415 - as above

    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = SIGNATURE
    request.inputs[INPUT].CopyFrom(tf.make_tensor_proto(list(files), dtype=tf.string))
    sizes = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]  # maps are large
    with grpc.insecure_channel(server, options=sizes) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        try:
            answer = stub.Predict(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            raise SystemExit(f"{server}: {error.details()}") from error
    return {name: tf.make_ndarray(tensor) for name, tensor in answer.outputs.items()}


def main() -> None:
    """Ask for all files at once and show one line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="IMAGE")
    parser.add_argument("--model", required=True, help="name of the model on the server")
    server = parser.add_mutually_exclusive_group(required=True)
    server.add_argument("--rest", metavar="http://HOST:PORT", help="ask by REST")
    server.add_argument("--grpc", metavar="HOST:PORT", help="ask by gRPC")
    arguments = parser.parse_args()
    files = [path.read_bytes() for path in arguments.files]
    ask, address = (ask_rest, arguments.rest) if arguments.rest else (ask_grpc, arguments.grpc)
    outputs = ask(address, arguments.model, files)
    for row, path in enumerate(arguments.files):
        probability, entropy = outputs["probability"][row], outputs["predictive_entropy"][row]
        line = {
            "file": str(path),
            "probability": probability.tolist() if probability.ndim < 2 else f"a map {probability.shape}",
            "predictive_entropy": round(float(np.mean(entropy)), 4),
        }
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
