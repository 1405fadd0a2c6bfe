"""The script for SLURM, run by bash with commands of SLURM that only say what they were asked."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Outcome

TRAIN_FLAGS = ("--task", "mini_retrieval", "--model", "minilm", "--head_args", "pooling=mean", "--output", "my model")

# One "machine" after the other: each runs what srun was asked to run, with its number.
SRUN = """#!/bin/bash
shift  # --kill-on-bad-exit=1
for SLURM_NODEID in $(seq 0 $((SLURM_NNODES - 1))); do
    export SLURM_NODEID
    "$@" || exit $?
done
"""
SCONTROL = """#!/bin/bash
echo "scontrol $*" >> said
case $1 in
show) for node in a b; do echo "node-$node"; done ;;
esac
"""
PYTHON = """#!/bin/bash
line=$(printf '%s|' "$@")
echo "$line" >> said  # at once, since two may write
case $2 in figeval) until [ "$(grep -c ray.scripts said)" -ge "${MACHINES:-0}" ]; do sleep 0.05; done ;; esac
[ -n "$WAITS" ] && exec sleep 60
exit ${CODE:-0}
"""


def write(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


@pytest.fixture
def figeval(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Return a function that runs a command in the folder of the cluster; the script repeats what was typed."""

    def call(*arguments: str, code: int = 0) -> Outcome:
        monkeypatch.setattr("sys.argv", ["figeval", *arguments])
        outcome = cli(*arguments)
        assert outcome.code == code, outcome.err
        return outcome

    return call


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A folder with its own srun, scontrol and python."""
    (tmp_path / "bin").mkdir()
    for name, text in {"srun": SRUN, "scontrol": SCONTROL, "python": PYTHON}.items():
        write(tmp_path / "bin" / name, text)
    return tmp_path


def submit(cluster: Path, nodes: int, **environment: str) -> subprocess.Popen[str]:
    """The script as a job would run it, with our python in the place of the real one."""
    import sys

    script = (cluster / "job.sh").read_text()
    (cluster / "job.sh").write_text(script.replace(sys.executable, str(cluster / "bin" / "python")))
    path = f"{cluster / 'bin'}{os.pathsep}{os.environ['PATH']}"
    job = {"PATH": path, "SLURM_JOB_ID": "12345", "SLURM_JOB_NODELIST": "node-[a,b]", "SLURM_NNODES": str(nodes)}
    return subprocess.Popen(
        ["bash", "job.sh"], cwd=cluster, env={**os.environ, **job, **environment}, text=True, start_new_session=True
    )


def test_every_machine_runs_the_same_command_with_its_number(cluster: Path, figeval: Cli) -> None:
    done = figeval("train", *TRAIN_FLAGS, "--nodes", "2", "--processes", "4", "--slurm", "job.sh")
    assert done.err.splitlines()[-1] == "wrote job.sh; check it, then run: sbatch job.sh"
    subprocess.run(["bash", "-n", "job.sh"], cwd=cluster, check=True)
    script = (cluster / "job.sh").read_text()
    for line in (
        *("--job-name=figeval-my-model", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=16"),
        *("--gpus-per-node=4", "--requeue", "--signal=B:USR1@120", f"--output='{cluster}/my model-slurm-%j.log'"),
    ):
        assert f"\n#SBATCH {line}\n" in script
    assert submit(cluster, 2).wait(30) == 0
    submission, *commands = (cluster / "said").read_text().splitlines()
    assert submission == "scontrol show hostnames node-[a,b]"
    typed = [*TRAIN_FLAGS, "--nodes", "2", "--processes", "4", "--master", "node-a:32345"]
    assert [command.split("|")[:-1] for command in commands] == [
        ["-m", "figeval", "train", *typed, "--node_rank", str(number)] for number in range(2)
    ]


def test_a_run_starts_ray_on_every_machine(cluster: Path, figeval: Cli) -> None:
    typed = ["run", "--tasks", "mini", "--model", "minilm", "-m", "tfidf", "--output_path", "my run", "--workers", "2"]
    done = figeval(*typed, "--gpus_per_worker", "2", "--ray=auto", "--slurm", "job.sh")
    assert done.err.splitlines()[-1] == "wrote job.sh; check it, then run: sbatch job.sh"
    script = (cluster / "job.sh").read_text()
    for line in ("--job-name=figeval-my-run", "--nodes=2", "--gpus-per-node=2", "--no-kill"):
        assert f"\n#SBATCH {line}\n" in script
    (cluster / "job.sh").write_text(script.replace("/dev/tcp/$first/${master##*:}", "/dev/null"))
    assert submit(cluster, 2, SLURM_CPUS_PER_TASK="4", MACHINES="2").wait(30) == 0
    calls = [line.split("|")[:-1] for line in (cluster / "said").read_text().splitlines()]
    started = [line for line in calls if "ray.scripts.scripts" in line]
    assert [line[3] for line in started] == ["--head", "--address=node-a:32345"]
    assert "--port=32345" in started[0]
    assert all("--num-cpus=4" in line and "--block" in line for line in started)
    (command,) = [line for line in calls if line[1:2] == ["figeval"]]
    assert command == ["-m", "figeval", *typed, "--gpus_per_worker", "2", "--ray", "node-a:32345"]


def test_a_folder_and_an_interpreter_with_spaces_and_quotes(
    cluster: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cluster / "it's mine"
    folder.mkdir()
    write(folder / "python", PYTHON)
    monkeypatch.setattr("sys.executable", str(folder / "python"))
    monkeypatch.chdir(folder)
    flags = [
        "--tasks",
        "mini",
        "--model",
        "minilm",
        "--workers",
        "2",
        "--gpus_per_worker",
        "0",
        "--output_path",
        "100 %",
    ]
    arguments = ["run", *flags, "--output_path", "100 %", "--system_instruction", "it's\n$HOME `x`"]
    command = [*arguments, "--ray", "auto", "--slurm", f"{cluster}/job.sh"]
    monkeypatch.setattr("sys.argv", ["figeval", *command])
    assert cli(*command).err.strip().endswith(f"sbatch {cluster}/job.sh")
    script = (cluster / "job.sh").read_text()
    assert "it'\"'\"'s mine/100 %%-slurm-%j.log'\n" in script
    (cluster / "job.sh").write_text(script.replace("/dev/tcp/$first/${master##*:}", "/dev/null"))
    assert submit(cluster, 2, SLURM_CPUS_PER_TASK="4", MACHINES="2").wait(30) == 0
    calls = [line.split("|")[:-1] for line in (folder / "said").read_text().replace("'s\n", "'s ").splitlines()]
    assert [line[3] for line in calls if "ray.scripts.scripts" in line] == ["--head", "--address=node-a:32345"]
    assert ["-m", "figeval", *arguments[:-1], "it's $HOME `x`", "--ray", "node-a:32345"] in calls


@pytest.mark.parametrize("port", ["/no/port", "/dev/null"])  # closed; open, but not all machines are there
def test_time_that_is_over_before_the_command_begins_also_requeues(cluster: Path, figeval: Cli, port: str) -> None:
    command = ("run", "--tasks", "mini", "--model", "minilm", "--output_path", "out", "--workers", "2", "--ray", "auto")
    figeval(*command, "--gpus_per_worker", "0", "--slurm", "job.sh")
    script = (cluster / "job.sh").read_text()
    (cluster / "job.sh").write_text(script.replace("/dev/tcp/$first/${master##*:}", port))
    job = submit(cluster, 2, SLURM_CPUS_PER_TASK="4", WAITS="yes")
    deadline = time.monotonic() + 30
    expected = "ray.scripts" if port == "/no/port" else "import sys, time, ray"
    while expected not in ((cluster / "said").read_text() if (cluster / "said").exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(30) == 0
    with suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    assert "scontrol requeue 12345" in (cluster / "said").read_text().splitlines()


def test_seeds_start_ray_on_every_machine(cluster: Path, figeval: Cli) -> None:
    figeval("train", *TRAIN_FLAGS, "--seeds", "3", "--ray", "auto", "--workers", "3", "--slurm", "job.sh")
    script = (cluster / "job.sh").read_text()
    assert "\n#SBATCH --nodes=3\n" in script
    assert script.rstrip().endswith('--seeds 3 --workers 3 --ray "$master" &\ncommand=$!\nwait "$command"')


def test_a_run_that_is_not_possible_gets_no_script(
    cluster: Path, figeval: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    arguments = ("run", "--tasks", "mini", "--model", "tfidf", "--slurm", "job.sh")
    assert "give only one of them" in figeval(*arguments, "--processes", "2", code=2).err
    done = figeval(*arguments, "--ray", "10.0.0.1:6379", code=2)
    assert "--slurm starts Ray on the machines of its job; leave out --ray 10.0.0.1:6379" in done.err
    arguments = ("run", "--tasks", "mini", "--model", "openai:gpt", "--slurm", "job.sh")  # here, where no key is
    done = figeval(*arguments, code=2)
    assert done.err == "figeval: openai:gpt already answers many requests in parallel; leave out --slurm\n"
    both = ("run", "--tasks", "mini", "--model", "tfidf", "--model", "openai:gpt", "--slurm", "job.sh")
    assert "leave out --slurm" in figeval(*both, code=2).err
    assert not (cluster / "job.sh").exists()


def test_one_machine_meets_nobody(cluster: Path, figeval: Cli) -> None:
    figeval("train", *TRAIN_FLAGS, "--device", "cpu", "--slurm=job.sh")
    assert "--gpus" not in (cluster / "job.sh").read_text()
    assert submit(cluster, 1).wait(30) == 0
    assert (cluster / "said").read_text() == "|".join(["-m", "figeval", "train", *TRAIN_FLAGS, "--device", "cpu", "\n"])


def test_a_training_that_fails_fails_the_job(cluster: Path, figeval: Cli) -> None:
    figeval("train", *TRAIN_FLAGS, "--slurm", "job.sh")
    assert submit(cluster, 1, CODE="2").wait(30) == 2


def test_when_time_is_nearly_over_it_goes_back_into_the_queue(cluster: Path, figeval: Cli) -> None:
    figeval("train", *TRAIN_FLAGS, "--slurm", "job.sh")
    job = submit(cluster, 1, WAITS="yes")
    deadline = time.monotonic() + 30
    while not (cluster / "said").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(30) == 0
    os.killpg(job.pid, signal.SIGKILL)  # a `sleep` that our srun has left
    assert (cluster / "said").read_text().splitlines()[-1] == "scontrol requeue 12345"


def test_a_script_that_cannot_be_written(cluster: Path, figeval: Cli) -> None:
    done = figeval("train", *TRAIN_FLAGS, "--slurm", "nowhere/job.sh", code=2)
    assert "--slurm nowhere/job.sh cannot be written (No such file or directory)" in done.err


def test_a_file_that_exists_is_not_overwritten(cluster: Path, figeval: Cli) -> None:
    command = ("run", "--tasks", "mini", "--model", "tfidf", "--slurm", "job.sh")
    figeval(*command)
    figeval(*command)  # the same script
    edited = (cluster / "job.sh").read_text() + "#SBATCH --account=mine\n"
    (cluster / "job.sh").write_text(edited)
    refused = figeval(*command, code=2)
    assert "--slurm job.sh already exists, with other content; delete it, or choose another path" in refused.err
    assert (cluster / "job.sh").read_text() == edited
