"""Parse the labels that a reply lists.

A line of a list holds only labels, separated by commas, slashes or "and", or one label with an explanation after a
colon or a dash, or in parentheses: "irony: it says the opposite", or "irony: no" in a reply that goes through all
labels. A list with any other word is not understood, because that may be a label that the task does not have. An
explanation may follow the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from figeval.answers.phrases import alternatives, pieces
from figeval.answers.reply_text import REFUSAL, answering_part, not_written, one_turn, plain
from figeval.prompts import PromptContext
from figeval.types import Prediction, Reply, Status

from .multilabel import MultilabelExample

SHORT = 3  # most words after a list that may be a label; more are an explanation
FILLER = (  # words beside labels without a meaning of their own
    r"(?:[\W\d_]|\b(?:sure|and|plus|also|as well as|an?|the|it|this|that|text|tweet|sentence|saying|"
    r"is|are|has|uses?|shows?|both|fits?|my|final|answers?|labels?|types?|category|categories)\b)*"
)
NOTHING = re.compile(
    rf"{FILLER}\b(?:none|no|nothing|null|n\s*/\s*a|not applicable|neither|"
    r"(?:none of (?:the above|these|them|those)|no (?:labels?|types?))(?: (?:fits?|appl(?:y|ies))(?: it)?)?)\W*|"
    rf"{FILLER}\[\s*\]\W*",
    re.IGNORECASE,
)
BESIDE = re.compile(FILLER, re.IGNORECASE)
EITHER = re.compile(r"\bor\b", re.IGNORECASE)
VERDICT = re.compile(r"\W*(?:(?P<yes>yes|true)|no|false)\s*(?:\W\s|\W*\Z)", re.IGNORECASE)


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
    known = {" ".join(pieces(word)): label for label in context.labels for word in (label, *context.words(label))}
    found = listed(list(lines_of(plain(text), known)), len(context.labels), is_cut=reply.finish == "length")
    status = "refusal" if found.status == "unparseable" and REFUSAL.search(text) else found.status
    return Prediction(
        example_id=example.id,
        value=found.labels if status == "ok" else None,
        labels=context.labels,
        status=status,
    )


def lines_of(text: str, known: Mapping[str, str]) -> Iterator[ReplyLine | str]:
    """Yield the content of a text's lines and sentences; a line without a list is yielded as it is.

    `known` are the words of labels in lower case, with blanks between their pieces.
    """
    label = alternatives(list(known))
    gloss = re.compile(rf"(?:\W|\d{{1,2}}[.)])*({label.pattern})\W{{0,3}}?(?:[:=]|\s[-–—]+\s)(.*)", re.IGNORECASE)
    text = re.sub(rf"({label.pattern})\s*\([^()]*\)", r"\1", text, flags=re.IGNORECASE)
    text = "\n".join(line for line in text.splitlines() if not line.rstrip().endswith(":") or label.search(line))
    ends = rf"\n|(?<=\w)[.!]\s+|[,;]\s*(?=(?:{label.pattern})\s*[:=])"
    for line in re.split(ends, text, flags=re.IGNORECASE):
        rest = label.sub(" ", line)
        labels = frozenset(known[" ".join(pieces(one[0]))] for one in label.finditer(line))
        told = gloss.match(line)
        verdict = told and VERDICT.match(told[2])
        if told and verdict:
            yield ReplyLine(frozenset({known[" ".join(pieces(told[1]))]}) if verdict["yes"] else frozenset())
        elif labels and BESIDE.fullmatch(rest):
            yield ReplyLine(labels)
        elif labels and (NOTHING.fullmatch(rest) or (EITHER.search(rest) and BESIDE.fullmatch(EITHER.sub(" ", rest)))):
            yield ReplyLine(status="ambiguous")
        elif told:
            yield ReplyLine(frozenset({known[" ".join(pieces(told[1]))]}))
        elif NOTHING.fullmatch(line):
            yield ReplyLine(is_none=True)
        elif not BESIDE.fullmatch(line):
            yield line


def listed(lines: list[ReplyLine | str], labels: int, *, is_cut: bool) -> ReplyLine:
    """Return the combined content of lines; lines at the end without a list may be an explanation."""
    said: list[ReplyLine] = []
    for line in lines:
        if isinstance(line, ReplyLine):
            said.append(line)
        elif said and len(line.split()) > SHORT:
            is_cut = False  # the list had ended
            break
        else:
            return ReplyLine(status="truncated" if is_cut else "unparseable")
    found = frozenset[str]().union(*(line.labels for line in said))
    if any(line.status == "ambiguous" for line in said) or (found and any(line.is_none for line in said)):
        return ReplyLine(status="ambiguous")
    if is_cut and len(found) < labels:
        return ReplyLine(status="truncated")
    return ReplyLine(found, status="ok" if said else "unparseable")
