"""Generation: a text is written from named inputs, or the training example that is closest to them stands in for one.

What stands in was written by a person for other inputs. It is no generation, but a floor by which models that cannot
write are held to the same metrics: whoever writes well beats it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from figeval.answers.reading import read_text
from figeval.errors import TaskError
from figeval.task_types.routes import Briefing, Dialogue, decide
from figeval.task_types.similarity import cosines
from figeval.types import GenerationExample, Inputs, Prediction, Text, TextPair


def by_writing(example: GenerationExample, briefing: Briefing) -> Dialogue:
    """The text that a system makes of the inputs as they are."""
    (output,) = yield [Inputs(tuple(example.inputs.items()))]
    return read_text(example, briefing, output)


def by_decoding(example: GenerationExample, briefing: Briefing) -> Dialogue:
    """The text that a model writes when it is prompted with the inputs."""
    (reply,) = yield [briefing.prompt("write", example)]
    return read_text(example, briefing, reply)


def by_retrieval(example: GenerationExample, briefing: Briefing) -> Dialogue:
    """The training text whose embedding has the highest cosine with that of all inputs in a row."""
    pool = _pool(example, briefing)
    query, *others = yield (Text(_in_a_row(example)), *_as_texts(tuple(pool.values())))
    return _closest(example, pool, cosines(query, others))


def by_retrieval_score(example: GenerationExample, briefing: Briefing) -> Dialogue:
    """The training text that the model scores as closest to all inputs in a row."""
    pool, query = _pool(example, briefing), _in_a_row(example)
    scores = yield [TextPair(query, text) for text in pool.values()]
    return _closest(example, pool, scores)


def _in_a_row(example: GenerationExample) -> str:
    """All inputs as one text."""
    given = ((value,) if isinstance(value, str) else value for value in example.inputs.values())
    return " ".join(text for texts in given for text in texts)


def _pool(example: GenerationExample, briefing: Briefing) -> dict[str, str]:
    """The training texts by id, one of each other example. Raises `TaskError` if there are none."""
    pool = {other.id: other.references[0] for other in briefing.pool() if other.id != example.id}
    if not pool:
        raise TaskError(
            f"{example.id!r}: the task has no train split to take a text from; add one, or take a model that writes"
        )
    return pool


@lru_cache(maxsize=4)
def _as_texts(pool: tuple[str, ...]) -> tuple[Text, ...]:
    """The training texts as requests: one object each for all examples."""
    return tuple(map(Text, pool))


def _closest(example: GenerationExample, pool: Mapping[str, str], scores: Iterable[float]) -> Prediction:
    """The text with the best score; `scores` has that one alone, since a row for every pair would fill disks."""
    decided = decide(example.id, scores)
    if not isinstance(decided.value, int):
        return replace(decided, scores=())
    source = list(pool)[decided.value]
    return replace(decided, value=pool[source], source=source, scores=(decided.scores[decided.value],))
