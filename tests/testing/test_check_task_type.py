"""The check of task types: the seven built-in ones keep to it, and each way to break one is named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast

import pytest

from figeval import (
    DataError,
    Example,
    Field,
    Prediction,
    Reply,
    ReplyReader,
    Route,
    TaskType,
    TextField,
    by_reply,
    metric,
    pair_scores,
)
from figeval.testing import check_task_type, harness

SNAIL, FEATHER, CROW = "She is as fast as a snail.", "It is as light as a feather.", "The crow lost its cheese."
LABELS = ("follows", "does not follow")
PART = {"id": "1a", "given": "lost", "known": CROW, "gold": "fast"}
BUILT_IN: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "choice": (
        [
            {"id": "1", "query": SNAIL, "options": ["She is slow.", "She is fast."], "gold": 0},
            {"id": "2", "query": FEATHER, "options": ["heavy", "light", "old"], "gold": 1, "option_meta": [{}, {}, {}]},
        ],
        {},
    ),
    "ranking": (
        [
            {"id": "1", "query": SNAIL, "candidates": [SNAIL, CROW, FEATHER], "relevant": 0},
            {"id": "2", "query": CROW, "candidates": [SNAIL, CROW, FEATHER], "relevant": [1, 2]},
        ],
        {},
    ),
    "pairs": (
        [
            {"id": "1", "left": SNAIL, "right": "She is slow.", "label": "follows"},
            {"id": "2", "left": FEATHER, "right": "It is heavy.", "label": "does not follow"},
        ],
        {"labels": LABELS},
    ),
    "spans": (
        [
            {"id": "1", "text": SNAIL, "given": "slow", "known": "She is slow.", "gold": "fast as a snail"},
            {"id": "2", "text": CROW, "given": "won", "known": "It won.", "gold": []},
        ],
        {},
    ),
    "joint": (
        [
            {"id": "1", "query": SNAIL, "candidates": [CROW, FEATHER], "relevant": 0, "parts": [PART]},
            {
                "id": "2",
                "query": CROW,
                "candidates": [CROW, FEATHER],
                "relevant": 1,
                "parts": [{**PART, "gold": "crow"}],
            },
        ],
        {},
    ),
    "generation": (
        [
            {"id": "1", "inputs": {"saying": SNAIL, "keywords": ["snail", "slow"]}, "references": ["A snail went."]},
            {"id": "2", "inputs": {"saying": CROW}, "references": ["A crow sang.", "It lost."]},
        ],
        {},
    ),
    "similarity": (
        [
            {"id": "1", "text": SNAIL, "category": "slow", "anchors": [FEATHER, CROW]},
            {"id": "2", "text": "She creeps.", "category": "slow", "anchors": [FEATHER, CROW]},
        ],
        {},
    ),
}


def built_in(name: str) -> type[TaskType[Any]]:
    return type(harness().task_types.get(name))


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_built_in_task_types_keep_to_the_contract(name: str) -> None:
    rows, task = BUILT_IN[name]
    check_task_type(built_in(name), rows, **task)


# ---- broken ones -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WordExample(Example):
    """Which word is it?"""

    text: Annotated[str, TextField("A text.")]
    gold: Annotated[str | None, TextField("Its word.", shown=False)]

    @property
    def hidden(self) -> bool:
        return self.gold is None


def first_word(example: Any, _context: Any, reply: Reply) -> Prediction:
    words = reply.text.split()
    return Prediction(example_id=example.id, value=words[0] if words else None, status="ok" if words else "empty")


def right(example: Any, prediction: Prediction) -> float | None:
    return None if prediction.value is None or example.gold is None else float(prediction.value == example.gold)


BY_WORD = by_reply("by_word", "word", ReplyReader(first_word, "1"))


class Words(TaskType[Any]):
    """Say the word."""

    name = "words"
    folder = Path(__file__).parent  # with its template
    Example = WordExample
    routes = (BY_WORD,)
    metrics = (metric("acc", right),)
    default_baselines = ()
    query = "text"

    def few_shot_answer(self, block: str, example: Any, context: Any) -> str | None:
        return f" {example.gold}"


ROWS = [{"id": "1", "text": SNAIL, "gold": "snail"}, {"id": "2", "text": CROW, "gold": "crow"}]


class Anything(Field):
    def read(self, value: Any, row: Any) -> Any:
        return value


class Nameless(Field):
    def read(self, value: Any, row: Any) -> Any:
        if not isinstance(value, str):
            raise DataError("this is no word")
        return value


class Raising(Field):
    def read(self, value: Any, row: Any) -> Any:
        return value.strip()


def example_class(kind: Any) -> Any:
    """The class of examples with another kind of field."""

    fields = {"text": Annotated[str, TextField("A text.")], "gold": Annotated[Any, kind]}
    other = type("Other", (Example,), {"__annotations__": fields, "hidden": WordExample.hidden})
    return dataclass(frozen=True, kw_only=True)(other)


def broken(**attributes: Any) -> Any:
    return type("Broken", (Words,), attributes)


def reading(**changes: Any) -> Any:
    """A type whose reader makes something else of a prediction."""

    def read(*heard: Any) -> Prediction:
        label = first_word(*heard)
        return replace(label, **{name: value(label) if callable(value) else value for name, value in changes.items()})

    return broken(routes=(by_reply("by_word", "word", ReplyReader(read, "1")),))


def rendering(example: Any, context: Any, reply: Reply) -> Prediction:
    context.block("word", example)
    return first_word(example, context, reply)


def obeying(example: Any, context: Any, reply: Reply) -> Prediction:
    label = first_word(example, context, reply)
    return replace(label, value=label.value and f"{label.value} {context.settings['threshold']}")


def by_size(example: Any, _context: Any) -> Any:
    (score,) = yield from pair_scores(example.text, ("size",))
    return Prediction(example_id=example.id, value="large" if score > 0.5 else "small")


BROKEN_TYPES: dict[str, tuple[Any, str]] = {
    "no type at all": (Words.Example, "takes a subclass of figeval.TaskType"),
    "no example": (broken(Example=dict), "Broken.Example is <class 'dict'>; make it a dataclass"),
    "no documentation": (broken(Example=example_class(TextField(" "))), "Other.gold has no documentation"),
    "no kind of field": (broken(Example=example_class("a word")), "Other.gold has no kind of field; annotate it"),
    "a field that reads anything": (
        broken(Example=example_class(Anything("A word."))),
        "the field 'gold' accepts any value",
    ),
    "an error without a field": (
        broken(Example=example_class(Nameless("A word."))),
        "about the field 'gold' does not name it",
    ),
    "another error": (
        broken(Example=example_class(Raising("A word."))),
        "the field 'gold' does not refuse .* but raises",
    ),
    "no such gold": (
        broken(gold_fields=("glod",)),
        "names the field 'glod', which WordExample lacks; did you mean",
    ),
    "no such query": (
        broken(query="txt"),
        "names the field 'txt', which WordExample lacks; did you mean 'text'",
    ),
    "no routes": (broken(routes=()), "Broken has no routes"),
    "two of a name": (broken(routes=(BY_WORD, BY_WORD)), "Broken has 2 routes 'by_word'; rename one"),
    "a misspelt capability": (
        broken(routes=(replace(BY_WORD, needs=frozenset({"generates"})),)),
        "needs 'generates', which is the capability of none .*; did you mean 'generate'",
    ),
    "capabilities as a text": (
        broken(routes=(replace(BY_WORD, needs=cast("Any", "generate")),)),
        "`needs` is a str; give a frozenset",
    ),
    "no such block": (
        broken(routes=(by_reply("by_word", "wort", ReplyReader(first_word, "1")),)),
        "route 'by_word' renders 'wort', which _default/words.jinja lacks",
    ),
    "a block that is not declared": (
        broken(routes=(replace(BY_WORD, question=""),)),
        "the route renders the prompt block 'word' without declaring it",
    ),
    "no such metric": (broken(routes=(replace(BY_WORD, metrics=("ac",)),)), "unknown metric 'ac'; did you mean 'acc'"),
    "no such default metric": (broken(default_metrics=("accuracy",)), "unknown metric 'accuracy'"),
    "a metric of no route": (
        broken(metrics=(metric("acc", right, routes=["by_wort"]),)),
        "name the route 'by_wort', which does not exist",
    ),
    "no such task type": (
        broken(routes=(Route(name="both", start=BY_WORD.start, of=("spam",)),)),
        "'spam'.*not a task type",
    ),
    "no version": (
        broken(routes=(replace(BY_WORD, reader=ReplyReader(first_word, "")),)),
        "reader of route 'by_word' has no version",
    ),
    "a reader that raises": (
        reading(value=lambda prediction: prediction.value[0]),
        "of the reply '', raised TypeError",
    ),
    "no prediction": (
        broken(routes=(by_reply("by_word", "word", ReplyReader(lambda e, c, r: r.text, "1")),)),
        "the reader of replies returned a str; return a figeval.Prediction",
    ),
    "an answer that is no JSON": (
        reading(value=lambda prediction: {prediction.value}),
        "row.. returns values that cannot be written",
    ),
    "an answer that comes back otherwise": (
        reading(value=lambda prediction: (prediction.value,)),
        "which from_json reads as",
    ),
    "a status that there is not": (reading(status="fine"), r"returns values that cannot be stored \(status must be "),
    "a reader that wants a template": (
        broken(routes=(by_reply("by_word", "word", ReplyReader(rendering, "1")),)),
        "the route renders the prompt block 'word'",
    ),
    "a row of its own": (
        broken(row=lambda self, e, p: {"gold": e.gold, "words": 1}),
        "unknown key 'words'.*into `details`",
    ),
    "a row over the row": (broken(row=lambda self, e, p: {"gold": e.gold, "id": "1"}), "returns 'id', which every row"),
    "few-shot answers": (broken(few_shot_answer=lambda *_: 3), r"few_shot_answer\('word', …\) returned 3"),
    "answers that nobody understands": (
        broken(few_shot_answer=lambda *_: " "),
        "writes ' ', which its reader calls 'empty'",
    ),
    "a class that is no text": (broken(gold_class=lambda self, e: 1), r"gold_class\(\) returned 1"),
    "words that are none": (broken(shown_gold=lambda self, e: 1), r"shown_gold\(\) returned 1"),
    "odd oddities": (broken(oddities=lambda self, e: ["odd"]), r"oddities\(\) yielded 'odd'"),
    "a gold that is no JSON": (broken(gold=lambda self, e: {1}), r"gold\(\) raised TypeError"),
    "probes that lose examples": (
        broken(probes={"half": lambda examples, seed, task: lambda: iter(list(examples())[:1])}),
        "the probe 'half' changes the ids",
    ),
    "a gold that JSON changes": (broken(gold=lambda self, e: {1: e.gold}), r"gold\(\) returned .* which JSON changes"),
    "a gold that is read otherwise": (
        broken(to_json=lambda self, value: None if value is None else [value]),
        "from_json.. reads the right answer 'snail', stored as \\['snail'\\], as",
    ),
    "probes that change nothing": (
        broken(probes={"same": lambda examples, seed, task: examples}),
        "the probe 'same' changes nothing in the examples",
    ),
    "chance that decides": (
        broken(
            routes=(Route(name="by_size", start=by_size, needs=frozenset({"score_pairs"})),),
            default_baselines=("chance",),
        ),
        "gives every example the answer 'small'; where `context.indifferent`",
    ),
    "no such baseline": (
        broken(default_baselines=("chanse",)),
        "unknown model 'chanse'.*; list another one in default",
    ),
    "a baseline that cannot answer": (broken(default_baselines=("chance",)), "not enough for a words task"),
    "no field": (broken(field_problem=lambda self, task: None), "is not refused, but 'accepted'"),
    "a metric that raises": (broken(metrics=(metric("acc", lambda e, p: p.value[0]),)), "a metric of Broken"),
}


def test_the_small_type_itself_is_sound() -> None:
    check_task_type(broken(Example=example_class(TextField("A word."))), ROWS)


@pytest.mark.parametrize("name", BROKEN_TYPES)
def test_what_is_broken_is_named(name: str) -> None:
    task_type, message = BROKEN_TYPES[name]
    with pytest.raises(AssertionError, match=message):
        check_task_type(task_type, ROWS)


def test_a_query_is_a_text() -> None:
    rows, _ = BUILT_IN["choice"]
    with pytest.raises(AssertionError, match=r"Odd\.query names the field 'options', which is .* not a text"):
        check_task_type(type("Odd", (built_in("choice"),), {"query": "options"}), rows)


def test_a_reader_knows_the_settings_of_its_route() -> None:
    route = by_reply("by_word", "word", ReplyReader(obeying, "1"), settings={"threshold": 0.5})
    check_task_type(broken(routes=(route,), few_shot_answer=lambda *_: None), ROWS)


def test_one_row_is_not_enough() -> None:
    with pytest.raises(AssertionError, match="needs at least two rows"):
        check_task_type(Words, ROWS[:1])
