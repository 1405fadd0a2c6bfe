"""The task type: a text and its labels, three ways to decide about each label, and one that reads a list."""

import math
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated

from figeval import (
    HIDDEN,
    Example,
    Field,
    PairLabel,
    Prediction,
    ReplyReader,
    Route,
    TaskType,
    TextField,
    by_reply,
    cosine_scores,
    metric,
    pair_scores,
    strip_reasoning,
)

METRICS = "figeval_themes.metrics"
NO_LABEL = "none"  # what a list says that has no label in it
ENTAILMENT, NO_ENTAILMENT = "entailment", "non-entailment"  # labels that NLI heads know
THRESHOLD = {"threshold": 0.5}  # at or above it a label holds


@dataclass(frozen=True, slots=True)
class LabelsField(Field):
    """A list of the task's labels, which may be empty; null where the right ones are hidden."""

    def read(self, value, row):
        """The labels as a set."""
        if value is None:
            return None
        if not isinstance(value, list | tuple | set | frozenset):
            raise row.error(f"expected a list of labels, found {value!r:.80}")
        for label in value:
            if label not in row.task.labels:
                raise row.error(f"{label!r:.80} is not among the labels {', '.join(row.task.labels)}")
        return frozenset(value)

    def schema(self):
        """For editors, and for `figeval ls types --json`."""
        return {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThemesExample(Example):
    """A text, and those of the task's labels that it has."""

    text: Annotated[str, TextField("The text.")]
    themes: Annotated[frozenset[str] | None, LabelsField("Labels of the text, possibly none; null if they are hidden.")]

    @property
    def texts(self):
        """What a lexical model may learn its word weights from."""
        return (self.text,)

    @property
    def subject(self):
        """What is asked about."""
        return self.text

    @property
    def hidden(self):
        """Whether the right answer is not known here."""
        return self.themes is None


# ---- routes ----------------------------------------------------------------------------------------------------------


def by_entailment(example, context):
    """Whether the text entails that it is about a label (zero-shot, Yin et al. 2019).

    A model that finds both as probable has no preference; metrics count such a label half.
    """
    claims = [f"This is about {words(context, label)}." for label in context.labels]
    probabilities = yield [PairLabel(example.text, claim, (ENTAILMENT, NO_ENTAILMENT)) for claim in claims]
    margins = [likeliest(answer[ENTAILMENT]) - likeliest(answer[NO_ENTAILMENT]) for answer in probabilities]
    return decided(example, context, margins, undecided=True)


def by_cosine(example, context):
    """Labels whose embedding is close to that of the text."""
    names = tuple(words(context, label) for label in context.labels)
    scores = yield from cosine_scores(example.text, names)
    return decided(example, context, [score - context.settings["threshold"] for score in scores])


def by_closeness(example, context):
    """Labels that the model scores as close to the text."""
    scores = yield from pair_scores(example.text, [words(context, label) for label in context.labels])
    return decided(example, context, [score - context.settings["threshold"] for score in scores])


def words(context, label):
    """The first word that expresses a label."""
    return context.words(label)[0]


def likeliest(probability):
    """The probability of a label, of its best class where a head has several for it."""
    return max(probability) if isinstance(probability, tuple) else probability


def decided(example, context, margins, *, undecided=False):
    """The labels with a margin of at least 0; of exactly 0 they are open where `undecided`."""
    margins = tuple(map(float, margins))
    if any(map(math.isnan, margins)):
        return Prediction(example_id=example.id, value=None, scores=margins, labels=context.labels, status="nan")
    pairs = list(zip(context.labels, margins, strict=True))
    either = tuple(label for label, margin in pairs if undecided and margin == 0)
    return Prediction(
        example_id=example.id,
        value=frozenset(label for label, margin in pairs if margin >= 0 and label not in either),
        scores=margins,
        labels=context.labels,
        tied_labels=either,
        tied=2 ** len(either),  # so many sets are as good
    )


def read_list(example, context, reply):
    """The labels that a reply lists, separated by commas or lines; every part has to be one of them."""
    text = strip_reasoning(reply.text).strip().rstrip(".").lower()
    label_of_word = {word.lower(): label for label in context.labels for word in (label, *context.words(label))}
    parts = [part.strip(" -*\t") for part in re.split(r"[,;\n]", text)]
    labels = [] if text == NO_LABEL else [label_of_word.get(part) for part in parts]
    understood = bool(text) and None not in labels
    wrong = "refusal" if reply.finish == "refusal" else "unparseable" if text else "empty"
    return Prediction(
        example_id=example.id,
        value=frozenset(labels) if understood else None,
        labels=context.labels,
        status="ok" if understood else wrong,
    )


# ---- the type --------------------------------------------------------------------------------------------------------


class Themes(TaskType[ThemesExample]):
    """Say which labels a text has."""

    name = "themes"
    Example = ThemesExample
    query = "text"
    gold_fields = ("themes",)
    folder = files("figeval_themes")
    routes = (
        Route(name="by_entailment", start=by_entailment, needs=frozenset({"label_pairs"})),
        Route(name="by_cosine", start=by_cosine, needs=frozenset({"embed"}), settings=THRESHOLD),
        Route(name="by_closeness", start=by_closeness, needs=frozenset({"score_pairs"}), settings=THRESHOLD),
        by_reply("by_list", "list", ReplyReader(read_list, "1")),
    )
    metrics = (
        metric("exact", f"{METRICS}:exact"),
        metric("micro_f1", f"{METRICS}:MICRO_F1"),
        metric("macro_f1", f"{METRICS}:MACRO_F1"),
    )
    default_metrics = ("exact", "micro_f1", "macro_f1")

    def check(self, task):
        """There is something to choose from."""
        if not task.labels:
            raise ValueError("a themes task must list its labels, e.g. labels: [pride, patience]")

    def few_shot_answer(self, block, example, context):
        """The words of its labels in the order of the task."""
        label_words = [words(context, label) for label in context.labels if label in example.themes]
        return f" {', '.join(label_words) or NO_LABEL}"

    def to_json(self, value):
        """A sorted list, since JSON knows no sets."""
        return None if value is None else sorted(value)

    def from_json(self, stored):
        """The set of a stored list."""
        return None if stored is None else frozenset(stored)

    def shown_gold(self, example):
        """For `figeval show`."""
        return "(hidden)" if example.themes is None else ", ".join(sorted(example.themes)) or NO_LABEL

    def gold_class(self, example):
        """The set as a whole is what is right."""
        return HIDDEN if example.themes is None else self.shown_gold(example)
