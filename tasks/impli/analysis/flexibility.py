"""Flexibility of idioms, and its rank correlation with a model's accuracy on them.

An idiom's flexibility is the share of its occurrences that are not in its dictionary form (Stowe et al. 2022, section
6, after Barkema's (1996) and others' notions of fixedness). Occurrences are premises; a premise shared by several pairs
counts once. Case does not matter, and a slot ("someone's", "one's") may hold any words. Flexibility is a property of
the idiom, so it is counted in all released rows, regardless of the rows of a run.

The paper prints r = .004, .188 and .45 with p = .921, .016 and .399 for its three columns. The last r must be .045: for
r = .45 that p would need six idioms, and .045 fits it with about 350.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from figeval.data import Row

from ..idioms import SLOT
from .answers import PairAnswer

PUBLISHED = {  # column → r and p as printed
    "impli_idioms_silver_ent": (".004", ".921"),
    "impli_idioms_silver_lit": (".188", ".016"),
    "impli_idioms_silver_adv": (".45", ".399"),
}
MISPRINT = "the printed r = .45 must be .045: only then does p = .399 fit, with about 350 idioms"
MIN_IDIOMS = 10  # idioms: with as many, intervals of normal samples cover the true value in 94 to 97 of 100 cases
MIN_PERFECT_R = 1 - 1e-9  # a correlation beyond it is ±1, up to rounding
PERFECT = "flexibility and accuracy rank the idioms identically or in reverse order"
NORMAL_QUANTILE = 1.959963984540054  # the 97.5 % quantile of the normal distribution
SLOT_WORDS = 5


@dataclass(frozen=True, slots=True)
class IdiomCount:
    """Number of an idiom's premises (`occurrences`), and how many are not in its dictionary form (`varied`)."""

    idiom: str
    occurrences: int
    varied: int

    @property
    def flexibility(self) -> float:
        """Share of occurrences that are not in the dictionary form."""
        return self.varied / self.occurrences


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """Spearman's rank correlation of flexibility and accuracy over the idioms of a column.

    The interval is Fisher's z with the standard error of Bonett and Wright (2000), √((1 + r²/2) / (n − 3)); p is by
    Student's t. All are None if there are fewer than ten idioms, or if flexibility or accuracy is the same for all. If
    r is 1 or −1, p and the interval are None: p would be 0, however few ranks there are, and the interval would have no
    width. `why` gives the reason.
    """

    column: str
    n: int
    r: float | None = None
    p: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""


def flexibilities(rows: Iterable[Row]) -> dict[str, IdiomCount]:
    """Return the count of every idiom in rows of IMPLI, by name; rows without a known idiom are ignored."""
    forms: dict[str, dict[tuple[str, str], bool]] = defaultdict(dict)
    for row in rows:
        if (idiom := row["idiom"]) is not None:
            surface = row["surface"]
            forms[idiom][row["premise_key"], surface.casefold()] = not in_dictionary_form(idiom, surface)
    return {
        idiom: IdiomCount(idiom, len(occurrences), sum(occurrences.values()))
        for idiom, occurrences in sorted(forms.items())
    }


def in_dictionary_form(idiom: str, surface: str) -> bool:
    """Return whether a surface form is the dictionary form, ignoring case, white space and the words in its slots."""
    return _pattern(idiom).fullmatch(" ".join(surface.split())) is not None


@cache
def _pattern(idiom: str) -> re.Pattern[str]:
    parts = [re.escape(part) for part in SLOT.split(idiom)]
    return re.compile(rf"\S+(?: \S+){{0,{SLOT_WORDS - 1}}}".join(parts), re.IGNORECASE)


def accuracies(answers: Iterable[PairAnswer]) -> dict[str, dict[str, float]]:
    """Return the mean of `right` over the answered pairs, by task and idiom."""
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for answer in answers:
        if answer.idiom is not None and answer.right is not None:
            scores[answer.task][answer.idiom].append(answer.right)
    return {
        task: {name: math.fsum(rights) / len(rights) for name, rights in sorted(by_idiom.items())}
        for task, by_idiom in scores.items()
    }


def correlate(column: str, counts: Mapping[str, IdiomCount], accuracy: Mapping[str, float]) -> RankCorrelation:
    """Return the rank correlation over the idioms that have both a flexibility and an accuracy."""
    names = [name for name in accuracy if name in counts]
    pairs = [(counts[name].flexibility, accuracy[name]) for name in names]
    if len(pairs) < MIN_IDIOMS:
        return RankCorrelation(column, len(pairs), why=f"fewer than {MIN_IDIOMS} idioms")
    for index, name in enumerate(("flexibility", "accuracy")):
        if len({pair[index] for pair in pairs}) == 1:
            return RankCorrelation(column, len(pairs), why=f"all idioms have the same {name}")
    return spearman(column, *zip(*pairs, strict=True))


def spearman(column: str, left: Sequence[float], right: Sequence[float]) -> RankCorrelation:
    """Return the rank correlation of two sequences, neither of which is constant."""
    from scipy.stats import spearmanr

    test = spearmanr(left, right)
    r, p = float(test.statistic), float(test.pvalue)
    if abs(r) > MIN_PERFECT_R:
        return RankCorrelation(column, len(left), r=math.copysign(1, r), why=PERFECT)
    centre, error = math.atanh(r), math.sqrt((1 + r * r / 2) / (len(left) - 3))
    low, high = math.tanh(centre - NORMAL_QUANTILE * error), math.tanh(centre + NORMAL_QUANTILE * error)
    return RankCorrelation(column, len(left), r, p, low, high)
