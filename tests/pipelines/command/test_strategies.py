"""TF_CONFIG: which process is the chief, and one clear message for each way in which it can be wrong."""

import json
import re

import pytest

from data_prep.errors import InputError
from pipelines.command.strategies import read_task

TWO = ["10.0.0.1:12345", "10.0.0.2:12345"]


def environment(cluster: object, task: object) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def test_the_first_worker_is_the_chief_where_none_is_listed():
    tasks = [read_task(environment({"worker": TWO}, {"type": "worker", "index": k})) for k in range(2)]
    assert [task.is_chief for task in tasks] == [True, False]
    assert tasks[1].title == "worker 1 (10.0.0.2:12345)"


def test_a_listed_chief_comes_before_the_workers():
    cluster = {"worker": TWO, "chief": ["10.0.0.3:12345"]}
    chief = read_task(environment(cluster, {"type": "chief", "index": 0}))
    worker = read_task(environment(cluster, {"type": "worker", "index": "0"}))
    assert chief.addresses == worker.addresses == ("10.0.0.3:12345", *TWO)
    assert (chief.number, worker.number) == (0, 1)


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, "it is not set"),
        ({"TF_CONFIG": "{worker: 0}"}, "it is no JSON (Expecting property name"),
        ({"TF_CONFIG": "[]"}, "it names no cluster: []"),
        (environment({}, {"type": "worker", "index": 0}), "it names no cluster"),
        (environment({"ps": TWO}, {"type": "ps", "index": 0}), "names no chief, and no worker that could be"),
        (environment({"worker": []}, {"type": "worker", "index": 0}), "names no chief"),
        (
            environment({"worker": TWO}, {"type": "worker", "index": 2}),
            "worker 2, but its cluster has 2 work",
        ),
        (
            environment({"worker": TWO}, {"type": "chief", "index": 0}),
            "chief 0, but its cluster has 2 worker",
        ),
        (environment({"worker": TWO}, {"type": "worker"}), 'its task is {"type": "worker"}'),
        (environment({"worker": TWO}, None), "its task is null"),
        (
            environment({"worker": "10.0.0.1:1"}, {"type": "worker", "index": 0}),
            "worker of its cluster is '10",
        ),
        (environment({"worker": ["host"]}, {"type": "worker", "index": 0}), "'host', which is no HOST:PORT"),
        (environment({"worker": ["a:99999"]}, {"type": "worker", "index": 0}), "which is no HOST:PORT"),
        (
            environment({"worker": ["[::1]:9"]}, {"type": "worker", "index": 0}),
            "Give a name or an IPv4 address",
        ),
        (environment({"worker": TWO[:1] * 2}, {"type": "worker", "index": 0}), "lists an address twice"),
        (environment({"chief": TWO}, {"type": "chief", "index": 0}), "its cluster has 2 chiefs"),
        (
            environment({"worker": TWO, "evaluator": ["a:1"]}, {"type": "worker", "index": 0}),
            "lists evaluator, which multi_worker has no use for",
        ),
    ],
)
def test_a_wrong_tf_config_gets_one_message(variables, found):
    with pytest.raises(InputError, match=re.escape(found)) as raised:
        read_task(variables)
    message = str(raised.value)
    assert "--strategy multi_worker needs the environment variable TF_CONFIG, but" in message
    assert 'Expected for example {"cluster": {"worker": [' in message
    assert message.endswith("see docs/scaling.md.")
