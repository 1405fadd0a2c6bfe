"""Pairwise preference: which of two texts, or of several, do people prefer?

An *outcome* is the index of a text or, after the last text, a tie: with two texts, the tie is 2.
The right answer is a number of votes for each outcome. A prediction has either an order, i.e. a score for each text
(closeness, a log-likelihood), or a distribution, i.e. a probability for each outcome.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from typing import Annotated, Any

from figeval.answers import VERSION
from figeval.errors import ExampleError
from figeval.language.questions import core_of
from figeval.prompts import LETTERS, PromptContext
from figeval.task_types.base import HIDDEN, TaskType, metric, repeated_texts
from figeval.task_types.debiasing import as_they_are, combine_answers, together
from figeval.task_types.fields import (
    Definition,
    Field,
    OptionalTextField,
    RowContext,
    TextField,
    TextsField,
    index_problem,
    reorder,
)
from figeval.task_types.given import Given, decide_index, place_of
from figeval.task_types.routes import (
    Dialogue,
    ReplyReader,
    Route,
    Scores,
    Start,
    by_likelihood,
    cosine_scores,
    decide,
    dot_scores,
    pair_scores,
)
from figeval.types import JSON, AnswerFormat, Continuation, Example, Input, Prediction, Reply, Value

from ..baselines.guessing import gold_answers
from .comparison import Comparison

METRICS = f"{__package__}.pairwise_metrics"
TIE = "tie"
MAX_VOTES = 10**9  # for one outcome
ROUNDING = 1e-3  # by which given probabilities may differ from a sum of 1
ORDER_METRICS = ("consistency", "first_rate")


# ---- examples --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparedTextsField(TextsField):
    """Two or more texts. An order of outcomes, in which the tie is last, is an order of texts, too."""

    def read(self, value: Any, row: RowContext) -> tuple[str, ...]:
        texts = super(ComparedTextsField, self).read(value, row)
        if len(texts) < 2:
            raise row.error("there is only one text; write at least two")
        return texts

    def reordered(self, value: Sequence[str], order: Sequence[int]) -> tuple[str, ...]:
        return tuple(value[index] for index in order if index < len(value))

    def schema(self) -> JSON:
        return {**super(ComparedTextsField, self).schema(), "minItems": 2}


@dataclass(frozen=True, slots=True)
class TieField(OptionalTextField):
    """Words for a tie, or null."""

    def read(self, value: Any, row: RowContext) -> str | None:  # type: ignore[override]
        if isinstance(value, str) and not value.strip():
            raise row.error("the text is empty; write none if there is no such option")
        return super(TieField, self).read(value, row)


@dataclass(frozen=True, slots=True)
class VotesField(Field):
    """Votes for each text and for a tie, or the single outcome that was chosen."""

    of: str = field(kw_only=True)

    def read(self, value: Any, row: RowContext) -> tuple[float, ...] | None:
        """Return the votes for each outcome, or None if they are hidden. Raises `DataError` for anything else."""
        if value is None:
            return None
        n = len(row.read[self.of])
        if value == TIE or (isinstance(value, int) and not isinstance(value, bool)):
            return self._single_vote(value, n, row)
        if isinstance(value, str) or not isinstance(value, Sequence) or not n <= len(value) <= n + 1:
            raise row.error(
                f"{value!r:.80} has another form than votes; write a number for each of the {n} texts, and optionally "
                f"one for ties, or the index of the preferred text, from 0, or '{TIE}'"
            )
        for votes in value:
            if isinstance(votes, bool) or not isinstance(votes, int | float) or not 0 <= votes <= MAX_VOTES:
                raise row.error(f"{votes!r:.80} is not a number of votes")
        if not any(value):
            raise row.error("there are no votes; write null if they are hidden, or leave out the row")
        return tuple(map(float, (*value, *[0] * (n + 1 - len(value)))))

    def _single_vote(self, value: Any, n: int, row: RowContext) -> tuple[float, ...]:
        outcome = n if value == TIE else value
        if not 0 <= outcome <= n or value == n:
            raise row.error(f"{value!r:.80} is out of range for {n} texts (0 to {n - 1}); a tie is written '{TIE}'")
        return tuple(float(index == outcome) for index in range(n + 1))

    def problem(self, value: Any, example: Any) -> str:
        n = len(getattr(example, self.of)) + 1
        is_votes = value is None or (
            isinstance(value, tuple)
            and len(value) == n
            and all(isinstance(votes, float | int) and 0 <= votes <= MAX_VOTES for votes in value)
            and any(value)
        )
        return "" if is_votes else f"{value!r:.80} is not a tuple of {n} numbers: votes for each text, and for a tie"

    def reordered(self, value: Sequence[float] | None, order: Sequence[int]) -> tuple[float, ...] | None:
        if value is None:
            return None
        n = len(value) - 1
        return tuple(value[index] for index in (*(index for index in order if index < n), n))

    def schema(self) -> JSON:
        numbers = {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 2}
        return {"anyOf": [numbers, {"type": "integer", "minimum": 0}, {"const": TIE}, {"type": "null"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseExample(Example):
    """Texts, and how many people prefer each. `votes` has a number for each text, followed by that of ties."""

    options: Annotated[
        tuple[str, ...],
        ComparedTextsField("The texts that are compared.", empty="there are no texts", blank="a text is empty"),
    ]
    votes: Annotated[
        tuple[float, ...] | None,
        VotesField(
            "Votes for each text and, optionally, for a tie; or the index of the preferred text, or 'tie'; null if "
            "they are hidden.",
            of="options",
        ),
    ]
    query: Annotated[str, TextField("What the texts answer or continue; empty if they stand alone.")] = ""
    tie: Annotated[
        str | None,
        TieField("The tie as an option in prompts; null if the model has to choose a text.", shown=True),
    ] = "They are equally good."

    @property
    def texts(self) -> tuple[str, ...]:
        """The query, if there is one, and the texts."""
        return (self.query, *self.options) if self.query else self.options

    @property
    def subject(self) -> str:
        """The query, or the first text if there is none."""
        return self.query or self.options[0]

    @property
    def asked(self) -> tuple[str, ...]:
        """The query with the texts in any order."""
        return (self.query, *sorted(self.options, key=core_of))

    @property
    def hidden(self) -> bool:
        """True if the votes are hidden."""
        return self.votes is None


def majority(votes: Sequence[float]) -> tuple[int, ...]:
    """Return the outcomes with the most votes: one, or several with equally many."""
    return tuple(outcome for outcome, count in enumerate(votes) if count == max(votes))


def name_of(outcome: int, example: PairwiseExample) -> str:
    """Return an outcome as a task file writes it: an index, or "tie"."""
    return TIE if outcome == len(example.options) else str(outcome)


@gold_answers.register
def _(example: PairwiseExample) -> tuple[str, ...]:
    """Return the outcome with the most votes, for `majority`; none if several have equally many."""
    outcomes = () if example.votes is None else majority(example.votes)
    return (name_of(outcomes[0], example),) if len(outcomes) == 1 else ()


# ---- routes that score each text -------------------------------------------------------------------------------------


def by_comparison(example: PairwiseExample, _context: PromptContext) -> Dialogue:
    """Answer by the probabilities of a model that compares the texts."""
    (probabilities,) = yield [Comparison(example.query, example.options)]
    return decide(example.id, probabilities)


def by_closeness(
    example: PairwiseExample, _context: PromptContext, closeness: Callable[[str, tuple[str, ...]], Scores]
) -> Dialogue:
    """Prefer the text that is closest to the query.

    Raises:
        ExampleError: there is no query.
    """
    if not example.query.strip():
        raise ExampleError(f"{example.id!r} has no query that a text could be close to; choose another --route")
    return decide(example.id, (yield from closeness(example.query, example.options)))


def by_pair_score(example: PairwiseExample, _context: PromptContext) -> Dialogue:
    """Prefer the text with the highest score for the query, as given by a reward model or a cross-encoder."""
    return decide(example.id, (yield from pair_scores(example.query, example.options)))


def by_reward(example: PairwiseExample, context: PromptContext) -> Dialogue:
    """Answer by the scores of a reward model as log-odds: the model of Bradley and Terry (1952).

    P(text) is proportional to π = exp(score / temperature). With ν > 0, P(tie) is proportional to ν times the geometric
    mean of all π (Davidson 1970, equation 2.6, for two texts).
    """
    scores = [float(score) for score in (yield from pair_scores(example.query, example.options))]
    if any(map(math.isnan, scores)):
        return decide(example.id, scores)
    top = max(scores)
    logits = [0.0 if score == top else (score - top) / context.settings["temperature"] for score in scores]
    weights = [*map(math.exp, logits), context.settings["nu"] * math.exp(math.fsum(logits) / len(logits))]
    return decide(example.id, [weight / math.fsum(weights) for weight in weights])


def by_loglikelihood(example: PairwiseExample, context: PromptContext) -> Dialogue:
    """Prefer the text with the highest log P(text | query), natural logarithm, summed over its tokens."""
    return by_likelihood(example, example.options, context)


# ---- routes that show all texts under letters ------------------------------------------------------------------------


def letters_of(example: PairwiseExample) -> str:
    """Return the letters of the texts and of the tie, if there is one. Raises `ExampleError` if these are too many."""
    n = len(example.options) + (example.tie is not None)
    if n > len(LETTERS):
        raise ExampleError(
            f"{example.id!r} has {n} options, more than the {len(LETTERS)} letters; choose another --route"
        )
    return LETTERS[:n]


def letter_format(example: PairwiseExample, _context: PromptContext) -> AnswerFormat:
    """Return the letters as the acceptable answers."""
    return AnswerFormat(choices=tuple(letters_of(example)))


def read_letter(example: PairwiseExample, context: PromptContext, reply: Reply) -> Prediction:
    """Return the outcome that a reply names."""
    from figeval.answers.extract import extract_choice

    options = example.options if example.tie is None else (*example.options, example.tie)
    extracted = extract_choice(reply, options, letters_of(example), context.vocabulary, example.language)
    return Prediction(example_id=example.id, value=extracted.index, status=extracted.status)


READER = ReplyReader(read_letter, VERSION)


def orders_of_outcomes(example: PairwiseExample) -> list[tuple[int, ...]]:
    """Return as many orders as texts, in which every text takes every place once, and the tie is last."""
    n = len(example.options)
    return [(*((index + shift) % n for index in range(n)), n) for shift in range(n)]


def in_all_places(
    ask: Callable[[PairwiseExample, PromptContext], Dialogue],
    combine: Callable[[Any, Sequence[Prediction]], Prediction],
    example: PairwiseExample,
    context: PromptContext,
) -> Dialogue:
    """Ask once for each order of the texts, and combine the answers, so that the effect of a place cancels."""
    letters_of(example)
    orders = orders_of_outcomes(example)
    predictions = yield from together([ask(reorder(example, "options", order), context) for order in orders])
    return combine(example, [as_they_are(answer, order) for answer, order in zip(predictions, orders, strict=True)])


def _ask_for_letter(example: PairwiseExample, context: PromptContext) -> Dialogue:
    (reply,) = yield [context.prompt("letter", example, letter_format)]
    return READER.read(example, context, reply)


def _ask_for_probabilities(example: PairwiseExample, context: PromptContext) -> Dialogue:
    question = context.question("letter", example)
    logprobs = yield [Continuation(question, context.answer_start(f" {letter}")) for letter in letters_of(example)]
    top = math.nan if any(map(math.isnan, logprobs)) else max(logprobs)
    weights = [1.0 if value == top else math.exp(value - top) for value in logprobs]
    tie = [0.0] if example.tie is None else []
    return decide(example.id, [*(weight / math.fsum(weights) for weight in weights), *tie])


def mean_distribution(example: PairwiseExample, answers: Sequence[Prediction]) -> Prediction:
    """Return the prediction for the mean of the distributions of several orders; NaN in one of them makes it NaN."""
    columns = zip(*(answer.scores for answer in answers), strict=True)
    decided = decide(example.id, [math.fsum(column) / len(answers) for column in columns])
    return replace(decided, answers=tuple(answers))


# ---- the type --------------------------------------------------------------------------------------------------------


class Pairwise(TaskType[PairwiseExample]):
    """Say which of two or more texts people prefer."""

    name = "pairwise"
    Example = PairwiseExample
    query = "query"
    gold_fields = ("votes",)
    options = "options"
    folder = files(__package__)
    default_metrics = ("agreement", "agreement_norm", "vote_agreement", "manhattan", "jsd", "log_loss")
    default_baselines = ("chance", "majority", "longest", "overlap")
    given_form = (
        f"the index of a text (from 0), its letter, its text, or {TIE}; as scores, one for each text, or the "
        "probabilities of each text and of a tie"
    )
    routes = (
        Route(name="by_comparison", start=by_comparison, requests=(Comparison,)),
        Route(name="by_pair_score", start=by_pair_score, needs=frozenset({"score_pairs"})),
        Route(
            name="by_loglikelihood",
            start=by_loglikelihood,
            needs=frozenset({"loglikelihood"}),
            question="context",
            blocks=frozenset({"continuation"}),
            scores="log-likelihoods",
        ),
        Route(name="by_dot", start=partial(by_closeness, closeness=dot_scores), needs=frozenset({"embed", "dot"})),
        Route(name="by_cosine", start=partial(by_closeness, closeness=cosine_scores), needs=frozenset({"embed"})),
        Route(
            name="by_letter",
            start=partial(in_all_places, _ask_for_letter, combine_answers),
            needs=frozenset({"generate"}),
            question="letter",
            reader=READER,
            answer_format=letter_format,
            metrics=("parse_rate", *ORDER_METRICS),
        ),
        Route(
            name="by_letter_likelihood",
            start=partial(in_all_places, _ask_for_probabilities, mean_distribution),
            needs=frozenset({"loglikelihood"}),
            question="letter",
            metrics=ORDER_METRICS,
            on_request=True,
        ),
        Route(
            name="by_reward",
            start=by_reward,
            needs=frozenset({"score_pairs"}),
            settings={"temperature": 1.0, "nu": 0.0},
            legend="probabilities by Bradley and Terry at temperature {temperature:g}, ties by Davidson's ν of {nu:g}",
            on_request=True,
        ),
    )
    metrics = (
        metric("agreement", f"{METRICS}:agreement"),
        metric("agreement_norm", f"{METRICS}:agreement_norm", routes=["by_loglikelihood"]),
        metric("vote_agreement", f"{METRICS}:vote_agreement"),
        metric("manhattan", f"{METRICS}:MANHATTAN", lower_is_better=True),
        metric("jsd", f"{METRICS}:JSD", lower_is_better=True),
        metric("log_loss", f"{METRICS}:LOG_LOSS", lower_is_better=True),
        metric("kendall", f"{METRICS}:KENDALL"),
        metric("consistency", f"{METRICS}:CONSISTENCY"),
        metric("first_rate", f"{METRICS}:FIRST_RATE"),
        metric("parse_rate", "figeval.metrics.classification:parse_rate"),
    )

    def check(self, task: Definition) -> None:
        """Check the settings of `by_reward`. Raises `ValueError` for those that give no probabilities."""
        temperature, nu = task.settings.get("temperature", 1.0), task.settings.get("nu", 0.0)
        if isinstance(temperature, int | float) and not temperature > 0:
            raise ValueError(f"the setting 'temperature' is {temperature}; it must be above 0")
        if isinstance(nu, int | float) and nu < 0:
            raise ValueError(f"the setting 'nu' is {nu}; it must be at least 0")

    def few_shot_answer(self, block: str, example: PairwiseExample, context: PromptContext) -> str | None:
        """Return the letter of the majority, of the tie if votes are equal; or the text with the most votes."""
        assert example.votes is not None
        if block == "context":
            best = max(range(len(example.options)), key=example.votes.__getitem__)
            return context.block("continuation", example, option=example.options[best])
        outcome = self._winner(example.votes)
        if outcome < len(letters_of(example)):
            return f" {LETTERS[outcome]}"
        return f" {LETTERS[majority(example.votes[:-1])[0]]}"

    def _winner(self, votes: Sequence[float]) -> int:
        """Return the outcome with the most votes; a tie if several have equally many."""
        outcomes = majority(votes)
        return outcomes[0] if len(outcomes) == 1 else len(votes) - 1

    def answer_text(self, example: PairwiseExample) -> str:
        """Return the preferred text, or the query if there is none."""
        winner = len(example.options) if example.votes is None else self._winner(example.votes)
        return (*example.options, example.query)[winner]

    def human_question(self, example: PairwiseExample) -> tuple[str, Sequence[str], int] | None:
        """Return the query with the texts, if most people prefer one of these."""
        winner = len(example.options) if example.votes is None else self._winner(example.votes)
        return (example.query, example.options, winner) if winner < len(example.options) else None

    def judged_example(self, example: PairwiseExample) -> Mapping[str, Input]:
        """Return the query, the texts and their votes."""
        texts = {f"text {number}": text for number, text in enumerate(example.options)}
        return {"query": example.query, **texts, "votes": self.shown_gold(example)}

    def gold(self, example: PairwiseExample) -> Any:
        """Return the votes for each text and for a tie."""
        return None if example.votes is None else list(example.votes)

    def gold_texts(self, example: PairwiseExample) -> tuple[str, ...]:
        """Return the outcome that most people chose."""
        return gold_answers(example)

    def given(self, example: PairwiseExample, entry: Given, _labels: Sequence[str]) -> Prediction:
        """Return the outcome that is named or has the best score."""
        n = len(example.options)

        def read(value: object) -> int:
            if isinstance(value, str) and value.strip().lower() == TIE:
                return n
            return place_of(value, example.options, "texts", LETTERS[:n])

        scores = entry.numbers("texts", None, (*map(str, range(n)), TIE))
        if not scores:
            return Prediction(example_id=example.id, value=read(entry.value))
        if not n <= len(scores) <= n + 1:
            raise ValueError(f"there are {len(scores)} scores for {n} texts", "write one for each, in their order")
        is_distribution = all(score >= 0 for score in scores) and abs(math.fsum(scores) - 1) <= ROUNDING
        if len(scores) > n and not is_distribution and not any(map(math.isnan, scores)):
            raise ValueError(
                f"the {n + 1} scores are no probabilities",
                "write those of each text and of a tie, or a score for each text",
            )
        return decide_index(example.id, entry, scores, read)

    def given_route(self, start: Start, example: PairwiseExample) -> Route:
        """Return the route of given predictions, which were not asked for in several orders."""
        return replace(super().given_route(start, example), metrics=("parse_rate",))

    def value_problem(self, value: Value, example: PairwiseExample, _labels: Sequence[str]) -> str:
        """Return the problem with a value that is no outcome, or ""."""
        return index_problem(value, len(example.options) + 1, "outcomes")

    def shown_gold(self, example: PairwiseExample) -> str:
        """Return the votes as a task file writes them."""
        return "(hidden)" if example.votes is None else ", ".join(f"{votes:g}" for votes in example.votes)

    def gold_class(self, example: PairwiseExample) -> str | None:
        """Return the outcome with the most votes, as `figeval validate` counts it."""
        if example.votes is None:
            return HIDDEN
        outcomes = majority(example.votes)
        return name_of(outcomes[0], example) if len(outcomes) == 1 else "no majority"

    def is_constant(self, gold_class: str) -> bool:
        """Return whether the examples of this class have the same answer."""
        return gold_class not in (HIDDEN, "no majority")

    def oddities(self, example: PairwiseExample) -> Iterator[tuple[str, str]]:
        """Yield texts that repeat another one."""
        yield from repeated_texts(example.options)
