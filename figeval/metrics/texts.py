"""Metrics that compare a generated text with human references and with its inputs, all on lower-cased texts.

Examples without an answer (a refusal, an empty reply) are left out; `parse_rate` reports their share. There are two
forms of BLEU (Papineni et al. 2002): the one in the papers on figurative texts (`bleu4`), and the one that is standard
in the field (`corpus_bleu`). Both are fractions between 0 and 1; papers and sacrebleu report them times 100.
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

# Letters and digits of any script, with apostrophes inside a word ("don't", "o'clock").
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
PART = re.compile(r"[^\W_]+?(?=n't\b)|n't\b|'?[^\W_]+")  # parts of contractions, as in taggers: did + n't, he + 's

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
    """Return the lower-cased words of a text, in order, without punctuation; typographic apostrophes become plain."""
    return WORD.findall(text.lower().replace("’", "'"))


def parts(text: str) -> list[str]:
    """Return the same as `words`, but with contractions and other compounds split."""
    return PART.findall(text.lower().replace("’", "'"))


def ngrams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """Return an iterator over all runs of n tokens."""
    return zip(*(tokens[start:] for start in range(n)), strict=False)


# ---- comparison with references and inputs ---------------------------------------------------------------------------


def written(prediction: Prediction) -> str | None:
    """Return the lower-cased text, or None if there is no answer."""
    return prediction.value.lower() if answered(prediction) and isinstance(prediction.value, str) else None


def rouge_l(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return ROUGE-L, the F1 of the longest common subsequence (Lin 2004), for the best of the references.

    It is computed by rouge_score without stemming.
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
    """Return the share of the input's different content words that occur in the text.

    The input is its texts (the proverb); lists are keywords and are not counted. Function words, which occur in every
    text, are left out. The result is None if there are no content words.
    """
    text = written(prediction)
    given = {word for value in example.inputs.values() if isinstance(value, str) for word in words(value)}
    content = given - FUNCTION_WORDS
    return None if text is None or not content else len(content & set(words(text))) / len(content)


def repetition_4(_example: GenerationExample, prediction: Prediction) -> float | None:
    """Return 1 if some run of four words occurs twice in the text, else 0 (Shao et al. 2019)."""
    text = written(prediction)
    if text is None:
        return None
    counts = Counter(ngrams(words(text), 4))
    return float(max(counts.values(), default=0) > 1)


def length(_example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the number of words; neither more nor fewer is better."""
    text = written(prediction)
    return None if text is None else float(len(words(text)))


def cut_off(_example: GenerationExample, prediction: Prediction) -> float | None:
    """Return 1 if the text ended because no further token was allowed, else 0."""
    return float(prediction.finish == "length") if answered(prediction) else None


def _distinct(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], _settings: Mapping[str, Any]
) -> Mapping[str, Sequence[Features]]:
    """Return for each row the numbers of its new n-grams and of all its n-grams; the metric's name ends in n.

    An n-gram is new if no earlier row has it.
    """
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


_over_all_texts = partial(collective, _distinct, no_interval="depends on the number of texts", pooled=True)
# Different n-grams of all texts together over all n-grams (Li et al. 2016). The score falls with the number of texts,
# so only scores on the same examples are comparable.
distinct_1 = _over_all_texts()
distinct_2 = _over_all_texts()


# ---- BLEU ------------------------------------------------------------------------------------------------------------


def bleu4(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the unsmoothed BLEU-4 of a single text, on lower-cased tokens between white space.

    The score is the mean over texts. As in torchtext's `bleu_score`, it is the geometric mean of the clipped precisions
    of one to four tokens, exactly 0 if one of them is 0, times exp(min(0, 1 - r/c)) (code of Ghosh and Srivastava
    2022). Most texts of a few sentences get 0.
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
    """Return sacrebleu's matches and n-gram totals of each order, followed by the lengths of text and reference."""
    text = written(prediction)
    if text is None:
        return None
    found = _sacrebleu().corpus_score([text], [[reference] for reference in example.references])
    return [*map(float, (*found.counts, *found.totals, found.sys_len, found.ref_len))]


def _bleu(sums: Floats) -> Floats:
    """Return BLEU from summed counts, shape (..., 10) → (...), with sacrebleu's "exp" smoothing.

    The first order without a match counts as 1/2 match, the next such order as 1/4, and so on; BLEU is 0 without any
    match.
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
    """Return sacrebleu's signature, its own description of its settings."""
    bleu = _sacrebleu()
    bleu.corpus_score([""], [[""]])  # the signature needs the number of references of a call
    return str(bleu.get_signature())


# BLEU of all texts together, as sacrebleu computes it with its defaults on lower-cased texts (Post 2018).
corpus_bleu = Statistic(_counts, _bleu, signature=_signature)
