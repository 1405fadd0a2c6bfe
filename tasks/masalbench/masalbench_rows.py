"""Reader of MasalBench: `masalbench:context` and `masalbench:cross`, in file order.

The files hold each question as one text with an instruction, a dialogue or a proverb, the question itself, and the
options, and its key as a Python dict from the letters of the options to their kinds. Texts and keys must have exactly
this form: any other row is an error that names row and reason, so nothing is ever guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from figeval.data import DataContext, Row
from figeval.data.row_files import read_rows
from figeval.errors import DataError
from figeval.io.text import near
from figeval.language.questions import core_of

LETTERS = ("الف", "ب", "ج", "د")
QUESTION_HEAD, OPTIONS_HEAD = "سؤال:", "گزینه‌ها:"
ASKED = " با این ضرب‌المثل چه منظوری داشت؟"  # follows the name of the person whose intention is asked for
MAX_KEY_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Part:
    """One of the two files.

    Attributes:
        file: its name.
        subject_head: the line before the dialogue or proverb.
        kinds: what the key may call an option; the right one comes first, and every kind occurs once in a question.
    """

    file: str
    subject_head: str
    kinds: tuple[str, ...]


PARTS = {
    "context": Part(
        "contextualQuestions.csv", "مکالمه:", ("Correct", "Literal Trap", "Plausible but Wrong", "Irrelevant")
    ),
    "cross": Part("crossCulturalQuestions.csv", "ضرب‌المثل فارسی:", ("Equivalent", "Irrelevant")),
}


@dataclass(frozen=True, slots=True)
class Question:
    """The parts of a question's text."""

    subject: str
    question: str
    options: tuple[str, ...]


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of a part. Raises `DataError` if there is no such part, or a row has another form."""
    if path not in PARTS:
        raise DataError(f"masalbench has no part {path!r:.40}{near(path, PARTS)}; it has {', '.join(PARTS)}")
    rows = questions(PARTS[path], path, context)
    return dialogues(rows) if path == "context" else proverbs(rows)


def questions(part: Part, name: str, context: DataContext) -> Iterator[Row]:
    """Yield the questions of a file with the text before the question as `subject`."""
    file = context.fetch("masalbench", part.file)
    for number, row in enumerate(read_rows(file, "csv")):
        location = f"masalbench: {file}, row {number}"
        for column in ("Question", "Answer Key"):
            if column not in row:
                raise DataError(f"{location}: there is no column {column!r}; the header has {', '.join(row)}")
        question = take_apart(row["Question"], part, location)
        kinds = kinds_in(row["Answer Key"], part.kinds, location)
        yield {
            "id": f"{name}-{number}",
            "location": location,
            "subject": question.subject,
            "question": question.question,
            "options": question.options,
            "gold": kinds.index(part.kinds[0]),
            "kinds": tuple(kind.lower() for kind in kinds),
        }


def dialogues(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows of `context`; `asked` says whether the question is about the second speaker, who uses a proverb.

    Raises:
        DataError: a dialogue does not have two turns, the second of them after a name, or the question is another one.
    """
    for row in rows:
        turns = row["subject"].split("\n")
        speaker, _, reply = turns[-1].partition(":")
        if len(turns) != 2 or not reply.strip():
            raise DataError(
                f"{row['location']}, field 'Question': expected a dialogue of two lines, the second one after a name "
                f"and a colon, found {len(turns)} lines that end in {turns[-1]!r:.40}"
            )
        if not row["question"].endswith(ASKED):
            raise DataError(
                f"{row['location']}, field 'Question': {row['question']!r:.80} does not ask what somebody meant by the "
                "proverb"
            )
        name = row["question"].removesuffix(ASKED).strip()
        yield {**row, "asked": "second speaker" if name == speaker.strip() else "another name"}


def proverbs(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows of `cross`; rows with the same English equivalent have the same `cluster`."""
    clusters: dict[str, str] = {}
    for row in rows:
        yield {**row, "cluster": clusters.setdefault(core_of(row["options"][row["gold"]]), row["id"])}


# ---- one question ----------------------------------------------------------------------------------------------------


def take_apart(text: str, part: Part, location: str) -> Question:
    """Return the parts of a question's text: paragraphs of which the last three have a head.

    Raises:
        DataError: a head is missing or occurs twice, or the options are not one per line, with their letters in order.
    """
    heads = (part.subject_head, QUESTION_HEAD, OPTIONS_HEAD)
    paragraphs = [paragraph.split("\n") for paragraph in text.split("\n\n")]
    text_heads = [lines[0] for lines in paragraphs if lines[0] in heads]
    if (
        tuple(text_heads) != heads
        or [lines[0] for lines in paragraphs[-3:]] != text_heads
        or len(paragraphs) == len(heads)
    ):
        raise DataError(
            f"{location}, field 'Question': expected an instruction and the heads {' '.join(heads)}, found the heads "
            f"{' '.join(text_heads) or 'none'}"
        )
    subject, question, options = (lines[1:] for lines in paragraphs[-3:])
    letters, texts = LETTERS[: len(part.kinds)], []
    for letter, line in zip(letters, options, strict=False):
        if not line.startswith(f"{letter}) ") or not line.removeprefix(f"{letter})").strip():
            raise DataError(f"{location}, field 'Question': expected option {letter}), found {line!r:.40}")
        texts.append(line.removeprefix(f"{letter})").strip())
    if len(options) != len(letters) or not "".join(subject).strip():
        raise DataError(
            f"{location}, field 'Question': expected a text and {len(letters)} options of one line, found "
            f"{len(options)} lines of options"
        )
    return Question("\n".join(subject).strip(), "\n".join(question).strip(), tuple(texts))


def kinds_in(key: str, kinds: Sequence[str], location: str) -> list[str]:
    """Return the kinds of the options, in the order of their letters.

    Raises:
        DataError: the key is not a dict from exactly these letters to exactly these kinds.
    """
    read = _literal(key) if len(key) <= MAX_KEY_CHARS else None
    letters = LETTERS[: len(kinds)]
    if read is None or set(read) != set(letters) or sorted(map(str, read.values())) != sorted(kinds):
        raise DataError(
            f"{location}, field 'Answer Key': expected {{letter: kind}} with the letters {' '.join(letters)} and the "
            f"kinds {', '.join(kinds)}, found {key!r:.120}"
        )
    return [str(read[letter]) for letter in letters]


def _literal(text: str) -> Mapping[object, object] | None:
    """Return the dict that a Python literal writes, or None if it is no dict of constants with distinct keys."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        read = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return read if isinstance(node, ast.Dict) and len(read) == len(node.keys) else None
