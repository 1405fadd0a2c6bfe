"""Extract the option or label that a reply in words commits itself to, if any.

A reply loses its reasoning trace and its markup (`reply_text`); references to options become single characters
(`references`); then named rules find claims, and the last firm one counts. Nothing is guessed: two answers are
`ambiguous`, an answer beyond the options is `unparseable`, a cut-off reply without an answer is `truncated`.
`figeval.answers.VERSION` is recorded with every answer.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType

from figeval.answers.denials import BUT
from figeval.answers.folding import fold
from figeval.answers.mentions import identity_finder
from figeval.answers.patterns import phrases
from figeval.answers.phrases import (
    AND,
    ANSWER,
    BEST,
    CHOOSE,
    CONNECTOR,
    COPULA,
    FITS,
    GOOD,
    HENCE,
    IS,
    ITS,
    NO_NOUNS,
    REASON,
    REVISION,
    Nouns,
    filler,
    noun,
)
from figeval.answers.references import (
    ANY,
    CLASH,
    INSIDE,
    NEGATED,
    OUT,
    REF,
    index_of,
    indexes,
    kind_of,
    label_marker,
    lead,
    named_by_text,
    option_marker,
)
from figeval.answers.reply_text import REFUSAL, answering_part, find_bold, none_or_all, not_written, one_turn, plain
from figeval.language.words import find_words, split_words
from figeval.types import Reply, Status


@dataclass(frozen=True, slots=True)
class Extracted:
    """The answer read from a reply: `index` into the options or labels if `status` is ok, and the rule that decided."""

    status: Status
    index: int | None
    rule: str


def extract_choice(
    reply: Reply,
    options: Sequence[str],
    letters: Sequence[str],
    vocabulary: Mapping[str, Sequence[str]] = MappingProxyType({}),
    language: str = "",
) -> Extracted:
    """Return the option that a reply chooses.

    No reply raises an exception. `status` is `error` if there is no reply, i.e. if `reply.finish` is `error`.

    Args:
        reply: What the model wrote.
        options: The options in the order in which they were shown.
        letters: The letter of each option.
        vocabulary: What the task calls an `option`, e.g. "proverb", and the `answer`, e.g. "moral". The first word
            for an option is the one that the prompt uses.
        language: BCP 47 tag of the options, for the rules of case; empty if unknown.

    Raises:
        ValueError: The options and letters differ in number.
    """
    nouns = Nouns(*(tuple(vocabulary.get(role, ())) for role in Nouns._fields))
    mark = option_marker(tuple(options), tuple(letters), nouns, language)
    texts = named_by_text(tuple(options), tuple(letters))
    return _decide(
        reply,
        mark,
        nouns=nouns,
        identical=identity_finder(texts, language),
        begun=lambda text: options_starting_with(text, options, language),
    )


def options_starting_with(text: str, options: Sequence[str], language: str) -> frozenset[int]:
    """Return the options that begin with the words of a text."""
    beginning = " ".join(_words(text, language))
    return frozenset(
        index for index, option in enumerate(options) if " ".join(_words(option, language)).startswith(beginning)
    )


def _words(text: str, language: str) -> list[str]:
    folded = fold(text, language).text
    return [folded[word.start : word.end] for word in find_words(folded)] or [folded.strip()]


def extract_label(reply: Reply, words: Sequence[Sequence[str]], language: str = "") -> Extracted:
    """Return the label that a reply chooses; `words[i]` are the words that express label i.

    Labels that answer "does it follow?" are also found if the reply expresses them in other words. `language` is a
    BCP 47 tag, for the rules of case, or empty.
    """
    texts = tuple((word, index) for index, label in enumerate(words) for word in label)
    return _decide(
        reply,
        label_marker(tuple(map(tuple, words)), language),
        identical=identity_finder(texts, language),
        related=partial(_implied_labels, words),
    )


# ---- rules -----------------------------------------------------------------------------------------------------------

DECLARED, IMPLIED, HINTED = 3, 2, 1
"""Firmness of a rule's claims: "the answer is B" > "so B" > "B fits the story". A firmer claim prevails over later,
less firm ones, unless the reply says that it changes its mind.
"""

_GAP = rf"[^.!?\n{INSIDE}]"
_OPEN, _SHUT = r"[\s\"'(\[{]*+", r"[\"')\]}]*+"
_VERB = r"(?!\s+(?:is|are|was|does|do|talks?|speaks?|refers?|would|could|can|seems?|means?|has|fits?)\b)"
_END = rf"(?={_SHUT}\s*(?:[.,:;!?\n)\]}}-]|\Z)|{_SHUT}\s+{CONNECTOR})"
_THEN = rf"(?={_SHUT}\s*(?:[.,:;!\n-]|\Z)|{_SHUT}\s+{REASON})"
_STOP = r"(?:\A|\n|[.!?:][\"')]*\s*)"
_OTHER_SCRIPT = r"(?=[\u0370-\ud7ff])"
_LAST = rf"(?={_SHUT}\s*(?:{COPULA}|[.!\n]|\Z))"  # the verb follows the answer, or there is none
_REVISED = re.compile(REVISION, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClaimRule:
    """A rule whose `pattern` finds a claim in a marked text; the group `refs` holds the options that are claimed."""

    name: str
    firmness: int
    pattern: re.Pattern[str]


@cache
def _rules(nouns: Nouns) -> tuple[ClaimRule, ...]:
    """Return the rules for a task that uses these nouns for its options, firmest first.

    To read a pattern, let REF be "an option", however it was named.
    """
    called = noun(nouns)
    fill = rf"(?:\s*{filler(nouns)}){{0,4}}{_OPEN}"
    further = rf"{_SHUT}\s*+(?:,\s*+)?\(?(?:{AND}\s*+){{1,2}}{_OPEN}(?:{ITS}|{filler(nouns)})?{_OPEN}"
    # The groups are atomic because "," is both a comma and a word for "and": each reference must be found in one way
    # only. There are at most four further references, as a claim of more is no less ambiguous.
    refs = rf"(?P<refs>{REF}(?>{further}{REF}{_VERB}){{0,4}})"
    every = rf"(?P<refs>{REF}(?>{further}{REF}){{0,4}})"
    patterns = (
        ("answer_is", DECLARED, rf"{lead(nouns)}(?:either|both)?{_OPEN}{refs}"),
        ("answer_last", DECLARED, rf"{_OTHER_SCRIPT}{ANSWER}\s*(?:은|는|は|是|{GOOD})?{_OPEN}{refs}{_LAST}"),
        ("best_is", DECLARED, rf"{BEST}\s+(?:\w+\s+)?(?:{called}|{ANSWER}){_GAP}{{0,60}}?{IS}{fill}{refs}"),
        ("which_is", DECLARED, rf"{called}\s+(?:that|which){_GAP}{{0,80}}?{IS}{fill}{refs}"),
        ("is_the_answer", DECLARED, rf"{refs}{_SHUT}\s*(?:is|ist|est|es|è|é|to)\s+(?:\w+\s+){{0,2}}?{ANSWER}"),
        ("first", DECLARED, rf"\A[\s\"'(\[]*+{refs}{_SHUT}(?=\s*(?:[.,:;!\n)\]}}(–—-]|\Z)|\s+{REASON})"),
        ("alone", DECLARED, rf"{_STOP}{_OPEN}{refs}{_SHUT}[.!]*\s*?$"),
        ("revised", DECLARED, rf"{REVISION}[\s,.:!-]*(?:{ITS}|no|i'd say)?{fill}{refs}{_THEN}"),
        ("chosen", IMPLIED, rf"{CHOOSE}{fill}{refs}"),
        ("hence", IMPLIED, rf"{HENCE}[\s,:]*(?:{ITS}|{CHOOSE})?{fill}{refs}{_END}"),
        ("it_is", IMPLIED, rf"{ITS}{fill}{refs}{_END}"),
        ("not_but", IMPLIED, rf"{NEGATED}{_GAP}{{0,20}}{BUT}{fill}{refs}{_END}"),
        ("is_best", IMPLIED, rf"{every}{_SHUT}\s*(?:项|選項|选项|が|是|{IS}|{FITS})?\s*(?:\w+ly\s+)?{fill}{GOOD}"),
        ("fits", HINTED, rf"{refs}{_SHUT}\s+{FITS}\s+(?:this|the|best|well|perfectly|better)\b"),
        ("true", HINTED, rf"{refs}[\"']?\s*[:=]\s*[\"']?(?:true|yes)\b"),
        ("ticked", HINTED, rf"^{_OPEN}(?P<refs>{ANY})[^\n{INSIDE}]*?(?:[✓✔✅☑]|best (?:fit|match)|\byes\b)"),
    )
    flags = re.IGNORECASE | re.MULTILINE
    return tuple(ClaimRule(name, firmness, re.compile(pattern, flags)) for name, firmness, pattern in patterns)


# ---- verdicts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MarkedReply:
    """A reply prepared for the rules: without reasoning (`text`), without markup (`content`) and marked (`marked`)."""

    reply: Reply
    text: str
    content: str
    marked: str
    mark: Callable[[str], str]
    nouns: Nouns
    identical: Callable[[str], frozenset[int]]  # the options or labels that a text consists of
    begun: Callable[[str], frozenset[int]]  # the options that begin with a text
    related: Callable[[str], set[int]]  # the labels that are expressed in other words


@dataclass(frozen=True, slots=True)
class Claim:
    """The options that a rule found claimed, and where in the text."""

    rule: str
    firmness: int
    start: int
    end: int
    options: frozenset[int]


def _decide(
    reply: Reply,
    mark: Callable[[str], str],
    *,
    nouns: Nouns = NO_NOUNS,
    identical: Callable[[str], frozenset[int]],
    begun: Callable[[str], frozenset[int]] = lambda _: frozenset(),
    related: Callable[[str], set[int]] = lambda _: set(),
) -> Extracted:
    """Return the verdict of the first step that has one."""
    text = one_turn(answering_part(reply.text))
    content = plain(text)
    reading = MarkedReply(reply, text, content, mark(content), mark, nouns, identical, begun, related)
    verdicts = (step(reading) for step in _STEPS)
    return next((verdict for verdict in verdicts if verdict), Extracted("unparseable", None, "nothing_found"))


# ---- steps: each one decides, or passes the reply on to the next -----------------------------------------------------


def _not_written(reading: MarkedReply) -> Extracted | None:
    outcome = not_written(reading.reply, reading.text)
    return outcome and Extracted(outcome[0], None, outcome[1])


_WHOLE = re.compile(rf"\W*?({REF})\W*")


def _identical(reading: MarkedReply) -> Extracted | None:
    """Accept a reply that is the text of one option, even if it looks like markup."""
    options = reading.identical(reading.text)
    if not options:
        return None
    if reading.reply.finish == "length" and len(reading.begun(reading.text)) > 1:
        return Extracted("truncated", None, "cut_off")
    return _verdict(options, "text_alone")


def _alone(reading: MarkedReply) -> Extracted | None:
    """Accept a reply that is nothing but one option."""
    index = _only(reading.marked)
    return None if index is None else _verdict({index}, f"{kind_of(re.findall(REF, reading.marked)[0])}_alone")


def _only(marked: str) -> int | None:
    if len(re.findall(ANY, marked)) != 1:
        return None
    match = _WHOLE.fullmatch(marked)
    return index_of(match[1]) if match else None


_HEADER = re.compile(
    r"\n(?!explanation|reason|rationale|justification|because|answer|final|correct|note|conclusion|wait|actually|so\b|"
    r"however|therefore|thus|option|edit|update|step|analysis|revised|on\b|my\b|the\b)"
    r"(?:[^\W\d_]{2,}(?: \w+){0,3}:|###|(?:which|what|choose|select|pick|read)\b)",
    re.IGNORECASE,
)


def _before_next_question(reading: MarkedReply) -> Extracted | None:
    """Accept what a base model answered before it went on with a question of its own."""
    header = _HEADER.search(reading.content)
    if not header:
        return None
    claim = _resolve_claims(reading.mark(reading.content[: header.start()]), reading.nouns)
    return _verdict(claim.options, claim.rule) if claim and claim.firmness == DECLARED else None


def _accept_claim(reading: MarkedReply) -> Extracted | None:
    claim = _resolve_claims(reading.marked, reading.nouns)
    return _verdict(claim.options, claim.rule) if claim else None


def _emphasis(reading: MarkedReply) -> Extracted | None:
    """Accept the only option that is set in bold."""
    if reading.reply.finish == "length":
        return None
    options = {_only(reading.mark(stretch)) for stretch in find_bold(reading.text)} - {None}
    return _verdict({index for index in options if index is not None}, "emphasis") if len(options) == 1 else None


def _accept_refusal(reading: MarkedReply) -> Extracted | None:
    return Extracted("refusal", None, "refusal_phrase") if REFUSAL.search(reading.content) else None


def _none_or_all(reading: MarkedReply) -> Extracted | None:
    return Extracted("unparseable", None, "none_or_all") if none_or_all(reading.nouns).search(reading.marked) else None


def _other_words(reading: MarkedReply) -> Extracted | None:
    """Accept a label expressed in other words if none of the requested words occurs."""
    if re.search(ANY, reading.marked):
        return None
    labels = reading.related(reading.content)
    return _verdict(labels, "other_words") if labels else None


def _cut_off(reading: MarkedReply) -> Extracted | None:
    """Accept the beginning of a single option in a reply that was cut off; a mention is no commitment there."""
    if reading.reply.finish != "length":
        return None
    begun = reading.begun(reading.content)
    if len(begun) == 1 and len(split_words(reading.content)) > 1:
        return Extracted("ok", min(begun), "option_begun")
    return Extracted("truncated", None, "cut_off")


def _accept_mention(reading: MarkedReply) -> Extracted | None:
    """Accept the only option that is mentioned without being denied."""
    options = indexes(reading.marked, ANY) - indexes(reading.marked, NEGATED)
    return _verdict(options, "only_mention" if len(options) == 1 else "several_mentions") if options else None


_STEPS = (
    _not_written,
    _identical,
    _alone,
    _before_next_question,
    _accept_claim,
    _emphasis,
    _other_words,
    _accept_refusal,
    _none_or_all,
    _cut_off,
    _accept_mention,
)

# ---- claims ----------------------------------------------------------------------------------------------------------


def _resolve_claims(marked: str, nouns: Nouns) -> Claim | None:
    """Return the last claim that overrides the ones before it, or the union of the hints if there is no other claim."""
    claims = []
    for rule in _rules(nouns):
        for match in rule.pattern.finditer(marked):
            options = frozenset(index_of(character) for character in re.findall(ANY, match["refs"]))
            if not re.search(NEGATED, match["refs"]):
                claims.append(Claim(rule.name, rule.firmness, *match.span("refs"), options))
    claims.sort(key=lambda claim: (claim.start, -claim.firmness))
    hints = [claim for claim in claims if claim.firmness == HINTED]
    settled: Claim | None = None
    revisions = [match.span() for match in _REVISED.finditer(marked)]
    for claim in (claim for claim in claims if claim.firmness > HINTED):
        if settled is None or _overrides(claim, settled, revisions):
            settled = claim
    if settled is None and hints:
        union = frozenset().union(*(hint.options for hint in hints))
        return Claim(hints[0].rule, HINTED, hints[0].start, hints[-1].end, union)
    return settled


def _overrides(later: Claim, earlier: Claim, revisions: Sequence[tuple[int, int]]) -> bool:
    """Return whether a claim replaces an earlier one; `revisions` are the places where the reply changes its mind."""
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


# ---- labels in other words -------------------------------------------------------------------------------------------

YES, NO, MAYBE = "yes", "no", "maybe"
NAMES = {
    **dict.fromkeys(("yes", "true", "entailment", "entails"), (YES,)),
    **dict.fromkeys(("no", "false", "contradiction", "contradicts"), (NO,)),
    **dict.fromkeys(("maybe", "neutral"), (MAYBE,)),
    **dict.fromkeys(("non entailment", "not entailment", "nonentailment"), (NO, MAYBE)),
}
"""Answers to "does it follow?" that the words of labels express, by word."""

_CLAIM = r"(?:\bthe (?:claim|hypothesis|conclusion|second statement)|\A[\s\"'*]*(?:it|this|that|statement))"
_NOT = r"(?:\s+not|n't)"
_HOW = r"(?:\s+(?:also|\w+ly))?"
_HELD = (
    r"(?:true|correct|valid|supported|entailed|implied|warranted|"
    r"(?:an? )?(?:logical |direct |necessary |valid )?(?:consequence|conclusion))\b"
)
_UNDECIDED = phrases(r"""
    en not_necessarily not_always possibly perhaps neutral uncertain undetermined unclear
    en not_enough_information can(?:not|'t|_not)_(?:tell|say|know|be_(?:determined|inferred|known))
    de nicht_unbedingt vielleicht möglicherweise
    fr pas_nécessairement peut-être
    es no_necesariamente quizás? tal_vez
""")
_STATEMENTS = {  # the first one found in a sentence counts
    MAYBE: (rf"{_CLAIM}[^.!?\n]{{0,40}}?{_UNDECIDED}", r"\b(?:is|does|do)(?:\s+not|n't)\s+necessarily\b"),
    NO: (
        rf"\b(?:does|do|did){_NOT}{_HOW}\s+(?:follow|hold|entail|have to be true)\b",
        rf"{_CLAIM}\s+(?:is|was){_HOW}\s+(?:false|incorrect|wrong|untrue|a contradiction|contradict\w+)\b",
        rf"{_CLAIM}\s+(?:is|was|can){_NOT}(?:\s+be)?{_HOW}\s+{_HELD}",
        rf"{_CLAIM}\s+contradicts\b",
    ),
    YES: (
        rf"{_CLAIM}{_HOW}\s+(?:follows|holds)\b",
        rf"{_CLAIM}\s+(?:is|was|must be|has to be){_HOW}\s+{_HELD}",
    ),
}
_OPENING = {
    MAYBE: _UNDECIDED,
    NO: r"(?:false|incorrect|untrue|not (?:true|correct|really|at all)|contradict\w+|"
    r"non?[- ]?entailment|not entail\w+)",
    YES: r"(?:true|correct|entailment|entailed|definitely|certainly|absolutely|indeed)",
}
_PATTERNS = {
    answer: (
        re.compile(rf"[\s\"'(*]*{_OPENING[answer]}[\s\"')*]*(?:[.,:;!\n]|\Z)", re.IGNORECASE),
        re.compile("|".join(_STATEMENTS[answer]), re.IGNORECASE),
    )
    for answer in (MAYBE, NO, YES)
}
_DOUBTED = re.compile(r"\b(?:not|never|no|unless|if|whether|only)\b|n't\b", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?\n]*")


def _implied_labels(words: Sequence[Sequence[str]], content: str) -> set[int]:
    """Return the labels that the sentences of a reply imply; `words[i]` are the words that express label i.

    The set is empty if no sentence implies a label, or if the labels are not answers to "does it follow?". Asked
    whether a claim follows, models also write "It does not follow", "Not necessarily" or "entailment". If only the
    requested words were read, the share of missing answers would depend on the label.
    """
    stands_for: dict[str, set[int]] = {}
    for index, label in enumerate(words):
        for word in label:
            for answer in NAMES.get(" ".join(split_words(word)), ()):
                stands_for.setdefault(answer, set()).add(index)
    if not {YES, NO} <= set(stands_for):
        return set()
    return {index for answer in _answers(content) for index in stands_for.get(answer, ())}


def _answers(content: str) -> Iterator[str]:
    for position, match in enumerate(_SENTENCE.finditer(content)):
        sentence = match[0]
        for answer, (opening, statement) in _PATTERNS.items():
            doubted = answer == YES and _DOUBTED.search(sentence)
            if (position == 0 and opening.match(sentence)) or (statement.search(sentence) and not doubted):
                yield answer
                break
