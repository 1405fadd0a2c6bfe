"""Construction of examples from rows, with errors that name file, row and field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, TypeAlias

from figeval.errors import DataError, RowError
from figeval.io.sandbox import EvaluationError, Expression, MissingValue, expression
from figeval.io.text import near, one_line
from figeval.registry import a_type
from figeval.spec.tasks import FieldSource, TaskSpec
from figeval.task_types.field_values import known_texts
from figeval.task_types.fields import CandidateCorpus, RowContext, fields_of, reorder
from figeval.types import Example

Values: TypeAlias = Mapping[str, Any]
INVISIBLE_ENDS = re.compile(r"\A[\s\ufeff\u200b\u2060]+|[\s\ufeff\u200b\u2060]+\Z")
MAX_ORIGINS = 3  # columns with the same value; more of them are no help
CorpusReader: TypeAlias = Callable[[], CandidateCorpus]


def build_examples(
    task: TaskSpec, rows: Iterable[Values], split: str = "test", corpus: CorpusReader | None = None
) -> Iterator[Example]:
    """Yield the examples of a task, one per row. `corpus()` returns the documents that they rank, if they share them.

    Raises:
        DataError: a column is missing, a gold index is out of range, there are no options …; it names row and field.
        TaskError: a field is not a Jinja expression, or needs more than the sandbox allows.
    """
    if task.examples is not None:
        yield from _check_examples(task, task.examples())
        return
    build = row_builder(task, split, corpus)
    for number, row in enumerate(rows, start=1):
        yield build(number, row)


def _check_examples(task: TaskSpec, examples: object) -> Iterator[Example]:
    """Yield the examples from the function of a `@task`, after checking them. Raises `DataError` for an invalid one."""
    example_class = task.task_type.Example
    if not isinstance(examples, Iterable):
        raise DataError(
            f"{task.name}: its function returned {a_type(examples)}; yield a {example_class.__name__} each time"
        )
    for number, example in enumerate(examples, start=1):
        if not isinstance(example, example_class):
            raise DataError(f"{task.name}: example {number} is {a_type(example)}; yield a {example_class.__name__}")
        location = f"{task.name}: example {number}, id {example.id!r:.200}"
        if not isinstance(example.id, str) or not example.id or read_id(example.id) != example.id:
            raise DataError(f"{location}: this is not a valid id; give a string without blanks at its ends")
        for name, field in fields_of(example_class).items():
            if problem := field.problem(getattr(example, name), example):
                raise DataError(f"{location}, {name}: {problem}")
        for name, text in {"cluster": example.cluster, "group": example.group}.items():
            if not isinstance(text, str | None):
                raise DataError(f"{location}, {name}: {text!r:.80} is not valid; give a string or None")
        meta: object = example.meta
        if not isinstance(meta, Mapping) or not all(isinstance(part, str) for pair in meta.items() for part in pair):
            raise DataError(f"{location}, meta: {meta!r:.80} is not valid; give a mapping of strings to strings")
        check_language(task, example.language or None, location)
        yield shuffle_by_seed(task, task.task_type.completed(example, task))


def row_builder(task: TaskSpec, split: str, corpus: CorpusReader | None = None) -> Callable[[int, Values], Example]:
    """Return a function that makes an example from row number and row.

    It raises as `build_examples` does; a `DataError` about the row alone is a `RowError`.
    """
    fields = {
        name: _compile(source, f"{task.origin or task.name}, field {name!r}") for name, source in task.fields.items()
    }
    shown = {
        name: _compile(source, f"{task.origin or task.name}, prompt field {name!r}")
        for name, source in task.prompt_fields.items()
    }
    group = expression(task.group, f"{task.origin or task.name}, group") if task.group else None
    documents = None if corpus is None else cache(corpus)
    source = task.data[split]

    def make_example(names: Values, location: str) -> Example:
        values = {name: _evaluate(field, names, f"{location}, field {name!r}") for name, field in fields.items()}
        common = _common(task, values, location)
        if group is not None:
            pair = _evaluate(group, names, f"{location}, group")
            common["group"] = known_texts({"group": pair}).get("group")
        read = task.task_type.example(RowContext(task, location, values, common, documents))
        example: Example = task.task_type.completed(read, task)
        changed = {name: _evaluate(field, names, f"{location}, prompt field {name!r}") for name, field in shown.items()}
        if changed:
            example = task.task_type.prompted(example, changed, location)
        return shuffle_by_seed(task, example)

    def build(number: int, row: Values) -> Example:
        location = f"{task.name}: row {number} of {source!r}"
        try:
            return make_example({"row": row, "row_number": number}, location)
        except DataError as error:
            if not str(error).startswith(location):  # it is about something that rows share, such as the corpus
                raise
            raise RowError(location, str(error).removeprefix(location)) from error

    return build


def memorized_texts(task: TaskSpec, rows: Iterable[Values], split: str = "test") -> Iterator[str | None]:
    """Yield the well-known text behind each row (`memorized` of the task), or None for a row without one.

    Raises:
        DataError: the expression names an unknown column, or its value is neither a string nor null.
        TaskError: it is not a Jinja expression.
    """
    if task.memorized is None:
        return
    text = expression(task.memorized, f"{task.origin or task.name}, memorized")
    for number, row in enumerate(rows, start=1):
        location = f"{task.name}: row {number} of {task.data[split]!r}, memorized"
        texts = _evaluate(text, {"row": row, "row_number": number}, location)
        if not isinstance(texts, str | None):
            raise DataError(f"{location}: {texts!r:.80} is not a text; give a string or none")
        yield texts.strip() or None if texts is not None else None


def shuffle_by_seed(task: TaskSpec, example: Example) -> Example:
    """Return an example with its options in the order of `shuffle_options`, or as it is if the task has no such key.

    The options are sorted by the SHA-256 of `SEED ID PLACE`, where the place in the row counts from 0. The order is
    thus the same in every run and on every machine, and does not depend on other rows.
    """
    if task.shuffle_options is None:
        return example
    seed, options = task.shuffle_options.seed, task.task_type.options
    keys = [f"{seed} {example.id} {index}".encode() for index in range(len(getattr(example, options)))]
    return reorder(example, options, sorted(range(len(keys)), key=lambda index: sha256(keys[index]).digest()))


def read_corpus(task: TaskSpec, rows: Iterable[Values]) -> CandidateCorpus:
    """Return the documents that all rows of a task rank, one per row of its corpus.

    Raises:
        DataError: two documents have the same id, an id or a text is not a string, or there are no documents.
    """
    assert task.corpus is not None
    corpus_location = f"{task.origin or task.name}, corpus"
    identity, text = expression(task.corpus.id, corpus_location), expression(task.corpus.text, corpus_location)
    texts: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        location = f"{task.name}: document {number} of {task.corpus.data!r}"
        names = {"row": row, "row_number": number}
        name, content = _evaluate(identity, names, location), _evaluate(text, names, location)
        document = read_id(name)
        if not document or not isinstance(content, str):
            raise DataError(f"{location}: id {name!r:.80} and text {content!r:.80} must be strings")
        if document in texts:
            raise DataError(f"{location}: another document also has the id {name!r:.80}")
        texts[document] = content
    if not texts:
        raise DataError(f"{task.name}: the corpus {task.corpus.data!r} has no documents")
    return CandidateCorpus(tuple(texts.values()), {name: location for location, name in enumerate(texts)})


def _compile(source: FieldSource, location: str) -> Expression:
    """Return a field of a task file as a function of the row: strings are Jinja, lists and mappings contain Jinja."""
    if isinstance(source, str):
        return expression(source, location)
    if isinstance(source, list):
        parts = [_compile(part, location) for part in source]
        return lambda variables: [part(variables) for part in parts]
    if isinstance(source, dict):
        expressions = {key: _compile(part, f"{location}, key {key!r}") for key, part in source.items()}
        return lambda variables: {key: part(variables) for key, part in expressions.items()}
    return lambda _variables: source


def _evaluate(field: Expression, names: Values, location: str) -> Any:
    """Return the value of a field; `names` are `row` and `row_number`. Raises `DataError` with similar names."""
    try:
        return field(names)
    except MissingValue as error:
        raise DataError(f"{location}: {_missing_value(error, names)}") from error
    except EvaluationError as error:
        raise DataError(f"{location}: {error}") from error


def _missing_value(error: MissingValue, names: Values) -> str:
    """Return what an expression lacks, where it was looked up, and similar names of what is there."""
    row, message = names["row"], str(error).removesuffix(".")
    if error.holder is not None and error.holder is not row:
        return _missing_entry(error, row)
    cure = near(str(error.key), row)
    if message.endswith(" is undefined"):
        name = str(error.key)
        cure = f"; write row.{name}" if name in row else near(name, [*names, *map("row.{}".format, row)])
        cure = "; in an expression, null is written none" if name == "null" and name not in row else cure
    columns = one_line(", ".join(sorted(map(str, row)))) or "no columns"
    return f"{message}; the row has {columns}{cure}"


def _missing_entry(error: MissingValue, row: Values) -> str:
    """Return which entry a mapping or list in an expression or row lacks, and the column whose value asks for it."""
    holder, key = error.holder, error.key
    if not isinstance(holder, Mapping | Sequence) or isinstance(holder, str):
        return str(error)  # e.g. a text, which has no attributes
    columns = [f"row.{name}" for name, value in row.items() if _fold_id(value) == _fold_id(key)]
    origin = f" (from {' or '.join(columns)})" if 0 < len(columns) <= MAX_ORIGINS else ""
    is_mapping = isinstance(holder, Mapping)
    kind = next((f"row.{name}" for name, value in row.items() if value is holder), None)
    kind = kind or ("the mapping" if is_mapping else "the list")
    if not is_mapping:
        items = f"its items are 0 to {len(holder) - 1}, as integers" if holder else "it is empty"
        return f"{kind} has no item {key!r:.40}{origin}; {items}"
    entries = one_line(", ".join(f"{name!r}" for name in holder), 200) or "none"
    cure = f"; add an entry for it, or correct the row{near(str(key), holder)}" if columns else near(str(key), holder)
    return f"{kind} has no entry for {key!r:.40}{origin}, only for {entries}{cure}"


def _fold_id(value: Any) -> str:
    return str(value).strip().casefold()


def _common(task: TaskSpec, values: Values, location: str) -> dict[str, Any]:
    """Return id, meta and cluster, which every example has, and the language if the row has one."""
    identity = read_id(values["id"])
    if not identity:
        raise DataError(f"{location}, field 'id': {values['id']!r:.200} is not a valid id; give a string or an integer")
    columns = values.get("meta", {})
    if not isinstance(columns, Mapping):
        raise DataError(f"{location}, field 'meta': expected a mapping of names to values, found {columns!r:.80}")
    if task.cluster and task.cluster not in columns:
        raise DataError(
            f"{location}: cluster {task.cluster!r} is not among meta ({', '.join(map(str, columns)) or 'empty'})"
        )
    language = values.get("language")
    check_language(task, language, f"{location}, field 'language'")
    meta = known_texts(columns)
    common = {"id": identity, "meta": meta, "cluster": meta.get(task.cluster) if task.cluster else None}
    return common if language is None else {**common, "language": language}


def read_id(value: Any) -> str:
    """Return an id as text, without blanks and invisible characters at its ends; "" if it is no string or integer."""
    return INVISIBLE_ENDS.sub("", str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def check_language(task: TaskSpec, language: Any, location: str) -> None:
    """Check a row's language. Raises `DataError` if the task does not list it, or if it is missing and necessary."""
    listed = ", ".join(task.languages)
    if language is None and len(task.languages) > 1:
        raise DataError(f"{location}: no language is given, but the task has several ({listed}); give one of them")
    if language is not None and language not in task.languages:
        cure = f"add it to `language` of the task ({listed}), or correct the row"
        raise DataError(f"{location}: {language!r:.80} is not among the task's languages; {cure}")


def check_languages(task: TaskSpec, languages: Iterable[str]) -> None:
    """Check the languages found in the rows. Raises `DataError` if one of the task's languages has no row."""
    seen_languages = set(languages)
    if len(task.languages) > 1 and (
        missing := [language for language in task.languages if language not in seen_languages]
    ):
        raise DataError(
            f"{task.name}: `language` lists {missing[0]!r}, but no row is in that language; remove it, or add rows"
        )
