"""Parse the labels that a reply lists.

A line of a list holds only labels, separated by commas, slashes or "and", or one label with an explanation after a
colon or a dash, or in parentheses: "irony: it says the opposite", or "irony: no" in a reply that goes through all
labels. A list with any other word is not understood, because that may be a label that the task does not have. An
explanation may follow the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from figeval.answers.mentions import Mention, text_finder
from figeval.answers.patterns import LETTERS
from figeval.answers.references import INSIDE, TEXT, index_of, mark
from figeval.answers.reply_text import REFUSAL, answering_part, not_written, one_turn, plain
from figeval.language.words import split_words
from figeval.prompts import PromptContext
from figeval.types import Prediction, Reply, Status

from .multilabel import MultilabelExample

MAX_LABEL_WORDS = 3  # most words after a list that may be a label; more are an explanation
FILLER = (  # words beside labels without a meaning of their own
    r"(?:[\W\d_]|\b(?:sure|and|plus|also|as well as|an?|the|it|this|that|text|tweet|sentence|saying|"
    r"is|are|has|uses?|shows?|both|fits?|my|final|answers?|labels?|types?|category|categories)\b)*"
)
NO_LABEL = re.compile(
    rf"{FILLER}\b(?:none|no|nothing|null|n\s*/\s*a|not applicable|neither|"
    r"(?:none of (?:the above|these|them|those)|no (?:labels?|types?))(?: (?:fits?|appl(?:y|ies))(?: it)?)?)\W*|"
    rf"{FILLER}\[\s*\]\W*",
    re.IGNORECASE,
)
ONLY_FILLER = re.compile(FILLER, re.IGNORECASE)
ALTERNATIVE = re.compile(r"\bor\b", re.IGNORECASE)
SEPARATOR = rf"[^\w{INSIDE}]"  # the mark of a label is a word
VERDICT = re.compile(rf"{SEPARATOR}*(?:(?P<yes>yes|true)|no|false)\s*(?:{SEPARATOR}\s|{SEPARATOR}*\Z)", re.IGNORECASE)
GLOSS = re.compile(rf"(?:{SEPARATOR}|\d{{1,2}}[.)])*({TEXT}){SEPARATOR}{{0,3}}?(?:[:=]|\s[-–—]+\s)(.*)")
ASIDE = re.compile(rf"({TEXT})\s*\([^()]*\)")
ENDS = re.compile(rf"\n|(?<=[\w{LETTERS}{INSIDE}])[.!]\s+|[,;]\s*(?={TEXT}\s*[:=])")


@dataclass(frozen=True, slots=True)
class ReplyLine:
    """The content of a line: labels, or that there is none; `status` is ok if it was understood."""

    labels: frozenset[str] = frozenset()
    is_none: bool = False
    status: Status = "ok"


def read_list(example: MultilabelExample, context: PromptContext, reply: Reply) -> Prediction:
    """Return the labels that a reply lists.

    "None" beside a label and "or" between labels are `ambiguous`. A truncated list is `truncated`, because the rest is
    unknown.
    """
    text = one_turn(answering_part(reply.text))
    if (silent := not_written(reply, text)) is not None:
        return Prediction(example_id=example.id, value=None, labels=context.labels, status=silent[0])
    texts = [(word, index) for index, label in enumerate(context.labels) for word in (label, *context.words(label))]
    content = plain(text)
    marked_text = marked_labels(content, text_finder(tuple(texts), example.language)(content))
    line = combine_lines(
        list(lines_of(marked_text, context.labels)), len(context.labels), is_cut=reply.finish == "length"
    )
    status = "refusal" if line.status == "unparseable" and REFUSAL.search(text) else line.status
    return Prediction(
        example_id=example.id,
        value=line.labels if status == "ok" else None,
        labels=context.labels,
        status=status,
    )


def marked_labels(text: str, mentions: Sequence[Mention]) -> str:
    """Return a text in which one character stands for each label."""
    parts, position = [], 0
    for mention in mentions:
        parts += [text[position : mention.start], mark("text", max(mention.indexes))]
        position = mention.end
    return "".join([*parts, text[position:]])


def lines_of(marked_text: str, labels: Sequence[str]) -> Iterator[ReplyLine | str]:
    """Yield the content of the lines and sentences of a text with marked labels.

    A line without a list is yielded as it is.
    """

    def label_of(mark: str) -> str:
        return labels[index_of(mark)]

    text = ASIDE.sub(r"\1", marked_text)
    text = "\n".join(line for line in text.splitlines() if not line.rstrip().endswith(":") or re.search(TEXT, line))
    for line in ENDS.split(text):
        remainder = re.sub(TEXT, " ", line)
        labels_in_line = frozenset(map(label_of, re.findall(TEXT, line)))
        gloss = GLOSS.match(line)
        verdict = gloss and VERDICT.match(gloss[2])
        if gloss and verdict:
            yield ReplyLine(frozenset({label_of(gloss[1])}) if verdict["yes"] else frozenset())
        elif labels_in_line and ONLY_FILLER.fullmatch(remainder):
            yield ReplyLine(labels_in_line)
        elif labels_in_line and (
            NO_LABEL.fullmatch(remainder)
            or (ALTERNATIVE.search(remainder) and ONLY_FILLER.fullmatch(ALTERNATIVE.sub(" ", remainder)))
        ):
            yield ReplyLine(status="ambiguous")
        elif gloss:
            yield ReplyLine(frozenset({label_of(gloss[1])}))
        elif NO_LABEL.fullmatch(line):
            yield ReplyLine(is_none=True)
        elif not ONLY_FILLER.fullmatch(line):
            yield re.sub(TEXT, lambda match: label_of(match[0]), line)


def count_words(line: str) -> int:
    """Return the number of words; in scripts without blanks, three clusters count as one."""
    return max(len(line.split()), len(split_words(line)) // 3)


def combine_lines(lines: list[ReplyLine | str], labels: int, *, is_cut: bool) -> ReplyLine:
    """Return the combined content of lines; lines at the end without a list may be an explanation."""
    lists: list[ReplyLine] = []
    for line in lines:
        if isinstance(line, ReplyLine):
            lists.append(line)
        elif lists and count_words(line) > MAX_LABEL_WORDS:
            is_cut = False  # the list had ended
            break
        else:
            return ReplyLine(status="truncated" if is_cut else "unparseable")
    found_labels = frozenset[str]().union(*(line.labels for line in lists))
    if any(line.status == "ambiguous" for line in lists) or (found_labels and any(line.is_none for line in lists)):
        return ReplyLine(status="ambiguous")
    if is_cut and len(found_labels) < labels:
        return ReplyLine(status="truncated")
    return ReplyLine(found_labels, status="ok" if lists else "unparseable")
