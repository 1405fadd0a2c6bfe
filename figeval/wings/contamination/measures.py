"""The measures of contamination: each asks the model about the texts of a task and makes a finding of the answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, permutations
from typing import Any

import numpy as np

from figeval import Score
from figeval.language.words import split_tokens
from figeval.metrics.discrimination import Judged, auc
from figeval.metrics.paired import compare_paired
from figeval.records.schema import ScoreRecord
from figeval.wings.contamination.record import FindingRecord
from figeval.wings.contamination.rewrites import Rewrite, spans_of_words, words_of
from figeval.wings.contamination.sources import ValueSource
from figeval.wings.contamination.statistics import Shard, difference_score, mean_score, order_test
from figeval.wings.contamination.units import TaskUnits, TextUnit

DISTRACTORS = 9  # other last words among which the right one must be the likeliest
MIN_WORDS = 3  # of a text whose last word can be recalled
SHARD_CLUSTERS = 5  # by default
MIN_CLUSTERS = 4  # for two shards of two
MAX_TEXT_CHARS = 2_000  # the model must take two of them
NO_LOGLIKELIHOOD = "this model gives no log-likelihoods"
NO_TOKENS = "this model does not give the probabilities of single tokens; causal models on this machine do"


@dataclass(frozen=True, slots=True)
class MeasureDesign:
    """Design of the measures; `shards` is None for five clusters in each."""

    rewrites: Mapping[str, Rewrite]
    note: str
    shards: int | None = None
    permutations: int = 9_999
    seed: int = 0


def _record(score: Score | None) -> ScoreRecord | None:
    return None if score is None else ScoreRecord.of(score)


def _compare_with_floor(
    measure: str,
    units: Sequence[TextUnit],
    values: Sequence[float | None],
    floor: Sequence[float | None],
    **fields: Any,
) -> FindingRecord:
    pairs = [(a, b) for a, b in zip(values, floor, strict=True) if a is not None and b is not None]
    test = compare_paired([a for a, _ in pairs], [b for _, b in pairs]) if pairs else None
    return FindingRecord(
        measure=measure,
        score=_record(mean_score(measure, ((value, None) for value in values))),
        floor=_record(mean_score(measure, ((value, None) for value in floor))),
        p=None if test is None else test.p,
        values={unit.ids[0]: value for unit, value in zip(units, values, strict=True)},
        **fields,
    )


# ---- last words -----------------------------------------------------------------------------------------------------


def measure_recall(task: TaskUnits, source: ValueSource, design: MeasureDesign) -> list[FindingRecord]:
    """Measure the recall of the last word of every well-known text, once for each text."""
    units = [unit for unit in task.with_memorized_text if len(words_of(unit.memorized or "")) >= MIN_WORDS]
    ends = [_last_word(unit.memorized or "") for unit in units]
    if len({word.casefold() for _, word in ends}) < 2:
        return [FindingRecord(measure="recall", unavailable="fewer than two different last words")]
    shuffled = [(_shuffle_words(beginning, design.seed), word) for beginning, word in ends]
    if "loglikelihood" in source.offers:
        options = [_options(word, [word for _, word in ends], design.seed) for _, word in ends]
        values, floor = (_rank_first(source, beginnings, options) for beginnings in (ends, shuffled))
        settings: dict[str, Any] = {"by": "loglikelihood", "options": max(map(len, options))}
    else:
        values, floor = source.completions(ends), source.completions(shuffled)
        settings = {"by": "generation"}
    return [_compare_with_floor("recall", units, values, floor, settings=settings)]


def _last_word(text: str) -> tuple[str, str]:
    last = spans_of_words(text)[-1]
    return text[: last.start].rstrip(), text[last.start : last.end]


def _shuffle_words(text: str, seed: int) -> str:
    words = split_tokens(text)
    random.Random(f"{seed} {text}").shuffle(words)
    return (" " if len(text.split()) > 1 else "").join(words)


def _options(last_word: str, words: Sequence[str], seed: int) -> list[str]:
    """Return a last word and those of other texts that are nearest to it in length, all different."""
    distractors = sorted({word.casefold(): word for word in words if word.casefold() != last_word.casefold()}.values())
    random.Random(f"{seed} {last_word}").shuffle(distractors)
    return [last_word, *sorted(distractors, key=lambda word: abs(len(word) - len(last_word)))[:DISTRACTORS]]


def _rank_first(
    source: ValueSource, beginnings: Sequence[tuple[str, str]], options: Sequence[Sequence[str]]
) -> list[float | None]:
    """Return for each beginning the probability that its own word, the first option, is the likeliest."""
    pairs = [
        (beginning, f" {word}") for (beginning, _), words in zip(beginnings, options, strict=True) for word in words
    ]
    scores = iter(source.loglikelihoods(pairs))
    probabilities: list[float | None] = []
    for words in options:
        values = [next(scores) for _ in words]
        probabilities.append(float(values[0] >= max(values)) / values.count(max(values)))
    return probabilities


# ---- rewrites -------------------------------------------------------------------------------------------------------


def measure_rewrites(task: TaskUnits, source: ValueSource, design: MeasureDesign) -> list[FindingRecord]:
    """Measure how often a well-known text is likelier per character than its rewrites."""
    if "loglikelihood" not in source.offers:
        return [FindingRecord(measure="rewrites", unavailable=NO_LOGLIKELIHOOD)]
    units = task.with_memorized_text
    values = _preferences(source, [unit.memorized or "" for unit in units], design)
    floor = _preferences(source, [_opening(unit) for unit in units], design)
    if not any(value is not None for value in values):
        return [FindingRecord(measure="rewrites", unavailable="no text can be rewritten")]
    settings = {"rewrites": list(design.rewrites)}
    return [_compare_with_floor("rewrites", units, values, floor, settings=settings, note=design.note)]


def _preferences(source: ValueSource, texts: Sequence[str], design: MeasureDesign) -> list[float | None]:
    """Return the share of its rewrites that are less likely per character than a text; None without rewrites."""
    rewrites = [_rewrite(text, design) for text in texts]
    pairs = [
        ("", version)
        for text, versions in zip(texts, rewrites, strict=True)
        if versions
        for version in (text, *versions)
    ]
    scores = iter(
        [score / len(version) for score, (_, version) in zip(source.loglikelihoods(pairs), pairs, strict=True)]
    )
    shares: list[float | None] = []
    for versions in rewrites:
        if not versions:
            shares.append(None)
            continue
        score, *rewrite_scores = (next(scores) for _ in range(1 + len(versions)))
        wins = [1.0 if score > other else 0.5 if score == other else 0.0 for other in rewrite_scores]
        shares.append(sum(wins) / len(wins))
    return shares


def _rewrite(text: str, design: MeasureDesign) -> list[str]:
    return [version for rewrite in design.rewrites.values() if (version := rewrite(text))]


def _opening(unit: TextUnit) -> str:
    """Return as many first words of a unit's subject as its well-known text has; empty if these are the same words."""
    text = unit.memorized or ""
    spans = spans_of_words(unit.subject)[: len(words_of(text))]
    opening = unit.subject[: spans[-1].end] if spans else ""
    return "" if set(map(str.casefold, words_of(text))) <= set(map(str.casefold, words_of(opening))) else opening


# ---- the order of the file ------------------------------------------------------------------------------------------


def measure_order(task: TaskUnits, source: ValueSource, design: MeasureDesign) -> list[FindingRecord]:
    """Test whether the file's order of clusters is likelier than other orders."""
    if "loglikelihood" not in source.offers:
        return [FindingRecord(measure="order", unavailable=NO_LOGLIKELIHOOD)]
    if len(task.units) < MIN_CLUSTERS:
        return [FindingRecord(measure="order", unavailable=f"fewer than {MIN_CLUSTERS} clusters")]
    count = min(design.shards or max(2, len(task.units) // SHARD_CLUSTERS), len(task.units) // 2)
    groups = [[task.units[index] for index in part] for part in np.array_split(np.arange(len(task.units)), count)]
    scores = iter(source.loglikelihoods([pair for group in groups for pair in _neighbours(group)]))
    shards = []
    for group in groups:
        first = np.array([next(scores) for _ in group])
        after = np.zeros((len(group), len(group)))
        for pair in permutations(range(len(group)), 2):
            after[pair] = next(scores)
        shards.append(Shard(first, after))
    score, p = order_test(shards, design.permutations, design.seed)
    settings = {"shards": count, "clusters": len(task.units), "permutations": design.permutations}
    return [FindingRecord(measure="order", score=_record(score), p=p, settings=settings)]


def _neighbours(group: Sequence[TextUnit]) -> Iterator[tuple[str, str]]:
    """Yield the requests of a shard: each cluster at the beginning, and each after each other one."""
    yield from (("", unit.first[:MAX_TEXT_CHARS]) for unit in group)
    for before, after in permutations(group, 2):
        yield before.last[-MAX_TEXT_CHARS:], f"\n{after.first[:MAX_TEXT_CHARS]}"


# ---- least likely tokens --------------------------------------------------------------------------------------------


def measure_min_k(task: TaskUnits, source: ValueSource, design: MeasureDesign) -> list[FindingRecord]:
    """Measure how well Min-K% and Min-K%++ tell the texts of a task from rewrites of them."""
    names = ("min_k", "min_k_plus")
    if "token_scores" not in source.offers:
        return [FindingRecord(measure=name, unavailable=NO_TOKENS) for name in names]
    versions = []
    for unit in task.units:
        text = unit.subject[:MAX_TEXT_CHARS]
        if rewrites := _rewrite(text, design):
            versions += [(unit, True, text), *((unit, False, rewrite) for rewrite in rewrites)]
    if not versions:
        return [FindingRecord(measure=name, unavailable="no text can be rewritten") for name in names]
    scores = source.least_likely([text for *_, text in versions])
    settings = {"share": 0.2, "rewrites": list(design.rewrites)}
    findings = []
    for index, name in enumerate(names):
        texts = [
            Judged(positive=is_original, score=values[index], cluster=unit.name)
            for (unit, is_original, _), values in zip(versions, scores, strict=True)
        ]
        findings.append(FindingRecord(measure=name, score=_record(auc(texts)), note=design.note, settings=settings))
    return findings


# ---- scores of a run ------------------------------------------------------------------------------------------------


def compare_accuracy(
    task: TaskUnits, recall: FindingRecord, metric: str, values: Mapping[str, tuple[float | None, str | None]]
) -> FindingRecord:
    """Compare the scores of a run on examples whose well-known text was recalled with those on the others.

    Args:
        task: the task.
        recall: finding of `measure_recall`.
        metric: name of the score.
        values: value and cluster of each example in the run, by id.
    """
    recalls = {(unit.memorized or "").casefold(): recall.values.get(unit.ids[0]) for unit in task.with_memorized_text}
    rows: dict[bool, list[tuple[float | None, str | None]]] = {True: [], False: []}
    for unit in task.units:
        share = recalls.get((unit.memorized or "").casefold())
        if share is not None:  # unknown is neither
            rows[share > 0.5].extend(values[example] for example in unit.ids if example in values)
    are_shares = all(0 <= value <= 1 for value, _ in chain(*rows.values()) if value is not None)
    bounds = (0.0, 1.0) if are_shares else None
    scores = [mean_score(metric, rows[is_recalled], bounds) for is_recalled in (True, False)]
    names = ("recalled", "not recalled")
    parts = {name: ScoreRecord.of(score) for name, score in zip(names, scores, strict=True)}
    return FindingRecord(measure="accuracy", score=_record(difference_score(metric, *scores)), parts=parts)


Measure = Callable[[TaskUnits, ValueSource, MeasureDesign], list[FindingRecord]]
MEASURES: dict[str, Measure] = {
    "recall": measure_recall,
    "rewrites": measure_rewrites,
    "order": measure_order,
    "min_k": measure_min_k,
}
NEED_MEMORIZED_TEXTS = ("recall", "rewrites")  # measures of well-known texts
