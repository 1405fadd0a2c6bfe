"""Workers on a Ray cluster: two real nodes on this machine, one of which is killed in the middle."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from figeval import FigevalError, OptionError
from figeval.api.runs import run_config
from figeval.io.frontend import command_line
from figeval.runs.workers import cluster
from tests.nodes import Nodes, two_nodes
from tests.processes import beside
from tests.runs.commands import SLOW_FOLDER, Run, same_files, wait
from tests.runs.conftest import write_task

N = 300


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    """A cluster whose machines have the plugin with the slow model."""
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", beside(str(SLOW_FOLDER)))
    monkeypatch.setenv("FIGEVAL_PLUGINS", "slow_model")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with two_nodes(SLOW_SECONDS="0.01") as started:
        yield started


@pytest.fixture
def shared_run(tmp_path: Path) -> Run:
    """A run that the cluster is to share."""
    (tmp_path / "tasks").mkdir()
    write_task(tmp_path / "tasks", "t", N)
    return Run(tmp_path, "out", "--tasks", "t", "--model", "slow")


@pytest.mark.slow
def test_a_node_that_is_killed_costs_nothing_but_time(nodes: Nodes, shared_run: Run) -> None:
    process = shared_run.start(0, "--ray", nodes.address, "--workers", "2")
    wait(lambda: shared_run.written() >= 70, process)
    nodes.kill_one()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert re.search(r"worker [12] of 2 was lost \(.+\); another one takes its place", errors)
    assert "raylet" not in errors
    assert shared_run.clean()
    alone = Run(shared_run.bench, "alone", "--tasks", "t", "--model", "slow")
    alone(1)
    assert same_files(shared_run, alone)


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_run_ends_so_do_its_actors_and_rows_are_kept(
    nodes: Nodes, shared_run: Run, signal_number: signal.Signals
) -> None:
    process = shared_run.start(0, "--ray", nodes.address)  # a worker per machine
    wait(lambda: shared_run.written() >= 70, process)
    actors = [process for process in psutil.process_iter() if "ray::Actor" in process.name()]
    assert len(actors) >= 2
    process.send_signal(signal_number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (-9 if signal_number == signal.SIGKILL else 143)
    assert "SIGTERM" not in errors  # Ray would print where the program was
    assert psutil.wait_procs(actors, timeout=60)[1] == []
    written_rows = shared_run.written()
    assert 70 <= written_rows < N
    assert f"{written_rows} of them kept from before" in shared_run(1).stderr


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["ray://127.0.0.1:10001", "nonsense", "127.0.0.1:x", ":6379"])
def test_what_is_no_address(address: str) -> None:
    pytest.importorskip("ray")
    with (
        pytest.raises(OptionError, match="give auto, or the address of the head node as host:port"),
        cluster.connected(address),
    ):
        pass


def test_nobody_answers() -> None:
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        pytest.raises(FigevalError, match=rf"--ray 127.0.0.1:{port}: nothing answers there .*`ray start --head`"),
        cluster.connected(f"127.0.0.1:{port}"),
    ):
        pass


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (
            ConnectionError("Could not find any running Ray instance."),
            "--ray auto: no cluster runs on this machine; start",
        ),
        (
            RuntimeError("Version mismatch:\nRay: 2.40.0"),
            "--ray auto: Version mismatch: Ray: 2.40.0; start a cluster with",
        ),
    ],
)
def test_ray_refuses(error: Exception, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")

    def refuse(**_options: Any) -> None:
        raise error

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(FigevalError, match=complaint), cluster.connected("auto"):
        pass


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda _name: None)
    with pytest.raises(FigevalError, match=r"pip install 'figeval\[ray\]'"), cluster.connected("auto"):
        pass


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"workers": 2}, "--workers and --gpus_per_worker are for a cluster; give --ray too"),
        ({"gpus_per_worker": 1.0}, "--workers and --gpus_per_worker are for a cluster; give --ray too"),
        ({"ray": "auto", "processes": 2}, "--ray and --processes are two ways to share the examples"),
    ],
)
def test_flags_that_do_not_go_together(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        run_config(("mini",), "tfidf", options)  # type: ignore[arg-type]


# ---- how many workers, and what each gets ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machines", "workers", "gpus", "expected"),
    [
        ([(8, 0), (8, 0)], None, None, (2, 8, 0)),  # one per machine
        ([(8, 0), (8, 0)], 3, None, (3, 4, 0)),
        ([(8, 4), (8, 4)], None, None, (8, 2, 1)),  # one per GPU
        ([(8, 4), (8, 4)], None, 2, (4, 4, 2)),
        ([(8, 1)], 2, 0.5, (2, 4, 0.5)),  # two share a GPU
        ([(8, 4)], 2, 0, (2, 4, 0)),
        ([(2, 0), (16, 8)], 4, None, (4, 4, 1)),
    ],
)
def test_each_worker_gets_its_share(
    machines: list[tuple[int, int]], workers: int | None, gpus: float | None, expected: tuple[int, int, float]
) -> None:
    nodes = [{"CPU": float(cpu), "GPU": float(gpu)} for cpu, gpu in machines]
    shape = cluster.Shape.of(nodes, workers, gpus, cpu=False)
    assert (shape.workers, shape.cpus, shape.gpus) == expected


@pytest.mark.parametrize(
    ("machines", "workers", "gpus", "complaint"),
    [
        ([(2, 0)], 3, None, r"--workers 3: the cluster \(2 CPUs and 0 GPUs on 1 machine\) has room for 2 workers"),
        ([(8, 2), (8, 1)], 4, 1, "room for 3 workers with 1 GPU and a core each; use --workers 3"),
        ([(8, 0)], None, 1, r"--gpus_per_worker 1: the cluster \(8 CPUs and 0 GPUs on 1 machine\) has room for 0"),
        ([(8, 0)], 1, 1, "--workers 1: the cluster .* room for 0 workers with 1 GPU .* leave out --gpus_per_worker"),
        ([(8, 0)], None, 2, "room for 0 workers with 2 GPUs .* or use a cluster with GPUs"),
        ([(8, 1)], None, 2, "room for 0 workers .* use a larger cluster, or a lower --gpus_per_worker"),
        ([(0, 0)], None, None, r"--ray: the cluster \(0 CPUs .* with a core each; use a larger cluster$"),
        ([(8, 4)], 1, 1.5, "give a whole number, or a fraction of one GPU"),
    ],
)
def test_there_is_no_room(
    machines: list[tuple[int, int]], workers: int | None, gpus: float | None, complaint: str
) -> None:
    nodes = [{"CPU": float(cpu), "GPU": float(gpu)} for cpu, gpu in machines]
    with pytest.raises(OptionError, match=complaint):
        cluster.Shape.of(nodes, workers, gpus, cpu=False)


def test_a_slow_connection_is_announced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(cluster, "QUICK", 0.05)
    for seconds, expected in ((0.0, ""), (0.2, "connecting to the Ray cluster …\n")):
        monkeypatch.setattr(ray, "init", lambda seconds=seconds, **_: time.sleep(seconds))
        with command_line(["run"]), cluster.connected("auto"):
            assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "The actor died unexpectedly before finishing this task.\n\tclass_name: Actor\n\tactor_id: de2e\n"
            "The actor died because its node has died. Node Id: aca4\n\tthe actor's node was terminated expectedly",
            "its node has died. Node Id: aca4 the actor's node was terminated expectedly",
        ),
        ("The actor is dead because it was killed by `ray.kill`.", "it was killed by `ray.kill`"),
        (
            "The actor died unexpectedly before finishing this task.\nThe actor is dead because its worker process has "
            "died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection "
            "error code 2. End of file. Some common causes include: (1) the process was killed by the OOM killer due "
            "to high memory usage, (2) ray stop --force is called, (3) SIGSEGV or another unexpected error.",
            "its worker process has died",
        ),
        ("RPC error: Socket closed rpc_code: 14. The task may or may not have been executed", "Socket closed"),
        ("something else", "something else"),
    ],
)
def test_the_reason_stands_behind_details(message: str, expected: str) -> None:
    assert cluster.reason(message) == expected


def test_no_secrets_and_no_places_of_this_machine_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "FIGEVAL_API_KEY", "HF_HOME", "PATH", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("FIGEVAL_PLUGINS", "mine")
    variables = cluster.passed_on()
    assert variables["HF_HUB_OFFLINE"] == "1"
    assert variables["FIGEVAL_PLUGINS"] == "mine"
    assert not {"HF_TOKEN", "FIGEVAL_API_KEY", "HF_HOME", "PATH", "CUDA_VISIBLE_DEVICES"} & set(variables)
