"""Generation tasks: a text is written from named inputs, or the text of the closest training example is returned.

A retrieved text was written by a person for other inputs. It is not a generated text, but a floor that lets models
which cannot write be scored with the same metrics: a model that writes well beats it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from figeval.answers import VERSION
from figeval.errors import TaskError
from figeval.prompts import PromptContext
from figeval.task_types.base import TaskType, metric
from figeval.task_types.fields import NamedTextsField, TextsField
from figeval.task_types.given import GIVEN, Given
from figeval.task_types.routes import Dialogue, ReplyReader, Route, Scores, by_reply, cosine_scores, decide, pair_scores
from figeval.types import Example, Input, Inputs, Prediction, Reply, Status, Value

BEGINNING = 80  # characters in which a refusal is searched; further on, a character of the story may refuse
TEXTS = "figeval.metrics.texts"
RETRIEVED = "retrieved"  # name of the input with what `augment` adds


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationExample(Example):
    """Example that asks for a text from named inputs, i.e. texts or lists of texts (keywords).

    `references` are texts written by people.
    """

    inputs: Annotated[Mapping[str, Input], NamedTextsField("The inputs by name: texts, or lists of texts.")]
    references: Annotated[
        tuple[str, ...],
        TextsField("Texts written by people.", empty="there are none", blank="a text is empty", shown=False),
    ]

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self._given, *self.references)

    @property
    def subject(self) -> str:
        return self.references[0] if self.references else self.id

    @property
    def identities(self) -> tuple[tuple[str, ...], ...]:
        return (self._given,)

    @property
    def _given(self) -> tuple[str, ...]:
        values = ((value,) if isinstance(value, str) else value for value in self.inputs.values())
        return tuple(text for texts in values for text in texts)


# ---- routes ----------------------------------------------------------------------------------------------------------


def by_writing(example: GenerationExample, context: PromptContext) -> Dialogue:
    """Ask a system to write a text from the plain inputs."""
    (output,) = yield [Inputs(tuple(example.inputs.items()))]
    return WHOLE_TEXT.read(example, context, output)


def read_text(example: GenerationExample, _context: PromptContext, reply: Reply) -> Prediction:
    """Return the whole reply without reasoning. A truncated reply is also a text; its `finish` shows the truncation.

    A reply whose first words decline is a refusal, unless they are quoted.
    """
    from figeval.answers.reply_text import REFUSAL, not_written, strip_reasoning

    text = strip_reasoning(reply.text).strip()
    declines = REFUSAL.search(text[:BEGINNING]) and not text.startswith(('"', "“", "'", "‘"))
    failure = not_written(reply, text)
    status: Status = failure[0] if failure else "refusal" if declines else "ok"
    return Prediction(example_id=example.id, value=text if status == "ok" else None, status=status)


WHOLE_TEXT = ReplyReader(read_text, VERSION)


def by_retrieval(
    example: GenerationExample,
    context: PromptContext,
    closeness: Callable[[str, tuple[str, ...]], Scores] = cosine_scores,
) -> Dialogue:
    """Return the training text that is closest to all inputs joined together, by cosine unless `closeness` is given.

    `scores` has the best score only, because one score for every pair would fill disks.
    """
    pool = _pool(example, context)
    inputs = ((value,) if isinstance(value, str) else value for value in example.inputs.values())
    scores = yield from closeness(" ".join(text for texts in inputs for text in texts), tuple(pool.values()))
    decided = decide(example.id, scores)
    if not isinstance(decided.value, int):
        return replace(decided, scores=())
    source = list(pool)[decided.value]
    return replace(decided, value=pool[source], source=source, scores=(decided.scores[decided.value],))


def _pool(example: GenerationExample, context: PromptContext) -> dict[str, str]:
    """Return the first reference of each other training example, by id. Raises `TaskError` if there are none."""
    pool = {other.id: other.references[0] for other in context.pool() if other.id != example.id}
    if not pool:
        raise TaskError(
            f"{example.id!r}: the task has no train split to take a text from; add one, or use a model that writes"
        )
    return pool


# ---- the type --------------------------------------------------------------------------------------------------------


class Generation(TaskType[GenerationExample]):
    """Write a text from named inputs."""

    name = "generation"
    Example = GenerationExample
    default_metrics = ("rouge_l",)
    default_baselines = ("echo",)  # no text is written by chance: the floor is to repeat the input
    gold_fields = ("references",)
    given_form = "the text"
    written_routes = ("by_writing", "by_decoding", GIVEN)
    routes = (
        Route(name="by_writing", start=by_writing, needs=frozenset({"write"})),
        by_reply("by_decoding", "write", WHOLE_TEXT, metrics=("parse_rate",)),
        Route(name="by_retrieval", start=by_retrieval, needs=frozenset({"embed"})),
        Route(
            name="by_retrieval_score",
            start=partial(by_retrieval, closeness=pair_scores),
            needs=frozenset({"score_pairs"}),
        ),
    )
    metrics = (
        metric("parse_rate", "figeval.metrics.classification:parse_rate"),
        metric("bleu4", f"{TEXTS}:bleu4", counts_words=True),
        metric("corpus_bleu", f"{TEXTS}:corpus_bleu"),
        metric("chrf", f"{TEXTS}:chrf"),
        metric("rouge_l", f"{TEXTS}:rouge_l", counts_words=True),
        metric("leakage", f"{TEXTS}:leakage", counts_words=True, lower_is_better=True, languages=["en"]),
        metric("repetition_4", f"{TEXTS}:repetition_4", counts_words=True, lower_is_better=True),
        metric("distinct_1", f"{TEXTS}:distinct_1", counts_words=True, routes=written_routes),
        metric("distinct_2", f"{TEXTS}:distinct_2", counts_words=True, routes=written_routes),
        metric("length", f"{TEXTS}:length", counts_words=True),
        metric("cut_off", f"{TEXTS}:cut_off", lower_is_better=True, routes=["by_decoding"]),
    )

    def query_text(self, example: GenerationExample) -> str:
        """Return the first of the inputs."""
        first_input = next(iter(example.inputs.values()), "")
        return first_input if isinstance(first_input, str) else " ".join(first_input)

    def answer_text(self, example: GenerationExample) -> str:
        """Return the first reference."""
        return example.references[0]

    def judged_inputs(self, example: GenerationExample) -> Mapping[str, Input]:
        return example.inputs

    def outline(self, example: GenerationExample) -> Sequence[str]:
        """Return the phrases of the input `outline`."""
        outline = example.inputs.get("outline", ())
        return (outline,) if isinstance(outline, str) else outline

    def augmented(self, example: GenerationExample, added: Sequence[str]) -> GenerationExample:
        """Return the example with a further input `retrieved`, in the first place."""

        def with_input(target: GenerationExample) -> GenerationExample:
            return replace(target, inputs={RETRIEVED: tuple(added), **target.inputs})

        shown = example.prompted
        augmented_example = with_input(example)
        return (
            replace(augmented_example, prompted=with_input(shown))
            if isinstance(shown, GenerationExample)
            else augmented_example
        )

    def gold(self, example: GenerationExample) -> None:
        """Return None, because the references must not be redistributed."""

    def given(self, example: GenerationExample, given: Given, _labels: Sequence[str]) -> Prediction:
        if not isinstance(given.value, str):
            raise ValueError("it is not a text")
        return Prediction(example_id=example.id, value=given.value)

    def value_problem(self, value: Value, _example: GenerationExample, _labels: Sequence[str]) -> str:
        return "" if isinstance(value, str) else f"{value!r:.80} is not a text"

    def shown_gold(self, example: GenerationExample) -> str:
        return " | ".join(example.references)

    def few_shot_answer(self, block: str, example: GenerationExample, _context: PromptContext) -> str | None:
        """Return the first reference, or None if the block takes no solved examples."""
        return f" {example.references[0]}" if block == "write" else None
