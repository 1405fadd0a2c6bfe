"""Instructions for annotators: a text of the user, or a sentence about the task.

The text is stored in the key, and the criteria have descriptions of their own, so the page and the judge can show each
at its place. `instructions_of` has both, for people who fill in sheets and for checklists.
"""

from __future__ import annotations

import re
from pathlib import Path

from figeval.errors import OptionError
from figeval.evaluation.annotation.sheets import Key
from figeval.files import is_file, read_text
from figeval.spec.tasks import TaskSpec
from figeval.text import clean

INSTRUCTIONS = "instructions.txt"  # next to the key
TO_JUDGE = (
    "Judge the text of each item by every criterion. The other parts of an item are what the text was written from."
)
QUESTION = re.compile(r"(?:^|[:;.,] )([^:;.,?]+\?)")  # in a description
LARGEST = 1 << 18  # bytes of a file
CURE = "give --instructions a text of several words, or a file with it"


def given(text_or_file: str) -> str:
    """Return the instructions that `--instructions` gives, which may be empty.

    Args:
        text_or_file: a text; or the path of a file with one, after an @ or not. A single word is always a path, so a
            mistyped name does not become the instructions.

    Raises:
        OptionError: the file does not exist, cannot be read, or is not text.
    """
    value = text_or_file.strip()
    name = value.removeprefix("@")
    if value and (name != value or len(value.split()) == 1 or is_file(Path(value))):
        value = read_text(Path(name), OptionError, cure=CURE, max_bytes=LARGEST)
    return clean(value.replace("\r\n", "\n")).strip()


def to_answer(task: TaskSpec) -> str:
    """Return the default instructions for the questions of a choice task.

    A question in the description of the task is asked, and its vocabulary names what the options are. The rest of a
    description is for researchers and may say how wrong options were made, so annotators do not get it.
    """
    asked = QUESTION.search(clean(task.description).strip())
    nouns = [noun for noun in task.vocabulary.get("option", ())[:1] if noun.isascii()]  # others are in other languages
    told = asked.group(1) if asked else ""
    sentence = f"Choose the {nouns[0] if nouns else 'option'} that fits best, and answer with its letter."
    return f"{told[:1].upper()}{told[1:]} {sentence}".strip()


def instructions_of(key: Key) -> str:
    """Return the full text: the instructions, and each criterion with its labels and description; may be empty."""
    described = [one for one in key.judged if one.description]
    criteria = [
        f"{one.name} ({', '.join(one.labels)})" + (f": {one.description}" if one.description else "")
        for one in (key.judged if described else ())
    ]
    return "\n\n".join(part for part in (key.instructions, *criteria) if part)
