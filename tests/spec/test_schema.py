"""The JSON Schemas of task files and suite files: what the loader reads is valid, and mistakes are found.

`tests/cli/test_new.py` validates what `figeval new` writes.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from figeval import Harness, TaskError
from tests.cli.conftest import Cli

ROOT = Path(__file__).resolve().parents[2]


@cache
def published_schema(kind: str) -> dict[str, Any]:
    return json.loads((ROOT / f"results/schema/{kind}.schema.json").read_text(encoding="utf-8"))


def problems(text: str, kind: str = "task") -> list[str]:
    """The places of what is wrong with a file."""
    paths = [error.json_path for error in Draft7Validator(published_schema(kind)).iter_errors(yaml.safe_load(text))]
    return sorted(path.removeprefix("$").removeprefix(".") for path in paths)


def refusal(text: str, folder: Path, kind: str = "task") -> str:
    """What the loader says of a file, beside which there is `base.yaml`."""
    (folder / "base.yaml").write_text(BASE)
    (folder / f"one.{kind}.yaml").write_text(text)
    if kind == "suite":
        for name in "ab":
            (folder / f"{name}.task.yaml").write_text(VALID_TASK.replace("name: one", f"name: {name}"))
    try:
        Harness(include=(folder,)).catalogue.expand(["one"])
    except TaskError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["task", "suite"])
def test_the_published_files_are_up_to_date(kind: str, cli: Cli) -> None:
    schema = json.loads(cli("schema", kind).out)
    Draft7Validator.check_schema(schema)
    assert json.dumps(published_schema(kind), indent=2) == json.dumps(schema, indent=2), "run `make schema`"


def test_all_files_of_the_repository_are_valid() -> None:
    files = {
        kind: [file for folder in ("tasks", "tests") for file in (ROOT / folder).rglob(f"*.{kind}.yaml")]
        for kind in ("task", "suite")
    }
    assert (len(files["task"]), len(files["suite"])) > (100, 10)
    wrong = {
        str(file.relative_to(ROOT)): paths
        for kind, paths_of_kind in files.items()
        for file in paths_of_kind
        if (paths := problems(file.read_text(encoding="utf-8"), kind))
    }
    assert not wrong


def test_every_key_and_field_has_a_description() -> None:
    for kind in ("task", "suite"):
        assert all(key["description"] for key in published_schema(kind)["properties"].values())
    _, *rules = published_schema("task")["allOf"]
    fields = [field for rule in rules for field in rule["then"]["properties"]["fields"]["properties"].values()]
    assert len(fields) > 50 and all(field["description"] for field in fields)


BASE = """
type: pairs
labels: [same, other]
data: {test: "jsonl:rows.jsonl", train: "jsonl:train.jsonl"}
fields: {id: row.id, left: row.a, right: row.b, label: row.label}
prompts: {short: short.jinja}
"""
VALID_TASK = f"name: one{BASE}"
RANKING = """
name: one
type: ranking
data: {test: "jsonl:rows.jsonl"}
fields: {id: row.id, query: row.a, relevant: row.b}
"""


@pytest.mark.parametrize(
    "text",
    [
        VALID_TASK,
        f"{VALID_TASK}metrics: [acc, 'fscore@2']\nroute: by_magic\n",  # a plugin may have them
        f"{VALID_TASK}verbalizer: {{same: 'Yes', other: ['No', 'Never']}}\ntemplate: null\nlanguage: [en]\n",
        VALID_TASK.replace("left: row.a", "left: [row.a, 1, {word: row.c}]"),
        VALID_TASK.replace("left: row.a", "left: 3.5"),
        f"{RANKING}corpus: {{data: 'jsonl:documents.jsonl'}}\n",
        "include: base.yaml\nname: one\n",
        "include: base.yaml\nname: one\ndata: {train: null}\nfields: {left: row.c}\nprompts: null\n",
        "include: base.yaml\nname: one\nprompts: {short: null, long: {template: long.jinja}}\n",
    ],
)
def test_what_the_loader_reads_is_valid(text: str, tmp_path: Path) -> None:
    assert not refusal(text, tmp_path)
    assert not problems(text)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (f"{VALID_TASK}metrcs: [acc]\n", [""]),
        (VALID_TASK.replace("type: pairs", "type: 3"), ["type"]),
        (VALID_TASK.replace("type: pairs", ""), [""]),
        (VALID_TASK.replace("name: one", "name: One!"), ["name"]),
        (VALID_TASK.replace("fields: {", "settings: {").replace("row.", ""), [""]),  # no fields
        (VALID_TASK.replace("label: row.label", "lable: row.label"), ["fields", "fields"]),  # unknown, and missing
        (VALID_TASK.replace("left: row.a", "left: {word: 3}"), ["fields.left.word"]),
        (VALID_TASK.replace("{test:", "{dev:"), ["data"]),
        (f"{VALID_TASK}prompt_fields: {{label: row.a}}\n", ["prompt_fields"]),
        (f"{VALID_TASK}metrics: acc\n", ["metrics"]),
        (f"{VALID_TASK}metrics:\n", ["metrics"]),
        (f"{VALID_TASK}vocabulary: {{options: proverb}}\n", ["vocabulary"]),
        (f"{VALID_TASK}corpus: {{id: row.id}}\n", ["corpus"]),
        (f"{VALID_TASK}augment: {{add: words}}\n", ["augment.add"]),
        (f"{VALID_TASK}protocol: pairs\n", [""]),
        (RANKING, ["fields"]),  # no candidates
        ("include: base.yaml\nname: one\nmetrics: acc\n", ["metrics"]),
        ("include: base.yaml\nname: one\ndata: {test: 3}\n", ["data.test"]),
        ("include: base.yaml\nname: one\ntype: pairs\nfields: {lft: row.a}\n", ["fields"]),
        ("include: base.yaml\nname: one\nmetrcs: [acc]\n", [""]),
    ],
)
def test_a_mistake_is_found_where_it_is(text: str, paths: list[str], tmp_path: Path) -> None:
    assert refusal(text, tmp_path)
    assert problems(text) == paths


def test_the_type_of_a_plugin_is_no_mistake() -> None:
    """Editors complete the types that they know; the fields of others are not checked."""
    other = VALID_TASK.replace("type: pairs", "type: acme").replace("left:", "leftmost:")
    assert not problems(other)


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("", []),
        ("macro_mean: false\ncontrasts: {both: {tasks: a, within: idiom}}\n", []),
        ("task: [c]\n", [""]),
        ("macro_mean: never\n", ["macro_mean"]),
        ("contrasts: {both: {within: idiom}}\n", ["contrasts.both"]),
        ("contrasts: {both: [a, b]}\n", ["contrasts.both"]),
    ],
)
def test_suites(line: str, paths: list[str], tmp_path: Path) -> None:
    text = f"name: one\ntasks: [a, b]\n{line}"
    assert bool(refusal(text, tmp_path, "suite")) == bool(paths)
    assert problems(text, "suite") == paths
