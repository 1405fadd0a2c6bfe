"""Contract of exporters: the arguments that they get besides the records of runs, and the results that they return.

An exporter is a function `export(runs)`. One that declares an argument `stored` also gets the answers of each run, with
the texts of the examples if the user asked for them. Texts are read from the user's own copy of the data when the
export is made, never from the run folder.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from figeval import plugins
from figeval.data.readers import fetch, first_request
from figeval.data.sources import catalogue
from figeval.errors import FigevalError, OptionError, PluginError, RecordError
from figeval.evaluation.comparisons import Design, RunComparisons, compare_all
from figeval.evaluation.harness import Harness
from figeval.evaluation.outputs import check_output
from figeval.evaluation.variants import recorded_variant
from figeval.records.layouts import load_layouts
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder
from figeval.records.schema import RunRecord, TaskRecord
from figeval.records.sweep import run_or_mean
from figeval.storage import cure, replacing
from figeval.text import one_line
from figeval.types import Example, Span

Files: TypeAlias = Mapping[str, str | bytes]
NONCOMMERCIAL = re.compile(r"\bNC\b|\bnon-?commercial|excludes commercial", re.IGNORECASE)
PROVIDED = {"stored", "layouts", "compare"}  # arguments that figeval gives to exporters
HIDDEN_FIELDS = {"prompted", "texts"}  # not facts about the example


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """A model's answer to one example, as exporters get it.

    Attributes:
        row: the line of the predictions file, without texts of the benchmark.
        input: the text that is asked about; empty unless the user asked for texts, like `options` and `fields`.
        options: the texts to choose from, if the task type has some.
        reference: the right answers: texts if the user asked for them, otherwise labels, indexes or spans.
        answer: the model's answer in the same form, or what it wrote; empty if it gave none.
        fields: all fields of the example by name, as JSON values; spans are [start, end].
    """

    row: PredictionRow
    input: str = ""
    options: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    answer: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run with its answers, as exporters get it.

    Attributes:
        record: the content of `run.json`.
        folder: the folder of the run.
        harness: the installed tasks, from which the examples' texts are read.
        has_texts: True if the user asked for these texts.
    """

    record: RunRecord
    folder: RunFolder
    harness: Harness = field(default_factory=Harness)
    has_texts: bool = False

    def homepage(self, task: TaskRecord) -> str:
        """Return the address of the benchmark that a task belongs to, or an empty text if that is unknown."""
        try:
            spec = self.harness.catalogue.tasks.get(task.of or task.task)
            requested = first_request(spec.data["test"], spec.folder or files("figeval"), self.harness.readers)
        except Exception:  # the task is not installed, or a plugin's reader fails, which is no matter of the export
            return ""
        return catalogue().get(requested[0]).homepage if requested else ""

    def benchmarks(self) -> dict[str, str]:
        """Return the plugin of each installed task, such as `epic`, by the name of the task."""
        return {entry.name: entry.owner.rpartition(".")[2] for entry in self.harness.catalogue.tasks}

    def answers(self, task: TaskRecord) -> Iterator[StoredAnswer]:
        """Yield the answers to a task in the order of its examples; there are none for a mean over seeds.

        Raises:
            RecordError: the predictions or the examples have changed since the run.
            FigevalError: the licence of the data does not permit every use, and the user did not confirm theirs.
        """
        if not task.predictions:
            return
        self.folder.check(task)
        known = self._examples(task)
        for stored in self.folder.rows(task.task):
            row: Any = {name: value for name, value in stored.items() if name != "texts"}
            if known is None:
                yield StoredAnswer(
                    row=row, reference=tuple(map(_shown, _right_answers(row))), answer=_shown(row["pred"])
                )
                continue
            if row["id"] not in known:
                raise RecordError(f"there is no example {one_line(row['id'], 80)!r} in {task.task}; run the task again")
            yield _with_texts(row, known[row["id"]])

    def _examples(self, task: TaskRecord) -> dict[str, Example] | None:
        if not self.has_texts:
            return None
        seed = int(self.record.config.get("seed", 0))
        return {one.id: one for one in recorded_variant(task, seed, self.harness).examples()}


def _with_texts(row: PredictionRow, example: Example) -> StoredAnswer:
    """Return an answer whose indexes and spans are replaced by the texts that they stand for."""
    values = {one.name: getattr(example, one.name) for one in fields(example) if one.name not in HIDDEN_FIELDS}
    options: tuple[str, ...] = next(
        (tuple(values[name]) for name in ("options", "candidates", "anchors") if values.get(name)), ()
    )
    text = example.asked[0] if example.asked else ""

    def meant(value: Any) -> str:
        if isinstance(value, int) and 0 <= value < len(options):
            return options[value]
        if isinstance(value, list) and len(value) == 2 and all(isinstance(one, int) for one in value):
            return text[value[0] : value[1]]
        return _shown(value)

    reference = tuple(values.get("references") or map(meant, _right_answers(row)))
    return StoredAnswer(
        row=row,
        input="\n".join(_asked(example, values)),
        options=options,
        reference=reference,
        answer=meant(row["pred"]),
        fields={name: _plain(value) for name, value in values.items()},
    )


def _asked(example: Example, values: Mapping[str, Any]) -> Sequence[str]:
    """Return the texts that are asked about; for generation, the inputs instead of the reference."""
    if "inputs" not in values:
        return example.asked
    shown = ((name, one if isinstance(one, str) else ", ".join(one)) for name, one in values["inputs"].items())
    return [f"{name}: {one}" for name, one in shown]


def _plain(value: Any) -> Any:
    if isinstance(value, Span):
        return [value.start, value.end]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, Example):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.name not in HIDDEN_FIELDS}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


def _right_answers(row: PredictionRow) -> list[Any]:
    """Return the right answers of a row: several candidates of a ranking, otherwise one value or none."""
    gold: Any = row["gold"]
    if "relevant_scores" in row and isinstance(gold, list):
        return gold
    return [] if gold is None or gold == [] else [gold]


# ---- from paths to files --------------------------------------------------------------------------------------------


def stored_runs(
    paths: Sequence[Path], include: tuple[Path, ...] = (), *, texts: bool = False, noncommercial: bool = False
) -> list[StoredRun]:
    """Return the runs in these folders, with means for folders of several seeds.

    Args:
        paths: run folders.
        include: further folders with task files.
        texts: whether exporters get the texts of the examples.
        noncommercial: whether these may be texts under a licence for non-commercial use.

    Raises:
        RecordError: there is no run.
    """
    harness = Harness(include=include, fetch=fetch if noncommercial else _fetch_unless_noncommercial)
    records = [(run_or_mean(path), path if path.is_dir() else path.parent) for path in paths]
    return [StoredRun(record, RunFolder(place), harness, texts) for record, place in records]


def _fetch_unless_noncommercial(benchmark: str, path: str) -> Path:
    licence = _noncommercial(benchmark, path)
    if licence:
        raise FigevalError(
            f"the texts of {benchmark} are not exported, because their licence restricts commercial use: "
            f"{one_line(licence, 200)}; add --allow_noncommercial if your use is permitted, or leave out --include_text"
        )
    return fetch(benchmark, path)


def _noncommercial(benchmark: str, path: str) -> str:
    """Return the words that restrict the use of a file to non-commercial purposes, or an empty text.

    A clause of the note that names folders of the benchmark is about these only.
    """
    sources = catalogue().get(benchmark)
    if NONCOMMERCIAL.search(sources.licence):
        return sources.licence
    folders = {file.path.partition("/")[0] for file in sources.files if "/" in file.path}
    for clause in re.split(r"[;.]\s+", sources.note):
        named = folders & set(re.findall(r"[\w-]+", clause))
        if NONCOMMERCIAL.search(clause) and (not named or path.partition("/")[0] in named):
            return clause
    return ""


def exported(
    export: Callable[..., Any], runs: Sequence[StoredRun], arguments: Mapping[str, Any] | None = None
) -> str | bytes | Files:
    """Return what an exporter makes of these runs.

    Args:
        export: the exporter; its keyword-only arguments can be set by users.
        runs: the runs.
        arguments: values of such arguments.

    Raises:
        OptionError: the exporter has no such argument, or needs one that is not given.
        PluginError: it returned neither a text, bytes nor files, or a file would be outside the folder.
    """
    parameters = _parameters(export)
    given = dict(arguments or {})
    _check_arguments(parameters, given)
    provided: Mapping[str, Callable[[], Any]] = {
        "stored": lambda: runs,
        "layouts": lambda: load_layouts(plugins.plugin_manager()),
        "compare": lambda: partial(_compare, runs),
    }
    own = {name: make() for name, make in provided.items() if name in parameters}
    if runs and "tasks" in given:
        names = given["tasks"].split(",") if isinstance(given["tasks"], str) else given["tasks"]
        given["tasks"] = list(_with_suites(names, runs))
    made = export([run.record for run in runs], **own, **given)
    if isinstance(made, str | bytes):
        return made
    if not isinstance(made, Mapping):
        raise PluginError(f"an exporter returns a text, bytes or a mapping from file names to them, not {made!r:.80}")
    for name, content in made.items():
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\\" in name or one_line(name) != name:
            raise PluginError(f"an exporter named a file {one_line(name, 80)!r}; names are paths within the folder")
        if not isinstance(content, str | bytes):
            raise PluginError(f"an exporter made {content!r:.80} for the file {name}; return a text or bytes")
    return made


def _compare(
    runs: Sequence[StoredRun], metric: str, tasks: Iterable[str], against: int | None = None
) -> RunComparisons:
    """Return the comparisons of the runs by one metric on some tasks: of all pairs, or with the run at one place."""
    design = Design(against=against, tasks=frozenset(tasks))
    return compare_all([one.folder.path for one in runs], metric, design=design)


def _with_suites(names: Iterable[str], runs: Sequence[StoredRun]) -> Iterator[str]:
    """Yield names of tasks, for a suite those of its tasks that the runs have."""
    has = {task.task for run in runs for task in run.record.tasks}
    catalogue = runs[0].harness.catalogue
    for name in names:
        if name in has or name not in catalogue.suites:
            yield name
        else:
            yield from (task.name for task in catalogue.expand([name]) if task.name in has)


def chosen(**choices: Any) -> dict[str, Any]:
    """Return the arguments of a format that the user chose: those that are not empty, false or None."""
    return {name: value for name, value in choices.items() if value or (value == 0 and value is not False)}


def _parameters(export: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(export).parameters
    except (TypeError, ValueError):  # a function that is not written in Python
        return {}


def _check_arguments(parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any]) -> None:
    """Raise `OptionError` if an exporter has no argument of a given name, or needs one that is not given."""
    settable = {name: one for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY and name not in PROVIDED}
    for name in given:
        if name not in settable:
            has = f"it has {', '.join(settable)}" if settable else "it has none"
            raise OptionError(f"this format has no argument {name!r}; {has}")
    for name, one in settable.items():
        if one.default is one.empty and name not in given:
            raise OptionError(f"this format needs {name}; add --format_args {name}=…")


def text_of(made: str | bytes | Files, form: str) -> str:
    """Return the text that an exporter made. Raises `OptionError` if it made something else, which needs a place."""
    if isinstance(made, str):
        return made
    what = "is a binary format; name a file" if isinstance(made, bytes) else "consists of several files; name a folder"
    raise OptionError(f"{form} {what} with --output")


def save(made: str | bytes | Files, output: Path, inputs: Sequence[Path] = ()) -> None:
    """Write a file, or files below a folder. Each is replaced atomically.

    A link that the user names is followed. Links below a folder are not: they may come from somebody else.

    Args:
        made: what an exporter made.
        output: the file, or the folder.
        inputs: the runs that were read.

    Raises:
        OptionError: a file is one of the inputs or a part of a run.
        RecordError: there is no space or no permission, or a folder or a link is in the way.
    """
    if not isinstance(made, Mapping):
        check_output(output, inputs)
        with cure(output, "--output"):
            if output.exists() and not output.is_dir() and not output.is_file():  # /dev/stdout, a pipe
                output.write_bytes(_bytes(made))
                return
            _write(made, output.resolve())
        return
    files = {output / name: content for name, content in made.items()}
    for file in files:
        check_output(file, inputs)
        if linked := [one for one in file.parents if one.is_symlink() and output in one.parents]:
            raise RecordError(f"{linked[0]} is a symbolic link; choose another folder with --output")
    for file, content in files.items():
        with cure(output, "--output"):
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(content, file)


def _write(content: str | bytes, file: Path) -> None:
    if file.is_dir():
        raise RecordError(f"{file} is a folder; give a file with --output")
    with replacing(file) as stream:
        stream.write(_bytes(content))


def _bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content
