"""One row → one example, with every mistake named by file, row and field."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from figeval.errors import DataError, near
from figeval.sandbox import EvaluationError, Expression, expression
from figeval.spec.prompted import with_prompted
from figeval.spec.tasks import FieldSource, TaskSpec
from figeval.types import (
    NO_SPAN,
    ChoiceExample,
    Example,
    GenerationExample,
    JointExample,
    PairExample,
    RankingExample,
    SimilarityExample,
    Span,
    SpanExample,
)

Values = Mapping[str, Any]


def build_examples(task: TaskSpec, rows: Iterable[Values], split: str = "test") -> Iterator[Example]:
    """The examples of a task, one per row, made as they are asked for.

    Raises:
        DataError: a column is missing, a gold index is out of range, there are no options … naming row and field.
        TaskError: a field is no Jinja expression or wants more than the sandbox allows.
    """
    if task.examples is not None:
        yield from task.examples()
        return
    build = row_builder(task, split)
    for number, row in enumerate(rows, start=1):
        yield build(number, row)


def row_builder(task: TaskSpec, split: str) -> Callable[[int, Values], Example]:
    """A function of row number and row that makes the example; it raises as `build_examples` does."""
    fields = {name: _compile(source, f"{task.origin}, field {name!r}") for name, source in task.fields.items()}
    shown = {
        name: _compile(source, f"{task.origin}, prompt field {name!r}") for name, source in task.prompt_fields.items()
    }
    group = expression(task.group, f"{task.origin}, group") if task.group else None
    make = BUILDERS[task.protocol]
    source = task.data[split]

    def build(number: int, row: Values) -> Example:
        where = f"{task.name}: row {number} of {source!r}"
        values = {name: _evaluate(field, row, f"{where}, field {name!r}") for name, field in fields.items()}
        common = _common(task, values, where)
        if group is not None:
            pair = _evaluate(group, row, f"{where}, group")
            common["group"] = None if pair is None else str(pair)
        example = make(task, values, common, where)
        changed = {name: _evaluate(field, row, f"{where}, prompt field {name!r}") for name, field in shown.items()}
        return with_prompted(example, changed, where) if changed else example

    return build


def _compile(source: FieldSource, where: str) -> Expression:
    """A field of a task file as a function of the row: strings are Jinja, lists and mappings hold Jinja."""
    if isinstance(source, str):
        return expression(source, where)
    if isinstance(source, list):
        parts = [_compile(part, where) for part in source]
        return lambda variables: [part(variables) for part in parts]
    if isinstance(source, dict):
        named = {key: _compile(part, f"{where}, key {key!r}") for key, part in source.items()}
        return lambda variables: {key: part(variables) for key, part in named.items()}
    return lambda _variables: source


def _evaluate(field: Expression, row: Values, where: str) -> Any:
    try:
        return field({"row": row})
    except LookupError as error:
        raise DataError(f"{where}: {error}; the row has {_keys(row)}{_near_column(error, row)}") from error
    except EvaluationError as error:
        raise DataError(f"{where}: {error}") from error


def _keys(row: Values) -> str:
    return ", ".join(sorted(map(str, row))) or "no columns"


def _near_column(error: Exception, row: Values) -> str:
    wanted = str(error).rpartition("attribute ")[2].strip("'\" ")
    return near(wanted, row)


def _common(task: TaskSpec, values: Values, where: str) -> dict[str, Any]:
    """id, meta and cluster, which every protocol has."""
    identity = values["id"]
    if not isinstance(identity, str | int) or identity == "":
        raise DataError(f"{where}, field 'id': {identity!r:.200} is not a valid id; give a string or an integer")
    columns = values.get("meta", {})
    if not isinstance(columns, Mapping):
        raise DataError(f"{where}, field 'meta': expected a mapping of names to values, found {columns!r:.80}")
    if task.cluster and task.cluster not in columns:
        raise DataError(
            f"{where}: cluster {task.cluster!r} is not among meta ({', '.join(map(str, columns)) or 'empty'})"
        )
    meta = {key: str(value) for key, value in columns.items() if value is not None}  # null is unknown, not "None"
    return {"id": str(identity), "meta": meta, "cluster": meta.get(task.cluster) if task.cluster else None}


def _text(value: Any, field: str, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where}, field {field!r}: {value!r:.80} is not a string; write `… | string` to convert it")
    return value


def _texts(value: Any, field: str, where: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise DataError(f"{where}, field {field!r}: expected a list of texts, found {value!r:.80}")
    for text in value:
        _text(text, field, where)
    return tuple(value)  # the same object when it is a tuple already: candidates are stored once


def _index(value: Any, field: str, options: int, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        cure = "write `… | int` if it should become one"
        raise DataError(f"{where}, field {field!r}: {value!r:.80} is not an index; {cure}")
    if not 0 <= value < options:
        raise DataError(f"{where}, field {field!r}: {value} is out of range for {options} options (0 to {options - 1})")
    return value


def _indexes(values: Any, field: str, options: int, where: str) -> frozenset[int]:
    if isinstance(values, str) or not isinstance(values, Sequence | Set):
        raise DataError(f"{where}, field {field!r}: expected a list of indexes, found {values!r:.80}")
    return frozenset(_index(index, field, options, where) for index in values)


def _choice(_task: TaskSpec, values: Values, common: dict[str, Any], where: str) -> Example:
    options = _texts(values["options"], "options", where)
    if not options or not all(option.strip() for option in options):
        raise DataError(f"{where}, field 'options': {'an option is empty' if options else 'there are no options'}")
    gold = None if values["gold"] is None else _index(values["gold"], "gold", len(options), where)
    return ChoiceExample(query=_text(values["query"], "query", where), options=options, gold=gold, **common)


def _ranking(_task: TaskSpec, values: Values, common: dict[str, Any], where: str) -> Example:
    return RankingExample(**_ranked(values, where), **common)


def _ranked(values: Values, where: str) -> dict[str, Any]:
    """The fields of a ranking example."""
    candidates = _texts(values["candidates"], "candidates", where)
    if not candidates:
        raise DataError(f"{where}, field 'candidates': there are no candidates")
    given = values["relevant"]
    relevant = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not relevant:
        raise DataError(f"{where}, field 'relevant': no candidate is relevant")
    return {
        "query": _text(values["query"], "query", where),
        "candidates": candidates,
        "relevant": _indexes(relevant, "relevant", len(candidates), where),
        "near": _indexes(values.get("near", ()), "near", len(candidates), where),
        "background": _texts(values.get("background", ()), "background", where),
    }


def _pair(task: TaskSpec, values: Values, common: dict[str, Any], where: str) -> Example:
    label = values["label"]
    if label is not None and label not in task.labels:
        raise DataError(f"{where}, field 'label': {label!r:.200} is not among the labels {', '.join(task.labels)}")
    left, right = (_text(values[side], side, where) for side in ("left", "right"))
    return PairExample(left=left, right=right, label=label, **common)


def _span(_task: TaskSpec, values: Values, common: dict[str, Any], where: str) -> SpanExample:
    text, given, known = (_text(values[field], field, where) for field in ("text", "given", "known"))
    reference, weight = values.get("reference"), values.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise DataError(f"{where}, field 'weight': {weight!r:.200} is not a positive number")
    return SpanExample(
        text=text,
        given=given,
        known=known,
        gold=_place(values["gold"], text, where),
        reference=None if reference is None else _text(reference, "reference", where),
        weight=float(weight),
        **common,
    )


def _place(gold: Any, text: str, where: str) -> Span | None:
    """A span given by its words (the first place where they stand) or as [start, end]; '' and [] say that no span of
    the text is right, None that the right one is not known.
    """
    if gold is None:
        return None
    if gold == "":
        return NO_SPAN
    if isinstance(gold, str):
        start = text.find(gold) if gold.strip() else -1
        if start < 0:
            what = "does not stand in the text" if gold.strip() else "is blank; write [] where no span is right"
            raise DataError(f"{where}, field 'gold': {gold!r:.80} {what}")
        return Span(start, start + len(gold))
    match gold:
        case []:
            return NO_SPAN
        case [int(start), int(end)] if 0 <= start < end <= len(text):
            return Span(start, end)
    raise DataError(f"{where}, field 'gold': {gold!r:.80} is no span of a text of {len(text)} characters: [start, end]")


def _joint(task: TaskSpec, values: Values, common: dict[str, Any], where: str) -> Example:
    """The parts are the span rows of the same query; each has `id`, `given`, `known` and `gold`."""
    ranked, parts = _ranked(values, where), values["parts"]
    if not isinstance(parts, Sequence) or not all(isinstance(part, Mapping) for part in parts):
        raise DataError(f"{where}, field 'parts': expected a list of mappings, found {parts!r:.80}")
    if not parts:
        raise DataError(f"{where}, field 'parts': there are no spans; leave the row out")
    made = []
    for part in parts:
        if missing := sorted({"id", "given", "known", "gold"} - set(part)):
            raise DataError(f"{where}, field 'parts': no {', '.join(missing)} in {dict(part)!r:.80}")
        shared = {"id": str(part["id"]), "cluster": common["cluster"]}
        whole = {"text": ranked["query"], "weight": 1 / len(parts), **part}
        made.append(_span(task, whole, shared, where))
    return JointExample(**ranked, parts=tuple(made), **common)


def _generation(_task: TaskSpec, values: Values, common: dict[str, Any], where: str) -> Example:
    inputs = values["inputs"]
    if not isinstance(inputs, Mapping):
        raise DataError(f"{where}, field 'inputs': expected a mapping of names to texts, found {inputs!r:.80}")
    read = {
        name: value if isinstance(value, str) else _texts(value, f"inputs.{name}", where)
        for name, value in inputs.items()
    }
    references = _texts(values["references"], "references", where)
    if not references or not all(reference.strip() for reference in references):
        raise DataError(f"{where}, field 'references': {'a text is empty' if references else 'there are none'}")
    return GenerationExample(inputs=read, references=references, **common)


def _similarity(_task: TaskSpec, values: Values, common: dict[str, Any], where: str) -> Example:
    text, motif = (_text(values[field], field, where) for field in ("text", "motif"))
    anchors = _texts(values.get("anchors", ()), "anchors", where)
    return SimilarityExample(text=text, motif=motif, anchors=anchors, **common)


BUILDERS: dict[str, Callable[[TaskSpec, Values, dict[str, Any], str], Example]] = {
    "choice": _choice,
    "ranking": _ranking,
    "pairs": _pair,
    "spans": _span,
    "joint": _joint,
    "generation": _generation,
    "similarity": _similarity,
}
