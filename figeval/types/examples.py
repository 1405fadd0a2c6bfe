"""What every example carries; the example classes are beside their task types (`figeval.task_types`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from unicodedata import normalize

Meta: TypeAlias = Mapping[str, str]
LATER = {"later": True}  # a field that came later: empty, it does not change the fingerprint of a task's examples


def letters(text: str) -> str:
    """The letters and digits of a text in lower case: the same for texts that differ in punctuation, case, blanks or
    the Unicode form of their accents (NFC, NFD).
    """
    return "".join(filter(str.isalnum, normalize("NFC", text.lower())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What an example of every task type carries.

    `meta` holds the columns for breakdowns (`--by idiom`); examples that share `cluster` are not independent and
    get clustered standard errors; examples that share `group` are minimal pairs (strict accuracy wants all right).
    `language` is that of the row where the task has rows in several, else empty.
    `prompted` is the same example with the texts that prompts show where these differ from what other models read
    (`prompt_fields` of a task file), e.g. as written instead of lower-cased. It is never scored against.
    """

    id: str
    meta: Meta = field(default_factory=dict)
    cluster: str | None = None
    group: str | None = None
    language: str = field(default="", metadata=LATER)
    prompted: Example | None = field(default=None, repr=False)

    def for_prompt(self) -> Example:
        """Return the example as prompts show it: `prompted` where there is one, else the example itself."""
        return self if self.prompted is None else self.prompted

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text of the example: what a lexical model may learn its word weights from."""
        return ()

    @property
    def subject(self) -> str:
        """The text that is asked about. Examples with the same one are never parted into train and dev."""
        return self.id

    @property
    def asked(self) -> tuple[str, ...]:
        """The texts that are asked about, taken together. Two examples with the same ones, up to spelling (`letters`),
        are the same question: a model that was trained on one of them has seen the other. Options do not count.
        """
        return (self.subject,)

    @property
    def hidden(self) -> bool:
        """Whether a right answer is not known here, so that what depends on it cannot be scored."""
        return False


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text, half-open, in characters: `text[start:end]`."""

    start: int
    end: int


NO_SPAN = Span(0, 0)  # the answer that no stretch of the text is right, as "no answer" in SQuAD 2.0

Input: TypeAlias = str | tuple[str, ...]
