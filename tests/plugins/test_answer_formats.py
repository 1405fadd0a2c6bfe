"""Whatever an answer format allows, the reader of its route understands as it is meant."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import AnswerFormat, ChoiceExample, Harness, PairExample, Prediction, PromptContext, Reply, SpanExample
from tests.typed import find_route

TEXT = "he let the cat out of the bag before noon"
TASK_TYPES = Harness().task_types
CHOICE = ChoiceExample(id="1", query="q", options=("cat", "dog", "cow", "hen", "fox"), gold=0)
PAIR = PairExample(id="1", left="l", right="r", label="entailment")
MULTILABEL = TASK_TYPES.get("multilabel").Example(id="1", text="t", labels=None)
RATING = TASK_TYPES.get("rating").Example(id="1", left="a", right="b", grade=None)
SPAN = SpanExample(id="1", text=TEXT, given="betrayed a secret", known="k", gold=None)
WORDS = TASK_TYPES.get("labelling").Example(id="1", tokens=tuple(TEXT.split()), tags=None)
CONTEXTS: dict[str, dict[str, Any]] = {
    "choice": {},
    "pairs": {
        "labels": ("entailment", "non-entailment"),
        "verbalizer": {"entailment": ("Yes",), "non-entailment": ("No", "Maybe")},
    },
    "multilabel": {"labels": ("irony", "sarcasm", "satire"), "verbalizer": {"satire": ("satire", "mockery")}},
    "rating": {"labels": ("0", "0.5", "1", "10")},
    "spans": {},
    "labelling": {"labels": ("B-FIG", "I-FIG", "O")},
}


def format_and_reader(task_type: str, name: str, example: Any) -> tuple[AnswerFormat, Any]:
    """The format of a route, and a function that reads a text in it."""
    route, context = find_route(task_type, name), PromptContext(block=lambda *_, **_options: "", **CONTEXTS[task_type])
    assert route.answer_format is not None and route.reader is not None
    reader = route.reader
    answer_format = route.answer_format(example, context)

    def read(text: str) -> Prediction:
        jsonschema.validate(json.loads(text) if answer_format.schema else text, answer_format.json_schema)
        return reader.read(example, context, Reply(text=text))

    return answer_format, read


@pytest.mark.parametrize(
    ("task_type", "name", "example", "values"),
    [
        ("choice", "by_letter", CHOICE, [0, 1, 2, 3, 4]),
        ("pairs", "by_label_word", PAIR, ["entailment", "non-entailment", "non-entailment"]),
        ("rating", "by_number", RATING, [0.0, 0.5, 1.0, 10.0]),
    ],
)
def test_every_choice_is_read(task_type: str, name: str, example: Any, values: list[Any]) -> None:
    answer_format, read = format_and_reader(task_type, name, example)
    readings = [read(choice) for choice in answer_format.choices]
    assert [(reading.status, reading.value) for reading in readings] == [("ok", value) for value in values]


@given(st.sets(st.sampled_from(["irony", "sarcasm", "satire"])), st.sampled_from([None, 2]))
def test_every_list_of_labels_is_read(labels: set[str], indent: int | None) -> None:
    _, read = format_and_reader("multilabel", "by_list", MULTILABEL)
    reading = read(json.dumps({"labels": sorted(labels)}, indent=indent))
    assert (reading.status, reading.value) == ("ok", frozenset(labels))
    assert read(json.dumps({"labels": ["mockery"]}, indent=indent)).value == {"satire"}


@given(st.data(), st.sampled_from([None, 2]))
def test_every_quotation_is_read(data: st.DataObject, indent: int | None) -> None:
    words = TEXT.split()
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    quote = " ".join(words[start:end])
    _, read = format_and_reader("spans", "by_json", SPAN)
    span = read(json.dumps({"quote": quote}, indent=indent)).value
    assert TEXT[span.start : span.end] == quote
    _, read_quotes = format_and_reader("labelling", "by_quotes", WORDS)
    reading = read_quotes(json.dumps({"quotes": [quote]}, indent=indent))
    assert reading.status == "ok" and reading.value is not None
    first, length = reading.value.index("B-FIG"), end - start
    assert " ".join(words[first : first + length]) == quote
    assert reading.value[first : first + length] == ("B-FIG", *["I-FIG"] * (length - 1))


def test_that_there_is_nothing_is_read() -> None:
    _, read_quotes = format_and_reader("labelling", "by_quotes", WORDS)
    reading = read_quotes('{"quotes": []}')
    assert (reading.status, reading.value) == ("ok", ("O",) * len(WORDS.tokens))
    _, read_span = format_and_reader("spans", "by_json", SPAN)
    assert read_span('{"quote": ""}').status == "ok"
