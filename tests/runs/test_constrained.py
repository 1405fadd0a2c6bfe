"""Answers that are held to a format, and tokens of answers and thoughts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import AnswerFormat, Prompt, Reply, hookimpl
from tests.runs.conftest import Workshop, write_task

ROUTE_OF_TASK = {  # task → route, and an answer that fits its format
    "mini_proverbs": "by_letter",
    "mini_pairs": "by_label_word",
    "mini_alignment": "by_json",
}


@dataclass
class Obedient:
    """Writes the first acceptable answer, or "A" if it is told of none."""

    constrains_answers: bool = True
    deterministic_by_name: bool = True
    is_chat_model: bool = True
    tokens: tuple[int | None, int | None] = (None, None)
    requests: list[Prompt] = field(default_factory=list)

    def generate(self, requests: Sequence[Prompt]) -> list[Reply]:
        self.requests += requests
        return [
            Reply(text=self._text(request.answer), answer_tokens=self.tokens[0], reasoning_tokens=self.tokens[1])
            for request in requests
        ]

    def _text(self, answer: AnswerFormat | None) -> str:
        if answer is None:
            return "A"
        return answer.choices[0] if answer.choices else json.dumps(dict.fromkeys(answer.json_schema["properties"], ""))


def first_row(run: figeval.Run) -> dict[str, Any]:
    lines = (run.path / "predictions/mini_pairs.jsonl").read_text(encoding="utf-8").splitlines()
    row: dict[str, Any] = json.loads(lines[0])
    return row


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("task", ROUTE_OF_TASK)
def test_prompts_say_what_an_acceptable_answer_is_only_if_asked_to(task: str) -> None:
    free, held = Obedient(), Obedient()
    options = {"routes": {"choice": "by_letter"}, "baselines": False}
    plain = figeval.run(task, free, name="m", **options)
    constrained = figeval.run(task, held, name="m", constrain=True, **options)
    assert {request.answer for request in free.requests} == {None}
    assert None not in {request.answer for request in held.requests}
    assert {request.messages for request in free.requests} == {request.messages for request in held.requests}, (
        "the question is the same"
    )
    assert "constrain" not in plain.record.tasks[0].settings
    assert constrained.record.tasks[0].settings["constrain"] is True
    assert constrained.record.tasks[0].route == ROUTE_OF_TASK[task]
    assert constrained.record.identity != plain.record.identity
    assert "constrained to acceptable answers" in str(constrained)
    (parsed,) = (score.value for score in constrained.record.tasks[0].scores if score.metric == "parse_rate")
    assert parsed == 1


def test_the_letters_are_those_that_are_shown() -> None:
    model = Obedient()
    figeval.run("mini_proverbs", model, name="m", constrain=True, orders="cyclic", baselines=False)
    for prompt in model.requests:
        assert prompt.answer is not None
        letters = prompt.answer.choices
        assert letters == tuple("ABCDEFGH"[: len(letters)])
        assert f"\n{letters[-1]}." in prompt.plain and f"\n{chr(ord(letters[-1]) + 1)}." not in prompt.plain


def test_who_cannot_be_held_to_a_format_is_refused() -> None:
    with pytest.raises(figeval.CapabilityError, match=r"answers of m cannot be constrained; .* that can: "):
        figeval.run("mini_pairs", Obedient(constrains_answers=False), name="m", constrain=True)


def test_a_route_without_a_format_is_refused() -> None:
    with pytest.raises(figeval.CapabilityError, match=r"to keep to; .*, or leave mini_narrative out of --tasks"):
        figeval.run("mini_narrative", Obedient(), name="m", constrain=True)


def test_rows_and_record_know_what_was_written_and_zero_is_not_unknown() -> None:
    counted_run = figeval.run("mini_pairs", Obedient(tokens=(1, 20)), name="a", limit=5, baselines=False)
    half = figeval.run("mini_pairs", Obedient(tokens=(2, None)), name="b", limit=5, baselines=False)
    nothing = figeval.run("mini_pairs", Obedient(), name="c", limit=5, baselines=False)
    counts = {"answers": 5, "reasoning": 100, "answers_known": 5, "reasoning_known": 5}
    assert counted_run.record.tasks[0].tokens == counts
    assert half.record.tasks[0].tokens == {"answers": 10, "answers_known": 5}
    assert nothing.record.tasks[0].tokens == {}
    row = first_row(counted_run)
    assert (row["answer_tokens"], row["reasoning_tokens"]) == (1, 20)
    assert not {"answer_tokens", "reasoning_tokens"} & set(first_row(nothing))
    assert figeval.verify(counted_run, include_path=()).problems == ()


class Failing:
    """A metric that fails on every example, so that replies are kept."""

    @hookimpl
    def register_metrics(self, register: Callable[..., None]) -> None:
        register("failing", lambda _example, _prediction: 1 / 0, True, ("choice",))


def test_a_prompt_without_a_format_keeps_its_digest(workshop: Workshop) -> None:
    """A literal of the version before formats, whose kept replies are found by it."""
    write_task(workshop.folder, "t", 1)
    (workshop.folder / "why.jinja").write_text("{% block letter %}Why?{% endblock %}", encoding="utf-8")
    with (workshop.folder / "t.task.yaml").open("a") as file:
        file.write("template: why.jinja\n")
    digests = []
    for constrain in (False, True):
        workshop.backend = Obedient(is_chat_model=False)
        harness = workshop.harness(Failing())
        workshop.run(harness=harness, metrics=("failing",), constrain=constrain, fresh=True)
        digests.append(json.loads((workshop.output / "replies/t.jsonl").read_text(encoding="utf-8"))["request"])
    assert digests[0] == "c2e0e15fd7052d1b3163c7c8028bf6a0d358c181f1c00d38224f045109cf5436"
    assert digests[1] != digests[0]


@dataclass
class Both(Obedient):
    """Also has log-likelihoods, which come first."""

    def loglikelihood(self, requests: Sequence[Any]) -> list[float]:
        return [0.0] * len(requests)


def test_a_route_on_which_the_flag_has_an_effect_is_named() -> None:
    words = "takes the route by_loglikelihood, which has no format of answers to keep to; leave out --constrain, or "
    with pytest.raises(figeval.CapabilityError, match=f"{words}give --route choice=by_letter"):
        figeval.run("mini_proverbs", Both(), name="m", constrain=True)
