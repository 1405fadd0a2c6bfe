"""Tables and small print about models that judged the items of people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from figeval.io.text import counted
from figeval.reporting.grid import Grid
from figeval.wings.annotation.differences import SystemDifference
from figeval.wings.annotation.judge_record import describe_constant
from figeval.wings.annotation.judge_results import JudgedSystem, JudgeResults
from figeval.wings.annotation.prediction_powered import PoweredMean
from figeval.wings.annotation.tables import interval, number

MEANS = (
    *("criterion", "texts by", "people", "95 % interval", "judged", "judge, uncorrected", "parsed"),
    *("corrected", "95 % interval", "λ"),
)
DIFFERENCES = ("criterion", "A", "B", "A − B", "95 % interval", "p", "p (Holm)", "judged", "λ")
AGREEMENT = ("criterion", "coefficient", "value", "95 % interval", "items")


def judge_grids(judges: Sequence[JudgeResults]) -> Iterator[Grid]:
    """Yield the tables about each judge: means, differences between systems, and agreement with people."""
    for judge in judges:
        yield Grid(MEANS, [_mean_row(one) for one in judge.systems], f"Judge {judge.name}: means", MEANS[2:])
        differences = [_difference_row(one) for one in judge.differences if one.test.labelled]
        if differences:
            yield Grid(DIFFERENCES, differences, f"Judge {judge.name}: corrected differences", DIFFERENCES[3:])
        agreement = [
            (one.criterion, score.metric, number(score.value), interval(score), str(score.n))
            for one in judge.agreement
            for score in one.scores
        ]
        if agreement:
            yield Grid(AGREEMENT, agreement, f"Judge {judge.name}: agreement with people", AGREEMENT[2:])


def _mean_row(one: JudgedSystem) -> tuple[str, ...]:
    """Return a row of the table of means."""
    powered = one.powered
    corrected = ("–", "–", "–")
    if powered is not None:
        corrected = (number(powered.score.value), interval(powered.score), number(powered.tuning))
    return (
        *(one.criterion, one.system),
        *(number(one.people.value), interval(one.people), str(one.people.n)),
        *(number(one.judge.value), f"{one.judge.n} of {one.asked}"),
        *corrected,
    )


def _difference_row(one: SystemDifference[PoweredMean]) -> tuple[str, ...]:
    """Return a row of the table of differences."""
    score = one.test.score
    value = "–" if score.value is None else f"{score.value:+.3f}"
    limits = "–" if score.low is None or score.high is None else f"{score.low:+.3f} to {score.high:+.3f}"
    p, adjusted = ("–" if value is None else f"{value:.2g}" for value in (one.test.p, one.p_holm))
    judged = f"{one.test.labelled} of {score.n}"
    return (one.criterion, one.a, one.b, value, limits, p, adjusted, judged, number(one.test.tuning))


def judge_notes(judges: Sequence[JudgeResults], *, has_people: bool) -> Iterator[str]:
    """Yield what the numbers of judges mean, and why some are missing."""
    if judges and has_people:
        yield (
            "corrected: the mean of people over all texts, estimated from their judgements and the judge's answers; it "
            "is valid if the texts that people judged are a random part"
        )
    elif judges:
        yield "nobody has judged a text: the means are those of a model, and no measurement of people"
    for judge in judges:
        record = judge.record
        parsed, answered = record.statuses.get("ok", 0), sum(record.statuses.values())
        others = "".join(f", {status}: {count}" for status, count in record.statuses.items() if status != "ok")
        yield f"judge {judge.name} ({record.model}): {parsed} of {answered} answers parsed{others}"
        if answered < record.questions:
            yield f"judge {judge.name}: {counted(record.questions - answered, 'question')} not answered yet"
        if record.truncated:
            yield f"judge {judge.name}: {counted(record.truncated, 'text')} not seen as a whole"
        if record.checks[1]:
            passed, checks = record.checks
            hint = "; it may not understand the prompt, so read some of its answers" if 2 * passed < checks else ""
            yield f"judge {judge.name}: {passed} of {checks} answers to attention checks as requested{hint}"
        yield from (f"judge {judge.name}: {describe_constant(name, *label)}" for name, label in judge.constant.items())
        yield from (f"judge {judge.name}: {kin}" for kin in record.kin())
        if has_people:
            yield from _missing(judge)


def _missing(judge: JudgeResults) -> Iterator[str]:
    """Yield why numbers have no value or no interval, once for each reason."""
    reasons: dict[str, list[str]] = {}
    for one in judge.systems:
        if one.powered is None:
            why = "the judge gave no number" if one.asked else "the judge was not asked"
            reasons.setdefault(why, []).append(f"{one.criterion} of {one.system}")
        elif one.powered.score.low is None:
            reasons.setdefault(one.powered.score.interval.reason, []).append(f"{one.criterion} of {one.system}")
    for compared in judge.agreement:
        for score in compared.scores:
            if score.value is None:
                reasons.setdefault(score.interval.reason, []).append(f"{compared.criterion}: {score.metric}")
    unused = sum(one.people.n - one.powered.labelled for one in judge.systems if one.powered is not None)
    if unused:
        yield (
            f"judge {judge.name}: {counted(unused, 'mean judgement')} of people not used in the corrected means, "
            "because the judge was not asked about the text; judge without --limit to use all"
        )
    for reason, places in reasons.items():
        yield f"judge {judge.name}: no interval or no value ({', '.join(places)}): {reason}"
