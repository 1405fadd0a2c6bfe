"""Which texts meet: battles between systems, chosen so that pairs, examples, orders and annotators are balanced.

Every pair of systems meets equally often, give or take one battle, on examples that are used equally often, and each
system of a pair comes first in half of its battles. If there are fewer battles than pairs, they still connect all
systems. Equal texts are a tie, which nobody needs to judge.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from figeval import OptionError
from figeval.io.text import pluralize
from figeval.wings.annotation.items import TEXT_A, TEXT_B
from figeval.wings.annotation.written_texts import WrittenText, WrittenTexts

TextsByExample = Mapping[str, Mapping[str, WrittenText]]  # example → author → text
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The number of battles, and their division among judges.

    Attributes:
        battles: number of battles, of all pairs together; by default, each pair meets on each example.
        annotators: number of annotators, each of whom judges a part.
        overlap: share of the battles that all annotators judge.
        both_orders: share of the battles that are also shown in the other order.
        seed: random seed.
    """

    battles: int | None = None
    annotators: int = 1
    overlap: float = 0.0
    both_orders: float = 0.0
    seed: int = 0


def pair_texts(written: WrittenTexts, design: Design) -> WrittenTexts:
    """Return the battles between the authors, each as a text whose last inputs are the two texts.

    Raises:
        OptionError: there is only one author, no two have a text for the same example, or the battles are too few to
            connect all authors.
    """
    if len(written.authors) < 2:
        raise OptionError("--battles: one system has no opponent; give several runs, or --references")
    if design.battles is not None and design.battles < len(written.authors) - 1:
        raise OptionError(
            f"--battles: {pluralize(design.battles, 'battle')} cannot connect {len(written.authors)} systems; give "
            f"{len(written.authors) - 1} or more, or `all`"
        )
    texts: dict[str, dict[str, WrittenText]] = defaultdict(dict)
    for text in written.texts:
        texts[text.example][text.author] = text
    chosen = list(_choose_battles(written.authors, texts, design))
    if not chosen:
        raise OptionError("--battles: no two systems have a text for the same example")
    identical = [pair for pair in chosen if _are_equal(*pair)]
    to_judge = list(_in_order([pair for pair in chosen if not _are_equal(*pair)], design.seed))
    if not to_judge:
        raise OptionError("--battles: all texts that meet are equal, so there is nothing to judge; give other runs")
    parts = _deal_out(to_judge, design)
    battles = [_as_battle(*pair, part) for pair, part in zip(to_judge, parts, strict=True)]
    repeated = _choose_share(to_judge, design.both_orders, f"{design.seed} both orders")
    battles += [_as_battle(*to_judge[index][::-1], parts[index]) for index in sorted(repeated)]
    return replace(
        written, texts=tuple(battles), identical=tuple(_as_battle(first, second, ()) for first, second in identical)
    )


# ---- who meets on what -----------------------------------------------------------------------------------------------


def _choose_battles(
    authors: Sequence[str], texts: TextsByExample, design: Design
) -> Iterator[tuple[WrittenText, WrittenText]]:
    """Yield the texts that meet, pair by pair."""
    generator = random.Random(f"{design.seed} battles")
    examples = generator.sample(list(texts), len(texts))
    pairs = _pairs_in_turn(generator.sample(list(authors), len(authors)))
    meets = np.array([[a in texts[example] and b in texts[example] for example in examples] for a, b in pairs])
    possible = int(meets.sum())
    count = possible if design.battles is None else min(design.battles, possible)
    if count == possible:
        chosen = meets
    else:
        chosen, uses = np.zeros_like(meets), np.zeros(len(examples))
        rows: list[int] = []
        while count:
            rows = rows or [row for row in range(len(pairs)) if (meets[row] & ~chosen[row]).any()][::-1]
            row = rows.pop()
            example = int(np.where(meets[row] & ~chosen[row], uses, np.inf).argmin())
            chosen[row, example] = True
            uses[example] += 1
            count -= 1
    for row, (a, b) in enumerate(pairs):
        yield from ((texts[examples[index]][a], texts[examples[index]][b]) for index in np.flatnonzero(chosen[row]))


def _pairs_in_turn(authors: Sequence[str]) -> list[Pair]:
    """Return all pairs: neighbours first, which form a chain of all authors, then those ever further apart in a ring.

    So the first pairs connect all authors, and every author is in about as many of them.
    """
    n = len(authors)
    pairs: dict[frozenset[str], Pair] = {}
    for distance in range(1, n // 2 + 1):
        for index in range(n):
            pair = authors[index], authors[(index + distance) % n]
            pairs.setdefault(frozenset(pair), pair)
    return list(pairs.values())


def _are_equal(first: WrittenText, second: WrittenText) -> bool:
    return first.text.split() == second.text.split()


# ---- in which order, and who judges it -------------------------------------------------------------------------------


def _in_order(pairs: Sequence[tuple[WrittenText, WrittenText]], seed: int) -> Iterator[tuple[WrittenText, WrittenText]]:
    """Yield the texts in the order in which they are shown: in half of a pair's battles, each comes first."""
    generator = random.Random(f"{seed} orders")
    by_pair: dict[Pair, list[tuple[WrittenText, WrittenText]]] = defaultdict(list)
    for a, b in pairs:
        by_pair[a.author, b.author].append((a, b))
    firsts = Counter[str]()
    for (name, opponent), battles in by_pair.items():
        generator.shuffle(battles)
        lead = firsts[name] - firsts[opponent]
        is_turned = generator.random() < 0.5 if not lead else lead > 0
        for index, battle in enumerate(battles):
            shown = battle[::-1] if is_turned is (index % 2 == 0) else battle
            firsts[shown[0].author] += 1
            yield shown


def _choose_share(battles: Sequence[tuple[WrittenText, WrittenText]], share: float, seed: str) -> set[int]:
    """Return the indexes of a share of the battles, about the same of each pair in each order."""
    generator = random.Random(seed)
    order = generator.sample(range(len(battles)), len(battles))
    order.sort(key=lambda index: tuple(text.author for text in battles[index]))
    start = generator.random()
    steps = [int(start + share * number + 1e-9) for number in range(len(battles) + 1)]
    return {index for number, index in enumerate(order) if steps[number + 1] > steps[number]}


def _deal_out(battles: Sequence[tuple[WrittenText, WrittenText]], design: Design) -> list[tuple[int, ...]]:
    """Return the annotators who judge each battle, numbered from 0: all of them, or one.

    A battle goes to who has fewest of its pair, then of its pair in this order, then of all, then of this first system.
    """
    everybody = tuple(range(design.annotators))
    common = _choose_share(battles, design.overlap, f"{design.seed} overlap")
    of_pair, in_order, first = (defaultdict[object, Counter[int]](Counter) for _ in range(3))
    total = Counter[int]()
    generator = random.Random(f"{design.seed} parts")
    parts: list[tuple[int, ...]] = []
    for index, (a, b) in enumerate(battles):
        if index in common:
            parts.append(everybody)
            continue
        pair, shown = frozenset((a.author, b.author)), (a.author, b.author)
        ranks = {
            person: (of_pair[pair][person], in_order[shown][person], total[person], first[a.author][person])
            for person in generator.sample(everybody, len(everybody))
        }
        person = min(ranks, key=ranks.__getitem__)
        for counter in (of_pair[pair], in_order[shown], total, first[a.author]):
            counter[person] += 1
        parts.append((person,))
    return parts


def _as_battle(first: WrittenText, second: WrittenText, part: tuple[int, ...]) -> WrittenText:
    inputs = {
        f"input {name}" if name.upper() in (TEXT_A, TEXT_B) else name: text for name, text in first.inputs.items()
    }
    shown = {**inputs, TEXT_A: first.text, TEXT_B: second.text}
    return replace(first, opponent=second.author, inputs=shown, text="", parts=part)
