"""A batch script for SLURM: the same command on every machine of a job, requeued when the time limit is near.

It is a script and not submitit, because the command line already resumes by itself. submitit would pickle a function,
and its checkpoints would be a second way to resume. A script can also be read and changed before it is submitted.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

from figeval.training.config import TrainConfig

MASTER = "of.the.job:29500"  # placeholder in a config until the job knows its address
NOTICE = 120  # seconds between the signal and the end of the job's time
SCRIPT = Template(
    """\
#!/bin/bash
# Written by figeval train --slurm. Add what your cluster requires: --account, --partition, --mem …
#SBATCH --job-name=$name
#SBATCH --nodes=$nodes
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=$cpus
$gpus#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@$notice
#SBATCH --output=$log
#SBATCH --open-mode=append

set -euo pipefail
cd $folder

# Time is nearly up: requeue. The same command resumes from the last checkpoint.
again() {
    kill -TERM "$$step" 2> /dev/null || true
    wait "$$step" || true
    scontrol requeue "$$SLURM_JOB_ID"
    exit 0
}
trap again USR1
$master
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
# srun starts one of these on every machine, where SLURM_NODEID is set
ON_EACH = 'bash -c \'exec "$@" --node_rank "$SLURM_NODEID"\' figeval'


def script(config: TrainConfig, arguments: Sequence[str], folder: Path, *, cpus: int = 4) -> str:
    """Return the batch script of a training.

    `arguments` are those of `figeval`, as typed in `folder`, which must be on a disk that all machines share; `cpus` is
    the number per process.
    """
    several = config.nodes > 1
    command = shlex.join([sys.executable, "-m", "figeval", *without(arguments, "--slurm")])
    if several:
        command = f'{ON_EACH} {command} --master "$master"'
    return SCRIPT.substitute(
        name=re.sub(r"[^\w.-]+", "-", f"figeval-{config.output.name}"),
        nodes=config.nodes,
        cpus=config.processes * cpus,
        gpus="" if config.device == "cpu" else f"#SBATCH --gpus-per-node={config.processes}\n",
        notice=NOTICE,
        log=shlex.quote(f"{folder / config.output}-slurm-%j.log"),
        folder=shlex.quote(str(folder)),
        master=MEETING if several else "",
        command=command,
    )


def without(arguments: Sequence[str], flag: str) -> list[str]:
    """Return the arguments without a flag and its value."""
    rest = iter(arguments)
    kept = []
    for argument in rest:
        if argument == flag:
            next(rest, None)
        elif not argument.startswith(f"{flag}="):
            kept.append(argument)
    return kept
