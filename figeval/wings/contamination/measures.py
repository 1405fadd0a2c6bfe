"""The measures of contamination: each asks the model about the texts of a task and makes a finding of the answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from figeval.language.words import split_tokens
from figeval.metrics.discrimination import Judged, auc
from figeval.metrics.paired import paired
from figeval.records.schema import ScoreRecord
from figeval.types import Score
from figeval.wings.contamination.record import FindingRecord
from figeval.wings.contamination.rewrites import Rewrite, places_of, words_of
from figeval.wings.contamination.statistics import Shard, difference, mean_score, order_test
from figeval.wings.contamination.texts import TaskTexts, Unit

DISTRACTORS = 9  # other last words among which the right one must be the likeliest
FEWEST_WORDS = 3  # of a text whose last word can be recalled
PER_SHARD = 5  # clusters of a shard, by default
FEWEST_UNITS = 4  # for two shards of two
LONGEST = 2_000  # characters of a text; the model must take two of them
NO_LOGLIKELIHOOD = "this model gives no log-likelihoods"
NO_TOKENS = "this model does not give the probabilities of single tokens; causal models on this machine do"


class Source(Protocol):
    """Gives the numbers that measures need: a model, or an estimate of its work."""

    @property
    def offers(self) -> frozenset[str]:
        """Capabilities of the model, with `token_scores` among them."""

    def loglikelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return log P(continuation | context) of each pair."""

    def least_likely(self, texts: Sequence[str]) -> list[list[float | None]]:
        """Return Min-K% and Min-K%++ of each text."""

    def completions(self, texts: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return for each beginning and last word whether the model writes that word."""


@dataclass(frozen=True, slots=True)
class Design:
    """Design of the measures; `shards` is None for five clusters in each."""

    rewrites: Mapping[str, Rewrite]
    note: str
    shards: int | None = None
    permutations: int = 9_999
    seed: int = 0


def _record(score: Score | None) -> ScoreRecord | None:
    return None if score is None else ScoreRecord.of(score)


def _against_floor(
    measure: str, units: Sequence[Unit], values: Sequence[float | None], floor: Sequence[float | None], **more: Any
) -> FindingRecord:
    """Return the finding of values with a floor, one of each for every unit."""
    shared = [(one, other) for one, other in zip(values, floor, strict=True) if one is not None and other is not None]
    test = paired([one for one, _ in shared], [other for _, other in shared]) if shared else None
    return FindingRecord(
        measure=measure,
        score=_record(mean_score(measure, ((value, None) for value in values))),
        floor=_record(mean_score(measure, ((value, None) for value in floor))),
        p=None if test is None else test.p,
        values={unit.ids[0]: value for unit, value in zip(units, values, strict=True)},
        **more,
    )


# ---- last words -----------------------------------------------------------------------------------------------------


def recall(texts: TaskTexts, source: Source, design: Design) -> list[FindingRecord]:
    """Measure the recall of the last word of every well-known text, once for each text."""
    units = [unit for unit in texts.known if len(words_of(unit.memorized or "")) >= FEWEST_WORDS]
    ends = [_last_word(unit.memorized or "") for unit in units]
    if len({word.casefold() for _, word in ends}) < 2:
        return [FindingRecord(measure="recall", unavailable="fewer than two different last words")]
    shuffled = [(_shuffled(beginning, design.seed), word) for beginning, word in ends]
    if "loglikelihood" in source.offers:
        options = [_options(place, [word for _, word in ends], design.seed) for place in range(len(ends))]
        values, floor = (_ranked(source, cases, options) for cases in (ends, shuffled))
        settings: dict[str, Any] = {"by": "loglikelihood", "options": max(map(len, options))}
    else:
        values, floor = source.completions(ends), source.completions(shuffled)
        settings = {"by": "generation"}
    return [_against_floor("recall", units, values, floor, settings=settings)]


def _last_word(text: str) -> tuple[str, str]:
    """Return what precedes the last word of a text, and this word."""
    last = places_of(text)[-1]
    return text[: last.start].rstrip(), text[last.start : last.end]


def _shuffled(text: str, seed: int) -> str:
    """Return the words of a text in a random order."""
    words = split_tokens(text)
    random.Random(f"{seed} {text}").shuffle(words)
    return (" " if len(text.split()) > 1 else "").join(words)


def _options(place: int, words: Sequence[str], seed: int) -> list[str]:
    """Return a last word and those of other texts that are nearest to it in length, all different."""
    own = words[place]
    others = {word.casefold(): word for word in words if word.casefold() != own.casefold()}
    listed = sorted(others.values())
    random.Random(f"{seed} {own}").shuffle(listed)
    return [own, *sorted(listed, key=lambda word: abs(len(word) - len(own)))[:DISTRACTORS]]


def _ranked(source: Source, cases: Sequence[tuple[str, str]], options: Sequence[Sequence[str]]) -> list[float | None]:
    """Return for each beginning the probability that its own word, the first option, is the likeliest."""
    pairs = [(beginning, f" {word}") for (beginning, _), own in zip(cases, options, strict=True) for word in own]
    scores = iter(source.loglikelihoods(pairs))
    found: list[float | None] = []
    for own in options:
        values = [next(scores) for _ in own]
        found.append(float(values[0] >= max(values)) / values.count(max(values)))
    return found


# ---- rewrites -------------------------------------------------------------------------------------------------------


def rewritten(texts: TaskTexts, source: Source, design: Design) -> list[FindingRecord]:
    """Measure how often a well-known text is likelier per character than its rewrites."""
    if "loglikelihood" not in source.offers:
        return [FindingRecord(measure="rewrites", unavailable=NO_LOGLIKELIHOOD)]
    units = texts.known
    values = _preferred(source, [unit.memorized or "" for unit in units], design)
    floor = _preferred(source, [_opening(unit) for unit in units], design)
    if not any(value is not None for value in values):
        return [FindingRecord(measure="rewrites", unavailable="no text can be rewritten")]
    settings = {"rewrites": list(design.rewrites)}
    return [_against_floor("rewrites", units, values, floor, settings=settings, note=design.note)]


def _preferred(source: Source, texts: Sequence[str], design: Design) -> list[float | None]:
    """Return the share of its rewrites that are less likely per character than a text; None without rewrites."""
    changed = [[other for rewrite in design.rewrites.values() if (other := rewrite(text))] for text in texts]
    asked = [("", one) for text, others in zip(texts, changed, strict=True) if others for one in (text, *others)]
    found = source.loglikelihoods(asked)
    scores = iter([score / len(text) for score, (_, text) in zip(found, asked, strict=True)])
    values: list[float | None] = []
    for others in changed:
        own = [next(scores) for _ in range(1 + len(others))] if others else []
        wins = [1.0 if own[0] > other else 0.5 if own[0] == other else 0.0 for other in own[1:]]
        values.append(sum(wins) / len(wins) if wins else None)
    return values


def _opening(unit: Unit) -> str:
    """Return as many first words of a unit's subject as its well-known text has; empty if these are the same words."""
    text = unit.memorized or ""
    words = places_of(unit.subject)[: len(words_of(text))]
    opening = unit.subject[: words[-1].end] if words else ""
    return "" if set(map(str.casefold, words_of(text))) <= set(map(str.casefold, words_of(opening))) else opening


# ---- the order of the file ------------------------------------------------------------------------------------------


def order(texts: TaskTexts, source: Source, design: Design) -> list[FindingRecord]:
    """Test whether the file's order of clusters is likelier than other orders."""
    if "loglikelihood" not in source.offers:
        return [FindingRecord(measure="order", unavailable=NO_LOGLIKELIHOOD)]
    if len(texts.units) < FEWEST_UNITS:
        return [FindingRecord(measure="order", unavailable=f"fewer than {FEWEST_UNITS} clusters")]
    count = min(design.shards or max(2, len(texts.units) // PER_SHARD), len(texts.units) // 2)
    groups = [[texts.units[place] for place in part] for part in np.array_split(np.arange(len(texts.units)), count)]
    found = iter(source.loglikelihoods([pair for group in groups for pair in _neighbours(group)]))
    shards = []
    for group in groups:
        first = np.array([next(found) for _ in group])
        after = np.zeros((len(group), len(group)))
        for one, other in _places(len(group)):
            after[one, other] = next(found)
        shards.append(Shard(first, after))
    score, p = order_test(shards, design.permutations, design.seed)
    settings = {"shards": count, "clusters": len(texts.units), "permutations": design.permutations}
    return [FindingRecord(measure="order", score=_record(score), p=p, settings=settings)]


def _neighbours(group: Sequence[Unit]) -> Iterator[tuple[str, str]]:
    """Yield the requests of a shard: each cluster at the beginning, and each after each other one."""
    yield from (("", unit.first[:LONGEST]) for unit in group)
    for one, other in _places(len(group)):
        yield group[one].last[-LONGEST:], f"\n{group[other].first[:LONGEST]}"


def _places(size: int) -> Iterator[tuple[int, int]]:
    return ((one, other) for one in range(size) for other in range(size) if one != other)


# ---- least likely tokens --------------------------------------------------------------------------------------------


def least_likely(texts: TaskTexts, source: Source, design: Design) -> list[FindingRecord]:
    """Measure how well Min-K% and Min-K%++ tell the texts of a task from rewrites of them."""
    names = ("min_k", "min_k_plus")
    if "token_scores" not in source.offers:
        return [FindingRecord(measure=name, unavailable=NO_TOKENS) for name in names]
    asked = []
    for unit in texts.units:
        text = unit.subject[:LONGEST]
        others = [other for rewrite in design.rewrites.values() if (other := rewrite(text))]
        asked += [(unit, True, text), *((unit, False, other) for other in others)] if others else []
    if not asked:
        return [FindingRecord(measure=name, unavailable="no text can be rewritten") for name in names]
    scores = source.least_likely([text for *_, text in asked])
    found = []
    for place, name in enumerate(names):
        judged = [
            Judged(positive=is_own, score=values[place], cluster=unit.name)
            for (unit, is_own, _), values in zip(asked, scores, strict=True)
        ]
        score = _record(auc(judged))
        settings = {"share": 0.2, "rewrites": list(design.rewrites)}
        found.append(FindingRecord(measure=name, score=score, note=design.note, settings=settings))
    return found


# ---- scores of a run ------------------------------------------------------------------------------------------------


def accuracy(
    texts: TaskTexts, recalled: FindingRecord, metric: str, values: Mapping[str, tuple[float | None, str | None]]
) -> FindingRecord:
    """Compare the scores of a run on examples whose well-known text was recalled with those on the others.

    Args:
        texts: the task.
        recalled: finding of `recall`.
        metric: name of the score.
        values: value and cluster of each example in the run, by id.
    """
    known = {(unit.memorized or "").casefold(): recalled.values.get(unit.ids[0]) for unit in texts.known}
    rows: dict[bool, list[tuple[float | None, str | None]]] = {True: [], False: []}
    for unit in texts.units:
        was = known.get((unit.memorized or "").casefold())
        if was is not None:  # unknown is neither
            rows[was > 0.5].extend(values[example] for example in unit.ids if example in values)
    within = all(0 <= value <= 1 for own in rows.values() for value, _ in own if value is not None)
    bounds = (0.0, 1.0) if within else None
    yes, no = (mean_score(metric, rows[kind], bounds) for kind in (True, False))
    parts = {"recalled": ScoreRecord.of(yes), "not recalled": ScoreRecord.of(no)}
    return FindingRecord(measure="accuracy", score=_record(difference(metric, yes, no)), parts=parts)


Measure = Callable[[TaskTexts, Source, Design], list[FindingRecord]]
MEASURES: dict[str, Measure] = {"recall": recall, "rewrites": rewritten, "order": order, "min_k": least_likely}
NEED_KNOWN = ("recall", "rewrites")  # measures of well-known texts
