"""Markers that replace each reference to an option or label (by letter, text, number or word) with one character.

A reply is rewritten so that each reference ("(B)", "option 2", "a patched boat …") becomes one private-use character,
which encodes the kind of the reference and the option's index. The rules of `figeval.answers.extract` are then plain
regular expressions over such characters, whatever the options are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from itertools import pairwise

import regex

from figeval.answers.denials import BUT, NOT, NOT_AFTER, NOT_BEFORE, RIGHT, WRONG
from figeval.answers.folding import fold
from figeval.answers.mentions import APART, Mention, text_finder
from figeval.answers.particles import NO_AFTER, NO_BEFORE, YES_BETWEEN
from figeval.answers.patterns import LETTERS
from figeval.answers.phrases import (
    AND,
    AND_WORD,
    ANSWER,
    CONNECTOR,
    COPULA,
    FITS,
    GOOD,
    IS,
    IS_WORD,
    NO_NOUNS,
    REASON,
    Nouns,
    filler,
    noun,
)
from figeval.language.words import UNSPACED, is_unspaced, primary, split_words
from figeval.language.words import letters as letters_in

Marker = Callable[[str], str]


# ---- references ------------------------------------------------------------------------------------------------------

KINDS = ("letter", "text", "number", "listed", "negated")
_FIRST, _SIZE = 0xF0000, 0x1000
MAX_REFERENCES = _SIZE - 2
OUT, CLASH = MAX_REFERENCES, MAX_REFERENCES + 1
"""Special indexes: an option beyond the last one; the letter of one option with the text of another."""


def mark(kind: str, index: int) -> str:
    """Return the character that represents a reference."""
    return chr(_FIRST + KINDS.index(kind) * _SIZE + index)


def kind_of(character: str) -> str:
    """Return how the option was referred to, one of `KINDS`."""
    return KINDS[(ord(character) - _FIRST) // _SIZE]


def index_of(character: str) -> int:
    """Return the option's index, OUT or CLASH."""
    return (ord(character) - _FIRST) % _SIZE


def _between(first: str, last: str) -> str:
    return f"{mark(first, 0)}-{mark(last, _SIZE - 1)}"


LETTER = f"[{_between('letter', 'letter')}]"
TEXT = f"[{_between('text', 'text')}]"
REF = f"[{_between('letter', 'number')}]"
NEGATED = f"[{_between('negated', 'negated')}]"
ANY = f"[{_between('letter', 'negated')}]"
INSIDE = ANY[1:-1]  # for a character class


def change_references(marked: str, kind: str) -> str:
    """Return a marked text with its references changed to another kind."""
    return re.sub(ANY, lambda match: mark(kind, index_of(match[0])), marked)


def indexes(marked: str, pattern: str = REF) -> set[int]:
    """Return the options that a marked text refers to."""
    return {index_of(character) for character in re.findall(pattern, marked)}


# ---- references that are no claims -----------------------------------------------------------------------------------

_SHUT, _OPEN = r"[\"')\]]*+", r"[\"'(\[]*+"
_MORE = rf"{_SHUT}\s*+(?:,\s*+)?(?:{AND}\s*+)?{_OPEN}{REF}"
_LAST = rf"{_SHUT}\s*+(?:,\s*+)?(?:{AND_WORD}\s*+){_OPEN}{REF}"
_SEVERAL = rf"{REF}(?>{_MORE}){{0,9}}"  # atomic, because "," matches both as a comma and as a word for "and"
_UNSAID = rf"(?!{_SHUT}\s*(?:{IS_WORD}|{COPULA}|{FITS}|{GOOD}))"  # "not A, B is right" denies A only
_LISTED = rf"{REF}(?>{_MORE}{_UNSAID}){{0,9}}"
_JOINED = rf"{REF}(?:(?>{_MORE}){{0,8}}{_LAST})?"  # "B, A değil" denies A only, "A ve B değil" both
_IS = (
    r"(?:\b(?:is|are|was|were|does|do|did|would|could|can|should|seems?|fits?|passt|sind|sont|son|está|zijn|da|yn)"
    rf"(?=\b|n't)|{IS_WORD})?"
)
_ADVERB = r"(?:clearly|also|simply|just|both|all|really|quite|definitely|plainly|n'est|no|das|the|a|far)"
_ON_LINE = r"(?:(?<=not)|(?<=n't)|(?![^\S\n]*\n))"  # "Non", alone on a line, denies no option on the next one
_NO_TEXT = r"(?-i:(?<![)\]])|(?!\s*[A-ZÀ-ÞΑ-ΩА-Я]))"  # "(B) Not all that glitters" is an option with its text
_CASE = r"(?:['-]\w{1,4}\b|번?[은는이가을를]?|[はがもを]|[也都])?"  # Turkish A'nın, Armenian A-ն, particles


@cache
def _unclaimed_patterns(nouns: Nouns) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the patterns of references that are not claims, each with the kind that such references become."""
    called = rf"(?:\s*{noun(nouns)})?"
    before = rf"(?:\s*(?:{filler(nouns)}|{IS_WORD}|{noun(nouns)})){{0,4}}[\s\"'(\[]*"
    after = rf"{_SHUT}(?![^\S\n]*\n){_NO_TEXT}{_CASE}{called}{_CASE}\s*{_IS}\s*(?:{_ADVERB}\s+)*"
    praise = rf"(?:\s*(?:{RIGHT}|{ANSWER}|{noun(nouns)}){_CASE}){{0,2}}\s*"
    patterns = (
        ("negated", rf"(?:{NOT}|{NOT_BEFORE}){_ON_LINE}{before}(?P<refs>{_LISTED})"),
        ("negated", rf"(?P<refs>{_SEVERAL}){after}(?:{WRONG}|{NOT}(?!{before}{ANY}))"),
        ("negated", rf"(?P<refs>{REF}){_SHUT}\s*[:=–—-]\s*{WRONG}(?:\s*(?:{ANSWER}|{noun(nouns)}))?(?!\s*\w)"),
        ("negated", rf"(?P<refs>{_JOINED}){after}{praise}{NOT_AFTER}"),
        ("negated", rf"(?<!wait )(?<!wait, )(?<!actually )(?<!actually, )\bno (?P<refs>{REF})"),
        ("negated", rf"\brul(?:e|es|ed|ing)\s+(?P<refs>{_SEVERAL})\s+out\b"),
        ("listed", rf"\b(?:between|among|entre|zwischen)\s+[\"'(\[]*(?P<refs>{REF}{_MORE})"),
    )
    return tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in patterns)


def _set_aside(unclaimed: tuple[tuple[str, re.Pattern[str]], ...], marked: str) -> str:
    """Change the kind of references that are denied ("not A") or weighed against each other ("between A and B")."""
    for kind, pattern in unclaimed:

        def turn(match: re.Match[str], kind: str = kind) -> str:
            return match[0].replace(match["refs"], change_references(match["refs"], kind))

        marked = pattern.sub(turn, marked)
    return marked


# ---- options ---------------------------------------------------------------------------------------------------------

_OTHER_SCRIPT = r"[\u0370-\u1cff\u2d00-\u2ddf\u3040-\ud7ff\uf900-\ufaff]"  # than the letters that name options
_DENYING = rf"(?:(?!(?:not|cannot|never)\b)(?:{NOT}|{NOT_AFTER}|{BUT})|{WRONG}(?!\s+\w))"  # no "A wrong answer"
_CLOSED = rf"(?=\s*(?:[.,:;!?)\]}}\"'/&=-]|\Z|\n|{TEXT}|{_OTHER_SCRIPT})|\s+(?:{CONNECTOR}|{_DENYING}))"
_OTHER_THING = re.compile(r"\b(?:plan|vitamin|hepatitis|class|grade|type|team|group|person|point|side|part)\s\Z", re.I)
_ELISION = "est|était|étaient|accord|ailleurs|abord|après|une?|où|en|autres?|ici"  # C'est, D'abord
_ARTICLES = "AEOUY"  # letters that are words in some language
_CARDINALS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ORDINALS = (
    r"first|1st|erste[nrs]?|première|primera|prima|primeira|pierwsz[ay]|birinci|перв\w+|第一[个個项項条句]?|첫\s?번째",
    r"second|2nd|zweite[nrs]?|deuxième|segunda|seconda|drug[ai]|ikinci|втор\w+|第二[个個项項条句]?|두\s?번째",
    r"third|3rd|dritte[nrs]?|troisième|tercera|terza|terceira|trzeci[a]?|üçüncü|трет\w+|第三[个個项項条句]?|세\s?번째",
    r"fourth|4th|vierte[nrs]?|quatrième|cuarta|quarta|czwart[ay]|dördüncü|четв[её]рт\w+|第四[个個项項条句]?|네\s?번째",
    r"fifth|5th|fünfte[nrs]?|cinquième|quinta|piąt[ay]|beşinci|пят\w+|第五[个個项項条句]?|다섯\s?번째",
    r"sixth|6th",
    r"seventh|7th",
    r"eighth|8th",
    r"ninth|9th",
    r"tenth|10th",
)


@cache
def lead(nouns: Nouns) -> str:
    """Return a pattern of what announces an answer: "the answer is", "Answer:", or "Option:" at the start of a line."""
    announced = rf"{ANSWER}[^.!?\n{INSIDE}]{{0,60}}?{IS}(?:\s*{filler(nouns)}){{0,4}}"
    headed = rf"{ANSWER}[\"'\s]*[:=]|(?m:^)[\"'{{\s]*{noun(nouns)}[\"'\s]*[:=]"
    return rf"(?:{announced}|{headed})[\s:\"'(\[=>]*"


@lru_cache(maxsize=256)
def option_marker(
    options: tuple[str, ...], letters: tuple[str, ...], nouns: Nouns = NO_NOUNS, language: str = ""
) -> Marker:
    """Return a function that rewrites a plain reply so that each reference to an option is one character.

    Options with the same words cannot be distinguished by their texts. `language` is that of the options.

    Raises:
        ValueError: The options and letters differ in number, or there are more than can be distinguished.
    """
    if len(options) != len(letters) or len(options) > MAX_REFERENCES:
        raise ValueError(f"{len(options)} options and {len(letters)} letters, at most {MAX_REFERENCES}")
    find = text_finder(named_by_text(options, letters), language)
    of_letter = {letter.casefold(): index for index, letter in reversed(list(enumerate(letters)))}

    def letter_index(letter: str) -> int | None:
        return of_letter.get(letter.casefold(), OUT if letter.isupper() else None)  # a lower-case letter may be a word

    steps: list[Marker] = [
        lambda text: _mark_mentions(find(text), text),
        *(partial(_mark_places, "letter", pattern, letter_index) for pattern in _letter_places(letters, nouns)),
    ]
    if not any(text.strip().isdigit() for text in (*options, *letters)):
        number = partial(_number_index, len(options))
        steps += [partial(_mark_places, "number", pattern, number) for pattern in _number_places(nouns)]
        steps += [partial(_mark_ordinals, _ordinals(nouns), len(options))]
    steps += [partial(_mark_listing, len(options)), _join, partial(_mark_lists, len(options))]
    steps += [partial(_set_aside, _unclaimed_patterns(nouns))]

    def run(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return run


@lru_cache(maxsize=256)
def named_by_text(options: tuple[str, ...], letters: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Return each option with its index, but for those like "B" that cannot be told from the letter of an option."""
    taken = {fold(letter).text for letter in letters}
    return tuple((option, index) for index, option in enumerate(options) if fold(option).text.strip() not in taken)


def _mark_mentions(mentions: Sequence[Mention], text: str) -> str:
    parts, position = [], 0
    for mention in mentions:
        parts += [text[position : mention.start], mark("text", _only_index(mention))]
        position = mention.end
    return "".join([*parts, text[position:]])


def _only_index(mention: Mention) -> int:
    return min(mention.indexes) if len(mention.indexes) == 1 else CLASH


# ---- letters and numbers ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _letter_places(letters: tuple[str, ...], nouns: Nouns) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of places where a single letter refers to an option, even one that is out of range."""
    longer = [re.escape(letter) for letter in sorted(letters, key=len, reverse=True)]
    ref = f"(?P<ref>{'|'.join([*longer, '[A-Z]'])})"
    safe = [letter for letter in letters if letter.isupper()]
    plain = "|".join(re.escape(letter) for letter in safe if letter not in (*_ARTICLES, "I")) or r"(?!)"
    articles = "|".join(letter for letter in safe if letter in _ARTICLES) or r"(?!)"
    alone = rf"(?<![{LETTERS}'])(?<![{LETTERS}][-.])"
    boundary = rf"(?![{LETTERS}]|\.[A-Z]\b|'[A-Z]|'(?:{_ELISION})\b|-[{LETTERS}])"
    return (
        *_everywhere(ref, nouns),
        re.compile(rf"(?<![{LETTERS}])[(\[{{]\s?{ref}\s?[)\]}}]", re.IGNORECASE),
        re.compile(rf"(?<![{LETTERS}(])(?<!\( ){ref}\)", re.IGNORECASE),
        re.compile(rf"^{ref}(?=[.):]\s|[.):]?$)", re.IGNORECASE | re.MULTILINE),
        re.compile(rf"{alone}(?P<ref>{plain}){boundary}"),
        re.compile(rf"{alone}(?P<ref>{articles}){boundary}(?i:{_CLOSED})"),
        re.compile(rf"{alone}(?P<ref>{'I' if 'I' in safe else '(?!)'}){boundary}(?=[.,:;)]|\Z)"),
    )


@cache
def _number_places(nouns: Nouns) -> tuple[re.Pattern[str], ...]:
    worded = re.compile(rf"{noun(nouns)}\s(?P<ref>{'|'.join(_CARDINALS)}){_CLOSED}", re.IGNORECASE)
    return (*_everywhere(r"(?P<ref>\d{1,3})", nouns), worded)


def _everywhere(ref: str, nouns: Nouns) -> list[re.Pattern[str]]:
    """Return the patterns of places for any reference: the whole reply, after "the answer is", after "option"."""
    return [
        re.compile(rf"\A[^\w{INSIDE}]*{ref}(?![{LETTERS}])[^\w{INSIDE}]*\Z", re.IGNORECASE),
        re.compile(rf"{lead(nouns)}{ref}(?![{LETTERS}]|[.,]\d){_CLOSED}", re.IGNORECASE),
        re.compile(rf"{noun(nouns)}\s*[#:]?\s*[\"'(\[]*{ref}(?![{LETTERS}]|[.,]\d){_CLOSED}", re.IGNORECASE),
    ]


def _number_index(count: int, written: str) -> int | None:
    number = int(written) if written.isdigit() else _CARDINALS.index(written.casefold()) + 1
    return number - 1 if 1 <= number <= count else OUT


def _mark_places(kind: str, pattern: re.Pattern[str], resolve: Callable[[str], int | None], text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        start, end = (position - match.start() for position in match.span("ref"))
        before = text[max(0, match.start("ref") - 20) : match.start("ref")]
        index = None if _OTHER_THING.search(before) else resolve(match["ref"])
        return match[0] if index is None else match[0][:start] + mark(kind, index) + match[0][end:]

    return pattern.sub(replace, text)


_COUNTED = (
    r"option|choice|one\b|alternative|statement|answer\b(?!\s+that)|antwort|proposition|"
    r"opción|opzione|opção|opcja|seçenek|вариант|选项|選項|選択肢|보기"
)


@cache
def _ordinals(nouns: Nouns) -> re.Pattern[str]:
    """Return a pattern of "the second option"; its groups are the ordinals, with "last" as the final one."""
    ordinals = "|".join(f"({words})" for words in _ORDINALS)
    counted = "|".join([*map(re.escape, nouns.option), _COUNTED])
    return re.compile(rf"(?:\bthe\s+)?(?<!\w)(?:{ordinals}|(last))\s*(?:{counted})", re.IGNORECASE)


def _mark_ordinals(ordinals: re.Pattern[str], count: int, text: str) -> str:
    """Mark "the second option"; the mark replaces the noun as well."""

    def replace(match: re.Match[str]) -> str:
        rank = count if match[match.re.groups] else next(i for i, word in enumerate(match.groups()) if word) + 1
        return mark("number", rank - 1 if rank <= count else OUT)

    return ordinals.sub(replace, text)


# ---- what belongs together -------------------------------------------------------------------------------------------

_LABELLED = re.compile(rf"({REF})[.):\]]*(?: ?[–—=-]+)?[ \"'(]*({TEXT})", re.IGNORECASE)
_LETTER_AFTER = re.compile(rf"({TEXT})[\"'.]* ?[(\[]({LETTER})[)\]]")


def _join(marked: str) -> str:
    """Merge a letter and its text into one reference, which is a contradiction if the text is another option's."""

    def merge(match: re.Match[str]) -> str:
        agree = index_of(match[1]) == index_of(match[2])
        return match[1] if agree else mark(kind_of(match[1]), CLASH)

    return _LETTER_AFTER.sub(merge, _LABELLED.sub(merge, marked))


_LINE_HEAD = re.compile(rf"^[\"'(\[]*({REF})", re.MULTILINE)
_SIDE_BY_SIDE = re.compile(rf"{REF}(?:[^\w\n{INSIDE}]*{REF}){{2,}}")
_LETTERED_LINE = re.compile(rf"^[\"'(\[]*({LETTER})[.):][^\n]*$", re.MULTILINE)


def _mark_listing(count: int, marked: str) -> str:
    """Mark lines that begin with the letters in order as a list: they echo the question, even with other texts."""
    lines = list(_LETTERED_LINE.finditer(marked))
    run = [index_of(line[1]) for line in lines]
    length = next((n for n, index in enumerate(run) if index != n), len(run))
    if length < min(3, max(2, count)):
        return marked
    begin, end = lines[0].start(), lines[length - 1].end()
    return marked[:begin] + change_references(marked[begin:end], "listed") + marked[end:]


def _mark_lists(count: int, marked: str) -> str:
    """Mark options in order, line by line or side by side, as a list: they echo the question."""
    marked = _SIDE_BY_SIDE.sub(lambda match: _mark_sequences(match[0], list(re.finditer(REF, match[0])), count), marked)
    return _mark_sequences(marked, list(_LINE_HEAD.finditer(marked)), count)


def _mark_sequences(marked: str, references: list[re.Match[str]], count: int) -> str:
    """Mark each run of references to the first, second, third … option as a list."""
    positions = [match.end() - 1 for match in references]
    order = [index_of(marked[position]) for position in positions]
    letters = list(marked)
    for start in (rank for rank, index in enumerate(order) if index == 0):
        length = 1
        while order[start + length : start + length + 1] == [length]:
            length += 1
        if length >= min(3, max(2, count)):
            for position in positions[start : start + length]:
                letters[position] = mark("listed", index_of(letters[position]))
    return "".join(letters)


# ---- labels ----------------------------------------------------------------------------------------------------------

_JOINT = rf"(?:{APART})?"  # non-entailment, non entailment, nonentailment
_SHORT = 5  # letters: words as short as yes, no, maybe or false also occur in prose
_STANDS_OUT = re.compile(rf"\s*(?:[.,:;!?)\]}}\"'/&\n=-]|\Z)|\s+(?:from\b|{CONNECTOR})|[{INSIDE}]", re.IGNORECASE)
_CHATTER = re.compile(  # an assistant's "Yes, I can help you with that", which answers no question of ours
    r"\s*[,!.]?\s*(?:of course,?\s+)?(?:I|we|you)(?:\s+can|'ll|\s+will|'d|\s+would)"
    r"(?:\s*[.!]|(?:\s+(?:be|also|certainly|gladly|happily|love|like|to|happy))*\s+"
    r"(?:help|assist|add|think of|provide|give|a\b|rephrase|rewrite|write|explain|do that)\b)",
    re.IGNORECASE,
)
_NOT_THIS = re.compile(
    r"(?:\bnon[-\u2010\u2011 ]|(?:\bnot?|n't)\s+)(?:(?:an?|any|the|of|really|be|in|case|have|show|express|constitute|"
    rf"represent|form|clear|strict|logical)\s+){{0,3}}[\"'(]*({REF})",
    re.IGNORECASE,
)
_NON = re.compile(r"\bnon[-\u2010\u2011 ]\Z", re.IGNORECASE)
_CLAUSE_END = re.compile(
    rf"\s*(?:[.,:;!?)\]}}\"'/&\n=–—-]|\Z)|\s+(?:{REASON}|{COPULA}|{NOT_AFTER})|[{INSIDE}]", re.IGNORECASE
)
_CLAUSE_START = re.compile(rf"(?:\A|[.,!?:;=\n\"'(\[{{–—-]|{ANSWER}\w?|{IS_WORD})[\s\"'(\[]*\Z", re.IGNORECASE)
# What may follow a short word of a script without blanks, and what precedes the answer 是, which is a verb elsewhere.
_UNSPACED_END = regex.compile(
    rf"(?:です[ねよか]*|でした|でしょう|だ(?:と|ろう)?|である|と(?=思|考|判|答|言|な|し)|に(?=な|し)|的|了|啊|吧|呢|ครับ|ค่ะ)?+"
    rf"(?:(?!{UNSPACED})|(?<=と)|(?<=に)|(?=因[为為]|所以|但))",
    regex.V1,
)
_VERB_LABEL = regex.compile(r"[是为為]")
_VERB_START = regex.compile(rf"(?:(?<!{UNSPACED})|(?<=[是为為选選该該答]))[\s\"'(\[]*\Z", regex.V1)
_SENTENCE_START = re.compile(r"(?:\A|[.!?:\n])[\s\"'(\[]*\Z")
# Words that are answers in some places only → whether one is, by the text before it, the text and where the word ends.
_PARTICLES: tuple[tuple[re.Pattern[str], Callable[[str, str, int], bool]], ...] = (
    (re.compile(NO_BEFORE, re.IGNORECASE), lambda _, text, end: bool(_CLAUSE_END.match(text, end))),
    (re.compile(NO_AFTER, re.IGNORECASE), lambda before, *_: bool(_CLAUSE_START.search(before))),
    (
        re.compile(YES_BETWEEN, re.IGNORECASE),
        lambda before, text, end: bool(_SENTENCE_START.search(before) or _CLAUSE_END.match(text, end)),
    ),
    (re.compile("예"), lambda _, text, end: not text.startswith(("를 들", "를들", "컨대"), end)),  # for example
)
_IDIOM = re.compile(
    r"\s+(?:doubt|matter|wonder|problem|question|one|other|longer|more|less|evidence|information)\b", re.I
)


@lru_cache(maxsize=256)
def label_marker(words: tuple[tuple[str, ...], ...], language: str = "") -> Marker:
    """Return a function that rewrites a plain reply so that each word of a label is one character.

    `language` is that of the replies.

    Raises:
        ValueError: There are more labels than can be distinguished.
    """
    if len(words) > MAX_REFERENCES:
        raise ValueError(f"{len(words)} labels, at most {MAX_REFERENCES}")
    texts = tuple((word, index) for index, label in enumerate(words) for word in label)
    find = text_finder(texts, language, _JOINT)
    count = len({_letters_of(word) for word, _ in texts})

    def run(text: str) -> str:
        spans = [
            mention
            for mention in _without_listings(text, find(text), count)
            if not (len(words) > 2 and _NON.search(text, max(0, mention.start - 5), mention.start))  # leaves several
            and _is_answer(text, mention, language)
        ]
        marked = _mark_mentions(spans, text)
        if len(words) == 2:  # "not the one" means the other
            marked = _NOT_THIS.sub(lambda match: mark("text", 1 - index_of(match[1])), marked)
        return _set_aside(_unclaimed_patterns(NO_NOUNS), marked)

    return run


_ROW = re.compile(r"[,/|\s]+(?:or\s+|and\s+)?", re.IGNORECASE)
_NEXT = re.compile(r"\s*[,/]\s*")


def _without_listings(text: str, mentions: list[Mention], count: int) -> list[Mention]:
    """Return mentions without those of "Yes, No or Maybe": all `count` words in a row echo the question.

    Two words may be a wavering answer, and one that is repeated is an answer.
    """
    if count < 3:
        return mentions
    joined = [bool(_ROW.fullmatch(text, a.end, b.start)) for a, b in pairwise(mentions)]
    goes_on = [bool(_NEXT.fullmatch(text, a.end, b.start)) for a, b in pairwise(mentions)]
    mentions_alone, position = [], 0
    while position < len(mentions):
        last = position + count - 1
        if last < len(mentions) and all(joined[position:last]) and not any(goes_on[last : last + 1]):
            row = text[mentions[position].start : mentions[last].end]
            is_repetition = len(set(re.findall(r"[^\W\d_]+", row.casefold()))) < 3
            mentions_alone += mentions[position : last + 1] if is_repetition else []
            position = last + 1
        else:
            mentions_alone.append(mentions[position])
            position += 1
    return mentions_alone


def _letters_of(word: str) -> str:
    return letters_in(word) or word.strip().casefold()


def _is_answer(text: str, mention: Mention, language: str) -> bool:
    """Return whether a word is meant as the label: a long one always, a short one only if it stands out."""
    word = text[mention.start : mention.end]
    if is_unspaced(word):
        return not (_is_short_unspaced(word, language) and _is_within_clause(text, mention))
    before = text[max(0, mention.start - 20) : mention.start]
    if not (word.isascii() and primary(language) in ("", "en")):
        for particle, stands_alone in _PARTICLES:
            if particle.fullmatch(word):
                return stands_alone(before, text, mention.end)
    if len(word) > _SHORT or not word.isascii():
        return True
    if _CHATTER.match(text, mention.end):
        return False
    if _STANDS_OUT.match(text, mention.end):
        return True
    return bool(_SENTENCE_START.search(before)) and not _IDIOM.match(text, mention.end)


def _is_short_unspaced(word: str, language: str) -> bool:
    """Return whether a word of a script without blanks is as short as 是 or はい, which many longer words contain."""
    return word == "はい" or len(split_words(word, language)) == 1


def _is_within_clause(text: str, mention: Mention) -> bool:
    """Return whether a short word of a script without blanks goes on (是 in 是关于), or is a verb with a subject."""
    if not _UNSPACED_END.match(text, mention.end):
        return True
    is_verb = _VERB_LABEL.fullmatch(text, mention.start, mention.end)
    return is_verb is not None and not _VERB_START.search(text[max(0, mention.start - 5) : mention.start])
