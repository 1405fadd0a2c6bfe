"""Remarks of annotators: comments, and categories of what they judged, such as kinds of errors.

They are stored with the judgements, as labels of `comment` and `category`, which are no criteria. People's wrong
answers to questions are written to a file of their own, in which somebody can say of each what kind of error it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from figeval import DataError
from figeval.io.files import cure, replacing
from figeval.io.text import clean, near, one_line
from figeval.wings.annotation.items import (
    CATEGORY,
    COMMENT,
    ERRORS,
    ITEM,
    MAX_CATEGORY_CHARS,
    MAX_COMMENT_CHARS,
    REMARKS,
    Key,
    csv_bytes,
    read_questionnaire,
)
from figeval.wings.annotation.tool_files import Judgement

NO_CATEGORY = "(none)"
HEAD = (ITEM, "annotator", "criterion", "label", "answer", "right", COMMENT)  # of the file with wrong answers


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of an annotator on an item, with the author of its text and the example that it is about."""

    item: str
    annotator: str
    system: str
    example: str
    text: str


@dataclass(frozen=True, slots=True)
class CategoryCount:
    """The number of remarks on a system's items, or of wrong answers, with a category; `total` is that of all."""

    category: str
    system: str
    count: int
    total: int


def is_remark(criterion: str, key: Key | None) -> bool:
    """Return whether labels of this criterion are remarks; a key may have a criterion that is called like them."""
    return criterion in REMARKS and (key is None or criterion not in [scale.name for scale in key.all_criteria])


def checked_remark(key: Key, remark: Judgement) -> str:
    """Return the text of a remark without control characters. Raises `DataError` if it is none of the categories."""
    if remark.criterion == COMMENT:
        return clean(remark.label).strip()[:MAX_COMMENT_CHARS]
    category = one_line(remark.label, MAX_CATEGORY_CHARS)
    spellings = {name.casefold(): name for name in key.categories}
    if spellings and category and category.casefold() not in spellings:
        raise DataError(
            f"{remark.source}: {category!r} is no category{near(category, key.categories)}; the categories are "
            f"{', '.join(key.categories)}"
        )
    return spellings.get(category.casefold(), category)


def list_comments(key: Key, remarks: Iterable[Judgement]) -> tuple[Comment, ...]:
    """Return the comments on items other than attention checks."""
    commented = [remark for remark in remarks if remark.criterion == COMMENT and remark.item in key.items]
    items = [key.items[remark.item] for remark in commented]
    return tuple(
        Comment(remark.item, remark.annotator, item.written_by, item.example, remark.label)
        for remark, item in zip(commented, items, strict=True)
    )


def count_categories(
    key: Key, judgements: Sequence[Judgement], remarks: Iterable[Judgement]
) -> tuple[CategoryCount, ...]:
    """Return the number of remarks of each category; if the items are questions, only those on wrong answers count."""
    categories = _categories(key, remarks)
    if not categories:
        return ()
    judged = wrong_answers(key, judgements) if key.gold else list(categories)
    spellings: dict[str, str] = {}
    counts = Counter(
        (key.items[item].written_by, spellings.setdefault(name.casefold(), name))
        for item, annotator in judged
        for name in [categories.get((item, annotator), NO_CATEGORY)]
    )
    totals = Counter[str]()
    for (system, _), count in counts.items():
        totals[system] += count
    return tuple(
        CategoryCount(category, system, count, totals[system]) for (system, category), count in counts.most_common()
    )


def _categories(key: Key, remarks: Iterable[Judgement]) -> dict[tuple[str, str], str]:
    """Return (item, annotator) → category."""
    return {
        (remark.item, remark.annotator): remark.label
        for remark in remarks
        if remark.criterion == CATEGORY and remark.item in key.items
    }


def wrong_answers(key: Key, judgements: Sequence[Judgement]) -> dict[tuple[str, str], str]:
    """Return (item, annotator) → label of the answers that are not right."""
    return {
        (judgement.item, judgement.annotator): judgement.label
        for judgement in judgements
        if judgement.item in key.gold and judgement.label != key.gold[judgement.item]
    }


# ---- the file with wrong answers -------------------------------------------------------------------------------------


def write_errors(folder: Path, key: Key, judgements: Sequence[Judgement], remarks: Sequence[Judgement]) -> None:
    """Write people's wrong answers next to the key, each with the texts of its question and an empty cell to be coded.

    It is the long form of judgements, with categories as labels, so an import reads it. What has been coded stays.

    Raises:
        RecordError: the folder cannot be written.
    """
    wrong = wrong_answers(key, judgements)
    if not wrong:
        return
    categories = _categories(key, remarks)
    texts = {(remark.item, remark.annotator): remark.label for remark in remarks if remark.criterion == COMMENT}
    questions = _questions(folder, key)
    columns = list(dict.fromkeys(name for fields in questions.values() for name in fields))
    rows = [
        [
            *(item, annotator, CATEGORY, categories.get((item, annotator), "")),
            *(label, key.gold[item], texts.get((item, annotator), "")),
            *(questions.get(item, {}).get(name, "") for name in columns),
        ]
        for (item, annotator), label in sorted(wrong.items())
    ]
    with cure(folder, "--to"), replacing(folder / ERRORS) as stream:
        stream.write(csv_bytes([[*HEAD, *columns], *rows]))


def _questions(folder: Path, key: Key) -> Mapping[str, Mapping[str, str]]:
    """Return the texts of the questions by item; none if the sheets are gone."""
    try:
        questionnaire = read_questionnaire(folder, key)
    except DataError:
        return {}
    return {item: dict(fields) for item, fields in questionnaire.items.items()}
