"""Ranking tasks, which order many candidates, some of them relevant, possibly to different degrees.

The routes are those of choice that score options. Ranking differs in that there are hundreds of candidates, that
several may be right, and that `background` candidates count for the `*_all` metrics only.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from figeval.io.json_files import json_scores
from figeval.prompts import PromptContext
from figeval.task_types.base import Metric, TaskType, blank_texts, metric, repeated_texts
from figeval.task_types.fields import (
    Definition,
    IndexesField,
    RowContext,
    TextField,
    TextsField,
    index_problem,
    read_fields,
)
from figeval.task_types.given import Given, decide_index, place_of
from figeval.task_types.routes import Dialogue, Route, by_likelihood, cosine_scores, decide, dot_scores, pair_scores
from figeval.types import JSON, LATER, Example, Input, Prediction, Value

RANKING = "figeval.metrics.ranking"
LIKELIHOOD = ("by_loglikelihood",)
TOP = 10  # best candidates kept in a row of predictions


@dataclass(frozen=True, slots=True)
class RelevantField(IndexesField):
    """Right candidates: an index, a list of indexes, or a mapping of indexes to grades.

    Candidates with a grade of 0 are not right. A task with a corpus names documents by their ids.
    """

    def read(self, value: Any, row: RowContext) -> frozenset[int]:  # noqa: D102
        if value is None:
            return frozenset()  # hidden
        if isinstance(value, Mapping):
            value = list(positive_grades(value, row))
        elif isinstance(value, str) or not isinstance(value, Sequence):
            value = [value]
        if not value:
            raise row.error("no candidate is relevant; leave the row out, or write null if the right ones are hidden")
        return super(RelevantField, self).read(value, row)


def positive_grades(grades_by_name: Mapping[Any, Any], row: RowContext) -> dict[Any, float]:
    """Return the grades of the relevant candidates, by index; JSON keys, which are always strings, become numbers.

    Raises:
        DataError: a grade is not a number of at least 0.
    """
    grades: dict[Any, float] = {}
    for index, grade in grades_by_name.items():
        if isinstance(grade, bool) or not isinstance(grade, int | float) or not 0 <= grade < math.inf:
            raise row.error(f"{grade!r:.80} is not a grade of relevance; give a number of at least 0")
        if grade > 0:
            grades[int(index) if isinstance(index, str) and index.isdecimal() else index] = float(grade)
    return grades


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingExample(Example):
    """Example that asks to order many candidates; `relevant` has the indexes of the right ones.

    `grades` maps indexes to degrees of relevance greater than 0; the default is 1. Only nDCG uses it.
    `background` are further candidates that only the `*_all` metrics rank (the unseen split of ePiC is scored among its
    100 proverbs and, in addition, among all 250). `near` are candidates with the same meaning as a relevant one; only
    `acc_near` counts them as right.
    Examples of one task share the same candidate tuple, so it is stored once.
    """

    query: Annotated[str, TextField("The text that the question is about.")]
    candidates: Annotated[tuple[str, ...], TextsField("The texts to rank.", empty="there are no candidates")]
    relevant: Annotated[
        frozenset[int], RelevantField("The right candidates: indexes, or index → grade.", of="candidates")
    ]
    background: Annotated[tuple[str, ...], TextsField("Further candidates, only for the `*_all` metrics.")] = ()
    near: Annotated[
        frozenset[int],
        IndexesField("Candidates with the same meaning as a right one, for `acc_near`.", of="candidates"),
    ] = field(default=frozenset(), metadata=LATER)
    grades: Mapping[int, float] = field(default_factory=dict, metadata=LATER)

    def __post_init__(self) -> None:
        """Check the grades. Raises `ValueError` for a candidate that is not relevant, or a grade not above 0."""
        for index, grade in self.grades.items():
            if index not in self.relevant:
                raise ValueError(f"example {self.id!r} grades candidate {index}, which is not among the relevant ones")
            if not 0 < grade < math.inf:
                raise ValueError(f"example {self.id!r} gives candidate {index} the grade {grade}; it must be above 0")

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.query, *self.candidates, *self.background)

    @property
    def subject(self) -> str:  # noqa: D102
        return self.query

    @property
    def hidden(self) -> bool:  # noqa: D102
        return not self.relevant


# ---- routes ----------------------------------------------------------------------------------------------------------


def by_dot(example: RankingExample, _context: PromptContext) -> Dialogue:
    """Rank by the dot product of embeddings, for models trained with it (code of Ghosh and Srivastava 2022)."""
    scores = yield from dot_scores(example.query, example.candidates + example.background)
    return decide(example.id, scores, len(example.candidates))


def by_cosine(example: RankingExample, _context: PromptContext) -> Dialogue:
    """Rank by the cosine of the embeddings of query and candidate (Ghosh and Srivastava 2022, section 5.1)."""
    scores = yield from cosine_scores(example.query, example.candidates + example.background)
    return decide(example.id, scores, len(example.candidates))


def by_pair_score(example: RankingExample, _context: PromptContext) -> Dialogue:
    """Rank by the closeness of the query and each candidate, as scored by the model."""
    scores = yield from pair_scores(example.query, example.candidates + example.background)
    return decide(example.id, scores, len(example.candidates))


def by_loglikelihood(example: RankingExample, context: PromptContext) -> Dialogue:
    """Rank by log P(candidate | context), natural logarithm, summed over the candidate's tokens.

    `priors` are the same without the query; they are computed if the metric `acc_pmi` or `mrr_pmi` is requested.
    """
    return by_likelihood(example, example.candidates + example.background, context, len(example.candidates))


# ---- the type --------------------------------------------------------------------------------------------------------


class Ranking(TaskType[RankingExample]):
    """Order many candidates."""

    name = "ranking"
    Example: ClassVar[Any] = RankingExample
    query = "query"
    gold_fields = ("relevant",)
    has_corpus = True
    given_form = "the indexes (from 0) or the texts of candidates in a list, the best first"
    routes: ClassVar[tuple[Route, ...]] = (
        Route(name="by_dot", start=by_dot, needs=frozenset({"embed", "dot"})),
        Route(name="by_cosine", start=by_cosine, needs=frozenset({"embed"})),
        Route(name="by_pair_score", start=by_pair_score, needs=frozenset({"score_pairs"})),
        Route(
            name="by_loglikelihood",
            start=by_loglikelihood,
            needs=frozenset({"loglikelihood"}),
            question="context",
            blocks=frozenset({"continuation"}),
            scores="log-likelihoods",
        ),
    )
    metrics: ClassVar[tuple[Metric, ...]] = (
        metric("acc", f"{RANKING}:accuracy"),
        metric("acc_norm", f"{RANKING}:acc_norm", routes=LIKELIHOOD),
        metric("acc_pmi", f"{RANKING}:acc_pmi", routes=LIKELIHOOD),
        metric("mrr", f"{RANKING}:mrr"),
        metric("mrr_norm", f"{RANKING}:mrr_norm", routes=LIKELIHOOD),
        metric("mrr_pmi", f"{RANKING}:mrr_pmi", routes=LIKELIHOOD),
        metric("recall@1", f"{RANKING}:recall_at_1"),
        metric("recall@5", f"{RANKING}:recall_at_5"),
        metric("recall@10", f"{RANKING}:recall_at_10"),
        metric("acc_near", f"{RANKING}:acc_near"),
        metric("acc_all", f"{RANKING}:acc_all"),
        metric("mrr_all", f"{RANKING}:mrr_all"),
        metric("precision@1", f"{RANKING}:precision_at_1"),
        metric("precision@5", f"{RANKING}:precision_at_5"),
        metric("precision@10", f"{RANKING}:precision_at_10"),
        metric("r_precision", f"{RANKING}:r_precision"),
        metric("map", f"{RANKING}:average_precision"),
        metric("ndcg", f"{RANKING}:ndcg"),
        metric("ndcg@5", f"{RANKING}:ndcg_at_5"),
        metric("ndcg@10", f"{RANKING}:ndcg_at_10"),
    )

    def required(self, task: Definition) -> frozenset[str]:
        """Return the required fields, without `candidates` for a task with a corpus."""
        return super().required(task) - ({"candidates"} if task.corpus is not None else set())

    def check(self, task: Definition) -> None:  # noqa: D102
        if task.corpus is not None and "candidates" in task.fields:
            raise ValueError("the candidates are the texts of `corpus`; leave out the field candidates")

    def example(self, row: RowContext) -> RankingExample:  # noqa: D102
        row = from_corpus(row)
        example: RankingExample = self.Example(**read_fields(self.Example, row), grades=grades_of(row), **row.common)
        return example

    def row(self, example: RankingExample, prediction: Prediction) -> JSON:
        """Return the best candidates and the scores of the right ones; scores of all candidates would fill disks."""
        best = heapq.nlargest(TOP, range(len(prediction.scores)), key=prediction.scores.__getitem__)
        return {
            "gold": self.gold(example),
            "top": [[index, *json_scores([prediction.scores[index]])] for index in best],
            "relevant_scores": json_scores([prediction.scores[index] for index in sorted(example.relevant)]),
        }

    def given(self, example: RankingExample, given: Given, _labels: Sequence[str]) -> Prediction:
        """Return the ranking of a list or of scores; candidates that a list leaves out tie for the last place."""
        texts = (*example.candidates, *example.background)

        def indices_of(value: Any) -> list[int]:
            values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
            indices = [place_of(text, texts, "candidates") for text in values]
            if not indices:
                raise ValueError("the list is empty")
            if len(set(indices)) < len(indices):
                raise ValueError("the list names a candidate twice")
            return indices

        parsed = Given(given.parsed)
        if scores := given.numbers("candidates", len(texts)):
            return decide_index(example.id, parsed, scores, lambda value: indices_of(value)[0], len(example.candidates))
        ranked = indices_of(parsed.value)
        ranks = dict(zip(ranked, range(len(ranked), 0, -1), strict=True))
        return decide(example.id, [ranks.get(index, 0) for index in range(len(texts))], len(example.candidates))

    def value_problem(self, value: Value, example: RankingExample, _labels: Sequence[str]) -> str:  # noqa: D102
        return index_problem(value, len(example.candidates), "candidates")

    def answer_text(self, example: RankingExample) -> str:
        """Return the first of the right candidates, or the query without one."""
        return example.candidates[min(example.relevant)] if example.relevant else self.query_text(example)

    def gold(self, example: RankingExample) -> list[int]:  # noqa: D102
        return sorted(example.relevant)

    def few_shot_answer(self, block: str, example: RankingExample, context: PromptContext) -> str | None:
        """Return the first relevant candidate, or None if the block takes no solved examples."""
        if block != "context":
            return None
        return context.block("continuation", example, option=example.candidates[min(example.relevant)])

    def judged_example(self, example: RankingExample) -> Mapping[str, Input]:  # noqa: D102
        return {"query": example.query, "answer": self.answer_text(example)}

    def shown_gold(self, example: RankingExample) -> str:  # noqa: D102
        return "; ".join(f"{index}: {example.candidates[index]}" for index in sorted(example.relevant))

    def oddities(self, example: RankingExample) -> Iterator[tuple[str, str]]:  # noqa: D102
        yield from blank_texts(example, "query")
        yield from repeated_texts(example.candidates)

    def restrict_to_split(self, examples: Sequence[RankingExample]) -> Sequence[RankingExample]:
        """Return the examples with only those candidates that are right for one of them.

        If whole proverbs are held out, training must not treat them as wrong candidates, and dev ranks only its own.
        """
        kept_numbers = sorted(set().union(*(example.relevant for example in examples)))
        indices = {number: index for index, number in enumerate(kept_numbers)}
        candidates = tuple(examples[0].candidates[number] for number in kept_numbers) if examples else ()

        def among(numbers: frozenset[int]) -> frozenset[int]:
            return frozenset(indices[number] for number in numbers if number in indices)

        return [
            replace(
                example,
                candidates=candidates,
                relevant=among(example.relevant),
                near=among(example.near),
                grades={indices[number]: grade for number, grade in example.grades.items() if number in indices},
            )
            for example in examples
        ]


def from_corpus(row: RowContext) -> RowContext:
    """Return a row with the candidates and their indexes from the task's corpus; without a corpus, the row itself.

    Raises:
        DataError: an id is not in the corpus.
    """
    if row.corpus is None:
        return row
    corpus = row.corpus()

    def place(name: Any, field: str) -> int:
        if str(name) not in corpus.places:
            raise row.at(field).error(f"{name!r:.80} is not an id of the corpus ({len(corpus.texts)} documents)")
        return corpus.places[str(name)]

    def placed(value: Any, field: str) -> Any:
        if isinstance(value, Mapping):
            return {place(name, field): grade for name, grade in value.items()}
        names = [value] if isinstance(value, str | int) else value
        return [place(name, field) for name in names] if isinstance(names, Sequence) else names

    indices = {name: placed(row.values[name], name) for name in ("relevant", "near") if name in row.values}
    return replace(row, values={**row.values, "candidates": corpus.texts, **indices})


def grades_of(row: RowContext) -> dict[int, float]:
    """Return the grades by index, or an empty mapping if none are given or all are 1."""
    relevant = row.values["relevant"]
    if not isinstance(relevant, Mapping):
        return {}
    grades = positive_grades(relevant, row.at("relevant"))
    return {} if set(grades.values()) <= {1.0} else grades
