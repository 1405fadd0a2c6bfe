"""Shapes of data that are tasks: which columns are the question, the options, the answer, the labels.

A shape is recognised by the names of columns, as data sets on figurative language have them, and by their values.
Names that the user gives for a field come first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

from figeval.cli.drafting.columns import Column, is_hidden, number_of, quote, text_of, value_of
from figeval.errors import TaskError
from figeval.io.text import near, one_line

FIELDS = {  # task type → fields that a column can be named for
    "choice": ("query", "options", "gold"),
    "pairs": ("left", "right", "label"),
    "rating": ("left", "right", "grade"),
    "classification": ("text", "label"),
    "multilabel": ("text", "labels"),
    "labelling": ("tokens", "tags"),
    "generation": ("inputs", "references"),
}
COMMON_FIELDS = ("id", "cluster", "language")
TOKENS = "tokens words"
TAGS = "tags nertags labels bio biotags tag label"
QUERY = "question query stem startphrase sentence context ctx prompt premise text input narrative story"
OPTIONS = "options choices candidates endings alternatives answers"
STEMS = {"", "option", "options", "choice", "ending", "answer", "sol", "solution", "opt", "candidate", "alternative"}
PAIRED_STEMS = {"text", "sentence"}  # two of which are usually compared
ITEM = re.compile(r"(.*?)[\W_]*(\d|[A-Z]|(?<=[\W_])[a-z]|^[a-z])", re.DOTALL)
ITEM_KEYS = ("text", "label")  # of an option that is an object
AROUND_LETTERS = " ().:"
GOLD = (
    "gold answer answerkey answeridx answerindex answerid correct correctanswer correctoption correctindex "
    "goldindex goldlabel label labels target solution"
)
LABEL = "label labels goldlabel gold class target y answer relation category sentiment output answerkey"
TWO_TEXTS = (
    *(("premise", "hypothesis"), ("prem", "hyp"), ("sentence1", "sentence2"), ("text1", "text2"), ("sent1", "sent2")),
    *(("s1", "s2"), ("left", "right"), ("question1", "question2"), ("text0", "text1"), ("idiom", "paraphrase")),
    *(("metaphor", "paraphrase"), ("textone", "texttwo")),
)
GRADE = "score grade rating similarity similarityscore meanscore mean label relatednessscore"
TEXT = "text sentence tweet content utterance review story passage comment document paragraph input question"
INPUT = "prompt input question story fable source text sentence idiom proverb keywords narrative document tweet"
OUTPUT = (
    "reference references target output completion response moral lesson paraphrase rephrase "
    "summary explanation literal "
    "meaning translation answer narrative story"
)
ID = "id idx index uid guid qid exampleid pairid key"
CLUSTER = "cluster group idiom proverb motif clusterid groupid promptid storyid passageid captionid"
POSITIVE = "1 true yes entailment positive figurative idiomatic metaphor metaphorical sarcastic ironic"
MAX_POINTS = 101  # of a scale


@dataclass(frozen=True)
class Draft:
    """The content of a task file for one set of rows.

    Attributes:
        kind: name of the task type.
        fields: expressions by field.
        reasons: comment on a field: the column that it was recognised from.
        labels: labels in order.
        cluster: key of `meta` with what belongs together; empty if there is none.
        language: languages that the rows state.
        description: one sentence.
        metrics: metrics; by default those of the type.
    """

    kind: str
    fields: Mapping[str, Any]
    reasons: Mapping[str, str] = field(default_factory=dict)
    labels: Sequence[str] = ()
    cluster: str = ""
    language: Sequence[str] = ()
    description: str = ""
    metrics: Sequence[str] = ()


@dataclass(frozen=True)
class Sheet:
    """Columns by name, and those that the user has named for fields."""

    columns: Mapping[str, Column]
    column_names: Mapping[str, str | list[str]]

    def column(self, name: str) -> Column:
        """Return the column of this name. Raises `TaskError` with similar names if there is none."""
        if name not in self.columns:
            listed = one_line(", ".join(self.columns), 200)
            raise TaskError(f"there is no column {name!r:.80}; the columns are {listed}{near(name, self.columns)}")
        return self.columns[name]

    def of_field(self, field: str) -> list[Column]:
        """Return the columns that the user has named for a field: one, or several as in `A+B+C`."""
        if field not in self.column_names:
            return []
        names = self.column_names[field]
        if isinstance(names, str):
            names = [names] if names in self.columns else names.split("+")
        return [self.column(name) for name in names]

    def pick(
        self, field: str, words: str, fits: Callable[[Column], bool], used: Collection[Column | None] = ()
    ) -> Column | None:
        """Return the column for a field: the user's, or the first with one of these names and fitting values."""
        for column in self.of_field(field):
            return column
        by_word = {column.word: column for column in reversed(list(self.columns.values())) if column not in used}
        return next((by_word[word] for word in words.split() if word in by_word and fits(by_word[word])), None)

    def longest(self, used: Collection[Column | None] = ()) -> Column | None:
        """Return the column with the longest texts."""
        texts = [column for column in self.columns.values() if column.is_prose and column not in used]
        return max(texts, key=lambda column: column.mean_chars, default=None)


def recognise(sheet: Sheet, kind: str = "") -> Draft | None:
    """Return the first shape that the columns have, among those of a task type if one is given."""
    return next((draft for finder in SHAPES if (draft := finder(sheet)) and kind in ("", draft.kind)), None)


# ---- shapes ----------------------------------------------------------------------------------------------------------


def find_labelling(sheet: Sheet) -> Draft | None:
    """Return words with a tag each."""
    tokens = sheet.pick("tokens", TOKENS, lambda column: column.is_list)
    tags = sheet.pick("tags", TAGS, lambda column: column.is_list, [tokens])
    if tokens is None or tags is None or not tags.is_list:
        return None
    labels = list(dict.fromkeys(tag for value in tags.filled for tag in value))
    fields = {"tokens": tokens.expression, "tags": tags.expression}
    return Draft("labelling", fields, {"tokens": tokens.title, "tags": tags.title}, [*sorted(labels, key="O".__eq__)])


def find_choice(sheet: Sheet) -> Draft | None:
    """Return options in a list, or in columns of their own, with the right one as index, letter or text."""
    options = _options(sheet)
    if options is None:
        return None
    expression, lists, parts, keys = options
    for gold in sheet.of_field("gold") or _gold_columns(sheet, parts):
        index = _index(gold, lists, expression, keys)
        if index:
            break
    else:
        return None
    query = sheet.pick("query", QUERY, lambda column: column.is_prose, [*parts, gold])
    query = query or sheet.longest([*parts, gold])
    titles = ", ".join(column.title for column in parts[:6])
    fields = {"query": query.as_text if query else quote("Which of these is right?"), "options": expression}
    reasons = {"query": query.title if query else "no column has a question", "options": titles}
    return Draft("choice", {**fields, "gold": index[0]}, {**reasons, "gold": f"{gold.title}, {index[1]}"})


def _gold_columns(sheet: Sheet, options: Sequence[Column]) -> list[Column]:
    """Return columns that may name the right option; of texts that could be a pair, only one that names an id."""
    columns = [column for column in sheet.columns.values() if column not in options]
    ids = [column for column in columns if column.word.endswith("id") and 1 < len(column.distinct) <= len(options)]
    if _are_paired(options):
        return ids
    return [*(column for word in GOLD.split() for column in columns if column.word == word), *ids]


def _are_paired(columns: Sequence[Column]) -> bool:
    """Return whether columns are named as texts that are usually compared, `text1` and `text2`."""
    return re.sub(r"[\d\W_]", "", columns[0].name.lower()) in PAIRED_STEMS


def find_pairs(sheet: Sheet) -> Draft | None:
    """Return two texts with a label, or with a number on a scale."""
    texts = [*sheet.of_field("left"), *sheet.of_field("right")]
    by_word = {column.word: column for column in sheet.columns.values() if column.is_prose}
    if len(texts) != 2:
        texts = next(([by_word[a], by_word[b]] for a, b in TWO_TEXTS if a in by_word and b in by_word), [])
    if len(texts) != 2:
        return None
    left, right = texts
    titles = {"left": left.title, "right": right.title}
    fields = {"left": left.as_text, "right": right.as_text}
    label = _label(sheet, "label", [left, right])
    if label is not None and "grade" not in sheet.column_names and not _is_scale(label):
        return _labelled("pairs", {**fields}, titles, label)
    grade = sheet.pick("grade", GRADE, lambda column: column.is_numeric, [left, right])
    return None if grade is None else _graded(fields, titles, grade)


def find_multilabel(sheet: Sheet) -> Draft | None:
    """Return a text with a list of labels, or with several columns of zeros and ones."""
    columns = sheet.of_field("labels") or [column for column in sheet.columns.values() if column.word == "labels"]
    is_list = len(columns) == 1 and columns[0].is_list
    if not is_list and not (sheet.of_field("labels") and len(columns) > 1):
        columns = [column for column in sheet.columns.values() if column.is_binary]
        if (
            len(columns) < 2
            or "label" in sheet.column_names
            or any(c.word in LABEL.split() for c in sheet.columns.values())
        ):
            return None
    text = sheet.pick("text", TEXT, lambda column: column.is_prose, columns) or sheet.longest(columns)
    if text is None:
        return None
    if is_list:
        labels = sorted({label for value in columns[0].filled for label in value})
        expression = columns[0].expression
    else:
        labels = [column.name for column in columns]
        present = (f"([{quote(c.name)}] if ({c.as_text}) in {['1', 'True', 'true']} else [])" for c in columns)
        expression = columns[0].unless_hidden(f"({' + '.join(present)})")
    titles = ", ".join(column.title for column in columns[:8])
    return Draft(
        "multilabel", {"text": text.as_text, "labels": expression}, {"text": text.title, "labels": titles}, labels
    )


def find_classification(sheet: Sheet) -> Draft | None:
    """Return a text with one of a few labels."""
    return _classified(sheet, _label(sheet, "label", sheet.of_field("text")))


def find_other_classification(sheet: Sheet) -> Draft | None:
    """Return a text with the only column of a few values, whatever its name, or the only one of two."""
    binary = [column for column in sheet.columns.values() if column.is_binary and len(column.distinct) > 1]
    categorical = [c for c in sheet.columns.values() if c.is_categorical and len(c.distinct) > 1 and c.mean_chars < 40]
    return _classified(sheet, next((group[0] for group in (binary, categorical) if len(group) == 1), None))


def _classified(sheet: Sheet, label: Column | None) -> Draft | None:
    if label is None or len(label.distinct) < 2 or (_is_scale(label) and "label" not in sheet.column_names):
        return None
    if "label" not in sheet.column_names and _names_options(sheet, label):
        return None
    text = sheet.pick("text", TEXT, lambda column: column.is_prose, [label]) or sheet.longest([label])
    if text is None:
        return None
    return _labelled("classification", {"text": text.as_text}, {"text": text.title}, label)


def _names_options(sheet: Sheet, column: Column) -> bool:
    """Return whether values are letters or numbers of options that rows have, in a form that is not read."""
    siblings = [sibling for sibling in sheet.columns.values() if sibling is not column]
    is_listed = any(sibling.word in OPTIONS.split() for sibling in siblings)
    has_options = is_listed or not all(map(_are_paired, _series(siblings)))
    keys = [re.findall(r"\w+", value) for value in column.distinct]
    return has_options and all(parts and max(map(len, parts)) == 1 for parts in keys)


def find_rating(sheet: Sheet) -> Draft | None:
    """Return a text with a number on a scale."""
    grade = sheet.pick("grade", GRADE, lambda column: column.is_numeric)
    text = sheet.pick("left", TEXT, lambda column: column.is_prose, [grade])
    text = text or sheet.longest([grade])
    if text is None or grade is None:
        return None
    return _graded({"left": text.as_text}, {"left": text.title}, grade)


def find_generation(sheet: Sheet) -> Draft | None:
    """Return what a text is written from, and the text that a person has written."""

    def is_written(column: Column) -> bool:
        return (column.is_list or column.is_prose) and not column.has_hidden

    inputs = sheet.of_field("inputs")
    output = sheet.pick("references", OUTPUT, is_written, inputs)
    if not inputs and (column := sheet.pick("", INPUT, is_written, [output])):
        inputs = [column]
    if output is None or not inputs or ("references" not in sheet.column_names and _names_options(sheet, output)):
        return None
    names = {re.sub(r"\W+", "_", column.name.lower()).strip("_") or "input": column for column in inputs}
    references = output.expression if output.is_list else f"[{output.expression}]"
    fields = {
        "inputs": {name: column.expression if column.is_list else column.as_text for name, column in names.items()},
        "references": references,
    }
    titles = ", ".join(column.title for column in inputs)
    return Draft("generation", fields, {"inputs": titles, "references": output.title})


SHAPES = (
    find_labelling,
    find_choice,
    find_pairs,
    find_multilabel,
    find_classification,
    find_rating,
    find_generation,
    find_other_classification,
)


# ---- labels and scales -----------------------------------------------------------------------------------------------


def _label(sheet: Sheet, name: str, used: Collection[Column | None]) -> Column | None:
    return sheet.pick(name, LABEL, lambda column: column.is_categorical or column.has_hidden, used)


def _is_scale(column: Column) -> bool:
    """Return whether values are numbers on a scale rather than names of classes."""
    return column.is_numeric and (
        len(column.distinct) > 7 or any(number_of(v) != int(number_of(v) or 0) for v in column.filled)
    )


def _labelled(kind: str, fields: dict[str, Any], reasons: dict[str, str], label: Column) -> Draft:
    is_padded = any(value != value.strip() for value in label.distinct)
    values = list(dict.fromkeys(value.strip() for value in label.distinct))
    if label.is_numeric:
        values.sort(key=lambda value: number_of(value) or 0.0)
    if len(values) == 2 or not label.is_numeric:
        values.sort(key=lambda value: value.lower() not in POSITIVE.split())
    expression = label.unless_hidden(f"{label.as_text} | trim" if is_padded else label.as_text)
    return Draft(kind, {**fields, "label": expression}, {**reasons, "label": label.title}, values)


def _graded(fields: dict[str, Any], reasons: dict[str, str], grade: Column) -> Draft | None:
    numbers = [number for value in grade.filled if (number := number_of(value)) is not None]
    if not numbers or max(numbers) - min(numbers) > MAX_POINTS - 1:
        return None
    low, high = math.floor(min(numbers)), max(math.ceil(max(numbers)), math.floor(min(numbers)) + 1)
    value = f"{grade.expression} | float" if grade.is_text else grade.expression
    points = [str(point) for point in range(low, high + 1)]
    return Draft("rating", {**fields, "grade": grade.unless_hidden(value)}, {**reasons, "grade": grade.title}, points)


# ---- options ---------------------------------------------------------------------------------------------------------


def _options(sheet: Sheet) -> tuple[str, list[list[Any]], list[Column], str] | None:
    """Return the options as Jinja, by row, their columns, and what names them in a row (as Jinja) if a row does."""
    columns = sheet.of_field("options")
    if len(columns) < 2:
        column = columns[0] if columns else sheet.pick("", OPTIONS, _lists_options)
        if column is not None and _has_texts(column):
            rows = [value["text"] if isinstance(value, dict) else [] for value in column.values]
            return value_of(column.expression, "text"), rows, [column], value_of(column.expression, "label")
        if column is not None and _has_items(column):
            texts, keys = (f'{column.expression} | map(attribute="{key}") | list' for key in ITEM_KEYS)
            return (
                texts,
                [[item["text"] for item in value] if isinstance(value, list) else [] for value in column.values],
                [column],
                f"({keys})",
            )
        if column is not None and column.is_list:
            return column.expression, [value or [] for value in column.values], [column], ""
        columns = next(_series(sheet.columns.values()), [])
    if len(columns) < 2:
        return None
    rows = [list(map(text_of, values)) for values in zip(*(column.values for column in columns), strict=True)]
    listed = f"[{', '.join(column.as_text for column in columns)}]"
    if any(column.has_blank for column in columns):
        listed = f"[{', '.join(column.expression for column in columns)}] | select | list"
        rows = [[text_of(v) for v in values if v] for values in zip(*(c.values for c in columns), strict=True)]
    return listed, rows, columns, ""


def _lists_options(column: Column) -> bool:
    return column.is_list or _has_texts(column) or _has_items(column)


def _has_texts(column: Column) -> bool:
    """Return whether values are `{"text": [...], "label": [...]}`, as in ARC."""
    return bool(column.filled) and all(
        isinstance(value, dict) and isinstance(value.get("text"), list) and isinstance(value.get("label"), list)
        for value in column.filled
    )


def _has_items(column: Column) -> bool:
    """Return whether values are `[{"text": …, "label": …}, …]`, as in OpenBookQA."""
    return bool(column.filled) and all(
        isinstance(value, list) and all(isinstance(item, dict) and item.keys() >= set(ITEM_KEYS) for item in value)
        for value in column.filled
    )


def _series(columns: Collection[Column]) -> Iterator[list[Column]]:
    """Yield columns that are numbered or lettered: `A`, `B`, `C`; `option_a`, `option_b`; `ending1`, `ending2`."""
    groups: dict[str, dict[int, Column]] = {}
    for column in columns:
        match = ITEM.fullmatch(column.name)
        if (
            match
            and (stem := re.sub(r"[\W_]+", "", match[1].lower())) in STEMS | PAIRED_STEMS
            and (stem or match[2].isalpha())
        ):
            key = match[2].upper()
            index = int(key) if key.isdigit() else ascii_uppercase.find(key)
            groups.setdefault(stem, {})[index] = column
    for group in groups.values():
        indexes = sorted(group)
        if len(indexes) > 1 and indexes[0] in (0, 1) and indexes == list(range(indexes[0], indexes[0] + len(indexes))):
            yield [group[index] for index in indexes]


def _index(gold: Column, options: Sequence[Sequence[Any]], listed: str, keys: str) -> tuple[str, str] | None:
    """Return the index of the right option as Jinja, and the form in which the column has it; None if it has none."""
    rows = [
        (text_of(value).strip(), texts)
        for value, texts in zip(gold.values, options, strict=True)
        if not is_hidden(value)
    ]
    column, listing = gold.expression, f"({listed})" if " | " in listed else listed
    if not rows:
        return ("none", "hidden in all rows") if gold.has_hidden else None
    if keys:
        return gold.unless_hidden(f"{keys}.index({gold.as_text})"), "the label of an option"
    if (number := _find_index_number(gold, rows)) is not None:
        return number
    letters = ascii_uppercase
    plain = [(value.strip(AROUND_LETTERS), texts) for value, texts in rows]  # of A, (A), A. and A)
    if all(len(value) == 1 and -1 < letters.find(value.upper()) < len(texts) for value, texts in plain):
        around = f'trim("{AROUND_LETTERS}")' if any(value[1:] for value, _ in rows) else "trim"
        return gold.unless_hidden(f'"{letters}".index({column} | {around} | upper)'), "a letter"
    pairs = zip(gold.values, options, strict=True)
    if gold.is_text and all(value in texts for value, texts in pairs if not is_hidden(value)):
        return gold.unless_hidden(f"{listing}.index({column})"), "the text of an option"
    return None


def _find_index_number(gold: Column, rows: Sequence[tuple[str, Sequence[Any]]]) -> tuple[str, str] | None:
    """Return the index as Jinja if values are indexes from 0 or from 1, with these words; else None."""
    number = f"{gold.expression} | int" if gold.is_text else gold.expression
    if all(value.isdecimal() and len(value) < 4 for value, _ in rows):
        if all(int(value) < len(texts) for value, texts in rows):
            return gold.unless_hidden(number), "an index from 0"
        if all(0 < int(value) <= len(texts) for value, texts in rows):
            return gold.unless_hidden(f"({number}) - 1"), "an index from 1"
    return None
