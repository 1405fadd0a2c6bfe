"""Tables and small print about judgements of people: means, agreement, tests and correlations."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from figeval.io.text import counted, one_line
from figeval.metrics.paired_test import PairedTest
from figeval.reporting.grid import Grid
from figeval.types import Score
from figeval.wings.annotation.differences import SystemDifference
from figeval.wings.annotation.judgements import Judgements
from figeval.wings.annotation.results import HumanResults, SystemScore

SYSTEMS = ("criterion", "texts by", "mean", "95 % interval", "judged", "majority")
COEFFICIENTS = ("criterion", "coefficient", "value", "95 % interval", "items")
PAIRS = ("criterion", "annotators", "agreement", "Cohen's kappa", "items")
TESTS = ("criterion", "A", "B", "A − B", "95 % interval", "p", "p (Holm)", "examples")
MOST = 10  # annotators that a note names
METRICS = ("criterion", "texts by", "metric", "Kendall", "Spearman", "Pearson", "texts")


def number(value: float | None) -> str:
    """Return a number with three decimals, or an en dash if there is none."""
    return "–" if value is None else f"{value:.3f}"


def interval(score: Score) -> str:
    """Return e.g. `0.301 to 0.398`, or an en dash if there is no interval."""
    return "–" if score.low is None or score.high is None else f"{score.low:.3f} to {score.high:.3f}"


def people_grids(found: HumanResults) -> Iterator[Grid]:
    """Yield the tables of results that have rows."""
    yield Grid(SYSTEMS, [_system_row(one) for one in found.systems], f"{found.task}: judgements", SYSTEMS[2:5])
    rows = [
        (one.criterion, score.metric, number(score.value), interval(score), str(score.n))
        for one in found.agreement
        for score in one.scores
    ]
    if len(found.annotators) > 1:
        yield Grid(COEFFICIENTS, rows, f"Agreement of {len(found.annotators)} annotators", COEFFICIENTS[2:])
    pairs = [
        (
            one.criterion,
            " · ".join(pair.raters),
            number(pair.percent.value),
            number(pair.kappa.value),
            str(pair.percent.n),
        )
        for one in found.agreement
        for pair in one.pairs
    ]
    if pairs:
        yield Grid(PAIRS, pairs, "Agreement of pairs of annotators", PAIRS[2:])
    if found.tests:
        yield Grid(
            TESTS,
            [_test_row(one) for one in found.tests],
            "Differences between systems, for these annotators",
            TESTS[3:],
        )
    if found.correlations:
        correlated = [
            (one.criterion, one.system, one.metric, *map(_correlation, one.scores), str(one.scores[0].n))
            for one in found.correlations
        ]
        yield Grid(METRICS, correlated, "Correlation of metrics with the mean judgement", METRICS[3:])


def _system_row(one: SystemScore) -> tuple[str, ...]:
    """Return a row of the table of systems."""
    majority = ", ".join(f"{label}: {count}" for label, count in one.majority.items())
    undecided = f"undecided: {one.undecided}" if one.undecided else ""
    texts = sum(one.majority.values()) + one.undecided
    shown = ", ".join(part for part in (majority, undecided) if part)
    return (one.criterion, one.system, number(one.score.value), interval(one.score), str(texts), shown)


def _test_row(one: SystemDifference[PairedTest]) -> tuple[str, ...]:
    """Return a row of the table of tests."""
    test = one.test
    limits = "–" if test.low is None or test.high is None else f"{test.low:+.3f} to {test.high:+.3f}"
    difference = "–" if test.difference is None else f"{test.difference:+.3f}"
    p, adjusted = ("–" if value is None else f"{value:.2g}" for value in (test.p, one.p_holm))
    return (one.criterion, one.a, one.b, difference, limits, p, adjusted, str(test.n))


def _missing_agreement(found: HumanResults) -> Iterator[str]:
    """Yield why coefficients have no value or no interval, once for each reason."""
    if len(found.annotators) == 1:
        yield "one annotator: no agreement"
        return
    reasons: dict[tuple[str, str], list[str]] = {}
    scores = [(one.criterion, score) for one in found.agreement for score in one.scores]
    for criterion, score in scores:
        if score.value is None:
            reasons.setdefault((criterion, score.interval.reason), []).append(score.metric)
    for (criterion, reason), coefficients in reasons.items():
        yield f"{criterion}: no {', '.join(coefficients)}: {reason}"
    for reason in dict.fromkeys(
        score.interval.reason for _, score in scores if score.value is not None and score.low is None
    ):
        yield f"agreement without an interval: {reason}"


def _missing_correlations(found: HumanResults) -> Iterator[str]:
    """Yield why metrics have no correlation, once for each reason, and why correlations have no interval."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for one in found.correlations:
        if one.scores[0].value is None:
            reasons.setdefault((one.criterion, one.system, one.scores[0].interval.reason), []).append(one.metric)
    for (criterion, system, reason), metrics in reasons.items():
        yield f"{criterion}, {system}: no correlation with {', '.join(metrics)}: {reason}"
    scores = [score for one in found.correlations for score in one.scores]
    for reason in dict.fromkeys(
        score.interval.reason for score in scores if score.value is not None and score.low is None
    ):
        yield f"correlations without an interval: {reason}"


def _correlation(score: Score) -> str:
    """Return a correlation with its interval, if it has one."""
    return number(score.value) if score.low is None else f"{number(score.value)} ({interval(score)})"


def people_notes(found: HumanResults, given: Judgements) -> Iterator[str]:
    """Yield inferred scales, what was left out, and why numbers are missing."""
    for name, labels in found.inferred.items():
        scale = f"{labels[0]}-{labels[-1]}" if labels[0].isdecimal() else "/".join(labels)
        flag = one_line(f"--criteria {name}={scale}", 80)
        yield f"{name}: the scale is that of the labels that occur; if it is another one, give it: {flag}"
    if given.skipped:
        whose = [f"{name}: {count}" for name, count in given.skipped_by.items() if name]
        names = f" ({', '.join(whose[:MOST])}{', …' if len(whose) > MOST else ''})" if whose else ""
        yield f"{counted(given.skipped, 'cell')} without a label{names}, which do not count as judgements"
    if given.ground_truth:
        yield f"{counted(given.ground_truth, 'annotation')} marked as ground truth, which do not count as judgements"
    for name, (passed, answered, total) in found.checks.items():
        hint = f"; --exclude {shlex.quote(name)} leaves this annotator out" if 2 * passed < total else ""
        empty = f", {total - answered} empty" if answered < total else ""
        yield f"{name}: {passed} of {answered} answers to attention checks as requested{empty}{hint}"
    yield from _missing_agreement(found)
    yield from _missing_correlations(found)
    for test in found.tests:
        if test.test.note:
            yield f"{test.criterion}, {test.a} and {test.b}: {test.test.note}"
