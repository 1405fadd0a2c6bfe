"""Instructions for annotators: a text of the user, or one made from the criteria, the error types or the task.

The text is stored in the key, and the criteria have descriptions of their own, so the page and the judge can show each
at its place. `Key.told` has both, for people who fill in sheets and for checklists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from figeval.errors import OptionError
from figeval.io.files import is_file, read_text
from figeval.io.text import clean
from figeval.spec.criteria import YES_NO, Criterion
from figeval.spec.tasks import TaskSpec

OTHERS = "The other parts of an item are what the text was written from; do not judge them."
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


def to_judge(criteria: Sequence[Criterion]) -> str:
    """Return the default instructions for texts that are judged by criteria, with the meaning of unexplained labels."""
    on = "each criterion separately" if len(criteria) > 1 else f"one criterion: {criteria[0].name}"
    told = [f"Read each item as a whole, then judge its text on {on}. {OTHERS}"]
    unexplained = [one for one in criteria if not one.description]
    if any(one.is_ordinal for one in unexplained):
        told.append("On a numerical scale, a higher number means more of what the criterion describes.")
    if any(one.labels == YES_NO for one in unexplained):
        told.append("Choose yes if the criterion applies to the text, and no if it does not.")
    return "\n".join(told)


def to_find(errors: Sequence[str]) -> str:
    """Return the default instructions for texts in which errors are to be found."""
    if len(errors) == 1:
        return f"Read each item as a whole, then say whether its text has this error: {errors[0]}. {OTHERS}"
    return (
        f"Read each item as a whole, then say for each of these errors whether its text has it: {', '.join(errors)}. A "
        f"text may have several of them, or none. {OTHERS}"
    )


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
