"""Which side of a comparison a text is on, for encoders that read queries and documents differently."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import Outputs, Text
from figeval.testing.fakes import FakeEncoder

SYMMETRIC_ROLES = {""}
SIDES = {"query", "document"}
TEXT = "Rain again."
TASKS: dict[str, tuple[set[str], str, str]] = {  # type → roles, labels, fields of the only row
    "classification": (SIDES, "[sad, glad]", f"{{text: '\"{TEXT}\"', label: '\"sad\"'}}"),
    "multilabel": (SIDES, "[sad, glad]", f"{{text: '\"{TEXT}\"', labels: '[\"sad\"]'}}"),
    "rating": (SYMMETRIC_ROLES, "['1', '2', '3']", f"{{left: '\"{TEXT}\"', right: '\"It rains.\"', grade: '2'}}"),
}
TEMPLATE = """{% block description %}This is {{ option }}.{% endblock %}"""


class Sides(FakeEncoder):
    """An encoder that remembers which texts it read in which role."""

    deterministic_by_name = True
    read: set[tuple[str, str]]

    def embed(self, requests: Sequence[Text]) -> Outputs[Any]:
        self.read = getattr(self, "read", set()) | {(request.text, request.role) for request in requests}
        return super().embed(requests)

    def of(self, role: str) -> set[str]:
        return {text for text, read_as in self.read if read_as == role}


def sides_of_run(task: str, folder: Path, **options: Any) -> Sides:
    model = Sides()
    figeval.run(task, model, name="sides", limit=3, baselines=False, output_path=folder / "run", **options)
    return model


@pytest.mark.parametrize(
    ("task", "roles"),
    [
        ("mini_proverbs", SIDES),
        ("mini_retrieval", SIDES),
        ("mini_alignment", SIDES),
        ("mini_motif", SIDES),
        ("mini_pairs", SYMMETRIC_ROLES),
    ],
)
def test_the_sides_of_each_type(task: str, roles: set[str], tmp_path: Path) -> None:
    model = sides_of_run(task, tmp_path)
    assert {role for _, role in model.read} == roles


def test_a_question_is_the_query_and_its_options_are_documents(tmp_path: Path) -> None:
    model = sides_of_run("mini_proverbs", tmp_path)
    rows = [json.loads(line) for line in Path("tasks/mini/proverbs.jsonl").read_text().splitlines()]
    proverbs = {row["proverb"] for row in rows if "proverb" in row}
    assert model.of("document") <= proverbs
    assert not model.of("query") & proverbs


def test_texts_that_represent_themselves_are_on_no_side(tmp_path: Path) -> None:
    model = sides_of_run("mini_motif", tmp_path, routes={"similarity": "by_embedding"})
    assert {role for _, role in model.read} == SYMMETRIC_ROLES


@pytest.mark.parametrize("kind", TASKS)
def test_labels_are_documents_and_two_sentences_are_alike(kind: str, tmp_path: Path) -> None:
    roles, labels, fields = TASKS[kind]
    (tmp_path / "t.jsonl").write_text("{}\n")
    (tmp_path / "t.jinja").write_text(TEMPLATE)
    (tmp_path / "t.task.yaml").write_text(
        f"name: t\ndescription: t\ntype: {kind}\nlabels: {labels}\ndata: {{test: 'jsonl:t.jsonl'}}\n"
        f"fields: {{id: '\"1\"', {fields[1:]}\ntemplate: t.jinja\n"
    )
    model = sides_of_run("t", tmp_path, include_path=tmp_path, routes={kind: "by_cosine"})
    assert {role for _, role in model.read} == roles
    if roles == SIDES:
        assert model.of("query") == {TEXT}
