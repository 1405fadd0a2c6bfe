"""Two real Ray nodes on this machine, in a process of their own, so that one of them can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PROGRAM = """
import sys
from ray.cluster_utils import Cluster

small = {"num_cpus": 1, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
second = cluster.add_node(**small)
print(cluster.address, flush=True)
for line in sys.stdin:
    cluster.remove_node(second, allow_graceful=False)
    print("removed", flush=True)
cluster.shutdown()
"""


class Nodes:
    """Two nodes with a core each."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.address = self._out.readline().strip()

    def kill_one(self) -> None:
        """Kill the second node with everything on it."""
        self._in.write("\n")
        self._in.flush()
        assert self._out.readline() == "removed\n"


@contextmanager
def two_nodes(**environment: str) -> Iterator[Nodes]:
    """Start the nodes with further environment variables; on exit, they are gone."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", **environment},
    )
    try:
        yield Nodes(process)
    finally:
        process.communicate(timeout=60)
