"""Solved examples from another task (`--fewshot_from`): shown as questions of the task that is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import FigevalError, RunConfig, RunRecord, TaskError, TaskSpec, hookimpl
from figeval.testing import harness
from figeval.testing.fakes import FakeGenerator
from tests.finished_runs import execute
from tests.typed import Rows

THREE = {"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"}
TWO = {"entailment": "Yes", "non-entailment": ["No", "Maybe"]}
FIELDS = {"id": "row.id", "left": "row.left", "right": "row.right", "label": "row.label", "meta": {"c": "row.c"}}
CHOICE = {"id": "row.id", "query": "row.left", "options": "[row.right, row.c]", "gold": "0"}


def pairs(name: str, words: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A task about pairs, whose labels these words express."""
    return {"name": name, "type": "pairs", "labels": list(words), "verbalizer": words, "fields": FIELDS, **keys}


def row(name: str, label: str, left: str = "", cluster: str = "") -> dict[str, Any]:
    return {"id": name, "left": left or f"left {name}", "right": f"right {name}", "label": label, "c": cluster or name}


POOL = [row(f"{label}-{number}", label) for label in THREE for number in range(3)]
QUESTIONS = [row("q1", "entailment", cluster="x"), row("q2", "non-entailment", cluster="y")]
TASKS = (
    pairs("figures", TWO, data={"test": "rows:questions"}, cluster="c"),
    pairs("trained", TWO, data={"test": "rows:questions", "train": "rows:questions"}),
    pairs("literal", THREE, data={"test": "rows:pool", "train": "rows:pool"}, cluster="c"),
    pairs("moods", {"gay": "Yes", "sad": "No"}, data={"test": "rows:none", "train": "rows:none"}),
    {"name": "options", "type": "choice", "fields": CHOICE, "data": {"test": "rows:pool", "train": "rows:pool"}},
)


class Trial:
    """Runs of a writer that records what it is asked; `opened` says whether it was opened."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.writer, self.opened = folder, FakeGenerator(function=lambda _question: "No"), False
        self.rows: dict[str, list[dict[str, Any]]] = {"questions": QUESTIONS, "pool": POOL, "none": []}

    def harness(self) -> Any:
        return harness(Rows(**self.rows), self)

    @hookimpl
    def register_tasks(self, register: Any) -> None:
        for keys in TASKS:
            register(TaskSpec.model_validate(keys))

    @hookimpl
    def register_backends(self, register: Any) -> None:
        register("writer", self._open)

    def _open(self, model: str) -> FakeGenerator:
        self.opened = True
        return self.writer

    def run(self, *tasks: str, **config: Any) -> RunRecord:
        options = {"num_fewshot": 9, "baselines": False, "output_path": self.folder / "run", **config}
        return execute(RunConfig(tasks=tasks, model="writer", **options), self.harness())

    def shown(self) -> list[list[tuple[str, str]]]:
        """For each question, the texts and the answers of its solved examples."""
        turns = [[message.content for message in prompt.messages[:-1]] for prompt in self.writer.asked]
        return [list(zip(texts[::2], texts[1::2], strict=True)) for texts in turns]


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def test_they_have_the_labels_of_the_task_that_is_asked(trial: Trial) -> None:
    (task,) = trial.run("figures", fewshot_from="literal").tasks
    for solved in trial.shown():
        answers = {text.split("left ")[1].split("-")[0]: answer.strip() for text, answer in solved}
        assert answers == {"entailment": "Yes", "neutral": "No", "contradiction": "No"}
        assert len(solved) == 9
    labels = {"entailment": "entailment", "neutral": "non-entailment", "contradiction": "non-entailment"}
    assert task.settings["fewshot_from"] == {"task": "literal", "labels": labels}
    (note,) = [note for note in figeval.load(trial.folder / "run").notes() if "literal" in note]
    assert "neutral as non-entailment" in note


def test_a_task_with_examples_of_its_own_shows_the_others_too(trial: Trial) -> None:
    trial.run("trained", fewshot_from="literal", num_fewshot=1)
    assert all("left q" not in text for solved in trial.shown() for text, _ in solved)


def test_such_a_run_is_computed_again_as_it_is_stored(trial: Trial) -> None:
    trial.run("figures", "options", fewshot_from="literal", num_fewshot=2)
    again = figeval.recompute(trial.folder / "run", trial.harness())
    assert again.record.model_dump(mode="json") == again.stored.model_dump(mode="json")
    assert not again.gaps and not [gap for task in again.tasks() for gap in task.gaps]


def test_none_has_the_text_the_cluster_or_the_id_of_the_question(trial: Trial) -> None:
    trial.rows["pool"] = [
        *POOL,
        row("same text", "neutral", left="Left, q1!"),
        row("same cluster", "neutral", cluster="x"),
        row("q1", "neutral", left="of another text"),
    ]
    trial.rows["questions"] = QUESTIONS[:1]
    trial.run("figures", fewshot_from="literal")
    assert len(trial.shown()[0]) == 9
    with pytest.raises(TaskError, match="10 cannot be met"):
        trial.run("figures", fewshot_from="literal", num_fewshot=10, fresh=True)


@pytest.mark.parametrize(
    ("tasks", "config", "words"),
    [
        (["figures"], {}, "give --fewshot_from TASK, or leave out --num_fewshot"),
        (["figures"], {"fewshot_from": "figures"}, "name another task in --fewshot_from"),
        (["figures"], {"fewshot_from": "options"}, "its examples are choice, but figures is pairs"),
        (["figures"], {"fewshot_from": "literl"}, "did you mean 'literal'"),
        (["figures", "options"], {"fewshot_from": "literl"}, "did you mean 'literal'"),
        (["figures"], {"fewshot_from": "literal", "num_fewshot": 0}, "only with --num_fewshot|without --num_fewshot"),
        (["literal"], {"fewshot_from": "trained"}, "'non-entailment' has no counterpart"),
    ],
)
def test_what_cannot_be_shown_is_said_before_the_model_is_opened(
    tasks: list[str], config: dict[str, Any], words: str, trial: Trial
) -> None:
    with pytest.raises(FigevalError, match=words):
        trial.run(*tasks, **config)
    assert not trial.opened


def test_a_task_without_solved_examples_does_not_stop_the_others(trial: Trial) -> None:
    record = trial.run("figures", "trained", "options", num_fewshot=1)
    assert [task.task for task in record.tasks] == ["trained", "options"]
    (omission,) = record.left_out
    assert omission.tasks == ["figures"] and "--fewshot_from" in omission.cure
    again = figeval.recompute(trial.folder / "run", trial.harness())
    assert again.record.left_out == again.stored.left_out and not again.gaps


def test_another_source_is_another_run(trial: Trial) -> None:
    trial.run("figures", fewshot_from="literal", num_fewshot=1)
    with pytest.raises(FigevalError, match="fewshot_from was literal, is trained"):
        trial.run("figures", fewshot_from="trained", num_fewshot=1)
