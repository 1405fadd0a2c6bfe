"""Items of moCpt, moPref, mo2st and preference as ids and spans, without texts.

Builds and the frozen items use the same functions.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from figeval.types import JSON

from ..pairs import Pair
from ..preference.options import ANTONYM, SYNONYM, draw_orders
from . import antonyms, negatives, outlines
from .versions import versions


@dataclass(frozen=True, slots=True)
class Choices:
    """The items of a choice task for one split, and counts for the report."""

    items: tuple[JSON, ...]
    notes: dict[str, int]


def mocpt(pairs: Sequence[Pair], topics: NDArray[np.intp], seed: int) -> Choices:
    """Return `{"id", "options", "gold", "topics"}` for each pair of a split; the stories are not read.

    `options` are the ids of the pairs whose morals are the options, and `topics` are the options' topics. The notes
    count the blocks of pairs by the rule that they satisfy.

    Raises:
        DataError: the split has too few different morals.
    """
    split_items = negatives.choose([pair.moral for pair in pairs], topics, f"{seed} mocpt {pairs[0].split}")
    rules = [negatives.RULES[rule] for rule in split_items.rules]
    items = tuple(
        {
            "id": pair.id,
            "options": [pairs[option].id for option in options],
            "gold": gold,
            "topics": [int(topics[option]) for option in options],
        }
        for pair, options, gold in zip(pairs, split_items.options, split_items.gold, strict=True)
    )
    return Choices(items, {rule: rules.count(rule) for rule in dict.fromkeys(rules)})


def mopref(pairs: Sequence[Pair], source: antonyms.Antonyms, seed: int) -> Choices:
    """Return `{"id", "place", "word", "gold"}` for each pair of a split whose moral has an antonym.

    The wrong option is the moral with `word` at `place`. The notes count the dropped pairs by reason.

    Raises:
        DataError: a package or WordNet is missing.
    """
    items: list[JSON] = []
    dropped: dict[str, int] = {}
    for pair in pairs:
        replacement = antonyms.draw_replacement(pair.moral, source, f"{seed} mopref {pair.id}")
        if isinstance(replacement, antonyms.Dropped):
            dropped[replacement.reason] = dropped.get(replacement.reason, 0) + 1
        else:
            items.append({"id": pair.id, "place": [replacement.start, replacement.end], "word": replacement.word})
    gold = [index % 2 for index in range(len(items))]
    random.Random(f"{seed} mopref {pairs[0].split}").shuffle(gold)
    return Choices(tuple({**item, "gold": right} for item, right in zip(items, gold, strict=True)), dropped)


def preference(pairs: Sequence[Pair], seed: int) -> Choices:
    """Return `{"id", "synonym", "antonym", "order"}` for each pair of a split whose moral has both versions.

    `synonym` and `antonym` are `{"place", "word"}`; `order` lists the kinds of the options, with all orders equally
    frequent. The notes count the dropped pairs by reason.

    Raises:
        DataError: a package or WordNet is missing.
    """
    items: list[JSON] = []
    dropped: dict[str, int] = {}
    for pair in pairs:
        replacements = versions(pair.moral, f"{seed} preference {pair.id}")
        if isinstance(replacements, antonyms.Dropped):
            dropped[replacements.reason] = dropped.get(replacements.reason, 0) + 1
            continue
        by_kind = {SYNONYM: replacements.synonym, ANTONYM: replacements.antonym}
        item = {
            kind: {"place": [replacement.start, replacement.end], "word": replacement.word}
            for kind, replacement in by_kind.items()
        }
        items.append({"id": pair.id, **item})
    orders = draw_orders(len(items), f"{seed} preference {pairs[0].split}")
    return Choices(tuple({**item, "order": list(order)} for item, order in zip(items, orders, strict=True)), dropped)


def mo2st(pair: Pair, language: str, seed: int, stop_words: Collection[str] | None = None) -> JSON:
    """Return `{"id", "beginning", "rest", "outline"}` of a pair.

    `beginning` is the end of the story's beginning, `rest` the start of its rest, and `outline` the spans of the
    phrases in the story, shuffled as in the published data.

    Raises:
        DataError: a package is missing.
    """
    end, start = outlines.beginning(pair.story, language)
    phrases = [list(span) for span in outlines.outline(pair.story, language, stop_words)]
    random.Random(f"{seed} outline {pair.id}").shuffle(phrases)
    return {"id": pair.id, "beginning": end, "rest": start, "outline": phrases}
