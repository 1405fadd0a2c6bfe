"""Workers on a Ray cluster: two real nodes on this machine, one of which is killed in the middle."""

from __future__ import annotations

import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import figeval
from figeval import FigevalError, OptionError
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


def run_on(address: str, **options: Any) -> None:
    figeval.run("mini_pairs", "overlap", ray=address, output_path="out", **options)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("address", ["ray://127.0.0.1:10001", "nonsense", "127.0.0.1:x", ":6379"])
def test_what_is_no_address(address: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(OptionError, match="give auto, or the address of the head node as host:port"):
        run_on(address)


def test_nobody_answers() -> None:
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(FigevalError, match=rf"--ray 127.0.0.1:{port}: nothing answers there .*`ray start --head`"):
        run_on(f"127.0.0.1:{port}")


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
    with pytest.raises(FigevalError, match=complaint):
        run_on("auto")


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FigevalError, match=r"pip install 'figeval\[ray\]'"):
        run_on("auto")


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
        figeval.run("mini", "tfidf", **options)
