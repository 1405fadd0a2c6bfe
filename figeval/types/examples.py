"""What is asked: one example class per protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
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
    """What every protocol's example carries.

    `meta` holds the columns for breakdowns (`--by idiom`); examples that share `cluster` are not independent and
    get clustered standard errors; examples that share `group` are minimal pairs (strict accuracy wants all right).
    `prompted` is the same example with the texts that prompts show where these differ from what other models read
    (`prompt_fields` of a task file), e.g. as written instead of lower-cased. It is never scored against.
    """

    id: str
    meta: Meta = field(default_factory=dict)
    cluster: str | None = None
    group: str | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceExample(Example):
    """Pick one of a few options. `gold` is an index into `options`, None when the label is hidden."""

    query: str
    options: tuple[str, ...]
    gold: int | None

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.query, *self.options)

    @property
    def subject(self) -> str:  # noqa: D102
        return self.query

    @property
    def hidden(self) -> bool:  # noqa: D102
        return self.gold is None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingExample(Example):
    """Order many candidates; `relevant` holds the indexes of the right ones.

    `grades` says how relevant they are, index → grade greater than 0; those that it leaves out have grade 1, so without
    it all are equally right. Only nDCG looks at it.
    `background` are further candidates against which only the `*_all` metrics rank (the unseen split of ePiC is
    scored among its 100 proverbs and, beside that, among all 250). `near` are candidates that say the same as a
    relevant one: only `acc_near` counts them as right.
    Examples of one task share the same candidate tuple: it is stored once.
    """

    query: str
    candidates: tuple[str, ...]
    relevant: frozenset[int]
    background: tuple[str, ...] = ()
    near: frozenset[int] = field(default=frozenset(), metadata=LATER)
    grades: Mapping[int, float] = field(default_factory=dict, metadata=LATER)

    def __post_init__(self) -> None:
        """Raise `ValueError` for a grade of a candidate that is not relevant, or one that is not positive."""
        for index, grade in self.grades.items():
            if index not in self.relevant:
                raise ValueError(f"example {self.id!r} grades candidate {index}, which is not among the relevant ones")
            if not 0 < grade < inf:
                raise ValueError(f"example {self.id!r} gives candidate {index} the grade {grade}; it has to be above 0")

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.query, *self.candidates, *self.background)

    @property
    def subject(self) -> str:  # noqa: D102
        return self.query

    @property
    def hidden(self) -> bool:  # noqa: D102
        return not self.relevant


@dataclass(frozen=True, slots=True, kw_only=True)
class PairExample(Example):
    """Two texts and the relation between them (premise and hypothesis, idiom and paraphrase)."""

    left: str
    right: str
    label: str | None

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.left, self.right)

    @property
    def subject(self) -> str:  # noqa: D102
        return self.left

    @property
    def asked(self) -> tuple[str, ...]:  # noqa: D102
        return (self.left, self.right)

    @property
    def hidden(self) -> bool:  # noqa: D102
        return self.label is None


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text, half-open, in characters: `text[start:end]`."""

    start: int
    end: int


NO_SPAN = Span(0, 0)  # the answer that no stretch of the text is right, as "no answer" in SQuAD 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanExample(Example):
    """Find in `text` the stretch that stands for `given`, which is a part of `known`.

    `gold` is its place, the first one where the stretch occurs more than once; `NO_SPAN` where nothing in the text
    stands for `given`, which is an answer of its own; None when it is hidden. What is scored against is `answer`: the
    text there, or `reference` where a published mistake scored against something else.
    `weight` lets rows share the weight of one: 1/k for each of the k spans of a narrative gives means by narrative.
    """

    text: str
    given: str
    known: str
    gold: Span | None
    reference: str | None = None
    weight: float = 1.0

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.text, self.given, self.known)

    @property
    def subject(self) -> str:  # noqa: D102
        return self.text

    @property
    def hidden(self) -> bool:  # noqa: D102
        return self.answer is None

    @property
    def answer(self) -> str | None:
        """The text that a found span is compared with; empty where no span is right."""
        return self.text[self.gold.start : self.gold.end] if self.reference is None and self.gold else self.reference


@dataclass(frozen=True, slots=True, kw_only=True)
class JointExample(RankingExample):
    """Rank the candidates, and find the spans of `parts` in the query (Ghosh and Srivastava 2022, Table 9)."""

    parts: tuple[SpanExample, ...]

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.query, *self.candidates, *self.background, *(part.given for part in self.parts))

    @property
    def hidden(self) -> bool:  # noqa: D102
        return any(part.hidden for part in self.parts)


Input: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationExample(Example):
    """Write a text from named inputs, which are texts or lists of texts (keywords); `references` are human ones."""

    inputs: Mapping[str, Input]
    references: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        given = ((value,) if isinstance(value, str) else value for value in self.inputs.values())
        return (*(text for values in given for text in values), *self.references)

    @property
    def subject(self) -> str:  # noqa: D102
        return self.references[0] if self.references else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityExample(Example):
    """One text of a nearest-neighbour task: texts of the same `motif` are similar.

    How a text scores against the `anchors` (the 250 proverbs) can stand for it; examples of a task share the tuple.
    """

    text: str
    motif: str
    anchors: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.text, *self.anchors)

    @property
    def subject(self) -> str:  # noqa: D102
        return self.text
