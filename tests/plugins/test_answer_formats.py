"""Whatever an answer format allows, the reader of its route understands as it is meant."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import AnswerFormat, ChoiceExample, PairExample, Prediction, PromptContext, Reply, SpanExample
from figeval.answers.quotes import quotation
from figeval.builtin.plugins.classification.multilabel import Multilabel, MultilabelExample
from figeval.builtin.plugins.labelling.labelling import Labelling, LabellingExample
from figeval.builtin.plugins.labelling.tags import chunks
from figeval.builtin.plugins.rating.rating import Rating, RatingExample
from figeval.task_types.choice import Choice
from figeval.task_types.pairs import Pairs
from figeval.task_types.spans import Spans
from tests.typed import route_of

TEXT = "he let the cat out of the bag before noon"
CHOICE = ChoiceExample(id="1", query="q", options=("cat", "dog", "cow", "hen", "fox"), gold=0)
PAIR = PairExample(id="1", left="l", right="r", label="entailment")
MULTILABEL = MultilabelExample(id="1", text="t", labels=None)
RATING = RatingExample(id="1", left="a", right="b", grade=None)
SPAN = SpanExample(id="1", text=TEXT, given="betrayed a secret", known="k", gold=None)
WORDS = LabellingExample(id="1", tokens=tuple(TEXT.split()), tags=None)
CONTEXTS: dict[Any, dict[str, Any]] = {
    Choice: {},
    Pairs: {
        "labels": ("entailment", "non-entailment"),
        "verbalizer": {"entailment": ("Yes",), "non-entailment": ("No", "Maybe")},
    },
    Multilabel: {"labels": ("irony", "sarcasm", "satire"), "verbalizer": {"satire": ("satire", "mockery")}},
    Rating: {"labels": ("0", "0.5", "1", "10")},
    Spans: {},
    Labelling: {"labels": ("B-FIG", "I-FIG", "O")},
}


def format_and_reader(task_type: Any, name: str, example: Any) -> tuple[AnswerFormat, Any]:
    """The format of a route, and a function that reads a text in it."""
    route, context = route_of(task_type, name), PromptContext(block=lambda *_, **_options: "", **CONTEXTS[task_type])
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
        (Choice, "by_letter", CHOICE, [0, 1, 2, 3, 4]),
        (Pairs, "by_label_word", PAIR, ["entailment", "non-entailment", "non-entailment"]),
        (Rating, "by_number", RATING, [0.0, 0.5, 1.0, 10.0]),
    ],
)
def test_every_choice_is_read(task_type: Any, name: str, example: Any, values: list[Any]) -> None:
    answer_format, read = format_and_reader(task_type, name, example)
    readings = [read(choice) for choice in answer_format.choices]
    assert [(reading.status, reading.value) for reading in readings] == [("ok", value) for value in values]


@given(st.sets(st.sampled_from(["irony", "sarcasm", "satire"])), st.sampled_from([None, 2]))
def test_every_list_of_labels_is_read(labels: set[str], indent: int | None) -> None:
    _, read = format_and_reader(Multilabel, "by_list", MULTILABEL)
    reading = read(json.dumps({"labels": sorted(labels)}, indent=indent))
    assert (reading.status, reading.value) == ("ok", frozenset(labels))
    assert read(json.dumps({"labels": ["mockery"]}, indent=indent)).value == {"satire"}


@given(st.data(), st.sampled_from([None, 2]))
def test_every_quotation_is_read(data: st.DataObject, indent: int | None) -> None:
    words = TEXT.split()
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    quote = " ".join(words[start:end])
    _, read = format_and_reader(Spans, "by_json", SPAN)
    assert read(json.dumps({"quote": quote}, indent=indent)).status == "ok"
    assert quotation(Reply(text=json.dumps({"quote": quote}, indent=indent)), SPAN).quote == quote
    _, read_quotes = format_and_reader(Labelling, "by_quotes", WORDS)
    reading = read_quotes(json.dumps({"quotes": [quote]}, indent=indent))
    assert reading.status == "ok" and reading.value is not None
    assert any(" ".join(words[chunk.start : chunk.end]) == quote for chunk in chunks(reading.value))


def test_that_there_is_nothing_is_read() -> None:
    _, read_quotes = format_and_reader(Labelling, "by_quotes", WORDS)
    reading = read_quotes('{"quotes": []}')
    assert (reading.status, reading.value) == ("ok", ("O",) * len(WORDS.tokens))
    _, read_span = format_and_reader(Spans, "by_json", SPAN)
    assert read_span('{"quote": ""}').status == "ok"
