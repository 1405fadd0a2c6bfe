"""Identification of the idiom of a pair by a lexicon and the changed words, since the release does not name it.

A premise and its hypothesis agree except where the idiom was replaced. `idioms.txt` lists the idioms of the benchmark
in their dictionary form. An idiom belongs to a pair if its words occur in the premise, inflected or with a few words
between them, where premise and hypothesis differ. Among several idioms, the one whose words match the changed words
best is taken (Jaccard index), so that the replaced words distinguish "see the light" from "see the light of day". If no
idiom of the list fits, the pair has none: the idiom is never guessed.

README.md reports precision and recall, measured on pairs that were checked by hand.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

TOKEN = re.compile(r"\w+|[^\w\s]")
VOWEL = re.compile("[aeiouy]")
GAP = 3  # words that may stand between two words of an idiom: "keep a very low profile"
SLOT_GAP = 5  # the same where the dictionary form has "someone" or "one's": "show the young man the door"
WINDOW = 5  # further words among those of an idiom in another order: "corners have been cut"

ARTICLES = frozenset({"a", "an", "the"})
POSSESSIVES = frozenset({"my", "your", "his", "her", "its", "our", "their", "s"})
SLOT = re.compile(r"\b(?:someone(?:'s)?|something|one's|oneself)(?!\w)")
FUNCTION_WORDS = """
about above across against ahead all along and around as at back be behind below between beyond but by down for from
get go have he how if in into it like no not of off on one or out over round so that then this through to too under up
very what when who will with within without you"""
BE = ("am", "is", "are", "was", "were", "been", "being", "re", "m")
# Forms of verbs and nouns in idioms that the suffix rules do not cover.
IRREGULAR_FORMS = """
bear bore borne born; beat beaten; bend bent; bite bit bitten; blow blew blown; break broke broken; bring brought; buy
bought; catch caught; come came; cut cutting; do did done does doing; die died dies dying; dig dug digging; draw drew
drawn; drive drove driven; eat ate eaten; fall fell fallen; feel felt; fight fought; find found; fly flew flown; get
got gotten getting; give gave given; go went gone goes going; grind ground; grow grew grown; hang hung; have had has
having ve; hear heard; hit hitting; hold held; keep kept; know knew known; lay laid; lead led; leave left; lend lent;
lie lying; live lives living life lived; lose lost; make made; mean meant; meet met; pay paid; put putting; ride rode
ridden; ring rang rung; rise rose risen; run ran running; say said; see saw seen; sell sold; set setting; shake shook
shaken; shoot shot; show shown; shut shutting; sink sank sunk sunken; sit sat sitting; sleep slept; smell smelt; speak
spoke spoken; spend spent; spill spilt; spin spun; spit spat; spring sprang sprung; stand stood; steal stole stolen;
stick stuck; strike struck; sweep swept; swim swam swum; take took taken; teach taught; tear tore torn; tell told;
think thought; throw threw thrown; tie tied ties tying; toe toed toes; use used uses using; wear wore worn; win won;
write wrote written; mouse mice; foot feet; man men; tooth teeth; knife knives; wolf wolves; sheep sheep"""
IRREGULAR = {form: word.split()[0] for word in IRREGULAR_FORMS.split(";") for form in word.split()[1:]}
IRREGULAR |= dict.fromkeys(BE, "be")


@dataclass(frozen=True, slots=True)
class Idiom:
    """The idiom of a pair.

    Attributes:
        name: its dictionary form.
        surface: its form in the premise, `premise[start:end]`.
        start, end: characters of the premise, half-open.
        confidence: overlap coefficient of the idiom's words and the changed words, 0 to 1; it is 1 if one set contains
            the other. Halved if the idiom's words are in another order, as in a passive.
    """

    name: str
    surface: str
    start: int
    end: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An idiom in a sentence.

    Attributes:
        name: its dictionary form.
        surface: its form in the sentence, `sentence[start:end]`.
        start, end: characters of the sentence, half-open.
        words: start and end of each of its words there, without articles, possessives and fillers of its slots.
        in_order: whether its words are in the order of the dictionary form.
    """

    name: str
    surface: str
    start: int
    end: int
    words: tuple[tuple[int, int], ...]
    in_order: bool


class Lexicon:
    """Idioms that can be looked up in texts.

    Args:
        lines: one idiom per line, with its dictionary form first and further forms after `|`. "someone", "something",
            "one's" and "oneself" are slots for any words, articles and possessives are optional, and every other word
            is required.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        forms = [[form.strip() for form in line.split("|")] for line in lines if line.strip()]
        entries = [_entry(names[0], form) for names in forms for form in names]
        frequency = Counter(stem for entry in entries for stem in set(entry.stems))
        self.names = tuple(names[0] for names in forms)
        self._by_rarest: dict[str, list[_Entry]] = defaultdict(list)
        for entry in entries:
            self._by_rarest[min(entry.stems, key=lambda stem: (frequency[stem], stem))].append(entry)

    def idiom(self, premise: str, hypothesis: str) -> Idiom | None:
        """Return the idiom of the premise that the hypothesis replaces, or None if the lexicon has none."""
        tokens = list(TOKEN.finditer(premise))
        left = [token.group().lower() for token in tokens]
        start, end = changed_span(left, TOKEN.findall(hypothesis.lower()))
        text = _Text(left)
        changed = {index for index in text.words if start <= index < end}
        matches = [
            match for match in self._find(text) if match.indices[0] < max(end, start + 1) and match.indices[-1] >= start
        ]
        if not matches:
            return None
        best = max(matches, key=lambda match: match.rank(changed))
        first, last = tokens[best.indices[0]].start(), tokens[best.indices[-1]].end()
        return Idiom(best.name, premise[first:last], first, last, best.confidence(changed))

    def occurrences(self, sentence: str) -> list[Occurrence]:
        """Return the idioms of a sentence, in the order of their positions.

        Of idioms that share words, only the one with the most words is kept ("see the light of day" rather than "see
        the light"); among equally long ones, one in order, and among these the most compact. Equally good idioms of
        different names that share words are all kept, because the sentence is ambiguous.
        """
        tokens = list(TOKEN.finditer(sentence))
        matches: list[_Match] = []
        for match in sorted(set(self._find(_Text([token.group().lower() for token in tokens]))), key=_Match.standing):
            rivals = [other for other in matches if not {*other.indices}.isdisjoint(match.indices)]
            if not any(other.name == match.name or other.standing()[:3] < match.standing()[:3] for other in rivals):
                matches.append(match)
        return sorted(
            (match.occurrence(sentence, tokens) for match in matches),
            key=lambda occurrence: (occurrence.start, occurrence.end, occurrence.name),
        )

    def _find(self, text: _Text) -> Iterator[_Match]:
        """Yield every idiom of the lexicon that occurs in the text."""
        present = set(text.stems)
        for stem in present & self._by_rarest.keys():
            for entry in self._by_rarest[stem]:
                if present.issuperset(entry.stems):
                    yield from entry.matches(text)


def has_words(name: str) -> bool:
    """Return whether an idiom has a word to look for, i.e. one other than an article, a possessive or a slot."""
    return bool(_entry(name, name).stems)


class _Text:
    """Words of a text without articles and possessives: their indices among the tokens, and their stems."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.words = [index for index, token in enumerate(tokens) if counts(token)]
        self.stems = [stem(tokens[index]) for index in self.words]


@dataclass(frozen=True, slots=True)
class _Match:
    """An idiom in a text, with the indices of its words among the tokens, in ascending order."""

    name: str
    indices: tuple[int, ...]
    in_order: bool

    def rank(self, changed: AbstractSet[int]) -> tuple[bool, bool, float, int, int, str]:
        """Return the sort key that is largest for the best of several idioms.

        Idioms in order come first. Among these, the best are idioms whose words are exactly the changed ones, then
        those that contain the changed words (idiom and definition share words: "got to [grips] with" / "got to [deal]
        with"), then the others by Jaccard index. Ties go to the most compact, then to the longest.
        """
        indices = set(self.indices)
        jaccard = 1.0 if changed <= indices else len(changed & indices) / len(changed | indices)
        between = self.indices[-1] - self.indices[0] + 1 - len(indices)
        return self.in_order, changed == indices, jaccard, -between, len(indices), self.name

    def standing(self) -> tuple[int, bool, int, tuple[int, ...], str]:
        """Return the sort key that puts the best idioms of a sentence first: most words, in order, most compact."""
        return -len(self.indices), not self.in_order, self.indices[-1] - self.indices[0], self.indices, self.name

    def occurrence(self, sentence: str, tokens: Sequence[re.Match[str]]) -> Occurrence:
        """Return the occurrence of the idiom among the tokens of a sentence."""
        words = tuple(tokens[index].span() for index in self.indices)
        start, end = words[0][0], words[-1][1]
        return Occurrence(self.name, sentence[start:end], start, end, words, self.in_order)

    def confidence(self, changed: AbstractSet[int]) -> float:
        """Return the share of common words in the smaller of the two sets, which is 1 if words were only added."""
        smaller = min(len(changed), len(self.indices))
        overlap = len(changed & set(self.indices)) / smaller if smaller else 1.0
        return overlap if self.in_order else overlap / 2


@dataclass(frozen=True, slots=True)
class _Entry:
    """A form of an idiom: the stems of its words, and the number of other words allowed before each of them."""

    name: str
    stems: tuple[str, ...]
    gaps: tuple[int, ...]

    def matches(self, text: _Text) -> list[_Match]:
        """Return the occurrences of the entry's words in order or, if there are none, close together in any order."""
        starts = [begin for begin, first in enumerate(text.stems) if first == self.stems[0]]
        ordered = [match for begin in starts if (match := self._from(begin, text))]
        lexical = sum(stem not in FUNCTION_STEMS for stem in self.stems)
        return ordered or (self._shuffled(text) if lexical > 1 else [])

    def _from(self, begin: int, text: _Text) -> _Match | None:
        """Return the occurrence in order whose first word is at `begin`, or None if there is none."""
        indices = [begin]
        for next_stem, gap in zip(self.stems[1:], self.gaps[1:], strict=True):
            after = indices[-1] + 1
            following = text.stems[after : after + gap + 1]
            if next_stem not in following:
                return None
            indices.append(after + following.index(next_stem))
        return _Match(self.name, tuple(text.words[index] for index in indices), in_order=True)

    def _shuffled(self, text: _Text) -> list[_Match]:
        """Return the occurrences in any order, among at most WINDOW further words."""
        matches = []
        for begin, first in enumerate(text.stems):
            if first in self.stems:
                missing = Counter(self.stems)
                indices = []
                for index, stem in enumerate(text.stems[begin : begin + len(self.stems) + WINDOW], begin):
                    if missing[stem] > 0:
                        missing[stem] -= 1
                        indices.append(text.words[index])
                if not missing.total():
                    matches.append(_Match(self.name, tuple(indices), in_order=False))
        return matches


def counts(token: str) -> bool:
    """Return whether a token is a word other than an article or a possessive."""
    return token[0].isalnum() and token not in ARTICLES and token not in POSSESSIVES


def _entry(name: str, form: str) -> _Entry:
    stems: list[str] = []
    gaps: list[int] = []
    gap = GAP
    for word in TOKEN.findall(SLOT.sub("_", form.lower())):
        if word == "_":
            gap = SLOT_GAP
        elif counts(word):
            stems.append(stem(word))
            gaps.append(gap)
            gap = GAP
    return _Entry(name, tuple(stems), tuple(gaps))


@lru_cache(maxsize=1 << 15)
def stem(word: str) -> str:
    """Return a word without the most common English endings, doubled final consonants and final e."""
    word = IRREGULAR.get(word, word)
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and not word.endswith("ss") and len(rest) >= 3 and VOWEL.search(rest):
            word = rest
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


FUNCTION_STEMS = frozenset(map(stem, FUNCTION_WORDS.split()))


def changed_span(left: Sequence[str], right: Sequence[str]) -> tuple[int, int]:
    """Return the span of `left` that differs from `right`, i.e. without their common beginning and end."""
    shorter = min(len(left), len(right))
    start = next((i for i in range(shorter) if left[i] != right[i]), shorter)
    room = shorter - start
    tail = next((i for i in range(room) if left[-1 - i] != right[-1 - i]), room)
    return start, len(left) - tail
