"""Parse the number that a reply commits to.

A reply may repeat the scale ("from 1 to 4", "1 = unrelated, 4 = the same", "out of 4") or contain a numbered list. Both
are removed first, because neither is an answer. In the remaining text, the last claim counts ("my rating is 3"), else a
number at the beginning, else the only number. Joined numbers ("2 or 3", "2-3") are no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from figeval.answers.patterns import LETTERS
from figeval.answers.reply_text import REFUSAL, answering_part, not_written, one_turn, plain
from figeval.types import Reply, Status

Stretch: TypeAlias = tuple[int, int]

GAP = 60  # most characters between two points of a repeated scale
NUMBER = rf"(?<![{LETTERS}\d.])(?<!\d,)[-+−]?\d{{1,9}}(?:[.,]\d{{1,9}})?(?![{LETTERS}\d]|[.,]\d)"
JOINT = (
    r"(?:,?\s*(?:or|and|to|maybe|perhaps|possibly)\s+(?:maybe\s+|perhaps\s+)?(?:an?\s+)?|"
    r"\s*[/–-]\s*|\s+(?:out\s+)?of\s+)"
)
JOINED = rf"(?P<numbers>{NUMBER}(?:{JOINT}{NUMBER}){{0,4}})"
CLAIM = re.compile(
    rf"\b(?:(?:rating|score|grade|answer|judge?ment)\b(?:\s+(?:is|of|would\s+be))?|"
    rf"(?:rate|grade|score|give|choose)\s+(?:it|this|that|them|the\s+\w+)?(?:\s+as)?)\W{{0,5}}?(?:an?\s+)?{JOINED}",
    re.IGNORECASE,
)
FIRST_NUMBER = re.compile(rf"\W*?{JOINED}", re.IGNORECASE)
OUT_OF = re.compile(r"\s*(?:/|out\s+of|of|on\s+a\s+scale\s+of)\s*", re.IGNORECASE)
UP_TO = re.compile(r"\s*(?:\([^()]*\)\s*)?(?:to|and|through|-|–|—|\.\.\.?)\s*", re.IGNORECASE)
MEANS = re.compile(r"\s*(?:=|:|is|means|being)\s*[^\W\d]", re.IGNORECASE)
LISTED = re.compile(r"^\s*(\d{1,2})[.)](?=\s)", re.MULTILINE)


def extract_number(reply: Reply, points: Sequence[float]) -> tuple[Status, float | None]:
    """Return the status of a reply, and the point of the scale that it commits to if that is `ok`.

    A number that is no point of the scale is `absent`, several without a claim are `ambiguous`. So is "3 out of 5" on a
    scale to 4, because the parser does not convert scales.
    """
    answer = one_turn(answering_part(reply.text))
    text = plain(answer)
    text = _remove(text, _find_scales(text, points))
    text = _remove(text, _find_list_numbers(text))
    if (silent := not_written(reply, answer)) is not None:
        return silent[0], None
    values = _find_committed_values(text, reply.finish == "length")
    value = next((point for point in points if values == {point}), None)
    status: Status = "ok" if value is not None else "absent" if len(values) == 1 else "ambiguous"
    if not values:
        status = "refusal" if REFUSAL.search(text) else "truncated" if reply.finish == "length" else "unparseable"
    return status, value


def _find_committed_values(text: str, is_cut: bool) -> set[float]:
    """Return the numbers that a text may mean; a mention in a truncated text is no commitment."""
    claims = [match["numbers"] for match in CLAIM.finditer(text)]
    begun = FIRST_NUMBER.match(text)
    meant = claims[-1] if claims else begun["numbers"] if begun else "" if is_cut else text
    return {_parse(match[0]) for match in re.finditer(NUMBER, meant)}


def _parse(number: str) -> float:
    return float(number.replace(",", ".").replace("−", "-"))


# ---- what is no answer -----------------------------------------------------------------------------------------------


def _remove(text: str, stretches: Iterable[Stretch]) -> str:
    """Return the text with each of these stretches, which do not overlap, replaced by a blank."""
    pieces, position = [], 0
    for start, end in stretches:
        pieces += [text[position:start], " "]
        position = end
    return "".join([*pieces, text[position:]])


def _find_list_numbers(text: str) -> list[Stretch]:
    """Return the places of a list's numbers: 1, 2 and so on at the beginnings of lines."""
    matches = list(LISTED.finditer(text))
    is_counted = [int(match[1]) for match in matches] == list(range(1, len(matches) + 1))
    return [match.span() for match in matches] if is_counted and len(matches) > 1 else []


def _find_scales(text: str, points: Sequence[float]) -> Iterator[Stretch]:
    """Yield the places where the scale is repeated: all its points, its ends, or the highest one after "out of"."""
    numbers = [(_parse(match[0]), *match.span()) for match in re.finditer(NUMBER, text)]
    size, position = len(points), 0
    while position < len(numbers) - 1:
        run = numbers[position : position + size]
        (low, start, end), (high, high_number, stop) = numbers[position : position + 2]
        near = all(later[1] - earlier[2] <= GAP for earlier, later in pairwise(run))
        if size > 2 and near and [value for value, _, _ in run] == list(points):
            yield start, run[-1][2]
            position += size
        elif (low, high) == (points[0], points[-1]) and _is_range(text, (start, end), (high_number, stop)):
            yield start, stop
            position += 2
        elif high == points[-1] and OUT_OF.fullmatch(text, end, high_number):
            yield end, stop
            position += 2
        else:
            position += 1


def _is_range(text: str, low: Stretch, high: Stretch) -> bool:
    """Return whether two numbers are the ends of a scale: "1 (none) to 4", or "1 = none, 4 = all"."""
    if high[0] - low[1] > GAP:
        return False
    explained = MEANS.match(text, low[1]) and MEANS.match(text, high[1])
    return bool(explained or UP_TO.fullmatch(text, low[1], high[0]))
