"""Texts for annotators, which models wrote for a task in stored runs, its examples, or questions to answer.

Rows contain the model's output but no text of the benchmark, so inputs and references are read again through the data
layer, and the examples must be the ones that the run was made on.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from figeval import Example, Harness, OptionError, PredictionRow, RecordError, RunRecord, TaskRecord, TaskSpec
from figeval.io.text import near
from figeval.records.run_folder import read_run
from figeval.runs.stored import recorded_variant
from figeval.spec.criteria import Criterion, Scale
from figeval.wings.annotation.kinship import ModelOrigin, origin_of

REFERENCE = "reference"  # author name of the texts that people wrote
JOIN = "; "  # separator of the texts of an input that is a list
PEOPLE = "people"  # who answers questions
QUESTION = "question"
ANSWER = "answer"  # criterion of questions with options, whose value is whether the label is right
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text, its author, and the example for which it was written, with that example's cluster and inputs.

    The text is empty if the inputs are all that is judged. Items of the same `block` stand together. A battle has an
    `opponent`, the author of the second text, and both texts are inputs; `parts` are the annotators who judge it.
    """

    author: str
    example: str
    cluster: str | None
    inputs: Mapping[str, str]
    text: str
    block: str = ""
    opponent: str = ""
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Which examples are drawn, and whose items stand together.

    Attributes:
        n: number of examples to draw; all are used if there are fewer.
        seed: random seed of the draw.
        together: `example`, `cluster`, or a name in `meta`: items that share it stand together, and examples that do
            are drawn together, until there are `n`. Without it, every item stands alone.
    """

    n: int
    seed: int = 0
    together: str | None = None

    def block(self, example: Example) -> str:
        """Return the name of the block of an example's items. Raises `OptionError` if `meta` lacks it."""
        fields = {"example": example.id, "cluster": example.cluster or example.id}
        if self.together is None or self.together in fields:
            return fields.get(self.together or "", "")
        if example.meta.get(self.together) is None:
            names = ", ".join([*fields, *example.meta])
            raise OptionError(
                f"--together: {example.id!r:.60} has no {self.together!r:.60}{near(self.together, example.meta)}; give "
                f"one of {names:.200}"
            )
        return str(example.meta[self.together])

    def choose(self, examples: Sequence[Example]) -> list[Example]:
        """Return the drawn examples in their order. Raises `OptionError` as `block` does."""
        generator = random.Random(f"{self.seed} examples")
        if self.together in (None, "example"):
            drawn = set(generator.sample([example.id for example in examples], min(self.n, len(examples))))
            return [example for example in examples if example.id in drawn]
        sizes = Counter(map(self.block, examples))
        blocks, count = set[str](), 0
        for name in generator.sample(list(sizes), len(sizes)):
            if count < self.n:
                blocks.add(name)
                count += sizes[name]
        return [example for example in examples if self.block(example) in blocks]


@dataclass(frozen=True, slots=True)
class WrittenTexts:
    """The texts of some examples of a task by all authors.

    Attributes:
        task: name of the task in the records; a prompt follows after an @.
        error_types: types of errors that the task asks annotators to look for.
        texts: texts in the order of the examples, and for each example in the order of the authors.
        authors: models, followed by `REFERENCE` if references were requested.
        not_written: author → number of these examples without a text (a refusal, an error or a blank text).
        criteria: criteria of the task, each with its scale as in the task file.
        models: author → what its record tells about the model.
        identical: battles between equal texts, which nobody judges.
    """

    task: str
    error_types: tuple[str, ...]
    texts: tuple[WrittenText, ...]
    authors: tuple[str, ...]
    not_written: Mapping[str, int]
    criteria: Mapping[str, Scale] = field(default_factory=dict)
    models: Mapping[str, ModelOrigin] = field(default_factory=dict)
    identical: tuple[WrittenText, ...] = ()

    @property
    def has_texts(self) -> bool:
        """True if texts are judged, and not all that an item has."""
        return any(text.text for text in self.texts)


def read_texts(
    paths: Sequence[Path], task: str | None, draw: Draw, harness: Harness, *, references: bool = False
) -> WrittenTexts:
    """Draw examples that have a row in all runs, and return the texts that were written for them.

    Args:
        paths: run folders.
        task: name of the task; may be None if the runs share exactly one task with written texts.
        draw: which examples are drawn.
        harness: registries that provide the task.
        references: True to add the first reference of each example.

    Raises:
        RecordError: the runs share no such task or no example of it, have no texts, were made on different examples, or
            the examples have changed since.
        UnknownName: the task is not installed.
    """
    runs = [read_run(path) for path in paths]
    records = [record for record, _ in runs]
    name = _shared_task(paths, records, task, harness)
    tasks = [next(task for task in record.tasks if task.task == name) for record in records]
    variant = recorded_variant(tasks[0], int(records[0].config.get("seed", 0)), harness)
    _refuse_other_examples(paths, tasks)
    authors = author_names(records)
    rows = {
        author: {row["id"]: row for row in folder.rows(name)} for author, (_, folder) in zip(authors, runs, strict=True)
    }
    spec, texts, missing = variant.task, [], Counter[str]()
    for example in draw.choose(_common_examples(name, variant.examples(), list(rows.values()))):
        inputs = _as_texts(spec.task_type.judged_inputs(example))
        by_author = {author: _text_of(by_id[example.id]) for author, by_id in rows.items()}
        if references:
            by_author[REFERENCE] = spec.task_type.answer_text(example)
        for author, text in by_author.items():
            if text is None:
                missing[author] += 1
            else:
                texts.append(WrittenText(author, example.id, example.cluster, inputs, text, draw.block(example)))
    if not texts:
        raise RecordError(
            f"there is nothing to judge: the runs have no text for {name} but refusals, errors and blanks"
        )
    models = {author: origin_of(record.model) for author, record in zip(authors, records, strict=True)}
    if references:
        authors = [*authors, REFERENCE]
    return WrittenTexts(name, spec.error_types, tuple(texts), tuple(authors), dict(missing), spec.criteria, models)


def _as_texts(parts: Mapping[str, str | tuple[str, ...]]) -> dict[str, str]:
    return {name: part if isinstance(part, str) else JOIN.join(part) for name, part in parts.items()}


def _common_examples(
    task: str, examples: Iterable[Example], rows: Sequence[Mapping[str, PredictionRow]]
) -> list[Example]:
    common = [example for example in examples if all(example.id in by_id for by_id in rows)]
    if not common:
        raise RecordError(f"the runs have no example of {task} in common; run them with the same --limit or --sample")
    return common


def _shared_task(paths: Sequence[Path], records: Sequence[RunRecord], task: str | None, harness: Harness) -> str:
    """Return the task with written texts that all runs share: that of this name, or else the only one."""
    by_run = [[record.task for record in run.tasks if _has_texts(record, harness)] for run in records]
    shared = [name for name in by_run[0] if all(name in names for names in by_run)]
    if task is not None and task in shared:
        return task
    if task is None and len(shared) == 1:
        return shared[0]
    if task is None and shared:
        raise RecordError(f"the runs share several tasks with written texts: {', '.join(shared)}; give --task")
    has = "; ".join(f"{path} has {', '.join(names) or 'none'}" for path, names in zip(paths, by_run, strict=True))
    problem = "no task" if task is None else f"no {task!r}"
    hint = "" if task is None else near(task, shared)
    raise RecordError(
        f"the runs share {problem} with written texts{hint}; {has} (a route that answers with training texts does not "
        "count)"
    )


def _has_texts(task: TaskRecord, harness: Harness) -> bool:
    if task.kind == "probe" or task.task_type not in harness.task_types:
        return False
    return task.route in harness.task_types.get(task.task_type).written_routes


def _refuse_other_examples(paths: Sequence[Path], tasks: Sequence[TaskRecord]) -> None:
    for path, task in zip(paths, tasks, strict=True):
        if task.examples_sha256 != tasks[0].examples_sha256:
            raise RecordError(
                f"{task.task}: {paths[0]} and {path} were made on different examples; run both with the same version "
                "of figeval and its data"
            )


def author_names(records: Sequence[RunRecord]) -> list[str]:
    """Return the names of the models, followed by the identity of the run if two models have the same name."""
    counts = Counter(record.model.name for record in records)
    names = [
        record.model.name if counts[record.model.name] == 1 else f"{record.model.name} ({record.identity})"
        for record in records
    ]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise RecordError(f"the same run is given twice ({repeated[0]}); give each run once")
    return names


def _text_of(row: PredictionRow) -> str | None:
    """Return the text of a row; of several samples the first, since the most frequent one is not a typical one."""
    answer = next(iter(row.get("samples", ())), row)
    text = answer["pred"] if answer["status"] == "ok" else None
    return text if isinstance(text, str) and text.strip() else None


def draw_examples(task: TaskSpec, draw: Draw, harness: Harness) -> WrittenTexts:
    """Draw examples of a task that people judge together with their right answers, but not those that are hidden.

    Where people could judge texts of models, they judge the reference, as with `references` of `read_texts`. Otherwise
    the task type says what they see (`TaskType.judged_example`), as prompts show it.

    Raises:
        OptionError: all right answers are hidden.
    """
    examples = [example for example in harness.examples(task) if not example.hidden]
    if not examples:
        raise OptionError(f"the right answers of {task.name} are hidden, so they cannot be judged; give another task")
    texts = []
    for example in draw.choose(examples):
        kind, shown = task.task_type, example.for_prompt()
        has_text = bool(kind.written_routes)
        parts = _as_texts(kind.judged_inputs(shown) if has_text else kind.judged_example(shown))
        text = kind.answer_text(example) if has_text else ""
        texts.append(WrittenText(REFERENCE, example.id, example.cluster, parts, text, draw.block(example)))
    return WrittenTexts(task.name, task.error_types, tuple(texts), (REFERENCE,), {}, task.criteria)


def draw_questions(
    task: TaskSpec, draw: Draw, harness: Harness
) -> tuple[WrittenTexts, dict[str, str], Criterion] | None:
    """Draw questions of a task that people can answer by choosing an option (`TaskType.human_question`).

    Args:
        task: the task.
        draw: which examples are drawn.
        harness: registries that provide the data.

    Returns:
        The questions as texts without an author, the letter of the right option by example, and the criterion; None
        if the task has no such questions, or its answers are hidden.

    Raises:
        OptionError: an example has too many options.
    """
    questions = {
        example.id: (example, question)
        for example in harness.examples(task)
        if (question := task.task_type.human_question(example)) is not None
    }
    if not questions:
        return None
    max_options = max(len(options) for _, (_, options, _) in questions.values())
    if max_options > len(LETTERS):
        raise OptionError(
            f"{task.name} has questions with {max_options} options; at most {len(LETTERS)} can be lettered"
        )
    texts, gold = [], {}
    for example in draw.choose([example for example, _ in questions.values()]):
        question = questions[example.id][1]
        text, options, _ = task.task_type.human_question(example.for_prompt()) or question
        shown = {QUESTION: text, **dict(zip(LETTERS, options, strict=False))}
        texts.append(WrittenText(PEOPLE, example.id, example.cluster, shown, "", draw.block(example)))
        gold[example.id] = LETTERS[question[2]]
    criterion = Criterion(name=ANSWER, labels=tuple(LETTERS[:max_options]))
    return WrittenTexts(task.name, (), tuple(texts), (PEOPLE,), {}), gold, criterion
