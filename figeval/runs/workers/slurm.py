"""A batch script for SLURM: the same command on every machine of a job, requeued when the time limit is near.

Runs, and sweeps of trainings, that Ray spreads are one command on the first machine, after Ray has been started on all.
Ray's own `ray symmetric-run` would do that, but stops every Ray process of the user on a machine, other jobs included.

It is a script and not submitit, because the command line already resumes by itself. submitit would pickle a function,
and its checkpoints would be a second way to resume. A script can also be read and changed before it is submitted.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Protocol

from figeval.errors import FigevalError

MASTER = "of.the.job:29500"  # placeholder in a config until the job knows its address
NOTICE = 120  # seconds between the signal and the end of the job's time
HEADER = """\
#!/bin/bash
# Written by figeval $verb --slurm. Add what your cluster requires: --account, --partition, --mem …
#SBATCH --job-name=$name
#SBATCH --nodes=$nodes
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=$cpus
$gpus#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@$notice
#SBATCH --output=$log
#SBATCH --open-mode=append
$more
set -euo pipefail
cd $folder

# Time is nearly up: requeue. The same command resumes$where.
again() {
    kill -TERM "$$$process" 2> /dev/null || true
    wait "$$$process" || true
    scontrol requeue "$$SLURM_JOB_ID"
    exit 0
}
$process=
trap again USR1
$master
"""
SCRIPT = Template(
    HEADER
    + """\
srun --kill-on-bad-exit=1 $command &
step=$$!
wait "$$step"
"""
)
MEETING = """
# The processes meet on the first machine, at a port that differs from job to job.
read -r first < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
master="$first:$((20000 + SLURM_JOB_ID % 20000))"
"""
SPREAD = Template(
    HEADER
    + """\
# Ray on every machine, until the command has ended.
node="--num-cpus=$$SLURM_CPUS_PER_TASK --object-store-memory=200000000 --disable-usage-stats --block"
python=$python
export node master python
srun --kill-on-bad-exit=0 bash -c '
    if [ "$$SLURM_NODEID" = 0 ]; then
        exec "$$python" -m ray.scripts.scripts start --head --port="$${master##*:}" --include-dashboard=false $$node
    else
        exec "$$python" -m ray.scripts.scripts start --address="$$master" $$node
    fi' &
ray=$$!
trap 'kill "$$ray" 2> /dev/null || true' EXIT
until (exec 3<> "/dev/tcp/$$first/$${master##*:}") 2> /dev/null; do sleep 1; done
timeout 300 "$$python" -c '
import sys, time, ray
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
while len(ray.nodes()) < $nodes:
    time.sleep(1)' "$$master" &
command=$$!
wait "$$command"

$command --ray "$$master" &
command=$$!
wait "$$command"
"""
)
MORE = """\
#SBATCH --no-kill
# One worker on each machine. For several on each, lower --nodes, and raise --cpus-per-task and --gpus-per-node.
"""
# srun starts one of these on every machine, where SLURM_NODEID is set
ON_EACH = 'bash -c \'exec "$@" --node_rank "$SLURM_NODEID"\' figeval'


class SlurmJob(Protocol):
    """What the script of a training takes from its configuration."""

    @property
    def nodes(self) -> int:
        """Number of machines."""

    @property
    def processes(self) -> int:
        """Number of processes on each machine."""

    @property
    def device(self) -> str | None:
        """Kind of device; `cpu` needs no GPU."""

    @property
    def output(self) -> Path:
        """Folder of the training, which names the job and its log."""


def write_script(file: Path, text: str) -> str:
    """Write a batch script, and return what to do with it.

    Raises:
        FigevalError: the file has other content, such as a script to which the user has added an account, or cannot be
            written.
    """
    try:
        if file.exists() and file.read_bytes() != text.encode():
            raise FigevalError(f"--slurm {file} already exists, with other content; delete it, or choose another path")
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FigevalError(f"--slurm {file} cannot be written ({error.strerror}); choose another path") from error
    return f"wrote {file}; check it, then run: sbatch {shlex.quote(str(file))}"


def script(job: SlurmJob, arguments: Sequence[str], folder: Path, *, cpus: int = 4) -> str:
    """Return the batch script of a training.

    `arguments` are those of `figeval`, as typed in `folder`, which must be on a disk that all machines share; `cpus` is
    the number per process.
    """
    is_multi_node = job.nodes > 1
    command = shlex.join([sys.executable, "-m", "figeval", *without(arguments, "--slurm")])
    if is_multi_node:
        command = f'{ON_EACH} {command} --master "$master"'
    return SCRIPT.substitute(
        verb="train",
        more="",
        process="step",
        where=" from the last checkpoint",
        name=re.sub(r"[^\w.-]+", "-", f"figeval-{job.output.name}"),
        nodes=job.nodes,
        cpus=job.processes * cpus,
        gpus="" if job.device == "cpu" else f"#SBATCH --gpus-per-node={job.processes}\n",
        notice=NOTICE,
        log=log_name(folder / job.output),
        folder=shlex.quote(str(folder)),
        master=MEETING if is_multi_node else "",
        command=command,
    )


def spread_script(
    arguments: Sequence[str], folder: Path, name: str, workers: int, gpus: float, *, cpus: int = 4
) -> str:
    """Return the batch script of a command that Ray spreads, with one worker on each machine.

    `arguments` are those of `figeval`, as typed in `folder`, which must exist on all machines; `name` is that of the
    job and its log; `gpus` and `cpus` are the numbers per worker.
    """
    for flag in ("--slurm", "--ray"):
        arguments = without(arguments, flag)
    return SPREAD.substitute(
        verb=arguments[0],
        more=MORE,
        process="command",
        where="",
        name=re.sub(r"[^\w.-]+", "-", f"figeval-{name}"),
        nodes=workers,
        cpus=cpus,
        gpus=f"#SBATCH --gpus-per-node={math.ceil(gpus)}\n" if gpus else "",
        notice=NOTICE,
        log=log_name(folder / name),
        folder=shlex.quote(str(folder)),
        master=MEETING,
        python=shlex.quote(sys.executable),
        command=shlex.join([sys.executable, "-m", "figeval", *arguments]),
    )


def log_name(output: Path) -> str:
    """Return the file name pattern of the log of a job, quoted; `%` of a path is no pattern of SLURM's."""
    return shlex.quote(f"{str(output).replace('%', '%%')}-slurm-%j.log")


def without(arguments: Sequence[str], flag: str) -> list[str]:
    """Return the arguments without a flag and its value."""
    tokens = iter(arguments)
    remainder = []
    for argument in tokens:
        if argument == flag:
            next(tokens, None)
        elif not argument.startswith(f"{flag}="):
            remainder.append(argument)
    return remainder
