"""Metrics that compare a generated text with human references and with its inputs, whatever its capitals except `chrf`.

Examples without an answer (a refusal, an empty reply) are left out; `parse_rate` reports their share. Words are those
of `figeval.language.words`. There are two forms of BLEU (Papineni et al. 2002): the one in the papers on figurative
texts (`bleu4`), and the one that is standard in the field (`corpus_bleu`). Both and chrF are fractions between 0 and 1;
papers and sacrebleu report them times 100.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Any, TypeAlias
from unicodedata import normalize

import regex

from figeval.errors import TaskError
from figeval.language.words import comparable, is_mostly_unspaced, primary, split_tokens, split_words
from figeval.metrics.statistic import Features, Statistic, collective, mean_of
from figeval.metrics.ties import answered
from figeval.task_types.generation import GenerationExample
from figeval.types import Example, Prediction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

ORDERS = 4  # of n-grams in BLEU
CHRF_BETA = 2  # weight of recall in chrF
ENGLISH = ("", "en")  # an example without a language is in English
SINITIC = ("zh", "cmn", "yue", "wuu", "lzh", "nan", "hak", "gan", "hsn", "cdo", "cjy", "cpx", "czh", "czo", "mnp")
TOKENIZERS = {  # of sacrebleu, by language; for all others, see `_sacrebleu`
    **dict.fromkeys(SINITIC, "zh"),
    "ja": "ja-mecab",
    "ko": "ko-mecab",
    **dict.fromkeys(("th", "lo", "km", "my", "shn", "mnw", "bo", "dz", "ii"), "char"),
}
NOT_LATIN = regex.compile(r"[[\p{L}\p{N}]--\p{sc=Latin}--\p{sc=Common}--\p{sc=Inherited}]", regex.V1)

# ---- words -----------------------------------------------------------------------------------------------------------

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


def words(text: str, example: Example | None = None) -> list[str]:
    """Return the words of a text in order, divided and folded as the language of its example demands."""
    return split_words(text) if example is None else split_words(text, example.language, example.segmenter)


def parts(text: str) -> list[str]:
    """Return the lower-cased words of an English text, with contractions and other compounds split."""
    return PART.findall(text.lower().replace("’", "'"))


def ngrams(tokens: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """Return an iterator over all runs of n tokens."""
    return zip(*(tokens[start:] for start in range(n)), strict=False)


# ---- comparison with references and inputs ---------------------------------------------------------------------------


def answer_text(prediction: Prediction) -> str | None:
    """Return the text as it was written, or None if there is no answer."""
    return prediction.value if answered(prediction) and isinstance(prediction.value, str) else None


def lowercased_answer(prediction: Prediction) -> str | None:
    """Return the lower-cased text, or None if there is no answer."""
    text = answer_text(prediction)
    return None if text is None else text.lower()


def _is_english(example: Example, *references: str) -> bool:
    """Return whether references are of English, whose published protocols know no other script than Latin.

    A word of another script within an English text does not make it one of another language.
    """
    return primary(example.language) in ENGLISH and not any(map(_is_mostly_not_latin, references))


def _is_mostly_not_latin(text: str) -> bool:
    if not NOT_LATIN.search(text):
        return False
    tokens = split_words(text)
    return 2 * sum(NOT_LATIN.search(word) is not None for word in tokens) > len(tokens)


def _comparable(example: GenerationExample, text: str) -> tuple[str, ...]:
    """Return a text and its references as BLEU compares them: lower-cased in English, else as `words` does."""
    texts = (text, *example.references)
    if _is_english(example, *example.references):
        return tuple(map(str.lower, texts))
    return tuple(comparable(version, example.language) for version in texts)


def rouge_l(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return ROUGE-L, the F1 of the longest common subsequence (Lin 2004), for the best of the references.

    It is computed by rouge_score without stemming: for English references with its own tokenizer, which knows the
    letters a to z only, and for those in other languages or scripts with figeval's words.
    """
    text = answer_text(prediction)
    if text is None:
        return None
    return max(similarity(example, reference, text) for reference in example.references)


def similarity(example: GenerationExample, reference: str, text: str) -> float:
    """Return ROUGE-L of a text and another one, as `rouge_l` computes it."""
    return float(_rouge_scorer(_rouge_tokenizer(example, reference)).score(reference, text)["rougeL"].fmeasure)


def _rouge_tokenizer(example: GenerationExample, reference: str) -> _WordTokenizer | None:
    return None if _is_english(example, reference) else _WordTokenizer(example.language, example.segmenter)


@dataclass(frozen=True, slots=True)
class _WordTokenizer:
    """The words of a language, as rouge_score asks for them."""

    language: str
    segmenter: str

    def tokenize(self, text: str) -> list[str]:
        return split_words(text, self.language, self.segmenter)


@cache
def _rouge_scorer(tokenizer: _WordTokenizer | None) -> Any:
    """Return rouge_score's scorer; without a tokenizer, it has its own."""
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=False, tokenizer=tokenizer)


def leakage(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the share of the input's different content words that occur in an English text.

    The input is its texts (the proverb); lists are keywords and are not counted. Function words, which occur in every
    text, are left out. The result is None if there are no content words, and in languages other than English, whose
    function words are not known: counted with them, the share would say little about what was given away.
    """
    text = answer_text(prediction)
    if text is None or primary(example.language) not in ENGLISH:
        return None
    input_words = {word for value in example.inputs.values() if isinstance(value, str) for word in words(value)}
    content = input_words - FUNCTION_WORDS
    return None if not content else len(content & set(words(text))) / len(content)


def repetition_4(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return 1 if some run of four words occurs twice in the text, else 0 (Shao et al. 2019)."""
    text = answer_text(prediction)
    if text is None:
        return None
    counts = Counter(ngrams(words(text, example), 4))
    return float(max(counts.values(), default=0) > 1)


def word_count(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the number of words of the text."""
    text = answer_text(prediction)
    return None if text is None else float(len(words(text, example)))


length = mean_of(word_count, bounds=(0.0, math.inf))  # neither more nor fewer words are better


def cut_off(_example: GenerationExample, prediction: Prediction) -> float | None:
    """Return 1 if the text ended because no further token was allowed, else 0."""
    return float(prediction.finish == "length") if answered(prediction) else None


def _distinct(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], settings: Mapping[str, Any]
) -> Mapping[str, Sequence[Features]]:
    """Return for each row the numbers of its new n-grams and of all its n-grams; the metric's name ends in n.

    An n-gram is new if no earlier row has it.
    """
    return {name: list(_new(rows, int(name.rpartition("_")[2]), settings)) for name in names}


def _new(rows: Sequence[Mapping[str, Any]], n: int, settings: Mapping[str, Any]) -> Iterator[Features]:
    segmenters, seen = settings.get("segmenter", {}), set[tuple[str, ...]]()
    for row in rows:
        if row["status"] != "ok":
            yield None
            continue
        language = row.get("language") or settings.get("language", "")
        row_ngrams = list(ngrams(split_words(row["pred"], language, segmenters.get(language, "")), n))
        before = len(seen)
        seen.update(row_ngrams)
        yield (float(len(seen) - before), float(len(row_ngrams)))


_over_all_texts = partial(collective, _distinct, no_interval="depends on the number of texts", pooled=True)
# Different n-grams of all texts together over all n-grams (Li et al. 2016). The score falls with the number of texts,
# so only scores on the same examples are comparable.
distinct_1 = _over_all_texts()
distinct_2 = _over_all_texts()


# ---- BLEU ------------------------------------------------------------------------------------------------------------


def bleu4(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the unsmoothed BLEU-4 of a single text, on tokens between white space, whatever their case.

    Scripts without blanks are divided into the words of the task. The score is the mean over texts. As in torchtext's
    `bleu_score`, it is the geometric mean of the clipped precisions of one to four tokens, exactly 0 if one of them is
    0, times exp(min(0, 1 - r/c)) (code of Ghosh and Srivastava 2022). Most texts of a few sentences get 0.
    """
    text = answer_text(prediction)
    if text is None:
        return None
    tokens, *references = (split_tokens(version, example.segmenter) for version in _comparable(example, text))
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
def _sacrebleu(language: str, *, unspaced: bool = False) -> Any:
    """Return sacrebleu's BLEU with its tokenizer for a language.

    In languages that are not in `TOKENIZERS`, it is 13a, which divides at blanks and ASCII punctuation, or, for texts
    in scripts without blanks, char.

    Raises:
        TaskError: the tokenizer needs a missing library.
    """
    from sacrebleu.metrics.bleu import BLEU

    code = primary(language)
    tokenizer = TOKENIZERS.get(code, "char" if unspaced else "13a")
    try:
        return BLEU(lowercase=True, tokenize=tokenizer)
    except (ImportError, RuntimeError) as error:
        raise TaskError(
            f"corpus_bleu of texts in {language} needs the tokenizer {tokenizer} of sacrebleu, whose library is "
            f"missing: pip install 'figeval[{code}]'"
        ) from error


def _counts(example: GenerationExample, prediction: Prediction) -> Sequence[float] | None:
    """Return sacrebleu's matches and n-gram totals of each order, followed by the lengths of text and reference."""
    text = answer_text(prediction)
    if text is None:
        return None
    bleu = _sacrebleu(example.language, unspaced=any(map(is_mostly_unspaced, example.references)))
    text, *references = _comparable(example, text)
    score = bleu.corpus_score([text], [[reference] for reference in references])
    return [*map(float, (*score.counts, *score.totals, score.sys_len, score.ref_len))]


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


def _signature(languages: Sequence[str] = ("en",)) -> str:
    """Return sacrebleu's signature, its own description of its settings, for each tokenizer of these languages."""
    return _signatures({language: _sacrebleu(language) for language in languages})


def _signatures(metrics: Mapping[str, Any]) -> str:
    """Return the different signatures of sacrebleu's metrics by language; a single one stands alone."""
    languages: dict[str, list[str]] = {}
    for language, metric in metrics.items():
        metric.corpus_score([""], [[""]])  # the signature needs the number of references of a call
        languages.setdefault(str(metric.get_signature()), []).append(language)
    if len(languages) == 1:
        return next(iter(languages))
    return "; ".join(f"{', '.join(codes)}: {signature}" for signature, codes in languages.items())


# BLEU of all texts together, as sacrebleu computes it on lower-cased texts with its tokenizer of the language, and
# otherwise with its defaults (Post 2018).
corpus_bleu = Statistic(_counts, _bleu, signature=_signature, signature_in=_signature)


# ---- chrF ------------------------------------------------------------------------------------------------------------


@cache
def _chrf() -> Any:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF()


def _character_counts(example: GenerationExample, prediction: Prediction) -> Sequence[float] | None:
    """Return sacrebleu's numbers of character n-grams, of text, reference and both, for each order; shape (18,).

    The texts are compared in NFC: a decomposed copy shares few n-grams with a composed reference, or none.
    """
    text = answer_text(prediction)
    if text is None:
        return None
    text, *references = (normalize("NFC", version) for version in (text, *example.references))
    (counts,) = _chrf()._extract_corpus_statistics([text], [[reference] for reference in references])
    return [*map(float, counts)]


def _f_of_characters(sums: Floats) -> Floats:
    """Return chrF from summed counts, shape (..., 18) → (...), with sacrebleu's effective order.

    It is F2 of the means of precision and recall over the orders that both texts have.
    """
    import numpy as np

    written, expected, both = sums[..., 0::3], sums[..., 1::3], sums[..., 2::3]
    counts = (written > 0) & (expected > 0)
    orders = np.maximum(counts.sum(axis=-1), 1)
    precision, recall = (
        np.divide(both, total, out=np.zeros_like(both), where=counts).sum(axis=-1) / orders
        for total in (written, expected)
    )
    weighted = CHRF_BETA**2 * precision + recall
    product = (1 + CHRF_BETA**2) * precision * recall
    return np.asarray(np.divide(product, weighted, out=np.zeros_like(product), where=weighted > 0))


def _chrf_signature() -> str:
    return _signatures({"": _chrf()})


# F-score of the character n-grams of all texts together (Popović 2015), as sacrebleu computes it with its defaults, on
# texts in NFC. It needs no words, so it is the same in every language.
chrf = Statistic(_character_counts, _f_of_characters, signature=_chrf_signature)
