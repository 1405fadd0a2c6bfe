"""Reader of the authors' archive of STORAL: published candidates and outlines in both languages, from a user's copy.

The archive is linked in the authors' repository (thu-coai/MoralStory) and is the data set Jiann/STORAL on the hub. Its
checksums are unknown, and its layout is assumed to be that of the repository's example rows. Folders are found by their
suffix (`…_en`, `…_zh`) anywhere in the copy:

    data_zh/{train,valid,test}.json              {"data": [{"text": "[MASK]moral … [P]story", "label": 3}]}, 1-based
    data_zh/{train,val,test}.{source,target}     story; moral<extra_id_1>moral …<mask><extra_id_3>
    st2mo_data_zh/{train,val,test}.{source,target}   story; moral
    mo2st_data_zh/{train,val,test}.{source,target}   moral # beginning # phrase # …; the rest of the story
    mo2st_data_zh/{train,valid,test}.json        [{"id", "beginning", "story", "moral"}], as on the hub

If a copy has both forms of mo2st, the one with outlines is read.
moCpt and moPref are distinguished by the number of candidates in a row, five or two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.row_files import read_json
from figeval.data.text_files import text_lines
from figeval.errors import DataError, MissingCopy

from .pairs import PAPER_MOPREF, PAPER_SIZES, SPLITS, Pair, english_pairs

GENERATION = ("st2mo", "mo2st")  # tasks with folders of their own
EXAMPLES = 5  # rows of each split and task in the authors' repository
CANDIDATES = {5: "mocpt", 2: "mopref"}
MARKER = re.compile(r"<extra_id_\d+>")
CURE = (
    "give the folder of your copy as --data storal=FOLDER; https://github.com/thu-coai/MoralStory links to the "
    "archive, which is also the data set Jiann/STORAL on the Hugging Face hub"
)


def published_rows(
    task: str, language: str, split: str, folders: Sequence[Path], *, complete: bool = True
) -> Iterator[Row]:
    """Yield the published rows of a task, in order, with ids `<split>-<number>`.

    Args:
        task: mocpt, mopref, st2mo or mo2st.
        language: en or zh.
        split: train, valid or test.
        folders: copies of the archive, or of the repository with its example rows.
        complete: whether to refuse files without the paper's number of rows, e.g. the repository's examples.

    Raises:
        MissingCopy: no copy has the task with the paper's number of rows.
        DataError: a row has other columns.
    """
    candidates = [rows for folder in folders for rows in _files(task, language, split, folder)]
    if not candidates:
        raise MissingCopy(f"storal: the published {task} rows in {language!r} were not found", CURE, folders)
    file, rows = max(candidates, key=lambda candidate: (len(candidate[1]), any(map(_has_outline, candidate[1]))))
    size = (PAPER_MOPREF if task == "mopref" else PAPER_SIZES)[language][split]
    if complete and len(rows) != size:
        raise MissingCopy(f"storal: {file} has {len(rows)} of the {size} published rows{_like_examples(rows)}", CURE)
    for number, row in enumerate(rows):
        yield {"id": f"{split}-{number}", "language": language, **row}


def labelled_pairs(language: str, context: DataContext, splits: Sequence[str] = SPLITS) -> Iterator[Pair]:
    """Yield the pairs of a language, which are in a user's copy unless they are English.

    Raises:
        MissingCopy: no copy has all pairs of a split.
        DataError: the data are damaged.
    """
    if language == "en":
        yield from (pair for pair in english_pairs(context) if pair.split in splits)
        return
    folders = context.copies("storal")
    for split in splits:
        for row in published_rows("st2mo", language, split, folders):
            yield Pair(row["id"], row["story"], row["moral"], split)


def _files(task: str, language: str, split: str, folder: Path) -> Iterator[tuple[Path, list[Row]]]:
    """Yield the files of a copy that contain the split of a task, with their rows."""
    names = {"valid": ("valid", "val")}.get(split, (split,))
    for subfolder in sorted(path for path in folder.rglob(f"*_{language}") if path.is_dir()):
        kind = subfolder.name.removesuffix(f"_{language}").removesuffix("_data")
        if (kind if kind in GENERATION else "") != (task if task in GENERATION else ""):
            continue
        for name in names:
            if (file := subfolder / f"{name}.json").is_file():
                yield from _rows_of_task(task, file, list(_json_rows(kind, file)))
            if (file := subfolder / f"{name}.source").is_file():
                yield from _rows_of_task(task, file, list(_text_rows(kind, file, "" if language == "zh" else " ")))


def _has_outline(row: Row) -> bool:
    return bool(row.get("outline"))


def _like_examples(rows: Sequence[Row]) -> str:
    return ", as the examples in the authors' repository do" if len(rows) == EXAMPLES else ""


def _rows_of_task(task: str, file: Path, rows: list[Row]) -> Iterator[tuple[Path, list[Row]]]:
    """Yield a file and its rows if they belong to the task.

    Raises:
        DataError: a row belongs to another task than the first row, or has an empty text.
    """
    if not rows or rows[0]["task"] != task:
        return
    for number, row in enumerate(rows, 1):
        location = f"storal: {file}, row {number}"
        if row["task"] != task:
            raise DataError(f"{location}: it belongs to {row['task']}, but the rows before it to {task}")
        for name in ("story", "moral"):
            if name in row and not row[name].strip():
                raise DataError(f"{location}: the {name} is empty")
    yield file, rows


def _json_rows(kind: str, file: Path) -> Iterator[Row]:
    content = read_json(file)
    rows = content.get("data") if isinstance(content, Mapping) else content
    if not isinstance(rows, list):
        raise DataError(f"storal: {file} does not contain a list of rows")
    for number, row in enumerate(rows, 1):
        location = f"storal: {file}, row {number}"
        if kind == "mo2st":
            moral, beginning, story = _texts(location, row, "moral", "beginning", "story")
            yield _outline_row(location, moral, beginning, story, row.get("outline") or ())
        elif kind == "st2mo":
            story, moral = _texts(location, row, "story", "moral")
            yield {"task": "st2mo", "story": story, "moral": moral}
        else:
            (text,) = _texts(location, row, "text")
            candidates, mark, story = text.partition("[P]")
            options = [option.strip() for option in candidates.split("[MASK]")[1:]]
            if not mark:
                raise DataError(f"{location}, field 'text': there is no [P] before the story")
            yield _choice_row(location, story, options, row.get("label"))


def _text_rows(kind: str, file: Path, blank: str) -> Iterator[Row]:
    if not (answers := file.with_suffix(".target")).is_file():
        raise DataError(f"storal: {file} has no {answers.name} next to it; complete your copy")
    sources, targets = ([line.rstrip("\r\n") for line in text_lines(path)] for path in (file, answers))
    if len(sources) != len(targets):
        raise DataError(f"storal: {file} has {len(sources)} lines, but its targets have {len(targets)}")
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        location = f"storal: {file}, line {number + 1}"
        if kind == "mo2st":
            moral, *parts = source.split(f"{blank}#{blank}")
            if not parts:
                raise DataError(f"{location}: there is no beginning after a #")
            yield _outline_row(location, moral, parts[0], strip_markers(target), parts[1:])
        elif kind == "st2mo":
            yield {"task": "st2mo", "story": source.strip(), "moral": strip_markers(target)}
        else:
            candidates, _, answer = target.partition("<mask>")
            options = [option.strip() for option in MARKER.split(candidates) if option.strip()]
            gold = re.search(r"extra_id_(\d{1,4})", answer)  # the last line of a published file has no > at its end
            yield _choice_row(location, source, options, int(gold[1]) if gold else None)


def strip_markers(target: str) -> str:
    """Return a target of the T5 files without the surrounding markers, which differ from file to file."""
    return MARKER.sub("", target).replace("</s>", "").strip()


def _texts(location: str, row: Any, *names: str) -> list[str]:
    """Return the texts of a row. Raises `DataError` with the name of a missing column."""
    for name in names:
        if not isinstance(row, Mapping) or not isinstance(row.get(name), str):
            has = ", ".join(map(repr, row)) if isinstance(row, Mapping) else "no columns"
            raise DataError(f"{location}: there is no text {name!r} (it has {has})")
    return [row[name] for name in names]


def _choice_row(location: str, story: str, options: Sequence[str], label: object) -> Row:
    if not isinstance(label, int) or isinstance(label, bool) or not 1 <= label <= len(options):
        raise DataError(f"{location}, field 'label': {label!r:.80} is not a number from 1 to {len(options)}")
    if len(options) not in CANDIDATES:
        raise DataError(f"{location}: {len(options)} candidates, but moCpt has five and moPref two")
    task = CANDIDATES[len(options)]
    moral = options[label - 1]
    return {"task": task, "story": story.strip(), "options": tuple(options), "gold": label - 1, "moral": moral}


def _outline_row(location: str, moral: str, beginning: str, story: str, outline: object) -> Row:
    phrases = outline.split("#") if isinstance(outline, str) else outline
    if not isinstance(phrases, Sequence) or not all(isinstance(phrase, str) for phrase in phrases):
        raise DataError(f"{location}, field 'outline': {outline!r:.80} is not a list of phrases")
    return {
        "task": "mo2st",
        "moral": moral.strip(),
        "beginning": beginning.strip(),
        "outline": tuple(phrase.strip() for phrase in phrases if phrase.strip()),
        "rest": story.strip().removeprefix(beginning.strip()).strip(),
    }
