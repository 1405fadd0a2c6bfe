"""Solved examples that do not fit: the farthest are left out first, for all requests of a question, and counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import CapabilityError, Continuation, HasRoom, Message, Prompt
from figeval.testing.fakes import FakeChatModel, FakeGenerator, FakeLanguageModel
from tests.cli.conftest import Cli
from tests.plugins.tiny import LINES, LONG_TEXT, POSITIONS
from tests.plugins.tiny import Workshop as Checkpoints
from tests.runs.conftest import write_task

MANY_CHARS = 10_000  # characters, of which no prompt here has so many


@dataclass
class Narrow(FakeLanguageModel):
    """A language model that reads `longest` characters."""

    longest: int = MANY_CHARS

    def has_room(self, requests: Any) -> bool:
        return all(len(request.context) + len(request.continuation) <= self.longest for request in requests)


@dataclass
class NarrowWriter(FakeGenerator):
    """A model that answers in words, and reads `longest` characters."""

    longest: int = MANY_CHARS

    def has_room(self, requests: Any) -> bool:
        return all(len(request.plain) <= self.longest for request in requests)


def contexts(workshop, backend, **settings):
    """The prompt of each question, by the id of its example."""
    workshop.backend = backend
    workshop.run(num_fewshot=4, fresh=True, **settings)
    texts = {getattr(request, "context", None) or request.plain for request in backend.asked}
    ends = {text.rpartition("word")[2].split()[0]: text for text in texts}
    return {f"t{number}": text for number, text in ends.items()}


@pytest.mark.parametrize("longest", [60, 110, 160, 210])
def test_the_farthest_are_left_out_until_the_prompt_fits(longest, workshop):
    write_task(workshop.folder, "t")
    full = contexts(workshop, FakeLanguageModel())
    assert isinstance(Narrow(), HasRoom)
    shortened = contexts(workshop, Narrow(longest=longest))
    task = workshop.load().record.tasks[0]
    dropped = {row["id"]: row.get("dropped_shots", 0) for row in workshop.rows()}
    for name, text in shortened.items():
        turns = full[name].split("\n\n")
        assert text == "\n\n".join(turns[dropped[name] :])
        room = longest - len(" other")  # the longest option of every question is this, or its word
        one_more = "\n\n".join(turns[max(0, dropped[name] - 1) :])
        assert not dropped[name] or len(one_more) > room - 1
        assert len(text) <= longest or dropped[name] == 4
    assert sum(dropped.values()) == task.counts.get("dropped_shots", 0)
    assert sum(map(bool, dropped.values())) == task.counts.get("shortened_prompts", 0)


def test_all_options_are_compared_after_the_same_examples(workshop):
    """A long option shortens the prompt of the others, too."""
    write_task(workshop.folder, "t", row3={"o": ["word3", "other", "third" * 20]})
    full = contexts(workshop, FakeLanguageModel())["t3"]
    workshop.backend = Narrow(longest=len(full) + 20)
    workshop.run(num_fewshot=4, fresh=True)
    asked_contexts = {
        request.context for request in workshop.backend.asked if "word3 here\nAnswer" in request.context[-40:]
    }
    (row,) = (row for row in workshop.rows() if row["id"] == "t3")
    assert row["dropped_shots"] > 0
    assert len({context for context in asked_contexts if context.endswith(full[-30:])}) == 1


@pytest.mark.parametrize("settings", [{"orders": "cyclic"}, {"shots": "shared"}])
def test_other_ways_of_asking(settings, workshop):
    write_task(workshop.folder, "t", 12)
    route = {"routes": {"choice": "by_letter"}} if "orders" in settings else {}
    backend: Any = NarrowWriter(longest=260) if route else Narrow(longest=110)
    workshop.backend = backend
    workshop.run(num_fewshot=3, **settings, **route)
    assert {row["dropped_shots"] for row in workshop.rows()} <= {1, 2, 3}
    longest = max(len(getattr(request, "context", None) or request.plain) for request in backend.asked)
    assert longest <= backend.longest


def test_priors_are_measured_after_the_examples_of_the_question(tmp_path: Path) -> None:
    backend = Narrow(longest=420)
    run = figeval.run("mini_pairs", backend, num_fewshot=4, calibrate=True, limit=6, output_path=tmp_path / "run")
    assert run.record.tasks[0].counts["dropped_shots"]
    beginnings: dict[str, set[int]] = {}
    for request in backend.asked:
        assert isinstance(request, Continuation)
        *shots, _question = request.context.split("\n\n")
        beginnings.setdefault("\n\n".join(shots), set()).add(len(shots))
    assert all(len(numbers) == 1 for numbers in beginnings.values())


def test_resuming_and_reading_again_give_the_same_rows(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = NarrowWriter(longest=260)
    workshop.run(num_fewshot=4)
    rows = workshop.predictions().read_bytes()
    assert b"dropped_shots" in rows
    workshop.predictions().write_bytes(b"".join(rows.splitlines(keepends=True)[:7]))
    workshop.edit_record(lambda record: record["tasks"][0].update(status="running", predictions_sha256=None))
    workshop.run(num_fewshot=4)
    assert workshop.predictions().read_bytes() == rows
    workshop.rescore()
    assert workshop.predictions().read_bytes() == rows


def test_a_part_of_a_joint_task_shows_its_own_number(tmp_path: Path) -> None:
    @dataclass
    class Narrower(NarrowWriter):
        def loglikelihood(self, requests: Any) -> list[float]:
            self.note(requests)
            return [-1.0] * len(requests)

        def has_room(self, requests: Any) -> bool:
            prompts = (getattr(request, "context", None) or request.plain for request in requests)
            return all(len(text) <= self.longest for text in prompts)

    run = figeval.run("mini_joint", Narrower(longest=700), num_fewshot=2, limit=2, output_path=tmp_path / "run")
    assert run.record.tasks[0].counts.get("dropped_shots")


# ---- models on this machine ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    return Checkpoints(tmp_path_factory.mktemp("checkpoints"))


KINDS = [("gpt2", "LMHeadModel"), ("llama", "ForCausalLM"), ("t5", "ForConditionalGeneration")]


@pytest.mark.parametrize(("kind", "head"), KINDS)
def test_what_fits_is_what_is_not_cut(
    kind: str, head: str, checkpoints: Checkpoints, open_model: Callable[..., Any]
) -> None:
    model = open_model(f"hf:{checkpoints(kind, head)}")
    texts = [LONG_TEXT[-length:] for length in (20, 60, 100, 120, 140, 160, 200, len(LONG_TEXT))] + ["ﷺ" * 30, "é" * 90]
    scored = [Continuation(text, option) for text in texts for option in (" Yes", f" {LINES[0]}")]
    written = [Prompt((Message("user", text),), max_new_tokens=n) for text in texts for n in (1, 30)]
    fits = [[model.has_room([request]) for request in requests] for requests in (scored, written)]
    assert "network" not in vars(model)
    cut = model.loglikelihood(scored).truncated, model.generate(written).truncated
    assert fits == [
        [index not in cut[0] for index in range(len(scored))],
        [i not in cut[1] for i in range(len(written))],
    ]
    assert {True, False} == set(fits[0]) == set(fits[1])
    assert not model.has_room(scored)


def test_a_run_says_what_was_left_out(checkpoints: Checkpoints, tmp_path: Path, cli: Cli) -> None:
    model = f"causal:{checkpoints('gpt2', 'LMHeadModel', n_positions=4 * POSITIONS)}"
    arguments = ["run", "--tasks", "mini_pairs", "--limit", "3", "--model", model, "--no_baselines"]
    outcome = cli(*arguments, "--num_fewshot", "4", "--output_path", tmp_path / "run")
    assert outcome.code == 0
    counts = json.loads((tmp_path / "run" / "run.json").read_text())["tasks"][0]["counts"]
    assert counts["dropped_shots"] >= counts["shortened_prompts"] == 3
    assert f"{counts['dropped_shots']} solved examples left out of prompts" in outcome.out
    assert "truncated" not in outcome.out
    preview = cli("preview", "mini_pairs", "-n", "1", "--model", model, "--num_fewshot", "4").out
    rows = (tmp_path / "run" / "predictions" / "mini_pairs.jsonl").read_text().splitlines()
    assert preview.count("Answer:") - 1 == 4 - json.loads(rows[0])["dropped_shots"]


# ---- a system message without a system role --------------------------------------------------------------------------


def test_the_system_message_begins_the_first_turn_of_the_user(workshop):
    write_task(workshop.folder, "t")
    settings = {"system_instruction": "Be brief.", "system_as_user": True}
    for shots in (0, 2):
        workshop.backend = FakeChatModel()
        (task,) = workshop.run(num_fewshot=shots, fresh=True, **settings).tasks
        context = workshop.backend.asked[0].context
        assert context.startswith("<user>Be brief.\n\nQuestion: ")
        assert context.count("Be brief.") == 1
        assert "<system>" not in context
        assert task.settings["system_as_user"] is True
    workshop.backend = FakeGenerator()
    workshop.run(fresh=True, **settings)
    assert {turn.role for prompt in workshop.backend.asked for turn in prompt.messages} == {"user"}


def test_without_effect_it_is_refused(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeChatModel()
    with pytest.raises(CapabilityError, match="give --system_instruction, or leave it out"):
        workshop.run(system_as_user=True)
    workshop.backend = FakeLanguageModel()
    with pytest.raises(CapabilityError, match="leave out --system_as_user"):
        workshop.run(system_as_user=True, system_instruction="Be brief.")
