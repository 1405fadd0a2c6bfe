"""What a written text is worth beside a human one, and what it owes to its inputs. All on lower-cased texts.

Whatever was not answered (a refusal, nothing at all) counts in none of these; `parse_rate` tells how much that was.
BLEU (Papineni et al. 2002) is here twice: as the papers on figurative texts print it (`bleu4`), and as the field does
(`corpus_bleu`). Both are fractions, 0 to 1; papers and sacrebleu print hundredfold.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.metrics.statistic import Features, Statistic, collective
from figeval.metrics.ties import answered
from figeval.task_types.generation import GenerationExample
from figeval.types import Prediction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

ORDERS = 4  # of n-grams in BLEU

# ---- words -----------------------------------------------------------------------------------------------------------

# Letters and digits of any script; an apostrophe inside a word belongs to it ("don't", "o'clock").
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
PART = re.compile(r"[^\W_]+?(?=n't\b)|n't\b|'?[^\W_]+")  # of a contraction, as taggers have them: did + n't, he + 's

# Words of the closed classes, with contractions: articles, pronouns, prepositions, conjunctions, auxiliaries, "not".
CLOSED_CLASSES = """
a an the this that these those some any no every each all both either neither such what which who whom whose
i me my mine myself you your yours yourself he him his himself she her hers herself it its itself we us our ours
ourselves they them their theirs themselves one oneself there here
in on at by for with without of off to from into onto out up down over under about against between among through
during before after above below across along behind beyond near since till until upon within than as like per
and or but nor so yet if then because while when where why how whether though although unless lest
be am is are was were been being have has had having do does did doing done will would shall should can could may
might must ought not never don't doesn't didn't isn't aren't wasn't weren't haven't hasn't hadn't won't wouldn't
can't cannot couldn't shouldn't mustn't i'm you're he's she's it's we're they're i've you've we've they've i'll
you'll he'll she'll it'll we'll they'll i'd you'd he'd she'd we'd they'd that's there's what's who's let's too also
"""
FUNCTION_WORDS = frozenset(CLOSED_CLASSES.split())


def words(text: str) -> list[str]:
    """The lower-cased words of a text, in order, without punctuation; typographic apostrophes count as plain ones."""
    return WORD.findall(text.lower().replace("’", "'"))


def parts(text: str) -> list[str]:
    """The same with contractions taken apart, and other compounds too."""
    return PART.findall(text.lower().replace("’", "'"))


def ngrams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """All runs of n tokens."""
    return zip(*(tokens[start:] for start in range(n)), strict=False)


# ---- texts beside references and inputs ------------------------------------------------------------------------------


def written(prediction: Prediction) -> str | None:
    """The text, lower-cased; None where there is no answer."""
    return prediction.value.lower() if answered(prediction) and isinstance(prediction.value, str) else None


def rouge_l(example: GenerationExample, prediction: Prediction) -> float | None:
    """ROUGE-L, the F1 of the longest common subsequence (Lin 2004), by rouge_score without stemming; the best of
    several references.
    """
    text = written(prediction)
    if text is None:
        return None
    found = [_rouge_scorer().score(reference.lower(), text)["rougeL"] for reference in example.references]
    return max(float(one.fmeasure) for one in found)


@cache
def _rouge_scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=False)


def leakage(example: GenerationExample, prediction: Prediction) -> float | None:
    """Share of the different content words of the input texts (the proverb; lists are keywords and not counted) that
    stand in the text. Function words stand in every text and are left out. None where there are no others.
    """
    text = written(prediction)
    given = {word for value in example.inputs.values() if isinstance(value, str) for word in words(value)}
    content = given - FUNCTION_WORDS
    return None if text is None or not content else len(content & set(words(text))) / len(content)


def repetition_4(_example: GenerationExample, prediction: Prediction) -> float | None:
    """Share of the texts in which some four words in a row occur twice (Shao et al. 2019)."""
    text = written(prediction)
    if text is None:
        return None
    counts = Counter(ngrams(words(text), 4))
    return float(max(counts.values(), default=0) > 1)


def length(_example: GenerationExample, prediction: Prediction) -> float | None:
    """Mean number of words; neither more nor fewer is better."""
    text = written(prediction)
    return None if text is None else float(len(words(text)))


def cut_off(_example: GenerationExample, prediction: Prediction) -> float | None:
    """Share of the texts that ended because no further token was allowed."""
    return float(prediction.finish == "length") if answered(prediction) else None


def _distinct(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], _settings: Mapping[str, Any]
) -> Mapping[str, Sequence[Features]]:
    """Per row how many of its n-grams no row before it has, and how many it has; n is the end of the metric's name."""
    return {name: list(_new(rows, int(name.rpartition("_")[2]))) for name in names}


def _new(rows: Sequence[Mapping[str, Any]], n: int) -> Iterator[Features]:
    seen: set[tuple[str, ...]] = set()
    for row in rows:
        if row["status"] != "ok":
            yield None
            continue
        found = list(ngrams(words(row["pred"]), n))
        before = len(seen)
        seen.update(found)
        yield (float(len(seen) - before), float(len(found)))


_over_all_texts = partial(collective, _distinct, no_interval="depends on how many texts there are", pooled=True)
# Different n-grams of all texts together over all n-grams (Li et al. 2016). Falls with the number of texts: compare
# only what was computed on the same examples.
distinct_1 = _over_all_texts()
distinct_2 = _over_all_texts()


# ---- BLEU ------------------------------------------------------------------------------------------------------------


def bleu4(example: GenerationExample, prediction: Prediction) -> float | None:
    """BLEU-4 of a single text, unsmoothed, on lower-cased tokens between white space; scores are the mean over texts.

    As torchtext's `bleu_score`: the geometric mean of clipped precisions of one to four tokens, exactly 0 if one of
    them is, times exp(min(0, 1 - r/c)) (Ghosh and Srivastava 2022, their code). Most texts of a few sentences get 0.
    """
    text = written(prediction)
    if text is None:
        return None
    tokens, references = text.split(), [reference.lower().split() for reference in example.references]
    matches = []
    for n in range(1, ORDERS + 1):  # n-grams that occur in a reference, each at most as often as there
        allowed = reduce(Counter.__or__, (Counter(ngrams(reference, n)) for reference in references))
        matches.append((Counter(ngrams(tokens, n)) & allowed).total())
    if not all(matches):
        return 0.0
    precisions = [match / (len(tokens) - n) for n, match in enumerate(matches)]
    nearest = min(map(len, references), key=lambda length: abs(length - len(tokens)))
    return math.prod(precisions) ** (1 / ORDERS) * math.exp(min(0.0, 1 - nearest / len(tokens)))


@cache
def _sacrebleu() -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(lowercase=True)


def _counts(example: GenerationExample, prediction: Prediction) -> Sequence[float] | None:
    """Matches and n-grams of each order, then the lengths of text and reference, by sacrebleu."""
    text = written(prediction)
    if text is None:
        return None
    found = _sacrebleu().corpus_score([text], [[reference] for reference in example.references])
    return [*map(float, (*found.counts, *found.totals, found.sys_len, found.ref_len))]


def _bleu(sums: Floats) -> Floats:
    """BLEU of summed counts, shape (..., 10) → (...), with sacrebleu's "exp" smoothing: where an order has no match it
    counts 1/2, the next such order 1/4, and so on; 0 without any match.
    """
    import numpy as np

    matches, totals = sums[..., :ORDERS], sums[..., ORDERS : 2 * ORDERS]
    length, reference = sums[..., -2], sums[..., -1]
    halvings = np.cumsum((matches == 0) & (totals > 0), axis=-1)
    counted = np.where(matches == 0, 0.5**halvings, matches)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(totals > 0, counted / totals, 0.0)
        brevity = np.exp(np.minimum(0.0, 1 - reference / length))
        score = brevity * np.exp(np.log(precisions).mean(axis=-1))
    return np.asarray(np.where(matches.any(axis=-1) & (length > 0), score, 0.0))


def _signature() -> str:
    """Sacrebleu's own words for how it counts."""
    bleu = _sacrebleu()
    bleu.corpus_score([""], [[""]])  # it knows the number of references once it has seen some
    return str(bleu.get_signature())


# BLEU of all texts together, as sacrebleu computes it with its defaults on lower-cased texts (Post 2018).
corpus_bleu = Statistic(_counts, _bleu, signature=_signature)
