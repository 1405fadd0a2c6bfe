"""Reader of G-IdiomAlign: `g_idiomalign:<direction>`, e.g. `de_en`, and `g_idiomalign:all` for all directions in turn.

The French idioms of the files were decoded wrongly (`tÃªte` for `tête`). They are repaired, unless the path begins with
`published/`. Rows say which ones these are (`repaired`), and whether an option is shown twice (`repeated`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.row_files import read_rows
from figeval.errors import DataError
from figeval.io.text import near
from figeval.language.questions import core_of

from .repeated_options import copies_of

LANGUAGES = {
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "ja": "Japanese",
    "pl": "Polish",
    "pt": "Portuguese",
    "zh": "Chinese",
}
FOLDERS = {"en": "En-target", "zh": "Zh-target", "pl": "Other targets", "fi": "Other targets"}  # by target language
DIRECTIONS = (
    *("de_en", "es_en", "fi_en", "fr_en", "ja_en", "pl_en", "pt_en", "zh_en"),
    *("de_zh", "ja_zh", "ja_pl", "fr_fi"),
)
LETTERS = ("A", "B", "C", "D")
# Numbers of the options before they were shuffled. The authors list the three traps in this order; README.md says how
# far the items agree with it.
KINDS = {1: "equivalent", 2: "literal translation", 3: "lexical cue", 4: "contextual association"}
PUBLISHED = "published/"


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of a direction, or of all in turn. Raises `DataError` if there is no such direction."""
    name, as_published = path.removeprefix(PUBLISHED), path.startswith(PUBLISHED)
    if name not in (*DIRECTIONS, "all"):
        names = ["all", *DIRECTIONS]
        raise DataError(f"g_idiomalign has no direction {name!r:.40}{near(name, names)}; it has {', '.join(names)}")
    tables = [
        list(direction_rows(direction, context, as_published=as_published))
        for direction in (DIRECTIONS if name == "all" else (name,))
    ]
    rows = [row for turn in zip_longest(*tables) for row in turn if row is not None]  # --limit keeps all directions
    yield from with_clusters(rows)


def direction_rows(direction: str, context: DataContext, *, as_published: bool) -> Iterator[Row]:
    """Yield the rows of one direction, in file order."""
    source, target = direction.split("_")
    names = (LANGUAGES[source], LANGUAGES[target])
    folder = f"Multiple-Choice_Idiom_Equivalence/{FOLDERS[target]}"
    file = context.fetch("g_idiomalign", f"{folder}/mcq_data_mcq_data_{'_'.join(names)}.json")
    for number, item in enumerate(read_rows(file, "json")):
        location = f"g_idiomalign: {file}, row {number}"
        for field, name in zip(("source_language", "target_language"), names, strict=True):
            if text_of(item, field, location) != name:
                raise DataError(f"{location}, field {field!r}: {item[field]!r:.40} is not {name}")
        idiom = text_of(item, "source_idiom", location)
        shown = idiom if as_published else decoded_again(idiom)
        yield {
            "id": f"{direction}-{number}",
            "idiom": shown,
            **options_of(item, location),
            "repaired": "yes" if shown != idiom else "no",
            "language": target,
            "source_language": names[0],
            "target_language": names[1],
            "direction": direction,
        }


# ---- one question ----------------------------------------------------------------------------------------------------


def options_of(item: Row, location: str) -> Row:
    """Return the options with their kinds, the index of the right one, and whether one of them is `repeated`.

    A copy of the right option is an equivalent, whatever its number is.

    Raises:
        DataError: the letters, numbers or texts are not those of four options, one of which is right.
    """
    texts, numbers = item.get("options_detail"), item.get("original_positions")
    if not isinstance(texts, dict) or tuple(texts) != LETTERS:
        raise DataError(f"{location}, field 'options_detail': expected the options A, B, C and D, found {texts!r:.80}")
    if not isinstance(numbers, list) or sorted(map(repr, numbers)) != sorted(map(repr, KINDS)):
        raise DataError(f"{location}, field 'original_positions': expected the numbers 1 to 4, found {numbers!r:.80}")
    options = tuple(text_of(texts, letter, f"{location}, field 'options_detail'") for letter in LETTERS)
    letter, idiom = text_of(item, "correct_option", location), text_of(item, "target_idiom", location)
    if letter not in LETTERS:
        raise DataError(f"{location}, field 'correct_option': {letter!r:.40} is not one of {', '.join(LETTERS)}")
    gold = LETTERS.index(letter)
    right = copies_of(options, gold)
    if options[gold] != idiom or numbers.index(1) not in right:
        raise DataError(
            f"{location}: correct_option, target_idiom and original_positions name different options as the right one"
        )
    kinds = [KINDS[1] if index in right else KINDS[number] for index, number in enumerate(numbers)]
    return {"options": options, "gold": gold, "kinds": kinds, "repeated": repeated(options, gold)}


def repeated(options: Sequence[str], gold: int) -> str:
    """Return which option is shown twice: the right one, in the same or in another spelling, a wrong one, or none."""
    right = copies_of(options, gold)
    if len(right) > 1:
        return "right" if options.count(options[gold]) > 1 else "right, spelt differently"
    return "wrong" if len({core_of(option) for option in options}) < len(options) else "none"


def text_of(item: Any, field: str, location: str) -> str:
    """Return a text without blanks around it. Raises `DataError` if the field is missing, no text or blank."""
    text = item.get(field)
    if not isinstance(text, str) or not text.strip(" "):
        raise DataError(f"{location}, field {field!r}: expected a text, found {text!r:.40}")
    return text.strip(" ")  # only these: a no-break space may be half of a character that was decoded wrongly


def decoded_again(text: str) -> str:
    """Return a text that was encoded as UTF-8 and decoded as Latin-1 as it was before; any other text as it is."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def with_clusters(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows with a `cluster`: the first of the rows with which they share idioms, directly or by others.

    Idioms are source idioms and right options, each in its language.
    """
    from scipy.cluster.hierarchy import DisjointSet

    connected = DisjointSet(range(len(rows)))
    firsts: dict[tuple[str, str], int] = {}
    for index, row in enumerate(rows):
        source = (row["source_language"], core_of(row["idiom"]))
        target = (row["target_language"], core_of(row["options"][row["gold"]]))
        for idiom in (source, target):
            connected.merge(index, firsts.setdefault(idiom, index))
    clusters = {index: rows[min(members)]["id"] for members in connected.subsets() for index in members}
    return ({**row, "cluster": clusters[index]} for index, row in enumerate(rows))
