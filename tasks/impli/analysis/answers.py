"""Reader of a run's answers to pairs tasks, together with facts about the texts, which run folders do not store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from figeval.errors import RecordError
from figeval.records.run_folder import RunFolder
from figeval.records.schema import RunRecord, TaskRecord
from figeval.task_types.pairs import PairExample

COLUMN = "impli_"


@dataclass(frozen=True, slots=True)
class PairAnswer:
    """A model's answer to one pair.

    Attributes:
        id: id of the pair; a pair of IMPLI has the same id in all tasks that ask it.
        task: name of the task, e.g. `impli_idioms_gold_ent`.
        label: the right answer.
        is_entailment: whether `label` is the first label of the task.
        right: probability that the model is right, below 1 if answers tie; None if there is no answer.
        score: score of the first label, or None if the route has no scores.
        cluster: cluster of the pair; pairs with the same one are not independent.
        idiom: dictionary form of the idiom, or None for a metaphor or an unknown idiom.
        distance: Levenshtein distance between premise and hypothesis, in characters.
        similarity: 1 minus the distance divided by the length of the longer text.
    """

    id: str
    task: str
    label: str
    is_entailment: bool
    right: float | None
    score: float | None
    cluster: str | None
    idiom: str | None
    distance: int
    similarity: float


def read_answers(
    record: RunRecord, folder: RunFolder, examples_of: Callable[[TaskRecord], Iterable[object]]
) -> list[PairAnswer]:
    """Return the answers of a run to all finished pairs tasks (IMPLI, NLI); prompts and probes are left out.

    Args:
        record: record of the run.
        folder: folder of the run.
        examples_of: function that returns the examples of a recorded task; its errors are passed on.

    Raises:
        RecordError: none of the finished tasks is IMPLI's.
    """
    from rapidfuzz.distance import Levenshtein

    answers: list[PairAnswer] = []
    for task in record.tasks:
        if task.task_type != "pairs" or task.kind != "task" or task.status != "done":
            continue
        examples = {example.id: example for example in examples_of(task) if isinstance(example, PairExample)}
        positive = task.settings["labels"][0]
        for row in folder.rows(task.task):
            example = examples[row["id"]]
            right, score = row["metrics"].get("acc"), next(iter(row.get("scores", ())), None)
            answers.append(
                PairAnswer(
                    id=str(row["id"]),
                    task=task.task,
                    label=str(row["gold"]),
                    is_entailment=row["gold"] == positive,
                    right=right if isinstance(right, float | int) else None,
                    score=None if score is None else float(score),
                    cluster=row["cluster"],
                    idiom=example.meta.get("idiom"),
                    distance=Levenshtein.distance(example.left, example.right),
                    similarity=Levenshtein.normalized_similarity(example.left, example.right),
                )
            )
    if not any(answer.task.startswith(COLUMN) for answer in answers):
        has = ", ".join(task.task for task in record.tasks) or "no task"
        raise RecordError(f"{folder.path} has no finished task of IMPLI (it has {has}); run --tasks impli")
    return answers


def of_idioms(answers: list[PairAnswer]) -> Iterator[PairAnswer]:
    """Yield the answers to IMPLI's pairs with a known idiom."""
    return (answer for answer in answers if answer.task.startswith(COLUMN) and answer.idiom is not None)


def each_once(answers: Iterable[PairAnswer]) -> list[PairAnswer]:
    """Return the first answer to each pair, because several tasks of IMPLI ask the same pairs.

    A column shares pairs with its clean version, and with the tasks of seen and unseen idioms.
    """
    first: dict[tuple[str, str], PairAnswer] = {}
    for answer in answers:
        first.setdefault(("" if answer.task.startswith(COLUMN) else answer.task, answer.id), answer)
    return list(first.values())
