"""The job files in docs/scaling.md are well-formed: their commands are those of Dask, TF_CONFIG is read."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from pipelines.command.strategies import read_task

PAGE = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_scripts_for_slurm_are_bash():
    scripts = [block for block in blocks("bash") if "#SBATCH" in block]
    assert len(scripts) == 3
    for script in scripts:
        subprocess.run(["/bin/bash", "-n"], input=script, text=True, check=True)


def test_objects_for_kubernetes_belong_together():
    (text,) = (block for block in blocks("yml") if "kind: Deployment" in block)
    service, *deployments = yaml.safe_load_all(text)
    assert service["kind"] == "Service"
    commands = {}
    for deployment in deployments:
        template = deployment["spec"]["template"]
        assert template["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
        (container,) = template["spec"]["containers"]
        commands[deployment["metadata"]["name"]] = container["command"]
    assert commands["gpimaging-scheduler"][:2] == ["dask", "scheduler"]
    name, port = service["metadata"]["name"], service["spec"]["ports"][0]["port"]
    assert f"tcp://{name}:{port}" in commands["gpimaging-workers"]


def test_options_of_dask_exist():
    """The one of each command that the page names."""
    scheduler = pytest.importorskip("distributed.cli.dask_scheduler", reason="Dask is optional").main
    worker = pytest.importorskip("distributed.cli.dask_worker", reason="Dask is optional").main
    for command, name in ((scheduler, "scheduler"), (worker, "worker")):
        known = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        lines = re.findall(rf"^(?:exec )?dask {name}[^\n#&]*", PAGE, re.MULTILINE)
        assert lines
        assert {option for line in lines for option in re.findall(r"--[a-z-]+", line)} <= known


# Of one training: programs of the machine are replaced by ones that say what they are given.

TRAIN = "classify train --data prepared --out run --strategy multi_worker --set batch_size=64"


def programs(folder: Path, **scripts: str) -> dict[str, str]:
    """Write shell scripts under the names of programs; return an environment that finds them."""
    shown = 'printf "%s|%s\\n" "$TF_CONFIG" "$*"'
    for name, script in {"gpimaging": shown, **scripts}.items():
        path = folder / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
    activated = folder / "venv" / "bin" / "activate"
    activated.parent.mkdir(parents=True)
    activated.touch()
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}


def started(output: str) -> list[tuple[bool, tuple[str, ...], str]]:
    """Whether each started command is the chief, its addresses and its arguments."""
    lines = [line.split("|") for line in output.splitlines()]
    tasks = [(read_task({"TF_CONFIG": config}), arguments) for config, arguments in lines]
    return [(task.is_chief, task.addresses, arguments) for task, arguments in tasks]


@pytest.mark.parametrize("begun", [False, True])
def test_the_slurm_job_of_a_training_starts_each_task_of_the_cluster(tmp_path, begun):
    (script,) = (block for block in blocks("bash") if "srun" in block)
    environment = programs(
        tmp_path,
        scontrol='[ "$*" = "show hostnames n[1-2]" ] && printf "n1\\nn2\\n"',
        srun='shift; for SLURM_PROCID in 0 1; do export SLURM_PROCID; "$@"; done',
    )
    if begun:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "run.json").touch()
    environment["SLURM_JOB_NODELIST"] = "n[1-2]"
    done = subprocess.run(
        ["/bin/bash"], input=script, text=True, check=True, cwd=tmp_path, env=environment, capture_output=True
    )
    addresses, command = ("n1:12345", "n2:12345"), TRAIN + (" --resume" if begun else "")
    assert started(done.stdout) == [(True, addresses, command), (False, addresses, command)]


def test_the_kubernetes_job_of_a_training_starts_each_pod_of_the_cluster(tmp_path):
    (text,) = (block for block in blocks("yml") if "kind: Job" in block)
    service, job = yaml.safe_load_all(text)
    pod = job["spec"]["template"]["spec"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    environment, number = programs(tmp_path), job["spec"]["completions"]
    assert number == job["spec"]["parallelism"]
    hosts = [f"{job['metadata']['name']}-{k}.{pod['subdomain']}:12345" for k in range(number)]
    assert container["ports"] == [{"containerPort": 12345}]
    for k in range(number):
        done = subprocess.run(
            [*container["command"], *container["args"]],
            text=True,
            check=True,
            cwd=tmp_path,
            env={**environment, "JOB_COMPLETION_INDEX": str(k)},
            capture_output=True,
        )
        assert started(done.stdout) == [(k == 0, tuple(hosts), TRAIN)]
