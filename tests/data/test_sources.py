"""`sources.yaml`: found by rule, checked key by key; and whether the files of a task are on this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.data.loopback import Site
from tests.processes import figeval

pytestmark = pytest.mark.usefixtures("warm_start")
SOUND_SOURCES = f"""
licence: CC0
homepage: https://example.org
citation: nobody (2024)
files:
  - path: a/b.txt
    url: https://example.org/{"0" * 40}/b.txt
    sha256: {"a" * 64}
    bytes: 12
"""


MISTAKES = [
    ("licence:", "license:", r"unknown key 'license'; did you mean 'licence'"),
    ("homepage:", "licence_url: x\nhomepage:", r"unknown key 'licence_url'; did you mean 'licence'"),
    ("    bytes:", "    sha: 1\n    bytes:", r"unknown key 'files\.0\.sha'; did you mean 'sha256'"),
    ("a" * 64, "a" * 63, r"files\.0\.sha256: "),
    ("bytes: 12", "bytes: 0", r"files\.0\.bytes must be greater than 0"),
    ("path: a/b.txt", "path: ../b.txt", r"files\.0\.path: '\.\./b\.txt' must be a relative path"),
    ("path: a/b.txt", "path: /b.txt", r"files\.0\.path: '/b\.txt' must be a relative path"),
    ("url: https", "url: ftp", r"files\.0\.url: "),
    ("citation: nobody (2024)\n", "", "citation is missing"),
    (SOUND_SOURCES.partition("files:")[2], " []", "files: .* at least 1 item"),
    (SOUND_SOURCES, "- a list", "must be a mapping"),
    (SOUND_SOURCES, "a: [", "not valid YAML"),
    ("    bytes: 12\n", "    bytes: 12\n" + SOUND_SOURCES.partition("files:\n")[2], "'a/b.txt' is listed twice"),
]


def write_package(folder: Path, name: str, files: Mapping[str, str], code: str = "") -> None:
    (folder / name).mkdir()
    for file, text in {"__init__.py": code, "plugin.py": "", **files}.items():
        (folder / name / file).write_text(text, encoding="utf-8")


def run(folder: Path, *words: str, plugins: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return figeval(*words, "--json", cwd=folder, PYTHONPATH=str(folder), FIGEVAL_PLUGINS=plugins, **variables)


def listed_benchmarks(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The benchmarks of plugins, in their order."""
    names = dict.fromkeys(file["benchmark"] for file in json.loads(done.stdout) if "example.org" in file["url"])
    return list(names)


def test_every_mistake_is_one_line_with_file_and_key(tmp_path: Path) -> None:
    for number, (before, after, _) in enumerate(MISTAKES):
        write_package(tmp_path, f"acme_{number}", {"sources.yaml": SOUND_SOURCES.replace(before, after)})
    names = [f"acme_{number}" for number in range(len(MISTAKES))]
    done = run(tmp_path, "data", "ls", plugins=",".join(names))
    assert listed_benchmarks(done) == []
    for name, line, (*_, message) in zip(names, done.stderr.splitlines(), MISTAKES, strict=True):
        assert f"plugin '{name}': {tmp_path / name / 'sources.yaml'}:" in line
        assert re.search(message, line), line


def test_packages_of_plugins_are_searched(tmp_path: Path) -> None:
    write_package(tmp_path, "acme_one", {"sources.yaml": SOUND_SOURCES, "vectors.sources.yaml": SOUND_SOURCES})
    write_package(tmp_path, "acme_two", {"sources.yaml": SOUND_SOURCES})
    (tmp_path / "acme_lonely.py").write_text('"""One file, which has no package."""\n')
    (tmp_path / "sources.yaml").write_text(SOUND_SOURCES)
    done = run(tmp_path, "data", "ls", plugins="acme_one,acme_one.plugin,acme_two,acme_lonely")
    assert (listed_benchmarks(done), done.stderr) == (["acme_one", "vectors", "acme_two"], "")


def test_a_broken_or_doubled_file_is_a_problem_of_its_plugin_only(tmp_path: Path) -> None:
    shared = {"shared.sources.yaml": SOUND_SOURCES}
    write_package(tmp_path, "acme_good", shared)
    write_package(tmp_path, "acme_taker", {**shared, "own.sources.yaml": SOUND_SOURCES})
    write_package(tmp_path, "acme_broken", {"sources.yaml": "licence: [", "fine.sources.yaml": SOUND_SOURCES})
    done = run(tmp_path, "data", "ls", plugins="acme_good,acme_taker,acme_broken")
    assert listed_benchmarks(done) == ["shared", "own", "fine"]
    taken, broken = done.stderr.splitlines()
    assert "'shared' of acme_taker is already registered by acme_good" in taken
    assert "plugin 'acme_broken'" in broken and "not valid YAML" in broken


def test_built_in_sources_are_pinned_to_a_commit(cli: Cli) -> None:
    pinned = re.compile(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/.+")
    for name, number in {"epic": 8, "impli": 16, "glove": 1}.items():
        files = json.loads(cli("data", "ls", name, "--json").out)
        assert len(files) == number
        assert all(pinned.fullmatch(file["url"]) and file["licence"] for file in files)


# ---- whether rows are on this machine, found out without downloading or parsing an upstream file ---------------------

READERS = """
from importlib.resources import files
from figeval import DataError, hookimpl

def read_fetched(path, context):
    "Handles whatever goes wrong with the file, as a reader may."
    try:
        context.fetch("bench", path).read_text()
    except Exception:
        return
    raise AssertionError("the file was handed out")

def read_copy(path, context):
    "Rows of a user's own copy."
    for folder in context.copies("bench"):
        if (folder / path).is_file():
            yield {"id": "1"}
            raise AssertionError("read behind the first row")
    raise DataError("there is no copy")

@hookimpl
def register_sources(register):
    register("bench", read_fetched)
    register("copied", read_copy)

@hookimpl
def register_tasks(register):
    register.folder(files(__name__))
"""
TASK = """
name: {name}
type: choice
data: {{test: "{source}"}}
fields: {{id: row.id, query: row.q, options: row.o, gold: row.g}}
"""


def test_files_are_looked_for_and_neither_read_nor_fetched(site: Site, tmp_path: Path) -> None:
    """A damaged file counts as there: whether it is whole is seen when it is read."""
    file = site.file("file.txt", b"rows\n").source
    listed = f"path: file.txt, url: '{file.url}', sha256: {file.sha256}, bytes: {file.bytes}"
    sources = {
        "fetched": "bench:file.txt",
        "unlisted": "bench:other.txt",
        "copied": "copied:file.txt",
        "nobody": "nobody:file.txt",
        "bare": "file.txt",
        "missing": "jsonl:a.jsonl",
        "here": "jsonl:rows.jsonl",
    }
    tasks = {f"{name}.task.yaml": TASK.format(name=name, source=source) for name, source in sources.items()}
    head = SOUND_SOURCES.partition("files:")[0]
    data = {"bench.sources.yaml": f"{head}files: [{{{listed}}}]\n", "rows.jsonl": '{"id": "1"}\n'}
    write_package(tmp_path, "acme", {**tasks, **data}, READERS)

    def availability(**variables: str) -> dict[str, str]:
        rows: list[dict[str, Any]] = json.loads(run(tmp_path, "ls", "tasks", plugins="acme", **variables).stdout)
        return {row["name"]: row["availability"] for row in rows if row["owner"] == "acme"}

    mirror = {"FIGEVAL_DATA_MIRROR": os.pathsep.join([str(tmp_path), ""]) + f",{site.url}", "NO_PROXY": "127.0.0.1"}
    states = availability(**mirror)
    unreadable = dict.fromkeys(("unlisted", "nobody", "bare", "missing"), "cannot be read")
    assert states == {"fetched": "to be fetched", "copied": "needs your copy", "here": "here", **unreadable}
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "file.txt").write_text("damaged")
    assert availability(**mirror) == {**states, "fetched": "here", "copied": "here"}
    assert availability(FIGEVAL_DATA_COPIES=f"bench={tmp_path}") == states
    assert availability(FIGEVAL_DATA_COPIES=f"bench={tmp_path / 'bench'}") == {**states, "copied": "here"}
    assert site.requests == []


@pytest.mark.parametrize("ending", ["csv", "TSV", "txt"])
def test_data_without_a_scheme_get_the_one_of_their_ending(ending: str, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "t.task.yaml").write_text(TASK.format(name="t", source=f"rows.{ending}"))
    likely = "jsonl" if ending == "txt" else ending.lower()
    complaint = cli("preview", "t", "--include_path", tmp_path).complaint
    assert f"write, for example, '{likely}:rows.{ending}'" in complaint
