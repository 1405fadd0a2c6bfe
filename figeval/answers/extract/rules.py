"""The rules, firmest first: patterns over marked text. To read one, let REF be "an option", however it was named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from figeval.answers.extract.joints import AND, BUT, CONNECTOR, REASON, REVISION
from figeval.answers.extract.marks import ANY, NEGATED, REF
from figeval.answers.extract.options import LEAD
from figeval.answers.extract.phrases import ANSWER, BEST, CHOOSE, FILLER, FITS, GOOD, HENCE, IS, ITS, NOUN

DECLARED, IMPLIED, HINTED = 3, 2, 1
"""How firmly a rule commits: "the answer is B" > "so B" > "B fits the story". A firmer claim stands against later ones
that are less firm, unless the reply says that it changes its mind.
"""

_INSIDE = ANY[1:-1]
_GAP = rf"[^.!?\n{_INSIDE}]"
_OPEN, _SHUT = r"[\s\"'(\[{]*+", r"[\"')\]}]*+"
_MORE = rf"{_SHUT}\s*+(?:,\s*+)?\(?(?:{AND}\s*+){{1,2}}{_OPEN}(?:{ITS}|{FILLER})?{_OPEN}"
_VERB = r"(?!\s+(?:is|are|was|does|do|talks?|speaks?|refers?|would|could|can|seems?|means?|has|fits?)\b)"
# Each further reference is found in one way only (atomic), though "," is a comma and a word for "and"; and there are at
# most four, since a claim of more is no less ambiguous.
REFS = rf"(?P<refs>{REF}(?>{_MORE}{REF}{_VERB}){{0,4}})"
_ALL = rf"(?P<refs>{REF}(?>{_MORE}{REF}){{0,4}})"
_END = rf"(?={_SHUT}\s*(?:[.,:;!?\n)\]}}\u3002\uff0c-]|\Z)|{_SHUT}\s+{CONNECTOR})"
_THEN = rf"(?={_SHUT}\s*(?:[.,:;!\n\u3002\uff0c-]|\Z)|{_SHUT}\s+{REASON})"
_FILL = rf"(?:\s*{FILLER}){{0,4}}{_OPEN}"
_STOP = r"(?:\A|\n|[.!?:\u3002][\"')]*\s*)"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rule:
    """`pattern` finds the claim, its group `refs` the options that are claimed."""

    name: str
    firmness: int
    pattern: str

    def claims(self, marked: str) -> Iterator[re.Match[str]]:
        """Where a marked text claims something; patterns are compiled when first needed."""
        return _compiled(self.pattern).finditer(marked)


RULES = (
    Rule("answer_is", DECLARED, rf"{LEAD}(?:either|both)?{_OPEN}{REFS}"),
    Rule("answer_last", DECLARED, rf"{ANSWER}\s*(?:은|는|は|是)?{_OPEN}{REFS}(?=\s*(?:है|입니다|です))"),
    Rule("best_is", DECLARED, rf"{BEST}\s+(?:\w+\s+)?(?:{NOUN}|{ANSWER}){_GAP}{{0,60}}?{IS}{_FILL}{REFS}"),
    Rule("which_is", DECLARED, rf"{NOUN}\s+(?:that|which){_GAP}{{0,80}}?{IS}{_FILL}{REFS}"),
    Rule("is_the_answer", DECLARED, rf"{REFS}{_SHUT}\s*(?:is|ist|est|es|è|é|to)\s+(?:\w+\s+){{0,2}}?{ANSWER}"),
    Rule("first", DECLARED, rf"\A[\s\"'(\[]*+{REFS}{_SHUT}(?=\s*(?:[.,:;!\n)\]}}(–—-]|\Z)|\s+{REASON})"),
    Rule("alone", DECLARED, rf"{_STOP}{_OPEN}{REFS}{_SHUT}[.!]*\s*?$"),
    Rule("revised", DECLARED, rf"{REVISION}[\s,.:!-]*(?:{ITS}|no|i'd say)?{_FILL}{REFS}{_THEN}"),
    Rule("chosen", IMPLIED, rf"{CHOOSE}{_FILL}{REFS}"),
    Rule("hence", IMPLIED, rf"{HENCE}[\s,:]*(?:{ITS}|{CHOOSE})?{_FILL}{REFS}{_END}"),
    Rule("it_is", IMPLIED, rf"{ITS}{_FILL}{REFS}{_END}"),
    Rule("not_but", IMPLIED, rf"{NEGATED}{_GAP}{{0,20}}{BUT}{_FILL}{REFS}{_END}"),
    Rule("is_best", IMPLIED, rf"{_ALL}{_SHUT}\s*(?:项|選項|选项|が|是|{IS}|{FITS})?\s*(?:\w+ly\s+)?{_FILL}{GOOD}"),
    Rule("fits", HINTED, rf"{REFS}{_SHUT}\s+{FITS}\s+(?:this|the|best|well|perfectly|better)\b"),
    Rule("true", HINTED, rf"{REFS}[\"']?\s*[:=]\s*[\"']?(?:true|yes)\b"),
    Rule("ticked", HINTED, rf"^{_OPEN}(?P<refs>{ANY})[^\n{_INSIDE}]*?(?:[✓✔✅☑]|best (?:fit|match)|\byes\b)"),
)
