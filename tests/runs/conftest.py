"""Fixtures: a harness with a generated task and given models, whose runs are written to a temporary folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

import figeval
from figeval import Observer, RunConfig, hookimpl
from figeval.io.observer import NO_FIGURES
from figeval.runs.rescore import rescore
from figeval.testing import harness
from figeval.testing.fakes import FakePairScorer
from tests.finished_runs import execute

TASK = """
name: {name}
type: choice
data: {{test: "jsonl:{name}.jsonl", train: "jsonl:{name}.jsonl"}}
fields: {{id: row.id, query: row.q, options: row.o, gold: row.g, meta: {{kind: row.k}}}}
cluster: kind
metrics: [acc, acc_norm]
baselines: [chance]
"""


def write_task(folder, name, n=20, **changes):
    """Return a choice task of n rows; `changes` maps row numbers to changed fields."""
    rows = [
        {
            "id": f"{name}{i}",
            "q": f"word{i} here",
            "o": [f"word{i}", "other", "third"],
            "g": 0 if i % 4 else 1,
            "k": f"k{i % 5}",
        }
        for i in range(n)
    ]
    for number, change in changes.items():
        rows[int(number.removeprefix("row"))].update(change)
    (folder / f"{name}.task.yaml").write_text(TASK.format(name=name), encoding="utf-8")
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


@dataclass
class Heard(Observer):
    """Observer that records events."""

    events: list = field(default_factory=list)
    stop_after: int | None = None

    def start(self, stage, total, done=0, *, unit="example", note=""):
        self.events.append(("start", stage, total, done))

    def reach(self, done, figures=NO_FIGURES):
        self.events.append(("reach", done))
        if self.stop_after is not None and sum(e[0] == "reach" for e in self.events) >= self.stop_after:
            raise KeyboardInterrupt

    def say(self, text):
        self.events.append(("say", text))


class Models:
    """Backends by name; every lookup returns the same object."""

    def __init__(self, **backends):
        self.backends = backends

    @hookimpl
    def register_backends(self, register):
        for name, backend in self.backends.items():
            register(name, lambda model="", backend=backend: backend, "a fake")


@pytest.fixture
def workshop(tmp_path):
    """Return a workshop: `workshop.run(model=backend, tasks=...)` runs tasks written to `workshop.folder`."""
    return Workshop(tmp_path)


class Workshop:
    def __init__(self, path):
        self.path = path
        self.folder = path / "tasks"
        self.folder.mkdir()
        self.backend = FakePairScorer()

    def harness(self, *plugins, **backends):
        """Return a harness of the baselines, the model, and plugins: objects, or names of figeval's own."""
        modules = [f"figeval.builtin.plugins.{each}" if isinstance(each, str) else each for each in plugins]
        models = Models(model=self.backend, **backends)
        return harness("figeval.builtin.plugins.baselines", models, *modules, include=(self.folder,))

    def run(self, *tasks, observer=None, harness=None, **settings):
        config = RunConfig(tasks=tasks or ("t",), model="model", output_path=self.output, **settings)
        return execute(config, harness or self.harness(), observer or Heard())

    def rescore(self, harness=None):
        """Read the answers again as the command `rescore` does, with this harness, and return what changed by task."""
        return rescore(self.output, harness or self.harness())

    @property
    def output(self):
        """Folder of the run."""
        return self.path / "run"

    def load(self):
        return figeval.load(self.output)

    def rows(self, task="t"):
        text = self.predictions(task).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def predictions(self, task="t"):
        """Return the file with the rows of a task."""
        return self.output / "predictions" / f"{task}.jsonl"

    def edit_record(self, change):
        """Change the record of the run on disk: `change` is called with its content."""
        file = self.output / "run.json"
        content = json.loads(file.read_text(encoding="utf-8"))
        change(content)
        file.write_text(json.dumps(content), encoding="utf-8")
