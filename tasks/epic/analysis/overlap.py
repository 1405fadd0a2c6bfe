"""The numbers of Table 3: the overlap of a narrative's n-grams with its proverb's and with other narratives'.

Each text's set of n-grams is a row of a sparse 0/1 matrix, so that one matrix product gives all intersections.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.metrics.texts import ngrams
from figeval.records.findings import AnalysedNumber

from .. import epic_rows
from .corpus import AnalysedTexts
from .language import alphabetic
from .part import Analysis, Column

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

TOKENS = "sets of n-grams of NLTK's word_tokenize on the lower-cased text, tokens of letters only"
CLOSED_FORM = "mean over all pairs of a narrative and a proverb: the expectation of a random assignment, in closed form"
ONE_DRAW = "The paper's value comes from one random permutation; 95 % of permutations fall within the interval."
TABLE = (  # name, n, (Jaccard, common count) of the true pairs, the same for random pairs
    ("unigram", 1, ("0.0258", "1.27"), ("0.0211", "1.06")),
    ("bigram", 2, ("0.0010", "0.07"), ("0.0004", "0.03")),
    ("trigram", 3, ("0.0003", "0.02"), ("0.0000", "0.00")),
)


def analyse(corpus: AnalysedTexts) -> Analysis:
    """Return all numbers of Table 3, with the random columns in closed form, and Jaccard between narratives."""
    tokens = [alphabetic(text) for text in (*corpus.narratives.values(), *corpus.proverbs.values())]
    size = len(corpus.narratives)
    proverb_index = {key: index for index, key in enumerate(corpus.proverbs)}
    gold = [proverb_index[epic_rows.proverb_of(key)] for key in corpus.narratives]
    findings: list[AnalysedNumber] = []
    columns: dict[str, Column] = {}
    for name, n, true, random in TABLE:
        matrix = incidence([ngrams(text_tokens, n) for text_tokens in tokens])
        jaccard, common = similarities(matrix[:size], matrix[size:])
        gold_values = {"jaccard": jaccard[range(size), gold], "common": common[range(size), gold]}
        for (metric, values), printed in zip(gold_values.items(), true, strict=True):
            columns[f"{name}_{metric}"] = dict(zip(corpus.narratives, map(float, values), strict=True))
            cell = (f"{name}_{metric}", "true pairing")
            finding = _finding(f"{name} {metric}", values, printed, f"mean over narratives; {TOKENS}")
            findings.append(replace(finding, cell=cell))
        for metric, values, printed in zip(gold_values, (jaccard, common), random, strict=True):
            finding = random_finding(f"{name} {metric}, random", values, gold, printed)
            findings.append(replace(finding, cell=(f"{name}_{metric}", "random assignment")))
        if n == 1:
            findings += between_narratives(matrix[:size], gold)
    name = "Table 3: n-grams shared with the proverb"
    return Analysis(name=name, table="epic_overlap", findings=findings, narratives=columns)


def between_narratives(matrix: Any, gold: Sequence[int]) -> list[AnalysedNumber]:
    """Return the mean unigram Jaccard of two distinct narratives, of one proverb and of different proverbs."""
    import numpy as np

    jaccard, _ = similarities(matrix, matrix)
    labels = np.asarray(gold)
    same = labels[:, None] == labels
    within = same & ~np.eye(len(gold), dtype=bool)
    return [
        replace(
            _finding(f"unigram jaccard of narratives, {kind}", jaccard[chosen], printed, TOKENS),
            cell=("narrative_jaccard", row),
        )
        for kind, row, chosen, printed in (
            ("same proverb", "same proverb", within, "0.107"),
            ("different proverb", "different proverbs", ~same, "0.098"),
        )
    ]


def random_finding(name: str, values: Floats, gold: Sequence[int], published: str) -> AnalysedNumber:
    """Return a random column of the table: its expectation, and the interval that holds 95 % of permutations."""
    value, spread = permutation_moments(values, gold)
    interval = (max(0.0, value - 1.96 * spread), value + 1.96 * spread)
    definition = f"{CLOSED_FORM}; {TOKENS}"
    return AnalysedNumber(
        name=name, value=value, published=published, interval=interval, definition=definition, note=ONE_DRAW
    )


def permutation_moments(values: Floats, gold: Sequence[int]) -> tuple[float, float]:
    """Return the mean and standard deviation, over all permutations of `gold`, of the mean of values[i, gold[i]].

    The closed forms are those of Hoeffding (1951, section 3): Var = Σ d² / (n² (n − 1)) with d centred by rows and
    columns. `values` has shape (narratives, proverbs).
    """
    import numpy as np

    n = len(gold)
    sizes = np.bincount(gold, minlength=values.shape[1])  # narratives of each proverb
    rows_mean = values @ sizes / n
    mean = float(rows_mean.mean())
    centred = values - rows_mean[:, None] - values.mean(axis=0) + mean
    squares = float((np.square(centred) @ sizes).sum())
    return mean, (squares / (n * n * (n - 1))) ** 0.5 if n > 1 else 0.0


def _finding(name: str, values: Floats, published: str, definition: str, note: str = "") -> AnalysedNumber:
    value = float(values.mean()) if values.size else None
    return AnalysedNumber(name=name, value=value, published=published, definition=definition, note=note)


def incidence(documents: Iterable[Iterable[Any]]) -> Any:
    """Return a sparse 0/1 matrix of shape (documents, distinct items)."""
    import numpy as np
    from scipy.sparse import csr_array

    vocabulary: dict[Any, int] = {}
    columns: list[int] = []
    ends = [0]
    for document in documents:
        columns += [vocabulary.setdefault(item, len(vocabulary)) for item in set(document)]
        ends.append(len(columns))
    return csr_array((np.ones(len(columns)), columns, ends), shape=(len(ends) - 1, max(1, len(vocabulary))))


def similarities(left: Any, right: Any) -> tuple[Floats, Floats]:
    """Return the Jaccard index and intersection size of all pairs of rows, each of shape (left, right).

    The Jaccard index of two empty sets is 0.
    """
    import numpy as np

    common = np.asarray((left @ right.T).todense(), dtype=np.float64)
    union = left.sum(axis=1)[:, None] + right.sum(axis=1) - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0), common
