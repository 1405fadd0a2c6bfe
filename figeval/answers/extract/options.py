"""Find the options that a reply refers to: by letter, by text, by number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial

from figeval.answers.extract.joints import CONNECTOR
from figeval.answers.extract.marks import ANY, CLASH, LETTER, MOST, OUT, REF, TEXT, index_of, kind_of, mark, turned
from figeval.answers.extract.negation import set_aside
from figeval.answers.extract.phrases import ANSWER, FILLER, IS, NOUN
from figeval.answers.extract.words import LETTERS, alternatives, pieces

Marker = Callable[[str], str]
Step = tuple[str, re.Pattern[str]]  # kind of reference, and where it stands: group `ref`

_INSIDE = ANY[1:-1]
CLOSED = rf"(?=\s*(?:[.,:;!?)\]}}\"'/&=-]|\Z|\n|{TEXT})|\s+{CONNECTOR})"
LEAD = (
    rf"(?:{ANSWER}[^.!?\n{_INSIDE}]{{0,60}}?{IS}(?:\s*{FILLER}){{0,4}}|{ANSWER}[\"'\s]*[:=]|(?m:^)[\"'{{\s]*{NOUN}[\"'\s]*[:=])"
    r"[\s:\"'(\[=>]*"
)
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


@lru_cache(maxsize=256)
def option_marker(options: tuple[str, ...], letters: tuple[str, ...]) -> Marker:
    """What rewrites a plain reply so that each reference to an option is one character.

    Raises:
        ValueError: options and letters differ in number, or are more than can be told apart.
    """
    if len(options) != len(letters) or len(options) > MOST:
        raise ValueError(f"{len(options)} options and {len(letters)} letters, at most {MOST}")
    steps: list[Marker] = [
        partial(_mark_texts, alternatives(_quotable(options, letters)), _indexed(options)),
        *(partial(_mark_places, "letter", place, partial(_letter_index, letters)) for place in _letter_places(letters)),
    ]
    if not any(text.strip().isdigit() for text in (*options, *letters)):
        number = partial(_number_index, len(options))
        steps += [partial(_mark_places, "number", place, number) for place in _number_places()]
        steps += [partial(_mark_ordinals, len(options))]
    steps += [partial(_mark_listing, len(options)), _join, partial(_mark_lists, len(options)), set_aside]
    return partial(_all, tuple(steps))


def _all(steps: Iterable[Marker], text: str) -> str:
    for step in steps:
        text = step(text)
    return text


# ---- texts -----------------------------------------------------------------------------------------------------------


def _quotable(options: tuple[str, ...], letters: tuple[str, ...]) -> list[str]:
    """The options that a text may be recognised by: an option "B" among lettered ones is no text."""
    taken = {letter.casefold() for letter in letters}
    return [option for option in options if option.strip().casefold() not in taken]


def _indexed(options: tuple[str, ...]) -> dict[tuple[str, ...], int]:
    """Option by its words; the same words twice cannot be told apart."""
    found: dict[tuple[str, ...], int] = {}
    for index, option in enumerate(options):
        found[tuple(pieces(option))] = CLASH if tuple(pieces(option)) in found else index
    return found


def _mark_texts(pattern: re.Pattern[str], indexed: dict[tuple[str, ...], int], text: str) -> str:
    return pattern.sub(lambda found: mark("text", indexed.get(tuple(pieces(found[0])), CLASH)), text)


# ---- letters and numbers ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _letter_places(letters: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Where a letter refers to an option: anything single there is meant as a letter, out of range or not."""
    longer = [re.escape(letter) for letter in sorted(letters, key=len, reverse=True)]
    ref = f"(?P<ref>{'|'.join([*longer, '[A-Z]'])})"
    safe = [letter for letter in letters if letter.isupper()]
    plain = "|".join(re.escape(letter) for letter in safe if letter not in (*_ARTICLES, "I")) or r"(?!)"
    articles = "|".join(letter for letter in safe if letter in _ARTICLES) or r"(?!)"
    own = rf"(?<![{LETTERS}'])(?<![{LETTERS}][-.])"
    apart = rf"(?![{LETTERS}]|\.[A-Z]\b|'[A-Z]|'(?:{_ELISION})\b|-[{LETTERS}])"
    return (
        *_everywhere(ref),
        re.compile(rf"(?<![{LETTERS}])[(\[{{]\s?{ref}\s?[)\]}}]", re.IGNORECASE),
        re.compile(rf"(?<![{LETTERS}(])(?<!\( ){ref}\)", re.IGNORECASE),
        re.compile(rf"^{ref}(?=[.):]\s|[.):]?$)", re.IGNORECASE | re.MULTILINE),
        re.compile(rf"{own}(?P<ref>{plain}){apart}"),
        re.compile(rf"{own}(?P<ref>{articles}){apart}(?i:{CLOSED})"),
        re.compile(rf"{own}(?P<ref>{'I' if 'I' in safe else '(?!)'}){apart}(?=[.,:;)]|\Z)"),
    )


@lru_cache(maxsize=1)
def _number_places() -> tuple[re.Pattern[str], ...]:
    worded = re.compile(rf"{NOUN}\s(?P<ref>{'|'.join(_CARDINALS)}){CLOSED}", re.IGNORECASE)
    return (*_everywhere(r"(?P<ref>\d{1,3})"), worded)


def _everywhere(ref: str) -> list[re.Pattern[str]]:
    """The whole reply; after "the answer is"; after "option"."""
    return [
        re.compile(rf"\A[^\w{_INSIDE}]*{ref}[^\w{_INSIDE}]*\Z", re.IGNORECASE),
        re.compile(rf"{LEAD}{ref}(?![{LETTERS}]|[.,]\d){CLOSED}", re.IGNORECASE),
        re.compile(rf"{NOUN}\s*[#:]?\s*[\"'(\[]*{ref}(?![{LETTERS}]|[.,]\d){CLOSED}", re.IGNORECASE),
    ]


def _letter_index(letters: tuple[str, ...], found: str) -> int | None:
    """A capital beyond the last option is an answer out of range; a small letter there is just a letter."""
    for index, letter in enumerate(letters):
        if found.casefold() == letter.casefold():
            return index
    return OUT if found.isupper() else None


def _number_index(count: int, found: str) -> int | None:
    number = int(found) if found.isdigit() else _CARDINALS.index(found.casefold()) + 1
    return number - 1 if 1 <= number <= count else OUT


def _mark_places(kind: str, place: re.Pattern[str], resolve: Callable[[str], int | None], text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        start, end = (position - found.start() for position in found.span("ref"))
        before = text[max(0, found.start("ref") - 20) : found.start("ref")]
        index = None if _OTHER_THING.search(before) else resolve(found["ref"])
        return found[0] if index is None else found[0][:start] + mark(kind, index) + found[0][end:]

    return place.sub(replace, text)


_ORDINAL = re.compile(
    rf"(?:\bthe\s+)?(?<!\w)(?:{'|'.join(f'({words})' for words in _ORDINALS)}|(last))\s*"
    r"(?:option|choice|one\b|proverb|saying|alternative|statement|answer\b(?!\s+that)|antwort|sprichwort|proposition|"
    r"proverbe|opción|refrán|proverbio|opzione|opção|provérbio|opcja|seçenek|вариант|пословица|选项|選項|選択肢|谚语|보기|속담)",
    re.IGNORECASE,
)


def _mark_ordinals(count: int, text: str) -> str:
    """The second option: its mark stands for the noun as well."""

    def replace(found: re.Match[str]) -> str:
        rank = count if found[found.re.groups] else next(i for i, word in enumerate(found.groups()) if word) + 1
        return mark("number", rank - 1 if rank <= count else OUT)

    return _ORDINAL.sub(replace, text)


# ---- what belongs together -------------------------------------------------------------------------------------------

_LABELLED = re.compile(rf"({REF})[.):\]]*(?: ?[–—=-]+)?[ \"'(]*({TEXT})", re.IGNORECASE)
_LETTER_AFTER = re.compile(rf"({TEXT})[\"'.]* ?[(\[]({LETTER})[)\]]")


def _join(marked: str) -> str:
    """A letter with its text is one reference; with another option's text it is a contradiction."""

    def one(found: re.Match[str]) -> str:
        agree = index_of(found[1]) == index_of(found[2])
        return found[1] if agree else mark(kind_of(found[1]), CLASH)

    return _LETTER_AFTER.sub(one, _LABELLED.sub(one, marked))


_LINE_HEAD = re.compile(rf"^[\"'(\[]*({REF})", re.MULTILINE)
_SIDE_BY_SIDE = re.compile(rf"{REF}(?:[^\w\n{_INSIDE}]*{REF}){{2,}}")


_LETTERED_LINE = re.compile(rf"^[\"'(\[]*({LETTER})[.):][^\n]*$", re.MULTILINE)


def _mark_listing(count: int, marked: str) -> str:
    """Lines under the letters in their order are an echo of the question, even where a line has another text."""
    lines = list(_LETTERED_LINE.finditer(marked))
    run = [index_of(line[1]) for line in lines]
    length = next((n for n, index in enumerate(run) if index != n), len(run))
    if length < min(3, max(2, count)):
        return marked
    begin, end = lines[0].start(), lines[length - 1].end()
    return marked[:begin] + turned(marked[begin:end], "listed") + marked[end:]


def _mark_lists(count: int, marked: str) -> str:
    """The options in their order, line by line or side by side, are an echo of the question and no answer."""
    marked = _SIDE_BY_SIDE.sub(lambda found: _listed(found[0], list(re.finditer(REF, found[0])), count), marked)
    return _listed(marked, list(_LINE_HEAD.finditer(marked)), count)


def _listed(marked: str, found: list[re.Match[str]], count: int) -> str:
    """Turn each run of first, second, third … option into a list."""
    places = [match.end() - 1 for match in found]
    order = [index_of(marked[place]) for place in places]
    letters = list(marked)
    for start in (position for position, index in enumerate(order) if index == 0):
        length = 1
        while order[start + length : start + length + 1] == [length]:
            length += 1
        if length >= min(3, max(2, count)):
            for place in places[start : start + length]:
                letters[place] = mark("listed", index_of(letters[place]))
    return "".join(letters)
