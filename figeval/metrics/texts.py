"""What a written text is worth beside a human one, and what it owes to its inputs. All on lower-cased texts.

Whatever was not answered (a refusal, nothing at all) counts in none of these; `parse_rate` tells how much that was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from statistics import fmean
from typing import Any

from figeval.metrics.answers import answered
from figeval.metrics.statistic import Features, collective
from figeval.metrics.words import FUNCTION_WORDS, ngrams, parts, words
from figeval.types import JSON, GenerationExample, Prediction

KEYWORDS = "keywords"  # the input whose texts should occur


def written(prediction: Prediction) -> str | None:
    """The text, lower-cased; None where there is no answer."""
    return prediction.value.lower() if answered(prediction) and isinstance(prediction.value, str) else None


def rouge_l(example: GenerationExample, prediction: Prediction) -> float | None:
    """ROUGE-L, the F1 of the longest common subsequence (Lin 2004), by rouge_score without stemming; the best of
    several references.
    """
    text = written(prediction)
    return None if text is None else max(_rouge(reference, text) for reference in example.references)


def _rouge(reference: str, text: str) -> float:
    return float(_rouge_scorer().score(reference.lower(), text)["rougeL"].fmeasure)


@cache
def _rouge_scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=False)


def _keywords(example: GenerationExample) -> list[str]:
    """The keywords, lower-cased; none where the task has no such input."""
    given = example.inputs.get(KEYWORDS, ())
    return [keyword.lower() for keyword in ((given,) if isinstance(given, str) else given)]


def keyword_recall(example: GenerationExample, prediction: Prediction) -> float | None:
    """Share of the keywords that stand in the text as a substring (Ghosh and Srivastava 2022, their code): "art" is
    found in "party". None without keywords.
    """
    text, wanted = written(prediction), _keywords(example)
    return None if text is None or not wanted else fmean(keyword in text for keyword in wanted)


def keyword_recall_lemma(example: GenerationExample, prediction: Prediction) -> float | None:
    """Share of the keywords whose lemmas stand in the text as whole words side by side: "went" is found in "go", "art"
    not in "party". Lemmas by simplemma. None without keywords.
    """
    text, wanted = written(prediction), _keywords(example)
    if text is None or not wanted:
        return None
    found = f" {_lemmas(text)} "
    return fmean(f" {_lemmas(keyword)} " in found for keyword in wanted)


def _lemmas(text: str) -> str:
    """The lemmas of a text, parted by blanks; "didn't" has two, as for taggers."""
    return " ".join(map(_lemma, parts(text)))


@cache
def _lemma(token: str) -> str:
    from simplemma import lemmatize

    return str(lemmatize(token, lang="en")).lower()


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
    rows: Sequence[JSON], names: Sequence[str], _settings: Mapping[str, Any]
) -> Mapping[str, Sequence[Features]]:
    """Per row how many of its n-grams no row before it has, and how many it has; n is the end of the metric's name."""
    return {name: list(_new(rows, int(name.rpartition("_")[2]))) for name in names}


def _new(rows: Sequence[JSON], n: int) -> Iterator[Features]:
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
