"""From the claims of a reply to a verdict."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from figeval.answers.extract.declining import NONE_OR_ALL, REFUSAL, not_written
from figeval.answers.extract.joints import REVISION
from figeval.answers.extract.marks import ANY, CLASH, NEGATED, OUT, REF, index_of, indexes, kind_of
from figeval.answers.extract.markup import emphasised, one_turn, plain
from figeval.answers.extract.rules import DECLARED, HINTED, RULES
from figeval.answers.extract.traces import answering_part
from figeval.types import Reply, Status


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a reply amounts to: `index` into the options or labels if `status` is ok, and the rule that decided."""

    status: Status
    index: int | None
    rule: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A reply ready for the rules: without reasoning (`text`), without markup (`content`), marked (`marked`)."""

    reply: Reply
    text: str
    content: str
    marked: str
    mark: Callable[[str], str]
    completed: Callable[[str], int | None]
    """The only option that a cut-off text can become."""
    related: Callable[[str], set[int]]
    """The labels that are expressed in other words."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An option that a rule found claimed, and where."""

    rule: str
    firmness: int
    start: int
    end: int
    options: frozenset[int]


def decide(
    reply: Reply,
    mark: Callable[[str], str],
    completed: Callable[[str], int | None] = lambda _: None,
    related: Callable[[str], set[int]] = lambda _: set(),
) -> Extracted:
    """The verdict of the first step that has one."""
    text = one_turn(answering_part(reply.text))
    content = plain(text)
    reading = Reading(reply, text, content, mark(content), mark, completed, related)
    verdicts = (step(reading) for step in STEPS)
    return next((verdict for verdict in verdicts if verdict), Extracted("unparseable", None, "nothing_found"))


# ---- steps -----------------------------------------------------------------------------------------------------------


def _not_written(reading: Reading) -> Extracted | None:
    found = not_written(reading.reply, reading.text)
    return found and Extracted(found[0], None, found[1])


_WHOLE = re.compile(rf"\W*?({REF})\W*")


def _alone(reading: Reading) -> Extracted | None:
    """Nothing but one option."""
    index = _only(reading.marked)
    if index is None:
        return None
    return _verdict({index}, f"{kind_of(re.findall(REF, reading.marked)[0])}_alone")


def _only(marked: str) -> int | None:
    if len(re.findall(ANY, marked)) != 1:
        return None
    found = _WHOLE.fullmatch(marked)
    return index_of(found[1]) if found else None


_HEADER = re.compile(
    r"\n(?!explanation|reason|rationale|justification|because|answer|final|correct|note|conclusion|wait|actually|so\b|"
    r"however|therefore|thus|option|edit|update|step|analysis|revised|on\b|my\b|the\b)"
    r"(?:[^\W\d_]{2,}(?: \w+){0,3}:|###|(?:which|what|choose|select|pick|read)\b)",
    re.IGNORECASE,
)


def _before_next_question(reading: Reading) -> Extracted | None:
    """A base model goes on with a question of its own: what it answered before that counts."""
    header = _HEADER.search(reading.content)
    if not header:
        return None
    claim = _settled(reading.mark(reading.content[: header.start()]))
    return _verdict(claim.options, claim.rule) if claim and claim.firmness == DECLARED else None


def _claimed(reading: Reading) -> Extracted | None:
    claim = _settled(reading.marked)
    return _verdict(claim.options, claim.rule) if claim else None


def _emphasis(reading: Reading) -> Extracted | None:
    """One option in bold among others that are not."""
    if reading.reply.finish == "length":
        return None
    found = {_only(reading.mark(stretch)) for stretch in emphasised(reading.text)} - {None}
    return _verdict({index for index in found if index is not None}, "emphasis") if len(found) == 1 else None


def _declined(reading: Reading) -> Extracted | None:
    return Extracted("refusal", None, "refusal_phrase") if REFUSAL.search(reading.content) else None


def _none_or_all(reading: Reading) -> Extracted | None:
    return Extracted("unparseable", None, "none_or_all") if NONE_OR_ALL.search(reading.marked) else None


def _other_words(reading: Reading) -> Extracted | None:
    """Nothing that was asked for is said, but its meaning is."""
    if re.search(ANY, reading.marked):
        return None
    found = reading.related(reading.content)
    return _verdict(found, "other_words") if found else None


def _cut_off(reading: Reading) -> Extracted | None:
    """A mention is no commitment when the rest is missing; the beginning of just one option is."""
    if reading.reply.finish != "length":
        return None
    index = reading.completed(reading.content)
    return Extracted("truncated", None, "cut_off") if index is None else Extracted("ok", index, "option_begun")


def _mentioned(reading: Reading) -> Extracted | None:
    """The only option that is mentioned and not denied."""
    found = indexes(reading.marked, ANY) - indexes(reading.marked, NEGATED)
    return _verdict(found, "only_mention" if len(found) == 1 else "several_mentions") if found else None


STEPS = (
    _not_written,
    _alone,
    _before_next_question,
    _claimed,
    _emphasis,
    _other_words,
    _declined,
    _none_or_all,
    _cut_off,
    _mentioned,
)
"""Best first."""

_REVISION = re.compile(REVISION, re.IGNORECASE)


# ---- claims ----------------------------------------------------------------------------------------------------------


def _claims(marked: str) -> Iterator[Claim]:
    for rule in RULES:
        for found in rule.claims(marked):
            options = frozenset(index_of(character) for character in re.findall(ANY, found["refs"]))
            if not re.search(NEGATED, found["refs"]):
                yield Claim(rule.name, rule.firmness, *found.span("refs"), options)


def _settled(marked: str) -> Claim | None:
    """The last claim that overrides the ones before it; hints have to agree."""
    claims = sorted(_claims(marked), key=lambda claim: (claim.start, -claim.firmness))
    hints = [claim for claim in claims if claim.firmness == HINTED]
    settled: Claim | None = None
    revisions = [found.span() for found in _REVISION.finditer(marked)]
    for claim in (claim for claim in claims if claim.firmness > HINTED):
        if settled is None or _overrides(claim, settled, revisions):
            settled = claim
    if settled is None and hints:
        union = frozenset().union(*(hint.options for hint in hints))
        return Claim(hints[0].rule, HINTED, hints[0].start, hints[-1].end, union)
    return settled


def _overrides(later: Claim, earlier: Claim, revisions: Sequence[tuple[int, int]]) -> bool:
    """Whether a claim takes the place of an earlier one; `revisions` is where the reply changes its mind, in order."""
    if later.firmness > earlier.firmness:
        return True
    if later.start < earlier.end:
        return False
    if later.firmness == earlier.firmness:
        return len(later.options) == 1 or later.firmness == DECLARED
    next_one = bisect_left(revisions, (earlier.end,))
    revised = next_one < len(revisions) and revisions[next_one][1] <= later.start
    return len(later.options) == 1 and (len(earlier.options) > 1 or revised)


def _verdict(options: set[int] | frozenset[int], rule: str) -> Extracted:
    if len(options) > 1 or CLASH in options:
        return Extracted("ambiguous", None, rule)
    (index,) = options
    return Extracted("unparseable", None, "out_of_range") if index == OUT else Extracted("ok", index, rule)
