"""The rows of predictions, how they are made, and the file `predictions/<task>.jsonl` that stores one per line.

Rows contain named fields and typed numbers but no benchmark texts, because most licences forbid redistributing them;
`--log_samples` adds the texts for private use. Lines are appended, validated when they are read, and replaced as a
whole. An archived run may have `<task>.jsonl.gz` instead of the file, which is read in the same way (`rows_file`).

A run folder may come from somebody else. Therefore no link in it is followed, and every line must be a
`PredictionRow` with an id that no earlier line has.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import (
    IO,
    Annotated,
    Any,
    NotRequired,
    Protocol,
    cast,
)

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from figeval.errors import PluginError, RecordError
from figeval.io.files import cure, replacing
from figeval.io.json_files import JSONScore, finite_json, json_scores, parse_json
from figeval.io.text import clean_json, one_line, valid
from figeval.io.validation import first_problem
from figeval.plugins import describe
from figeval.records.answer_rows import (
    AnswerRow,
    ChoiceRow,
    PartRow,
    SampleRow,
    StoredAnswer,
    StoredMetrics,
    Tokens,
)
from figeval.records.rows_file import find_rows_file, is_own, open_rows, packed_path
from figeval.types import JSON, Example, Finish, Prediction, Role, Status, written

MAX_BYTES = 1 << 22  # per line; parsed, it takes many times as much memory
MOST_TEXTS = 16  # --log_samples keeps an example's texts up to this number, otherwise only the first
MOST_SCORES = 65_536  # and all scores up to this number, since a line may have no more than MAX_BYTES
LONG_NUMBER = re.compile(rb"[0-9]{19}")
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # may be half of a surrogate pair
COMMON_FIELDS = frozenset(  # fields that `prediction_row` fills for every task type
    (
        *("id", "status", "pred", "tied", "truncated", "metrics", "seen", "cluster", "group", "meta", "language"),
        *("straddling", "priors", "remarks", "retrieved", "raw", "finish", "error", "answers", "texts", "all_scores"),
        *("answer_tokens", "reasoning_tokens", "dropped_shots", "samples"),
    )
)

# ---- a row ----------------------------------------------------------------------------------------------------------


def _shares(metrics: StoredMetrics) -> StoredMetrics:
    accuracy = metrics.get("acc", 0.0)
    if isinstance(accuracy, list) or not 0 <= accuracy <= 1:
        raise ValueError(f"acc is {accuracy}, which is not between 0 and 1")
    return metrics


@with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
class PredictionRow(TypedDict):
    """One line of `predictions/<task>.jsonl`: what the model answered to one example. Each id has one line."""

    id: str
    status: Status
    pred: Annotated[
        StoredAnswer,
        Field(
            description="index of an option or candidate, a label, [start, end] of a span in characters ([]: there is "
            "none), a written text or the id of the training example that stands in for one, or an answer of a "
            "plugin's task type; null without an answer"
        ),
    ]
    gold: Annotated[
        JsonValue,
        Field(
            description="the right answer, null where it is hidden; ranking: all right candidates; spans: [] where no "
            "span is right; generation: null, the references are not ours"
        ),
    ]
    scores: NotRequired[
        Annotated[
            list[JSONScore],
            Field(
                description="choice: per option; pairs: per label; spans: of the span; similarity: per anchor or "
                "dimension"
            ),
        ]
    ]
    top: NotRequired[
        Annotated[list[tuple[int, JSONScore]], Field(description="ranking: the best ten candidates, best first")]
    ]
    relevant_scores: NotRequired[
        Annotated[list[JSONScore], Field(description="ranking: scores of the right candidates")]
    ]
    tied: Annotated[int, Field(description="answers that share the best score")]
    truncated: Annotated[bool, Field(description="the model did not see the whole input")]
    straddling: NotRequired[
        Annotated[
            bool,
            Field(
                description="a token of the model would have joined the prompt and an option, which were therefore "
                "encoded apart; missing if none would"
            ),
        ]
    ]
    dropped_shots: NotRequired[
        Annotated[
            int,
            Field(
                gt=0,
                description="solved examples left out of the beginning of a prompt that would have been too long; "
                "missing if all fit",
            ),
        ]
    ]
    metrics: Annotated[
        StoredMetrics,
        AfterValidator(_shares),
        Field(description="value of each metric, or the counts that it is computed from"),
    ]
    seen: NotRequired[
        Annotated[Role | None, Field(description="the model was trained on this example, or chosen on it")]
    ]
    cluster: Annotated[str | None, Field(description="examples that share it are not independent")]
    group: Annotated[str | None, Field(description="examples that share it are a minimal pair")]
    meta: dict[str, str]
    language: NotRequired[Annotated[str, Field(description="for tasks with rows in several languages")]]
    choice: NotRequired[
        Annotated[ChoiceRow | None, Field(description="for tasks that declare the kinds of their options")]
    ]
    priors: NotRequired[Annotated[list[JSONScore], Field(description="scores of the options without the query")]]
    retrieved: NotRequired[
        Annotated[
            list[str], Field(description="ids of the training examples that were added to the input, nearest first")
        ]
    ]
    remarks: NotRequired[
        Annotated[list[str], Field(description="facts about this example that a metric reports and tables count")]
    ]
    raw: NotRequired[Annotated[str | None, Field(description="the text that a model wrote")]]
    finish: NotRequired[Annotated[Finish | None, Field(description="why that text ended")]]
    error: NotRequired[Annotated[str, Field(description="why there is no answer")]]
    answer_tokens: NotRequired[Annotated[Tokens, Field(description="tokens of that text; missing where unknown")]]
    reasoning_tokens: NotRequired[
        Annotated[Tokens, Field(description="tokens that the model thought before it; missing where unknown")]
    ]
    answers: NotRequired[
        Annotated[list[AnswerRow], Field(description="only with --orders; scores are then shares of answers")]
    ]
    samples: NotRequired[
        Annotated[
            list[SampleRow],
            Field(description="only with --samples; metrics are then means over them, and pred the most frequent one"),
        ]
    ]
    parts: NotRequired[
        Annotated[list[PartRow], Field(description="joint: the spans, in the order of the example's parts")]
    ]
    details: NotRequired[
        Annotated[dict[str, JsonValue], Field(description="further values that a plugin's task type stores")]
    ]
    texts: NotRequired[Annotated[list[str], Field(description="only with --log_samples")]]
    all_scores: NotRequired[
        Annotated[list[JSONScore], Field(description="only with --log_samples, and up to 65,536 of them")]
    ]


class RowForm(Protocol):
    """The methods of a task type that define its rows (`figeval.task_types.base.TaskType`)."""

    def row(self, example: Any, prediction: Prediction) -> JSON:
        """Return the fields that are specific to this task type."""

    def to_json(self, value: Any) -> Any:
        """Return an answer as a JSON value."""

    def from_json(self, stored: Any) -> Any:
        """Return the answer that `to_json` stored."""


def prediction_row(
    form: RowForm,
    example: Example,
    prediction: Prediction,
    metrics: Mapping[str, float | list[float]],
    *,
    samples: bool = False,
    retrieved: Sequence[str] = (),
) -> PredictionRow:
    """Return the row of one example, with the fields of its task type.

    `metrics` maps each metric to what its score is later aggregated from; `samples` adds the texts and all scores;
    `retrieved` are the ids of the examples that were added to the input.
    """
    type_fields = form.row(example, prediction)
    if shared := COMMON_FIELDS & type_fields.keys():
        raise PluginError(
            f"row() of a task type returns {min(shared)!r}, which every row already has; return only its own fields"
        )
    row: dict[str, Any] = {
        "id": example.id,
        "status": prediction.status,
        "pred": prediction.source or form.to_json(prediction.value),
        **type_fields,
        "tied": prediction.tied,
        "truncated": prediction.truncated,
        "metrics": dict(metrics),
        "cluster": example.cluster,
        "group": example.group,
        "meta": dict(example.meta),
    }
    if example.language:
        row["language"] = example.language
    if prediction.straddling:
        row["straddling"] = True
    if prediction.dropped_shots:
        row["dropped_shots"] = prediction.dropped_shots
    row |= written(prediction)
    if prediction.priors:
        row["priors"] = json_scores(prediction.priors)
    if retrieved:
        row["retrieved"] = list(retrieved)
    if prediction.answers:
        row["answers"] = [_answer(form, answer) for answer in prediction.answers]
    if samples:
        row["texts"] = list(example.texts) if len(example.texts) <= MOST_TEXTS else [example.texts[0]]
        if len(prediction.scores) <= MOST_SCORES:
            row["all_scores"] = json_scores(prediction.scores)
    return cast("PredictionRow", row)  # the task type's own fields are validated when the line is read


def _answer(form: RowForm, answer: Prediction) -> JSON:
    """Return the row of the answer to one order of the options."""
    row: JSON = {"order": list(answer.order), "status": answer.status, "pred": form.to_json(answer.value)}
    if answer.scores:
        row |= {"scores": json_scores(answer.scores), "tied": answer.tied}
    return row | written(answer)


def sample_rows(row: PredictionRow) -> Sequence[PredictionRow]:
    """Return a row for each sample, as if it were the only answer; without samples, the row itself."""
    if not (samples := row.get("samples")):
        return [row]
    shared = {name: value for name, value in row.items() if name != "samples" and name not in SampleRow.__annotations__}
    return [cast("PredictionRow", {**shared, **sample}) for sample in samples]


def with_samples(row: PredictionRow, samples: Sequence[PredictionRow]) -> PredictionRow:
    """Return the row of an example with the samples of which `sample_rows` makes these rows."""
    stored = [{name: value for name, value in each.items() if name in SampleRow.__annotations__} for each in samples]
    return cast("PredictionRow", {**row, "samples": stored})


def answers_of(row: PredictionRow) -> Sequence[AnswerRow | SampleRow | PredictionRow]:
    """Return the answers of a row: one per order of the options and sample, or the row itself."""
    samples: Sequence[SampleRow | PredictionRow] = row.get("samples") or [row]
    by_sample: Iterator[Sequence[Any]] = (sample.get("answers") or [sample] for sample in samples)
    return [answer for answers in by_sample for answer in answers]


def parts_of(row: PredictionRow) -> Sequence[PartRow]:
    """Return the spans of a joint example, those of all samples."""
    samples: Sequence[SampleRow | PredictionRow] = row.get("samples") or [row]
    return [part for sample in samples for part in sample.get("parts", ())]


def tokens_of(row: PredictionRow) -> dict[str, int]:
    """Return the tokens of the replies of a row: those of `answers` and of `reasoning`, as far as they are known.

    `answers_known` and `reasoning_known` are the numbers of replies of which they are.
    """
    counts: Counter[str] = Counter()
    for answer in (*answers_of(row), *parts_of(row)):
        for name, count in (("answers", answer.get("answer_tokens")), ("reasoning", answer.get("reasoning_tokens"))):
            if count is not None:
                counts.update({name: count, f"{name}_known": 1})
    return dict(counts)


def form_problem(form: RowForm, example: Example, prediction: Prediction) -> str:
    """Return the problem with the row that a task type makes of a prediction, or "" if it can be read back."""
    try:
        type_fields = form.row(example, prediction)
        if shared := sorted(COMMON_FIELDS & set(type_fields)):
            return f"row() returns {shared[0]!r}, which every row already has; return only this type's own fields"
        line = encode_row(prediction_row(form, example, prediction, {}, samples=False))
        _adapter().validate_json(line, strict=True)
        stored = parse_json(line)["pred"]
        value = prediction.value if prediction.source else form.from_json(stored)
    except ValidationError as error:
        problem = first_problem(error)
        return f"row() returns values that cannot be stored ({problem}); put values that have no field into `details`"
    except Exception as error:  # a plugin's row() or from_json() may raise anything
        return f"row() returns values that cannot be written and read back: {one_line(describe(error), 200)}"
    if value != prediction.value:
        return f"{prediction.value!r:.80} is stored as {stored!r:.80}, which from_json reads as {value!r:.80}"
    return ""


# ---- the file -------------------------------------------------------------------------------------------------------


def check_row(row: Mapping[str, Any]) -> bytes:
    """Return the line to store for a row; half of a surrogate pair becomes U+FFFD.

    Raises:
        PluginError: a metric, a reader or a task type's `row()` returned a value that could not be read back, or the
            line is too long.
    """
    try:
        line = valid(encode_row(row)).encode("utf-8")
        if len(line) >= MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        _adapter().validate_json(line, strict=True)
    except (TypeError, ValueError) as error:  # a row or JSON cannot hold the value
        name, problem = one_line(str(row.get("id")), 80), one_line(first_problem(error), 200)
        raise PluginError(
            f"the row of example {name!r} cannot be stored ({problem}); correct the example, or the metric, reader or "
            "task type that made this value"
        ) from error
    return line


class PredictionWriter:
    """Writer that appends prediction rows and passes each to the operating system immediately."""

    def __init__(self, stream: IO[bytes], file: Path) -> None:
        self._stream = stream
        self._file = file

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row; half of a surrogate pair becomes U+FFFD.

        Raises:
            PluginError: a metric or a task type's `row()` returned a value that could not be read back.
            RecordError: there is no space; a half-written line is dropped on resume.
        """
        self.write_line(check_row(row))

    def write_line(self, line: bytes) -> None:
        """Append a line that `check_row` returned. Raises `RecordError` like `write`."""
        with cure(self._file):
            while line:  # an unbuffered write may write only a part
                line = line[self._stream.write(line) :]


def encode_row(row: Mapping[str, Any]) -> str:
    """Return a row as a line of JSON."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


def rows_of(file: Path) -> Iterator[PredictionRow]:
    """Yield the rows on the complete lines of a predictions file, in constant memory.

    Raises:
        RecordError: a complete line is not a prediction, or the file is not a regular file, e.g. a link.
    """
    source = find_rows_file(file)
    if source is None:
        return
    with open_rows(source) as stream:  # bytes, because a cut may split a character
        for number, line in enumerate(iter(partial(stream.readline, MAX_BYTES), b""), start=1):
            if len(line) == MAX_BYTES:
                raise RecordError(f"{source}, line {number}, is larger than {MAX_BYTES:,} bytes; delete that line")
            if line.endswith(b"\n"):
                yield parse_row(line, source, number)


def parse_row(line: bytes, file: Path, number: int) -> PredictionRow:
    """Parse one line of a predictions file. Raises `RecordError` if it is not a `PredictionRow`."""
    try:
        if HALF.search(line) is not None:  # UTF-8 cannot encode it: from a figeval before 0.2, or from somebody else
            line = encode_row(clean_json(parse_json(line), valid)).encode("utf-8")
        _adapter().validate_json(line, strict=True)
        row: PredictionRow = parse_json(line)
        if LONG_NUMBER.search(line) is not None:  # or digits in a text
            finite_json(row)
    except ValueError as error:
        problem = one_line(first_problem(error), 200)
        raise RecordError(
            f"{file}, line {number}, is not a valid prediction ({problem}); delete that line and run the same "
            "command again"
        ) from None
    return row


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[PredictionRow]:
    """Return the validator for a row, built when the first row is read."""
    return TypeAdapter(PredictionRow)


def rewrite(file: Path, sources: Sequence[Path], numbers: Iterable[int]) -> None:
    """Replace a predictions file atomically by some complete lines of itself and of other files.

    Memory is eight bytes per line of the sources.

    Args:
        file: file to replace.
        sources: predictions files, which need not exist.
        numbers: lines in their new order, counted from 0 through all sources.

    Raises:
        RecordError: a source is compressed, or there is no space.
    """
    existing_files = [source for source in sources if find_rows_file(source) is not None]
    if any(find_rows_file(source) == packed_path(source) for source in existing_files):
        raise RecordError(f"{packed_path(file)} is compressed and can only be read; gunzip it before the run resumes")
    begins = [_begins(source) for source in existing_files]
    firsts = [0, *accumulate(len(offsets) for offsets in begins)]
    with ExitStack() as files, cure(file), replacing(file) as new:
        old = [files.enter_context(source.open("rb")) for source in existing_files]
        for number in numbers:
            index = bisect_right(firsts, number) - 1
            old[index].seek(begins[index][number - firsts[index]])
            new.write(old[index].readline())


def _begins(file: Path) -> array[int]:
    """Return where each complete line of a file begins, in bytes."""
    offsets, end = array("Q"), 0
    with file.open("rb") as stream:
        while (line := stream.readline(MAX_BYTES)).endswith(b"\n"):
            offsets.append(end)
            end += len(line)
    return offsets


@contextmanager
def replacing_writer(file: Path) -> Iterator[PredictionWriter]:
    """Open a writer whose rows replace those of a file, all or none."""
    with cure(file), replacing(file) as stream:
        yield PredictionWriter(stream, file)


@contextmanager
def appending_writer(file: Path) -> Iterator[PredictionWriter]:
    """Open a predictions file for appending after the last complete line.

    Raises:
        RecordError: no space or no permission; what was already written stays.
    """
    with cure(file):
        if is_own(file):
            drop_torn_line(file)
        stream = file.open("ab", buffering=0)
    with stream:
        yield PredictionWriter(stream, file)


def drop_torn_line(file: Path) -> None:
    """Truncate a file after its last line feed."""
    with file.open("rb+") as stream:
        size = end = stream.seek(0, 2)
        while end > 0:
            begin = max(0, end - 65536)
            stream.seek(begin)
            position = stream.read(end - begin).rfind(b"\n")
            if position >= 0:
                end = begin + position + 1
                break
            end = begin
        if end < size:
            stream.truncate(end)
