"""`figeval ls`."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from figeval import hookimpl
from tests.cli.conftest import Cli

TASKS_BESIDE_SUITE = {"mini_situations", "mini_alignment", "mini_joint", "mini_narrative", "mini_motif"}
MINI = {"mini_proverbs", "mini_retrieval", "mini_pairs", "mini_fables"} | TASKS_BESIDE_SUITE


def rows(cli: Cli, *arguments: str) -> list[dict[str, Any]]:
    done = cli("ls", *arguments, "--json")
    assert (done.code, done.err) == (0, "")
    listing: list[dict[str, Any]] = json.loads(done.out)
    return listing


def test_what_can_be_listed_has_a_heading_and_one_line_for_each_row(cli: Cli) -> None:
    head, *kinds = (line.split()[0] for line in cli("ls").out.splitlines())
    assert head == "name" and len(kinds) >= 7 and kinds[0] == "tasks" and kinds[-1] == "plugins"
    for kind in kinds:
        lines = cli("ls", kind).out.splitlines()
        listed = rows(cli, kind)
        assert lines[0].startswith("name ") or lines[0].startswith("type "), kind
        assert set(lines[0].split()) <= set(listed[0]), kind
        assert [line.split()[0] for line in lines[1:]] == [
            str(row[lines[0].split()[0]]).removeprefix("figeval.builtin.") for row in listed
        ]
        assert not [line for line in lines if line != line.rstrip()]


def test_tasks(cli: Cli) -> None:
    tasks = {row["name"]: row for row in rows(cli, "tasks")}
    assert set(tasks) >= MINI
    pairs = tasks["mini_pairs"]
    assert pairs["type"] == "pairs"
    assert pairs["data"]["test"] == "jsonl:pairs.jsonl"
    assert pairs["metrics"] == ["acc", "macro_f1"]
    assert pairs["owner"] == "figeval.builtin.tasks.mini"


def test_suites_models_metrics_and_routes(cli: Cli) -> None:
    assert {row["name"]: set(row["tasks"]) for row in rows(cli, "suites")}["mini"] == MINI - TASKS_BESIDE_SUITE
    assert {"overlap", "tfidf", "random"} <= {row["name"] for row in rows(cli, "models")}
    assert all(row["summary"] for row in rows(cli, "models"))
    metrics = {row["name"]: row for row in rows(cli, "metrics")}
    assert metrics["mrr"]["types"] == ["joint", "ranking"]
    assert metrics["acc"]["higher_is_better"] is True
    routes = rows(cli, "routes", "by_cloze")
    assert {row["type"]: row["needs"] for row in routes} == {"pairs": ["fill"], "classification": ["fill"]}


def test_task_types(cli: Cli) -> None:
    types = {row["name"]: row for row in rows(cli, "types")}
    core_types = [name for name, row in types.items() if row["owner"] == "figeval.defaults"]
    assert core_types == ["choice", "ranking", "pairs", "spans", "joint", "generation", "similarity"]
    assert types["epic_published_spans"]["owner"] == "figeval.builtin.tasks.epic"
    choice = types["choice"]
    assert choice["fields"] == ["query", "options", "gold", "option_meta"]
    assert (choice["default_metrics"], choice["owner"]) == (["acc"], "figeval.defaults")
    assert set(choice["metrics"]) >= {"acc", "acc_norm", "parse_rate"}
    assert all(row["description"] and row["metrics"] for row in types.values())
    for row in types.values():
        Draft202012Validator.check_schema(row["schema"])
        assert {"id", *row["fields"]} <= set(row["schema"]["properties"])
    schema = Draft202012Validator(choice["schema"])
    assert schema.is_valid({"id": 1, "query": "q", "options": ["a"], "gold": 0})
    assert not schema.is_valid({"id": 1, "query": "q", "gold": 0})
    shown = cli("ls", "types").out
    assert all(f"\n{name} " in f"\n{shown}" for name in types)


@pytest.mark.wing("training")
def test_heads_and_presets(cli: Cli) -> None:
    assert ("ranking", "biencoder") in {(row["type"], row["name"]) for row in rows(cli, "heads")}
    assert all(row["summary"] for row in rows(cli, "heads"))
    (row,) = rows(cli, "presets", "paper:table7-roberta")
    assert (row["model"], row["settings"]["epochs"], row["owner"]) == ("RoBERTa", 25, "figeval.builtin.tasks.epic")
    assert row["hyper-parameters"] == "lr 2e-05, 25 epochs, batches of 16, seed 42"


def test_plugins(cli: Cli) -> None:
    plugins = {row["name"]: row for row in rows(cli, "plugins")}
    assert plugins["figeval.defaults"]["origin"] == "core"
    assert plugins["figeval.builtin.tasks.mini"]["offers"] == ["sources", "tasks"]
    assert not [row for row in plugins.values() if row["problems"]]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("mini", MINI),
        ("MINI_P", {"mini_pairs", "mini_proverbs"}),
        ("mini_*s", {"mini_proverbs", "mini_pairs", "mini_fables", "mini_situations"}),
        ("mini_?a*", {"mini_pairs", "mini_fables", "mini_narrative"}),
    ],
)
def test_a_pattern_is_a_part_of_the_name_or_a_glob(pattern: str, expected: set[str], cli: Cli) -> None:
    assert {row["name"] for row in rows(cli, "tasks", pattern)} == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("taks",), "unknown kind 'taks'; did you mean 'tasks'?"),
        (("tasks", "mini_prs"), "unknown task 'mini_prs'; did you mean 'mini_pairs'"),
        (("metrics", "*f2"), "unknown metric '*f2'"),
    ],
)
def test_nothing_of_that_name(arguments: tuple[str, ...], words: str, cli: Cli) -> None:
    assert words in cli("ls", *arguments).complaint


@pytest.mark.wing("exporters")
def test_layouts(cli: Cli) -> None:
    layouts = {row["name"]: row for row in rows(cli, "layouts")}
    assert next(iter(layouts)) == "comparison"
    assert layouts["epic_table_7"]["tasks"] == ["epic_retrieval_seen", "epic_retrieval_unseen"]
    assert layouts["epic_table_7"]["owner"] == "figeval.builtin.tasks.epic"


def test_every_option_of_every_model_has_a_type_and_help(cli: Cli) -> None:
    models = {row["name"]: row["options"] for row in json.loads(cli("ls", "models", "--json").out)}
    options = [(model, option) for model, listed in models.items() for option in listed]
    assert not [(model, option["name"]) for model, option in options if not (option["help"] and option["type"])]
    names = {model: {option["name"] for option in listed} for model, listed in models.items()}
    assert {"pooling", "query_prompt", "dtype"} <= names["encoder"]
    assert {"model", "max_cost", "account", "price_source"}.isdisjoint(names["openai"])
    shown = cli("show", "encoder").out
    assert all(name in shown for name in names["encoder"])
    assert json.loads(cli("show", "encoder", "--json").out)["options"] == models["encoder"]


def test_options_of_a_third_partys_model(cli: Cli, install: Callable[..., None]) -> None:
    class Fixed:
        """A model.

        Args:
            model: nothing.
            level: how loud it is, from 0
                to 10.
        """

        def __init__(self, model: str = "", /, *, level: int, tone: str = "flat") -> None: ...

    plugin = ModuleType("louder")
    plugin.register_backends = hookimpl(lambda register: register("loud", Fixed, "a loud one"))  # type: ignore[attr-defined]
    install(plugin)
    level, tone = json.loads(cli("show", "loud", "--json").out)["options"]
    assert level == {"name": "level", "type": "int", "default": None, "is_required": True, "help": level["help"]}
    assert level["help"] == "how loud it is, from 0 to 10."
    assert tone == {"name": "tone", "type": "str", "default": "flat", "is_required": False, "help": ""}
