"""`figeval.testing.harness` and `predict`: parts of a plugin tried without an installation."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from figeval import CapabilityError, ChoiceExample, OutputStream, Part, PluginError, Route, TextPair, hookimpl
from figeval.testing import ask, harness, predict
from figeval.testing.fakes import FakeEncoder, FakePairScorer

EXAMPLE = ChoiceExample(id="1", query="a crow", options=("a crow caws", "an ox"), gold=0)


class Plugin:
    @hookimpl
    def register_backends(self, register: Any) -> None:
        register("scorer", lambda model="": FakePairScorer(), "a fake")


class Misspelt:
    @hookimpl
    def register_model(self, register: Any) -> None: ...


def choice_route(name: str) -> Route:
    return next(route for route in harness().routes.of("choice") if route.name == name)


def test_a_harness_has_what_its_plugins_register_and_nothing_else() -> None:
    assert [entry.name for entry in harness(Plugin()).backends.registry] == ["scorer"]
    assert not list(harness().catalogue.tasks)
    assert list(harness("figeval.builtin.tasks.mini").catalogue.tasks)


def test_folders_are_paths_or_texts(tmp_path: Path) -> None:
    text = "name: t\ntype: choice\ndata: {test: 'jsonl:x.jsonl'}\nfields: {id: a, query: b, options: c, gold: d}\n"
    (tmp_path / "t.task.yaml").write_text(text)
    for folder in (tmp_path, str(tmp_path)):
        assert [entry.name for entry in harness(include=[folder]).catalogue.tasks] == ["t"]


@pytest.mark.parametrize(
    ("plugin", "message"), [("no_such_module", "No module named"), (Misspelt(), "no hook 'register_model'")]
)
def test_a_plugin_that_cannot_be_loaded_is_an_error(plugin: object, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        harness(plugin)


def test_a_route_is_tried_on_examples() -> None:
    (prediction,) = predict(choice_route("by_pair_score"), FakePairScorer(), [EXAMPLE])
    assert (prediction.value, prediction.scores) == (0, (2.0, 0.0))
    with harness(Plugin()).open_model("scorer", {}) as model:
        assert predict(choice_route("by_pair_score"), model, [EXAMPLE]) == [prediction]


def test_what_the_model_or_the_call_lacks_is_said() -> None:
    with pytest.raises(CapabilityError, match="FakeEncoder has no method score_pairs"):
        predict(choice_route("by_pair_score"), FakeEncoder(), [EXAMPLE])
    with pytest.raises(PluginError, match=r"renders the block 'letter'; give predict\(…, context="):
        predict(choice_route("by_letter"), SimpleNamespace(generate=lambda prompts: ["A"]), [EXAMPLE])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Part([0, 1], {0.5: "a", 0.2: "b"}), "returned a dict"),  # its keys are no scores
        (Part([0, 1], "ab"), "returned a str"),
        ([0.5, 0.2], "returned a list among its parts"),
        (Part([0], [0.5]), "returned 1 outputs for 2 requests"),
        (Part([0, 0], [0.5, 0.5]), "one value for each of its requests, once"),
    ],
)
def test_parts_are_checked_like_whole_answers(part: Any, message: str) -> None:
    model = SimpleNamespace(score_pairs=lambda pairs: OutputStream(len(pairs), [part]))  # type: ignore[arg-type]
    with pytest.raises(PluginError, match=message):
        ask(model, [TextPair("a", "b"), TextPair("c", "d")])
