"""Choice tasks, which ask for one of a few options.

Either every option is scored against the query and the best score wins, or a language model names a lettered option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from figeval.answers import VERSION
from figeval.errors import ExampleError
from figeval.language.questions import core_of
from figeval.prompts import LETTERS, PromptContext
from figeval.task_types.base import HIDDEN, TaskType, blank_texts, metric, repeated_texts
from figeval.task_types.fields import ColumnsField, IndexField, TextField, TextsField, index_problem
from figeval.task_types.given import Given, decide_index, place_of
from figeval.task_types.routes import (
    Dialogue,
    ReplyReader,
    Route,
    by_likelihood,
    by_reply,
    cosine_scores,
    decide,
    dot_scores,
    pair_scores,
)
from figeval.types import (
    JSON,
    LATER,
    WITHOUT_REPLY,
    AnswerFormat,
    Continuation,
    Example,
    Input,
    Prediction,
    Reply,
    Value,
)

CLASSES = "figeval.metrics.classification"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceExample(Example):
    """Example that asks for one of a few options. `gold` is an index into `options`, or None if the answer is hidden.

    `option_meta` has a mapping for each option, e.g. with its kind of distractor.
    """

    query: Annotated[str, TextField("The text that the question is about.")]
    options: Annotated[
        tuple[str, ...], TextsField("The options.", empty="there are no options", blank="an option is empty")
    ]
    gold: Annotated[int | None, IndexField("Index of the right option, from 0; null if it is hidden.", of="options")]
    option_meta: Annotated[
        tuple[Mapping[str, str], ...],
        ColumnsField("Properties of each option, e.g. its kind of distractor.", of="options"),
    ] = field(default=(), metadata=LATER)

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.query, *self.options)

    @property
    def subject(self) -> str:  # noqa: D102
        return self.query

    @property
    def identities(self) -> tuple[tuple[str, ...], ...]:
        """The query with all options in any order; and the query with its right option, whatever the others are."""
        options = sorted(self.options, key=core_of)
        right = () if self.gold is None else ((self.query, self.options[self.gold], ""),)
        return ((self.query, *options), *right)

    @property
    def hidden(self) -> bool:  # noqa: D102
        return self.gold is None


# ---- routes ----------------------------------------------------------------------------------------------------------


def by_pair_score(example: ChoiceExample, _context: PromptContext) -> Dialogue:
    """Choose by the closeness of the query and each option, as scored by the model."""
    return decide(example.id, (yield from pair_scores(example.query, example.options)))


def by_loglikelihood(example: ChoiceExample, context: PromptContext) -> Dialogue:
    """Choose by log P(option | context), natural logarithm, summed over the option's tokens.

    `priors` are the same without the query; they are computed if the metric `acc_pmi` is requested.
    """
    return by_likelihood(example, example.options, context)


def by_dot(example: ChoiceExample, _context: PromptContext) -> Dialogue:
    """Choose by the dot product of embeddings, for models trained with it (code of Ghosh and Srivastava 2022)."""
    return decide(example.id, (yield from dot_scores(example.query, example.options)))


def by_cosine(example: ChoiceExample, _context: PromptContext) -> Dialogue:
    """Choose by the cosine of the embeddings of query and option (Ghosh and Srivastava 2022, section 5.1)."""
    return decide(example.id, (yield from cosine_scores(example.query, example.options)))


def by_letter_likelihood(example: ChoiceExample, context: PromptContext) -> Dialogue:
    """Choose by log P(letter | question and lettered options), as for MMLU (Hendrycks et al. 2021)."""
    letters = letters_of(example)
    question = context.question("letter", example)
    scores = yield [Continuation(question, context.answer_start(f" {letter}")) for letter in letters]
    return decide(example.id, scores)


def letters_of(example: ChoiceExample) -> str:
    """Return the letters of an example's options. Raises `ExampleError` if there are too many options."""
    n = len(example.options)
    if n > len(LETTERS):
        raise ExampleError(
            f"{example.id!r} has {n} options, more than the {len(LETTERS)} letters; choose another --route, or leave "
            "the task out"
        )
    return LETTERS[:n]


def letter_format(example: ChoiceExample, _context: PromptContext) -> AnswerFormat:
    """Return the letters of the options as the acceptable answers."""
    return AnswerFormat(choices=tuple(letters_of(example)))


def shares(example: ChoiceExample, answers: Sequence[Prediction]) -> list[float]:
    """Return the probability with which each option was chosen, as the mean over valid answers, or an empty list.

    Options that tie for the best share an answer, as if a fair draw decided. Answers to orders of more outcomes than
    options, such as a draw between these, have a share for each outcome.
    """

    def share(answer: Prediction, option: int) -> float:
        if not answer.scores:
            return float(answer.value == option)
        best = max(answer.scores)
        return (answer.scores[option] == best) / answer.scores.count(best)

    valid = [answer for answer in answers if answer.status == "ok"]
    options = range(len(valid[0].order) or len(example.options)) if valid else ()
    return [sum(share(answer, option) for answer in valid) / len(valid) for option in options]


def choice_probabilities(example: ChoiceExample, prediction: Prediction) -> list[float]:
    """Return the probability with which each option was chosen; empty without an answer.

    If options were shown in several orders, it is the mean over the orders, and of those the mean over the samples that
    have an answer. For the right option, it equals `acc`.
    """
    if prediction.samples:
        by_sample = (choice_probabilities(example, sample) for sample in prediction.samples)
        of_samples = [probabilities for probabilities in by_sample if probabilities]
        return [sum(column) / len(of_samples) for column in zip(*of_samples, strict=True)]
    return [] if prediction.status in WITHOUT_REPLY else shares(example, prediction.answers or (prediction,))


def read_letter(example: ChoiceExample, context: PromptContext, reply: Reply) -> Prediction:
    """Return the option that a reply names."""
    from figeval.answers.extract import extract_choice

    extracted = extract_choice(reply, example.options, letters_of(example), context.vocabulary, example.language)
    return Prediction(example_id=example.id, value=extracted.index, status=extracted.status)


def by_letter(read: Callable[[ChoiceExample, PromptContext, Reply], Prediction]) -> Route:
    """Return the route on which a reply names the letter of an option; `read` finds the option in the reply."""
    return by_reply(
        "by_letter",
        "letter",
        ReplyReader(read, VERSION),
        check=letters_of,
        answer_format=letter_format,
        metrics=("acc_of_all", "parse_rate"),
        metrics_of_orders=("consistency", "position_bias"),
    )


# ---- the type --------------------------------------------------------------------------------------------------------


class Choice(TaskType[ChoiceExample]):
    """Pick one of a few options."""

    name = "choice"
    Example = ChoiceExample
    query = "query"
    options = "options"
    given_form = "the index of an option (from 0), its letter, or its text"
    routes = (
        Route(name="by_pair_score", start=by_pair_score, needs=frozenset({"score_pairs"})),
        Route(
            name="by_loglikelihood",
            start=by_loglikelihood,
            needs=frozenset({"loglikelihood"}),
            question="context",
            blocks=frozenset({"continuation"}),
            scores="log-likelihoods",
        ),
        Route(name="by_dot", start=by_dot, needs=frozenset({"embed", "dot"})),
        Route(name="by_cosine", start=by_cosine, needs=frozenset({"embed"})),
        by_letter(read_letter),
        Route(
            name="by_letter_likelihood",
            start=by_letter_likelihood,
            needs=frozenset({"loglikelihood"}),
            question="letter",
            metrics_of_orders=("consistency", "position_bias"),
            scores="log-likelihoods",
            compares_words=True,
            on_request=True,
        ),
    )
    metrics = (
        metric("acc", f"{CLASSES}:choice_accuracy"),
        metric("acc_norm", f"{CLASSES}:acc_norm", routes=["by_loglikelihood"]),
        metric("acc_pmi", f"{CLASSES}:acc_pmi", routes=["by_loglikelihood"]),
        metric("acc_of_all", f"{CLASSES}:choice_accuracy_of_all"),
        metric("parse_rate", f"{CLASSES}:parse_rate"),
        metric("consistency", f"{CLASSES}:consistency"),
        metric("position_bias", f"{CLASSES}:position_bias", lower_is_better=True),
    )

    def few_shot_answer(self, block: str, example: ChoiceExample, context: PromptContext) -> str | None:
        """Return the right option, or its letter."""
        assert example.gold is not None
        if block == "letter":
            return f" {LETTERS[example.gold]}"
        return (
            context.block("continuation", example, option=example.options[example.gold]) if block == "context" else None
        )

    def answer_text(self, example: ChoiceExample) -> str:
        """Return the right option, or the query if it is hidden."""
        return self.query_text(example) if example.gold is None else example.options[example.gold]

    def human_question(self, example: ChoiceExample) -> tuple[str, Sequence[str], int] | None:  # noqa: D102
        return None if example.gold is None else (example.query, example.options, example.gold)

    def judged_example(self, example: ChoiceExample) -> Mapping[str, Input]:  # noqa: D102
        return {"query": example.query, "answer": self.answer_text(example)}

    def row(self, example: ChoiceExample, prediction: Prediction) -> JSON:
        """Return gold and scores and, if the task has `option_meta`, the kinds of options that were chosen."""
        row = super().row(example, prediction)
        keys = dict.fromkeys(key for options in example.option_meta for key in options)
        if keys:
            kinds = {key: [options.get(key) for options in example.option_meta] for key in keys}
            right = None if example.gold is None else [example.gold]
            row["choice"] = {"kinds": kinds, "chosen": choice_probabilities(example, prediction), "right": right}
        return row

    def given(self, example: ChoiceExample, given: Given, _labels: Sequence[str]) -> Prediction:
        """Return the option that is named or has the best score."""

        def read(value: object) -> int:
            return place_of(value, example.options, "options", LETTERS[: len(example.options)])

        if scores := given.numbers("options", len(example.options)):
            return decide_index(example.id, given, scores, read)
        return Prediction(example_id=example.id, value=read(given.value))

    def value_problem(self, value: Value, example: ChoiceExample, _labels: Sequence[str]) -> str:  # noqa: D102
        return index_problem(value, len(example.options), "options")

    def shown_gold(self, example: ChoiceExample) -> str:  # noqa: D102
        return "(hidden)" if example.gold is None else f"{example.gold}: {example.options[example.gold]}"

    def gold_class(self, example: ChoiceExample) -> str | None:  # noqa: D102
        return HIDDEN if example.gold is None else str(example.gold)

    def oddities(self, example: ChoiceExample) -> Iterator[tuple[str, str]]:  # noqa: D102
        yield from blank_texts(example, "query")
        yield from repeated_texts(example.options)
