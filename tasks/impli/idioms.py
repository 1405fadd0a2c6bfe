"""Which idiom is a pair about? The release does not say; this recovers a name from the texts themselves.

A premise and its hypothesis agree but for the idiom, so what is left of the premise without the words that both begin
and end with is the idiom, in the form in which it stands there. Three things spoil that, each with its repair:

* words that idiom and definition share fall out of the span ("off the hook" / "the hook"): a premise usually has
  several hypotheses, so its span is the union over all of them, and afterwards it takes the longest frequent name
  that its own neighbourhood contains;
* inflection and articles ("takes a dive", "took the dive"): names are compared by stems;
* something else changed as well, which makes the span too long: the same neighbourhood rule shortens it.

Names are approximations, good for clustered errors and for breakdowns, and no gold idiom ids. README.md has figures.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Stems: TypeAlias = tuple[str, ...]

UNKNOWN = "(unknown)"
FREQUENT = 3  # premises that must share a name before others may take it over
REACH = 3  # tokens on either side of the span that count as its neighbourhood
SLACK = 3  # foreign words that may stand inside a name: "keep a very low profile"

TOKEN = re.compile(r"\w+|[^\w\s]")
ARTICLES = frozenset({"a", "an", "the"})
POSSESSIVES = frozenset({"my", "your", "his", "her", "its", "our", "their", "one", "s", "somebody", "someone"})
BE = frozenset({"be", "am", "is", "are", "was", "were", "been", "being"})
DROPPED = ARTICLES | POSSESSIVES | BE
# Verb forms that no suffix rule reaches, for the verbs that idioms use.
IRREGULAR_VERBS = """
bend bent; bite bit bitten; blow blew blown; break broke broken; bring brought; buy bought; catch caught; come came
coming; do did done does doing; draw drew drawn; drive drove driven; eat ate eaten; fall fell fallen; feel felt; fight
fought; find found; fly flew flown; get got gotten; give gave given; go went gone goes going; grow grew grown; hang
hung; have had has having; hear heard; hold held; keep kept; know knew known; lead led; leave left; lend lent; lose
lost; make made; mean meant; meet met; pay paid; ride rode ridden; ring rang rung; rise rose risen; run ran; say said;
see saw seen; sell sold; shake shook shaken; shoot shot; show shown; sink sank sunk; sit sat; speak spoke spoken;
spend spent; spring sprang sprung; stand stood; steal stole stolen; stick stuck; strike struck; sweep swept; take took
taken; teach taught; tear tore torn; tell told; think thought; throw threw thrown; wear wore worn; win won; write
wrote written"""
IRREGULAR = {form: verb.split()[0] for verb in IRREGULAR_VERBS.split(";") for form in verb.split()[1:]}


def premise_key(premise: str) -> str:
    """What makes two premises the same: the text with its white space folded."""
    return " ".join(premise.split())


def recover(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The name of the idiom (or the replaced words of a metaphor) for every premise key.

    Args:
        pairs: (premise, hypothesis), all that are known; more of them make better names.
    """
    spans = changed_spans(pairs)
    names: dict[str, Stems] = {}
    near: dict[str, Stems] = {}
    surfaces: dict[Stems, Counter[str]] = defaultdict(Counter)
    for premise, (start, end) in spans.items():
        tokens = TOKEN.findall(premise.lower())
        names[premise] = stems(tokens[start:end])
        near[premise] = stems(tokens[max(0, start - REACH) : end + REACH] if start < end else tokens)
        surfaces[names[premise]][surface(tokens[start:end])] += 1
    frequent = longest_first(names.values())
    return {premise: shown(taken_over(names[premise], near[premise], frequent), surfaces) for premise in spans}


def changed_spans(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Premise key → the tokens, from and to, that differ from a hypothesis: the union over all hypotheses.

    A span is empty where the hypothesis only adds words.
    """
    spans: dict[str, tuple[int, int]] = {}
    for premise, hypothesis in pairs:
        key = premise_key(premise)
        start, end = changed_span(TOKEN.findall(key.lower()), TOKEN.findall(hypothesis.lower()))
        before = spans.get(key)
        if before is None or before[0] == before[1]:
            spans[key] = (start, end)
        elif start < end:
            spans[key] = (min(start, before[0]), max(end, before[1]))
    return spans


def changed_span(left: Sequence[str], right: Sequence[str]) -> tuple[int, int]:
    """Where `left` differs from `right`: what remains without their common beginning and end."""
    shorter = min(len(left), len(right))
    start = next((i for i in range(shorter) if left[i] != right[i]), shorter)
    room = shorter - start
    tail = next((i for i in range(room) if left[-1 - i] != right[-1 - i]), room)
    return start, len(left) - tail


def stems(tokens: Iterable[str]) -> Stems:
    """Lower-case tokens without articles, possessives, forms of be and punctuation, each reduced to a stem."""
    return tuple(stem(token) for token in tokens if token not in DROPPED and token[0].isalnum())


def stem(word: str) -> str:
    """A word without the commonest English endings; a doubled consonant and a final e go with them."""
    word = IRREGULAR.get(word, word)
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def longest_first(names: Iterable[Stems]) -> dict[str, list[Stems]]:
    """First stem → the frequent names that begin with it, longest first, then most frequent, then by alphabet."""
    counts = Counter(names)
    by_first: dict[str, list[Stems]] = defaultdict(list)
    for name in sorted(counts, key=lambda name: (-len(name), -counts[name], name)):
        if name and counts[name] >= FREQUENT:
            by_first[name[0]].append(name)
    return by_first


def taken_over(own: Stems, near: Stems, frequent: Mapping[str, list[Stems]]) -> Stems:
    """The longest frequent name that stands near the span and shares a stem with it; else its own.

    One stem alone is too little to replace a longer name of its own.
    """
    least = min(2, len(own))
    found: Stems = ()
    for place, first in enumerate(near):
        for name in frequent.get(first, ()):
            if len(name) <= max(len(found), least - 1):
                break
            if (not own or not set(own).isdisjoint(name)) and in_order(name, near[place : place + len(name) + SLACK]):
                found = name
                break
    return found or own


def in_order(name: Stems, text: Stems) -> bool:
    """Whether the stems stand in the text in this order, others between them or not."""
    remaining = iter(text)
    return all(stem in remaining for stem in name)


def surface(tokens: Sequence[str]) -> str:
    """Tokens as a phrase, without punctuation at its ends and without an article before it."""
    words = list(tokens)
    while words and not words[-1][0].isalnum():
        words.pop()
    while words and (not words[0][0].isalnum() or words[0] in ARTICLES):
        words.pop(0)
    return re.sub(r" ([’'-]) ", r"\1", " ".join(words))


def shown(name: Stems, surfaces: Mapping[Stems, Counter[str]]) -> str:
    """The commonest form of a name, which reads better than its stems."""
    if not name:
        return UNKNOWN
    forms = surfaces[name]
    return min(forms, key=lambda form: (-forms[form], len(form), form))
