"""What counts as a word where texts are measured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# Letters and digits of any script; an apostrophe inside a word belongs to it ("don't", "o'clock").
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
PART = re.compile(r"[^\W_]+?(?=n't\b)|n't\b|'?[^\W_]+")  # of a contraction, as taggers have them: did + n't, he + 's

# Words of the closed classes, with contractions: articles, pronouns, prepositions, conjunctions, auxiliaries, "not".
CLOSED_CLASSES = """
a an the this that these those some any no every each all both either neither such what which who whom whose
i me my mine myself you your yours yourself he him his himself she her hers herself it its itself we us our ours
ourselves they them their theirs themselves one oneself there here
in on at by for with without of off to from into onto out up down over under about against between among through
during before after above below across along behind beyond near since till until upon within than as like per
and or but nor so yet if then because while when where why how whether though although unless lest
be am is are was were been being have has had having do does did doing done will would shall should can could may
might must ought not never don't doesn't didn't isn't aren't wasn't weren't haven't hasn't hadn't won't wouldn't
can't cannot couldn't shouldn't mustn't i'm you're he's she's it's we're they're i've you've we've they've i'll
you'll he'll she'll it'll we'll they'll i'd you'd he'd she'd we'd they'd that's there's what's who's let's too also
"""
FUNCTION_WORDS = frozenset(CLOSED_CLASSES.split())


def words(text: str) -> list[str]:
    """The lower-cased words of a text, in order, without punctuation; typographic apostrophes count as plain ones."""
    return WORD.findall(text.lower().replace("’", "'"))


def parts(text: str) -> list[str]:
    """The same with contractions taken apart, and other compounds too."""
    return PART.findall(text.lower().replace("’", "'"))


def ngrams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """All runs of n tokens."""
    return zip(*(tokens[start:] for start in range(n)), strict=False)
