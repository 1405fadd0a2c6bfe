"""The task type: what an example is, two ways to put it to a model, and what is stored of an answer."""

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated

from figeval import HIDDEN, DataError, Example, Field, Prediction, Route, TaskType, TextsField, by_reply, metric
from figeval_tokens.replies import READER
from figeval_tokens.requests import TagTokens

OUTSIDE_TAG = "O"
METRICS = "figeval_tokens.metrics"


@dataclass(frozen=True, slots=True)
class TagsField(Field):
    """One of the task's labels for each token; null where the right ones are hidden."""

    def read(self, value, row):
        """The tags as a tuple; what is wrong is said with the row and the field in front."""
        if value is None:
            return None
        if isinstance(value, str) or not hasattr(value, "__iter__") or isinstance(value, dict):
            raise row.error(f"expected a list of tags, found {value!r:.80}")
        tags, tokens = tuple(value), row.read["tokens"]
        for tag in tags:
            if tag not in row.task.labels:
                raise row.error(f"{tag!r:.80} is not among the labels {', '.join(row.task.labels)}")
        if len(tags) != len(tokens):
            raise row.error(f"{len(tags)} tags for {len(tokens)} tokens")
        return tags

    def schema(self):
        """For editors, and for `figeval ls types --json`."""
        return {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensExample(Example):
    """The tokens of a text, and the tag of each; `tags` is None where they are hidden."""

    tokens: Annotated[tuple[str, ...], TextsField("The tokens, in order.", empty="there are none", shown=False)]
    tags: Annotated[tuple[str, ...] | None, TagsField("The tag of each token; null if they are hidden.")]

    @property
    def texts(self):
        """What a lexical model may learn its word weights from."""
        return (self.subject,)

    @property
    def subject(self):
        """What is asked about: an example with the same one is the same question."""
        return " ".join(self.tokens)

    @property
    def hidden(self):
        """Whether the right answer is not known here."""
        return self.tags is None


def by_tagger(example, context):
    """The tags of a model that was made for it."""
    (tags,) = yield [TagTokens(example.tokens, context.labels)]
    if len(tags) != len(example.tokens):
        raise DataError(f"{example.id!r}: the model gave {len(tags)} tags for {len(example.tokens)} tokens")
    return Prediction(example_id=example.id, value=tuple(tags))


class Tokens(TaskType[TokensExample]):
    """Give every token of a text a tag."""

    name = "tokens"
    Example = TokensExample
    gold_fields = ("tags",)
    folder = files("figeval_tokens")
    routes = (
        Route(name="by_tagger", start=by_tagger, requests=(TagTokens,)),
        by_reply("by_tags_in_words", "tags", READER, metrics=("readable",)),
    )
    metrics = (
        metric("token_acc", f"{METRICS}:TOKEN_ACCURACY"),
        metric("entity_f1", f"{METRICS}:ENTITY_F1"),
        metric("sentence_acc", f"{METRICS}:sentence_accuracy"),
        metric("readable", f"{METRICS}:readable", routes=["by_tags_in_words"]),
    )
    default_metrics = ("token_acc", "entity_f1")
    default_baselines = ("tokens_majority",)

    def check(self, task):
        """The labels of a task are its tags."""
        if OUTSIDE_TAG not in task.labels or len(task.labels) < 2:
            raise ValueError("a tokens task must list its tags, O among them, e.g. labels: [B-FIG, I-FIG, O]")

    def few_shot_answer(self, block, example, context):
        """token/TAG pairs, as the template asks for them."""
        return " " + " ".join(f"{token}/{tag}" for token, tag in zip(example.tokens, example.tags, strict=True))

    def to_json(self, value):
        """A list of tags."""
        return None if value is None else list(value)

    def from_json(self, stored):
        """The list as the tuple that it was."""
        return None if stored is None else tuple(stored)

    def row(self, example, prediction):
        """The gold tags; how often each was predicted has no field in a row, so it goes into `details`."""
        counts = Counter(prediction.value or ())
        return {"gold": self.gold(example), "details": {"predicted": dict(sorted(counts.items()))}}

    def shown_gold(self, example):
        """For `figeval show`."""
        return "(hidden)" if example.tags is None else " ".join(example.tags)

    def gold_class(self, example):
        """What `figeval validate` counts: examples with something in them, and without."""
        if example.tags is None:
            return HIDDEN
        return "nothing" if set(example.tags) == {OUTSIDE_TAG} else "something"

    def is_constant(self, gold_class):
        """Where there is something, it may be anything."""
        return gold_class == "nothing"

    def oddities(self, example):
        """An entity that goes on where none began can be scored, but is hardly meant."""
        before = OUTSIDE_TAG
        for index, tag in enumerate(example.tags or ()):
            if tag.startswith("I-") and before[2:] != tag[2:]:
                yield "goes on with what has not begun", f"token {index} ({tag})"
            before = tag

    def check_training(self, task, train):
        """No tagger learns a tag of which there is no example."""
        tags = {tag for example in train for tag in example.tags or ()}
        missing = [tag for tag in task.labels if tag not in tags]
        if missing:
            raise ValueError(f"no training example has the tag {missing[0]!r}; raise --limit")
