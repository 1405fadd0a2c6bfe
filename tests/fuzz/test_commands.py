"""Fifty command lines on hostile files, each a process of its own with little memory and five seconds of processor."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.finished_runs import finished
from tests.warm import warm_figeval

MODULES = ("figeval.cli.run", "figeval.runs", "figeval.reporting.table", "rich.console", "scipy.stats")
# Of addresses, of which libraries reserve much more than they use; and of processor time.
LIMITS = {resource.RLIMIT_AS: 4 << 30, resource.RLIMIT_CPU: 5}
LONG_NAME = "n" * 300

TASK = """
name: t
type: choice
data: {test: "jsonl:t.jsonl"}
fields: {id: row.id, query: row.q, options: row.o, gold: row.g}
"""
ROWS = '{"id": "a", "q": "word", "o": ["word", "b"], "g": 0}\n{"id": "b", "q": "word", "o": ["c", "word"], "g": 1}\n'
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
NESTED_LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}"

pytestmark = pytest.mark.slow

TASKS: dict[str, tuple[str, str]] = {
    "brackets of YAML": ("name: t", "name: " + "[" * 100_000),
    "dashes of YAML": ("name: t", "- " * 100_000),
    "an alias of itself": ("name: t", "name: &a [*a]"),
    "an alias bomb": ("name: t", BOMB),
    "a date": ("name: t", "name: 2024-13-45"),
    "a tag": ("name: t", "name: !!int abc"),
    "a long number": ("name: t", "version: " + "1" * 5_000 + "\nname: t"),
    "a long name": ("name: t", f"name: {LONG_NAME}"),
    "an include elsewhere": ("name: t", "name: t\ninclude: /etc/passwd"),
    "a device": ("name: t", "name: t\ninclude: /dev/zero"),
    "data elsewhere": ("jsonl:t.jsonl", "jsonl:/etc/passwd"),
    "data on a device": ("jsonl:t.jsonl", "jsonl:../../../../../../dev/zero"),
    "a long path": ("jsonl:t.jsonl", f"jsonl:{LONG_NAME}"),
    "a sum of text and number": ("row.q,", "row.q + 1,"),
    "a division": ("row.q,", "1 / 0,"),
    "an infinite number": ("row.q,", "1e999,"),
    "a large product": ("row.q,", "\"'a' * 8 * 10**8\","),
    "a large power": ("row.q,", "10 ** 10 ** 10,"),
    "a wide format": ("row.q,", "\"'%999999999d' % 1\","),
    "random texts": ("row.q,", "lipsum(),"),
    "nested ranges": ("row.q,", "\"range(99999) | map('center', 9999) | join\","),
    "deep parentheses": ("row.q,", '"' + "(" * 50_000 + '",'),
    "a nested loop": ("name: t", "name: t\ntemplate: nested.jinja"),
    "a template of itself": ("name: t", "name: t\ntemplate: self.jinja"),
    "a Latin-1 template": ("name: t", "name: t\ntemplate: latin.jinja"),
    "a label twice": ("type: choice", "type: pairs\nlabels: [a, a]"),
}
ROW_FILES: dict[str, bytes] = {
    "brackets of JSON": b"[" * 100_000,
    "nested rows": b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a long integer": b'{"id": ' + b"1" * 5_000 + b"}",
    "not a number": b'{"id": NaN, "q": Infinity, "o": [1e999], "g": -0}',
    "half a pair": b'{"id": "\\ud800", "q": "x", "o": ["a"], "g": 0}',
    "zeros": bytes(2_000_000),
}
RECORDS: dict[str, bytes] = {
    "brackets": b"[" * 100_000,
    "nothing": b"",
    "a long version": b'{"schema_version": ' + b"1" * 5_000 + b"}",
    "nested": b'{"schema_version": "1.3", "tasks": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "Latin-1": b'{"schema_version": "1.3\xe9"}',
}
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "a superscript": ("run", "--tasks", "mini_pairs", "--model", "overlap", "--batch_size", "²"),
    "a long model": ("run", "--tasks", "mini_pairs", "--model", LONG_NAME),
    "nobody's home": ("run", "--tasks", "mini_pairs", "--model", "~nouser/model"),
    "a long folder": ("run", "--tasks", "mini_pairs", "--model", "overlap", "--output_path", LONG_NAME),
    "deep options": ("run", "--tasks", "mini_pairs", "--model", "random", "--model_args", '{"a": ' + "[" * 100_000),
    "a device to show": ("show", "/dev/zero"),
    "a device to train by": ("train", "--config", "/dev/zero", "--output", "x"),
    "a long path to show": ("show", LONG_NAME),
    "a long path to check": ("validate", LONG_NAME),
    "suites in a circle": ("run", "--tasks", "a", "--model", "overlap", "--include_path", "circle"),
    "suites that double": ("run", "--tasks", "s0", "--model", "overlap", "--include_path", "double"),
    "a null character": ("run", "--tasks", "t\ufffe", "--model", "overlap", "--limit", "٣"),
    "predictions of brackets": ("compare", "deep", "sound"),
}


@pytest.fixture(scope="module")
def figeval(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """`figeval …` in a folder, with limits."""
    home = tmp_path_factory.mktemp("home")
    with warm_figeval(MODULES, LIMITS) as commands:
        environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "FIGEVAL_HOME": str(home)}

        def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
            command = ["figeval", *arguments]
            return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)

        yield call


def require_one_line(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode in (0, 2), f"exit code {done.returncode}: {done.stderr[-2_000:]}"
    assert "Traceback" not in done.stderr
    if done.returncode == 2:
        assert done.stderr.startswith("figeval: ") or "error: " in done.stdout
        assert done.stderr.count("\n") <= 1
        assert len(done.stderr) < 3_000


def task_folder(folder: Path) -> None:
    (folder / "t.task.yaml").write_text(TASK)
    (folder / "t.jsonl").write_text(ROWS)
    for template, source in {"nested": NESTED_LOOPS, "self": "{% include 'self.jinja' %}", "latin": "é"}.items():
        blocks = "".join(f"{{% block {block} %}}{source}{{% endblock %}}" for block in ("context", "continuation"))
        (folder / f"{template}.jinja").write_text(blocks, encoding="latin-1")


@pytest.mark.parametrize("name", TASKS)
def test_a_task_file(name: str, tmp_path: Path, figeval: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    task_folder(tmp_path)
    old, new = TASKS[name]
    assert old in TASK
    (tmp_path / "t.task.yaml").write_text(TASK.replace(old, new))
    require_one_line(figeval(tmp_path, "validate", "t.task.yaml"))


@pytest.mark.parametrize("name", ROW_FILES)
def test_a_file_of_rows(name: str, tmp_path: Path, figeval: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    task_folder(tmp_path)
    (tmp_path / "t.jsonl").write_bytes(ROW_FILES[name])
    require_one_line(figeval(tmp_path, "run", "--tasks", "t", "--model", "overlap", "--include_path", "."))


@pytest.mark.parametrize("name", RECORDS)
def test_a_record(name: str, tmp_path: Path, figeval: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    (tmp_path / "run.json").write_bytes(RECORDS[name])
    done = figeval(tmp_path, "show", ".")
    require_one_line(done)
    assert done.returncode == 2


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name: str, tmp_path: Path, figeval: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    for folder in ("circle", "double"):
        (tmp_path / folder).mkdir()
        task_folder(tmp_path / folder)
    for suite, tasks in {"a": "[t, b]", "b": "[a]"}.items():
        (tmp_path / "circle" / f"{suite}.suite.yaml").write_text(f"name: {suite}\ntasks: {tasks}\n")
    for n in range(25):
        tasks = f"[s{n + 1}, s{n + 1}]" if n < 24 else "[t]"
        (tmp_path / "double" / f"s{n}.suite.yaml").write_text(f"name: s{n}\ntasks: {tasks}\n")
    if "deep" in ARGUMENTS[name]:
        finished(tmp_path / "sound", "mini_pairs", limit=4)
        shutil.copytree(tmp_path / "sound", tmp_path / "deep")
        (file,) = (tmp_path / "deep" / "predictions").iterdir()
        row = json.loads(file.read_text().splitlines()[0])
        file.write_text(json.dumps(row)[:-1] + ', "x": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
        record = json.loads((tmp_path / "deep" / "run.json").read_text())
        record["tasks"][0]["predictions_sha256"] = None
        (tmp_path / "deep" / "run.json").write_text(json.dumps(record))
    require_one_line(figeval(tmp_path, *ARGUMENTS[name]))


def test_there_are_fifty_command_lines() -> None:
    assert len(TASKS) + len(ROW_FILES) + len(RECORDS) + len(ARGUMENTS) == 50
