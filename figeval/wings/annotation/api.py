"""`figeval.export_items`, `figeval.judge_items` and `figeval.import_judgements`, and what they return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, get_args

from figeval import JSON, Column, Harness, OptionError, Result, Table, TaskSpec
from figeval.api.runs import Runs, Task, given_options, long_work, model_name, run_paths, task_names
from figeval.config import Folders, Settings
from figeval.io import frontend
from figeval.io.text import near, pluralize
from figeval.io.validation import as_list, checked_arguments, paths_in
from figeval.spec.criteria import Criterion, criteria_of
from figeval.wings.annotation.battles.design import Design, pair_texts
from figeval.wings.annotation.battles.results import RaterBias, judge_biases
from figeval.wings.annotation.battles.tables import describe_bias
from figeval.wings.annotation.export import Export, Format, write_items
from figeval.wings.annotation.items import CONFIG, INSTRUCTIONS, KEY, TASKS, Key, read_key
from figeval.wings.annotation.judge import Judging, ask_judge
from figeval.wings.annotation.judge_record import JudgeAnswers, JudgeRow, constant_labels, describe_constant
from figeval.wings.annotation.judgements import Import, analyze_judgements
from figeval.wings.annotation.questions import (
    Criteria,
    choose_battle_criteria,
    choose_criteria,
    instructions_to_answer,
    instructions_to_compare,
    instructions_to_judge,
    parse_criteria,
    read_instructions,
)
from figeval.wings.annotation.tables import AnnotationResults
from figeval.wings.annotation.written_texts import Draw, WrittenTexts, draw_examples, draw_questions, read_texts

if TYPE_CHECKING:
    from typing import Unpack

ITEM_COLUMNS: tuple[Column[JSON], ...] = tuple(map(Column, ("item", "author", "example", "cluster", "gold")))
OPPONENT: tuple[Column[JSON], ...] = (Column("opponent"),)
ANSWER_COLUMNS: tuple[Column[JudgeRow], ...] = (
    *map(Column, ("item", "criterion", "label", "status", "raw")),
    Column("probabilities", "object"),
    Column("truncated", "bool"),
    Column("swapped", "bool"),
)
RANGES = {"n": (1, 1_000_000), "annotators": (1, 99), "checks": (0, 99)}
OVERLAP = 0.2  # share of the battles that all annotators judge
MODEL_OPTIONS = ("device", "seed", "max_cost", "max_tokens", "batch", "resubmit_lost")  # of any judge that takes them


# ---- items -----------------------------------------------------------------------------------------------------------


class ItemOptions(TypedDict, total=False):
    """Further flags of `figeval annotate export`; `figeval annotate export --help` describes each."""

    n: int
    to: Format
    annotators: int
    checks: int
    references: bool
    seed: int
    together: str | None
    categories: Sequence[str]
    battles: int | Literal["all"] | None
    overlap: float | None
    both_orders: float | None
    include_path: Folders


@checked_arguments
def export_items(
    runs: Runs = (),
    *,
    output: str | Path,
    task: Task | None = None,
    criteria: Criteria = (),
    instructions: str | Path | None = None,
    **options: Unpack[ItemOptions],
) -> AnnotationItems:
    """Write items for annotators, in a random order and without names: texts of runs, examples of a task, or questions.

    Args:
        runs: runs whose texts are to be judged, or their folders; without any, people judge the examples of `task` by
            `criteria`, or answer its questions if it is a choice task and no criteria are given.
        output: folder to write the items and their key to.
        task: task whose texts, examples or questions are written.
        criteria: criteria with their scales, `"fluency=1-5,coherence=yes/no"` or `{"fluency": "1-5"}`; a mapping may
            describe them: `{"fluency": {"scale": "1-5", "description": "5: natural."}}`. Or a task whose criteria are
            used; by default, those of the task.
        instructions: what annotators are told: a text, or a file with one; "" for nothing. By default, a text
            about the criteria or the task.
        options: further flags of `figeval annotate export` under the same names: `n`, `to`, `annotators`, `checks`,
            `references`, `seed`, `together`, `categories`, `battles`, `overlap`, `both_orders`, `include_path`.

    Raises:
        TypeError: there is no such option.
        OptionError: an argument has an invalid value, the task has no criteria, the runs have no texts to pair, or the
            folder already has items.
        RecordError: the runs have no such texts, or were made on other examples.

    Example:
        ```python
        items = figeval.export_items(["runs/a", "runs/b"], output="items", criteria={"fluency": "1-5"}, annotators=2)
        items.to_frame()["author"].value_counts()
        ```
    """
    flags = _check_flags(given_options("figeval.export_items", options, ItemOptions.__annotations__))
    folders = run_paths(runs)
    names, objects = ((), ()) if task is None else task_names(task)
    if len(names) > 1 or not (folders or names):
        raise OptionError("give the runs whose texts are to be judged, or one task")
    text = None if instructions is None else read_instructions(str(instructions))
    draw = Draw(n=flags.pop("n", 50), seed=flags.setdefault("seed", 0), together=flags.pop("together", None))
    include, references = paths_in(flags.pop("include_path", ())), flags.pop("references", False)
    design = _design(flags, has_runs=bool(folders))
    with frontend.python_program(watched=False):
        harness = Harness(include=include, tasks=objects)
        if folders:
            name = names[0] if names else None
            written = read_texts(folders, name, draw, harness, references=references)
            judged = _to_compare if design else _to_judge
            material = judged(pair_texts(written, design) if design else written, criteria, harness)
        else:
            material = _of_task(harness.catalogue.tasks.get(names[0]), draw, criteria, harness)
        flags["categories"] = tuple(as_list(flags.get("categories", ()), str, "categories", "names of categories"))
        export = Export(
            criteria=material.criteria, instructions=material.instructions if text is None else text, **flags
        )
        return AnnotationItems(Path(output), write_items(Path(output), material.written, material.gold, export))


class Material(NamedTuple):
    """The material for annotators: texts with the right labels of questions, criteria, and the default instructions."""

    written: WrittenTexts
    criteria: tuple[Criterion, ...]
    instructions: str
    gold: Mapping[str, str]


def _to_judge(written: WrittenTexts, criteria: Criteria, harness: Harness) -> Material:
    scales = choose_criteria(criteria, written, harness)
    return Material(written, scales, instructions_to_judge(scales, has_texts=written.has_texts), {})


def _to_compare(written: WrittenTexts, criteria: Criteria, harness: Harness) -> Material:
    chosen = choose_battle_criteria(criteria, harness)
    return Material(written, chosen, instructions_to_compare(chosen), {})


def _design(flags: dict[str, Any], *, has_runs: bool) -> Design | None:
    """Take the flags of battles out of those of `export`, and return the design; None without battles.

    Raises:
        OptionError: a flag has an invalid value, or no effect.
    """
    battles, overlap, both_orders = (flags.pop(name, None) for name in ("battles", "overlap", "both_orders"))
    for name, share in (("overlap", overlap), ("both_orders", both_orders)):
        if share is not None and battles is None:
            raise OptionError(f"{name}: it is about battles; give battles, too, or remove it")
        if not isinstance(share, float | int | None) or not 0 <= (share or 0) <= 1:
            raise OptionError(f"{name}={share!r:.80}: give a share from 0 to 1")
    if battles is None:
        return None
    if battles != "all" and (not isinstance(battles, int) or isinstance(battles, bool) or battles < 1):
        raise OptionError(f"battles={battles!r:.80}: give a whole number of at least 1, or all")
    if not has_runs:
        raise OptionError("battles: texts of runs meet in battles; give runs")
    annotators = flags.get("annotators", 1)
    if overlap is not None and annotators == 1:
        raise OptionError("overlap: one annotator judges all battles; give more annotators, or remove it")
    return Design(
        battles=None if battles == "all" else battles,
        annotators=annotators,
        overlap=OVERLAP if overlap is None else overlap,
        both_orders=both_orders or 0.0,
        seed=flags["seed"],
    )


def _of_task(task: TaskSpec, draw: Draw, criteria: Criteria, harness: Harness) -> Material:
    """Return the questions of a task if it has some and no criteria are given, else its examples."""
    questions = None if parse_criteria(criteria) else draw_questions(task, draw, harness)
    if questions is None:
        return _to_judge(draw_examples(task, draw, harness), criteria, harness)
    written, gold, answer = questions
    return Material(written, (answer,), instructions_to_answer(task), gold)


def _check_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the flags of `export` if their values are possible. Raises `OptionError`."""
    for name, (lowest, highest) in RANGES.items():
        value = flags.get(name, lowest)
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise OptionError(f"{name}={value!r:.80}: give a whole number from {lowest} to {highest:,}")
    if not isinstance(seed := flags.get("seed", 0), int) or isinstance(seed, bool):
        raise OptionError(f"seed={seed!r:.80}: give a whole number")
    if flags.get("to", "csv") not in (formats := get_args(Format)):
        problem = f"to={flags['to']!r:.80}{near(str(flags['to']), formats)}"
        raise OptionError(f"{problem}; the formats are {', '.join(formats)}")
    return flags


@dataclass(frozen=True, slots=True)
class AnnotationItems(Result):
    """Items for annotators, as `figeval.export_items` returns them.

    `print` prints the lines that `figeval annotate export` prints.

    Attributes:
        path: folder of the items.
        key: who wrote each text and which answers are right, with the criteria and the instructions; keep it from the
            annotators.
    """

    path: Path
    key: Key

    @classmethod
    def load(cls, path: str | Path) -> AnnotationItems:
        """Return the items in a folder. Raises `DataError` if it has no key, or if the key is damaged."""
        return cls(Path(path), read_key(Path(path)))

    @property
    def tables(self) -> list[Table[JSON]]:
        """The key, one row per item without attention checks: `item`, `author`, `example`, `cluster`, `gold`.

        Of battles, `author` wrote text A, and there is the column `opponent`, who wrote text B.
        """
        rows: list[JSON] = [
            {"item": number, **item.model_dump(), "gold": self.key.gold.get(number)}
            for number, item in self.key.items.items()
        ]
        return [Table((*ITEM_COLUMNS, *OPPONENT) if self.key.battles else ITEM_COLUMNS, rows)]

    def to_dict(self) -> JSON:
        """Return the content of `key.json`."""
        return self.key.model_dump(mode="json")

    def notes(self) -> Iterator[str]:
        """Yield what was written, and what to do with it."""
        key = self.key
        checks = f" and {pluralize(len(key.checks), 'attention check')}" if key.checks else ""
        files = ", ".join(key.sheets) or f"{TASKS}, {CONFIG}"
        yield f"{pluralize(len(key.items), 'item')}{checks} of {key.task}: {files}"
        yield from _notes_on_battles(key)
        for criterion in key.criteria:
            yield f"{criterion.name}: {', '.join(criterion.labels)}"
        for author, count in key.not_written.items():
            yield f"{author}: {pluralize(count, 'text')} in the sample not written"
        if (self.path / INSTRUCTIONS).exists():
            yield f"{self.path / INSTRUCTIONS} tells annotators what to do; give it to them with the items"
        yield f"{self.path / KEY} says who wrote each text and which answers are right; keep it from the annotators"

    def __repr__(self) -> str:
        return f"<figeval.AnnotationItems of {self.key.task}: {pluralize(len(self.key.items), 'item')} in {self.path}>"


def _notes_on_battles(key: Key) -> Iterator[str]:
    """Yield how many battles there are of whom, and which of them nobody needs to judge."""
    if not key.battles:
        return
    battles = {(frozenset((item.author, item.opponent)), item.example) for item in key.battles.values()}
    pairs = len({pair for pair, _ in battles})
    repeated = len(key.battles) - len(battles)
    again = f", {repeated} of them in both orders" if repeated else ""
    yield f"{pluralize(len(battles), 'battle')} of {pluralize(pairs, 'pair')} of systems{again}"
    if key.parts:
        yield f"each annotator judges {min(map(len, key.parts.values()))} items or more"
    if key.identical:
        yield f"{pluralize(len(key.identical), 'battle')} of equal texts, which count as ties and are not shown"


# ---- judges ----------------------------------------------------------------------------------------------------------


class JudgeOptions(TypedDict, total=False):
    """Further flags of `figeval annotate judge`; `figeval annotate judge --help` describes each."""

    model_args: Settings
    template: str | Path | None
    limit: int | None
    device: str | None
    max_cost: float | None
    max_tokens: int | None
    batch: bool
    resubmit_lost: bool
    seed: int
    include_path: Folders


@checked_arguments
def judge_items(
    items: str | Path,
    model: object,
    *,
    name: str | None = None,
    progress: bool = False,
    **options: Unpack[JudgeOptions],
) -> JudgedItems:
    """Have a model judge the items of `figeval.export_items` by the same criteria as people.

    The model sees what annotators see, and not who wrote a text. The same call continues after an interruption, and
    asks questions again that failed.

    Args:
        items: folder of the items.
        model: a name, a folder or a hub id, or an object with `loglikelihood` or `generate`.
        name: name of the judge's files in the folder; by default that of the model. For an object also its name.
        progress: show on stderr what the questions will cost, and how many of them are answered.
        options: further flags of `figeval annotate judge` under the same names: `model_args`, `template`, `limit`,
            `device`, `max_cost`, `max_tokens`, `batch`, `resubmit_lost`, `seed`, `include_path`.

    Raises:
        TypeError: there is no such option.
        OptionError: an option has an invalid value, the items are questions with an answer, or files with this name
            come from another model, prompt or version of the texts.
        CapabilityError: the model can neither compare labels nor reply in words.
        NotFinished: with `batch`, the answers are not there yet; the same call collects them later.
        FigevalError: an unknown model, a budget that is exhausted …

    Example:
        ```python
        figeval.judge_items("items", "openai:gpt-4o-mini", max_cost=2.0)
        figeval.import_judgements(to="items").judge_means
        ```
    """
    flags = given_options("figeval.judge_items", options, JudgeOptions.__annotations__)
    called, objects = model_name(model, name if not isinstance(model, str | Path) else None)
    limit, template = flags.get("limit"), flags.get("template")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise OptionError(f"limit={limit!r:.80}: give a whole number of at least 1")
    if template is not None and not isinstance(template, str | Path):
        raise OptionError(f"template={template!r:.80}: give the path of a file")
    judging = Judging(
        folder=Path(items),
        model=called,
        options=flags.get("model_args") or {},
        name=name,
        template=None if template is None else Path(template),
        limit=limit,
        common={"seed": 0} | {option: flags[option] for option in MODEL_OPTIONS if flags.get(option)},
    )
    with long_work(progress=progress) as observer:
        harness = Harness(include=paths_in(flags.get("include_path", ())), models=objects)
        judged = ask_judge(judging, harness, observer)
        return JudgedItems(Path(items), judged, judge_biases(read_key(Path(items)), judged))


@dataclass(frozen=True, slots=True)
class JudgedItems(Result):
    """Answers of a model as a judge, as `figeval.judge_items` returns them.

    `print` prints the lines that `figeval annotate judge` prints.

    Attributes:
        path: folder of the items.
        judged: the judge's name, record and answers, and the number of questions that failed.
        biases: position bias by each criterion, if the items are battles.
    """

    path: Path
    judged: JudgeAnswers
    biases: tuple[RaterBias, ...] = ()

    @property
    def tables(self) -> list[Table[JudgeRow]]:
        """One row per question, attention checks included.

        Columns: `item`, `criterion`, `label` (missing unless `status` is `ok`), `status`, `raw` (a reply in words),
        `probabilities` (of the labels), `truncated` (whether the model saw only a part of the text), `swapped` (whether
        the texts of a battle were exchanged).
        """
        return [Table(ANSWER_COLUMNS, self.judged.rows)]

    def to_dict(self) -> JSON:
        """Return the record as `figeval annotate judge --json` prints it."""
        return self.judged.record.model_dump(mode="json")

    def notes(self) -> Iterator[str]:
        """Yield what the judge answered, and what it cost."""
        record = self.judged.record
        rows = [row for row in self.judged.rows if row.item in self.judged.items]
        statuses = Counter(row.status for row in rows)
        items = pluralize(len(self.judged.items), "item")
        yield f"{record.model} judged {items}: {statuses['ok']} of {len(rows)} answers parsed"
        if failures := ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()) if status != "ok"):
            yield f"without a label: {failures}"
        if rest := len(self.judged.rows) - len(rows):
            yield f"{pluralize(rest, 'answer')} about other items stored earlier"
        yield from map(describe_bias, self.biases)
        for criterion, label in constant_labels(rows).items():
            yield describe_constant(criterion, *label)
        if record.truncated:
            yield f"{pluralize(record.truncated, 'question')} did not fit the model, which saw only a part of the text"
        if record.checks[1]:
            yield f"{record.checks[0]} of {record.checks[1]} answers to attention checks as requested"
        if record.description.get("tokens_in") is not None:
            cost = record.description.get("cost")
            price = "" if cost is None else f", at a cost of {cost:,.4f}"
            read, written = record.description["tokens_in"], record.description["tokens_out"]
            yield f"{read:,} tokens read, {written:,} written{price}"
        file = self.path / f"judge_{self.judged.name}.json"
        yield f"{file}: figeval annotate import --to {quote(str(self.path))} compares it with people"

    def __repr__(self) -> str:
        answers = pluralize(len(self.judged.rows), "answer")
        return f"<figeval.JudgedItems of {self.judged.record.model!r} in {self.path}: {answers}>"


# ---- judgements ------------------------------------------------------------------------------------------------------


@checked_arguments
def import_judgements(  # noqa: PLR0913 - one argument per option of the command
    files: str | Path | Sequence[str | Path] = (),
    *,
    to: str | Path | None = None,
    runs: Runs = (),
    task: str | None = None,
    criteria: Criteria = (),
    last: bool = False,
    exclude: Sequence[str] = (),
    pairs: bool = False,
    threshold: Mapping[str, int | str] | None = None,
    other_items: str | Path | Sequence[str | Path] = (),
    seed: int = 0,
) -> AnnotationResults:
    """Read judgements, store them next to the key, and return means, agreement, tests and correlations.

    Args:
        files: files of annotators (`figeval annotate import --help` lists the forms); by default, sheets and stored
            answers in the folder `to`.
        to: folder of `figeval.export_items`, to which the judgements belong.
        runs: runs whose metrics are correlated; without `to`, items are ids of the examples of the only one.
        task: task of the run, if items are ids of its examples and it has several tasks.
        criteria: scales of the criteria if there is no key, as for `export_items`; by default, the labels that occur.
        last: count the last answer if an annotator judged an item twice.
        exclude: annotators to leave out of the results.
        pairs: also compute the agreement of each pair of annotators.
        threshold: criterion → number from which on texts are also counted as good, `{"quality": 3}`.
        other_items: folders of other judged items, with whose systems those of these are compared.
        seed: random seed of intervals and tests.

    Raises:
        OptionError: an argument has an invalid value, there are no files, or nobody has an excluded name.
        DataError: a file or a judgement is wrong, or there are no judgements.
        RecordError: a run does not have the task, or the folder cannot be written.

    Example:
        ```python
        results = figeval.import_judgements(to="items", runs=["runs/a", "runs/b"])
        results.to_frame()
        results.agreement
        ```
    """
    parts = parse_criteria(criteria)
    try:
        scales = criteria_of(dict(part.partition("=")[::2] for part in parts) if isinstance(parts, list) else parts)
    except ValueError as error:
        raise OptionError(f"--criteria: {error}") from error
    source = Import(
        files=paths_in(files, "files"),
        folder=None if to is None else Path(to),
        runs=run_paths(runs),
        task=task,
        criteria=scales,
        last=last,
        pairs=pairs,
        thresholds={name: str(label) for name, label in (threshold or {}).items()},
        other_items=paths_in(other_items, "other_items"),
        exclude=tuple(as_list(exclude, str, "exclude", "the names of annotators")),
    )
    return analyze_judgements(source, seed)
