"""The example of a client against stubs of TensorFlow Serving, which answer with a kept bundle."""

import base64
import importlib.util
import json
import threading
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer
from types import ModuleType

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from pipelines.bundles.saved_model import load_signatures
from tests.kept.conftest import kept  # noqa: F401 - a fixture

SCRIPT = Path(__file__).parents[2] / "examples" / "client.py"


@pytest.fixture(scope="module")
def client() -> ModuleType:
    spec = importlib.util.spec_from_file_location("client", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files(kept) -> list[bytes]:  # noqa: F811 - pytest's way of naming a fixture
    (path,) = (kept("lane") / "input").iterdir()
    return [path.read_bytes()] * 2


@pytest.fixture(scope="module")
def serve(kept):  # noqa: F811 - as above
    """What the bundle says of encoded images."""
    signature = load_signatures(kept("lane") / "bundle")["serve_bytes"]
    return lambda encoded: {
        name: value.numpy() for name, value in signature(encoded=tf.constant(encoded)).items()
    }


@pytest.fixture
def rest(serve) -> Iterator[tuple[str, list[tuple[str, dict]]]]:
    """Address of a server that speaks TensorFlow Serving's REST, and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, body))
            if self.path != "/v1/models/lane:predict":
                self.answer(404, {"error": "no such model"})
                return
            encoded = [base64.b64decode(row["encoded"]["b64"]) for row in body["instances"]]
            outputs = serve(encoded)
            rows = [{name: value[n].tolist() for name, value in outputs.items()} for n in range(len(encoded))]
            self.answer(200, {"predictions": rows})

        def answer(self, status, content):
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = TCPServer(
        ("127.0.0.1", 0), Handler
    )  # HTTPServer asks for the name of the host, which may take long
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def by_grpc(serve) -> Iterator[tuple[str, list[predict_pb2.PredictRequest]]]:
    """Address of a server that speaks TensorFlow Serving's gRPC, and what it was asked."""
    asked = []

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802 - the name in the protocol
            asked.append(request)
            if request.model_spec.name != "lane":
                context.abort(grpc.StatusCode.NOT_FOUND, "no such model")
            answer = predict_pb2.PredictResponse()
            for name, value in serve(tf.make_ndarray(request.inputs["encoded"])).items():
                answer.outputs[name].CopyFrom(tf.make_tensor_proto(value))
            return answer

    server = grpc.server(futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", asked
    server.stop(None).wait()


def assert_same(outputs, expected):
    assert set(outputs) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-6)


def test_rest_gives_what_the_bundle_gives(client, rest, files, serve):
    address, asked = rest
    assert_same(client.ask_rest(address, "lane", files), serve(files))
    ((path, body),) = asked
    assert path == "/v1/models/lane:predict"
    assert set(body) == {"signature_name", "instances"}
    assert body["signature_name"] == "serve_bytes"


def test_grpc_gives_what_the_bundle_gives(client, by_grpc, files, serve):
    address, asked = by_grpc
    assert_same(client.ask_grpc(address, "lane", files), serve(files))
    (request,) = asked
    assert (request.model_spec.name, request.model_spec.signature_name) == ("lane", "serve_bytes")


def test_a_model_that_is_not_served(client, rest, by_grpc, files):
    with pytest.raises(SystemExit, match=r"refused the request: .*no such model"):
        client.ask_rest(rest[0], "other", files)
    with pytest.raises(SystemExit, match="no such model"):
        client.ask_grpc(by_grpc[0], "other", files)


def test_a_server_that_is_not_there(client, files):
    with pytest.raises(SystemExit, match=r"does not answer .*Is the server running\?"):
        client.ask_rest("http://127.0.0.1:9", "lane", files)
    with pytest.raises(SystemExit, match="begins with http"):
        client.ask_rest("localhost:8501", "lane", files)


def test_the_command_shows_a_line_for_each_file(client, rest, files, tmp_path, monkeypatch, capsys):
    paths = [tmp_path / "one.jpg", tmp_path / "two.jpg"]
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content)
    monkeypatch.setattr("sys.argv", ["client.py", *map(str, paths), "--rest", rest[0], "--model", "lane"])
    client.main()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["file"] for line in lines] == [str(path) for path in paths]
    assert all(0.0 <= line["predictive_entropy"] <= 0.7 for line in lines)
