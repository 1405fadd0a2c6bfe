"""Results of judgements, as DataFrames, tables and small print.

Means, agreement, tests and correlations of people, and judges beside them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from figeval import Grid, Result, Score, data_frame
from figeval.io.text import counted, one_line
from figeval.metrics.paired_test import PairedTest
from figeval.records.result_json import to_json
from figeval.types import JSON
from figeval.wings.annotation.human_results import HumanResults, SystemDifference, SystemScore
from figeval.wings.annotation.judge_results import JudgedSystem, JudgeResults
from figeval.wings.annotation.judge_store import describe_constant
from figeval.wings.annotation.prediction_powered import PoweredMean
from figeval.wings.annotation.tool_files import JudgementBatch

if TYPE_CHECKING:
    import pandas

# Columns of the DataFrames, with their dtypes.
SIZE_COLUMNS = dict.fromkeys(("n", "clusters"), "Int64")
SCORE_COLUMNS = {**dict.fromkeys(("value", "low", "high"), "float64"), **SIZE_COLUMNS, "interval": "string"}
MEAN_COLUMNS = {"criterion": "string", "system": "string", **SCORE_COLUMNS, "undecided": "Int64"}
AGREEMENT_COLUMNS = dict.fromkeys(("criterion", "coefficient", "rater_a", "rater_b"), "string") | SCORE_COLUMNS
DIFFERENCE_COLUMNS = {
    **dict.fromkeys(("criterion", "a", "b"), "string"),
    **dict.fromkeys(("difference", "low", "high", "p", "p_holm"), "float64"),
    **SIZE_COLUMNS,
    **dict.fromkeys(("test", "note"), "string"),
}
CORRELATION_COLUMNS = dict.fromkeys(("criterion", "system", "metric", "coefficient"), "string") | SCORE_COLUMNS
JUDGE_COLUMNS = {
    **dict.fromkeys(("judge", "criterion", "system"), "string"),
    "asked": "Int64",
    **dict.fromkeys(("people", "uncorrected", "corrected", "low", "high", "tuning"), "float64"),
    **dict.fromkeys(("labelled", "n"), "Int64"),
}

SYSTEMS = ("criterion", "texts by", "mean", "95 % interval", "judged", "majority")
COEFFICIENTS = ("criterion", "coefficient", "value", "95 % interval", "items")
PAIRS = ("criterion", "annotators", "agreement", "Cohen's kappa", "items")
TESTS = ("criterion", "A", "B", "A − B", "95 % interval", "p", "p (Holm)", "examples")
METRICS = ("criterion", "texts by", "metric", "Kendall", "Spearman", "Pearson", "texts")
JUDGE_MEANS = (
    *("criterion", "texts by", "people", "95 % interval", "judged", "judge, uncorrected", "parsed"),
    *("corrected", "95 % interval", "λ"),
)
JUDGE_DIFFERENCES = ("criterion", "A", "B", "A − B", "95 % interval", "p", "p (Holm)", "judged", "λ")
MAX_NAMES = 10  # annotators that a note names
NO_VALUE = "–"


@dataclass(frozen=True)
class AnnotationResults(Result):
    """Results of judgements of people, and of models beside them, as `figeval.import_judgements` returns them.

    A notebook shows them as the tables that `figeval annotate import` prints; `print` prints the same as text.

    Attributes:
        people: all numbers of people; without `systems` if no person has judged.
        judges: all numbers of the judges.
        batch: the judgements as they were read.
    """

    people: HumanResults
    judges: tuple[JudgeResults, ...]
    batch: JudgementBatch

    @property
    def found(self) -> AnnotationResults:
        """This object, which has the attributes that `found` had in figeval 0.2."""
        return self

    def to_frame(self) -> pandas.DataFrame:
        """Return the mean judgement of each system by each criterion; empty if no person has judged.

        Columns: `criterion`, `system`, `value`, `low`, `high`, `n` (texts), `clusters`, `interval`, `undecided` (texts
        without a majority label).

        Raises:
            FigevalError: pandas is not installed.
        """
        rows = ({**asdict(system), **_cells(system.score)} for system in self.people.systems)
        return data_frame(rows, MEAN_COLUMNS)

    @property
    def agreement(self) -> pandas.DataFrame:
        """Coefficients of agreement: `criterion`, `coefficient`, `rater_a`, `rater_b`, `value`, `low`, `high`, `n` …

        `rater_a` and `rater_b` are missing for coefficients of all annotators. Rows of pairs need `pairs=True`.
        """
        rows: list[JSON] = []
        for agreement in self.people.agreement:
            criterion = {"criterion": agreement.criterion}
            rows += ({**criterion, "coefficient": score.metric, **_cells(score)} for score in agreement.scores)
            for pair in agreement.pairs:
                raters = {"rater_a": pair.raters[0], "rater_b": pair.raters[1]}
                scores = [score for score in (pair.percent, pair.kappa, pair.kappa_quadratic) if score is not None]
                rows += ({**criterion, **raters, "coefficient": score.metric, **_cells(score)} for score in scores)
        return data_frame(rows, AGREEMENT_COLUMNS)

    @property
    def differences(self) -> pandas.DataFrame:
        """Paired tests between systems, for these annotators: `criterion`, `a`, `b`, `difference` (a − b), `p` …"""
        rows = (
            {**row.test.to_dict(), "criterion": row.criterion, "a": row.a, "b": row.b, "p_holm": row.p_holm}
            for row in self.people.tests
        )
        return data_frame(rows, DIFFERENCE_COLUMNS)

    @property
    def correlations(self) -> pandas.DataFrame:
        """Correlations of metrics with the mean judgement: `criterion`, `system`, `metric`, `coefficient`, `value` …"""
        rows = (
            {**asdict(row), "coefficient": score.metric, **_cells(score)}
            for row in self.people.correlations
            for score in row.scores
        )
        return data_frame(rows, CORRELATION_COLUMNS)

    @property
    def judge_means(self) -> pandas.DataFrame:
        """Means of systems by judges and people.

        Columns: `judge`, `criterion`, `system`, `asked` (texts), `people` (their mean alone), `uncorrected` (that of
        the judge alone), `corrected` (that of people over all texts, estimated with the judge's answers) with `low`
        and `high`, `tuning` (λ), `labelled` (texts that people judged) of `n`.
        """
        rows = []
        for judge in self.judges:
            for system in judge.systems:
                row: JSON = {"judge": judge.name, "criterion": system.criterion, "system": system.system}
                row |= {"asked": system.texts, "people": system.people.value, "uncorrected": system.judge.value}
                if system.powered is not None:
                    powered = {"tuning": system.powered.tuning, "labelled": system.powered.labelled}
                    row |= _cells(system.powered.score) | powered | {"corrected": system.powered.score.value}
                rows.append(row)
        return data_frame(rows, JUDGE_COLUMNS)

    def to_dict(self) -> JSON:
        """Return all numbers as `figeval annotate import --json` prints them."""
        batch = self.batch
        return dict[str, Any](to_json(self.people)) | {
            "judges": [_judge_dict(judge) for judge in self.judges],
            "skipped": batch.skipped,
            "ground_truth": batch.ground_truth,
        }

    @property
    def grids(self) -> list[Grid]:
        """Tables that the command line prints."""
        people = people_grids(self.people) if self._has_people else ()
        return [*people, *judge_grids(self.judges)]

    def notes(self) -> Iterator[str]:
        """Yield inferred scales, what was left out, and why numbers are missing."""
        yield from people_notes(self.people, self.batch)
        yield from judge_notes(self.judges, has_people=self._has_people)

    @property
    def _has_people(self) -> bool:
        return self.people.judgements > 0

    def __repr__(self) -> str:
        people = self.people
        judges = "".join(f", judge {judge.name}" for judge in self.judges)
        names = ", ".join(people.annotators) or "nobody"
        return f"<figeval.AnnotationResults of {people.task}: {people.judgements} judgements of {names}{judges}>"


def _cells(score: Score) -> JSON:
    cells = to_json(score)
    return {name: cells[name] for name in SCORE_COLUMNS}


def _judge_dict(judge: JudgeResults) -> JSON:
    systems = [
        {"asked" if name == "texts" else name: value for name, value in to_json(system).items()}
        for system in judge.systems
    ]
    return dict[str, Any](to_json(judge)) | {"systems": systems, "record": judge.record.model_dump(mode="json")}


def interval_text(score: Score) -> str:
    """Return e.g. `0.301 to 0.398`, or an en dash if there is no interval."""
    return NO_VALUE if score.low is None or score.high is None else f"{score.low:.3f} to {score.high:.3f}"


def _format_number(value: float | None, form: str = ".3f") -> str:
    return NO_VALUE if value is None else format(value, form)


def _signed_interval(low: float | None, high: float | None) -> str:
    return NO_VALUE if low is None or high is None else f"{low:+.3f} to {high:+.3f}"


# ---- people ----------------------------------------------------------------------------------------------------------


def people_grids(results: HumanResults) -> Iterator[Grid]:
    """Yield the tables of results that have rows."""
    systems = [_system_row(system) for system in results.systems]
    yield Grid(SYSTEMS, systems, f"{results.task}: judgements", SYSTEMS[2:5])
    if len(results.annotators) > 1:
        rows = [row for agreement in results.agreement for row in _coefficients(agreement.criterion, agreement.scores)]
        yield Grid(COEFFICIENTS, rows, f"Agreement of {len(results.annotators)} annotators", COEFFICIENTS[2:])
    pairs = [
        (
            agreement.criterion,
            " · ".join(pair.raters),
            _format_number(pair.percent.value),
            _format_number(pair.kappa.value),
            str(pair.percent.n),
        )
        for agreement in results.agreement
        for pair in agreement.pairs
    ]
    if pairs:
        yield Grid(PAIRS, pairs, "Agreement of pairs of annotators", PAIRS[2:])
    if tests := [_test_row(difference) for difference in results.tests]:
        yield Grid(TESTS, tests, "Differences between systems, for these annotators", TESTS[3:])
    if results.correlations:
        correlations = [
            (row.criterion, row.system, row.metric, *map(_correlation, row.scores), str(row.scores[0].n))
            for row in results.correlations
        ]
        yield Grid(METRICS, correlations, "Correlation of metrics with the mean judgement", METRICS[3:])


def _coefficients(criterion: str, scores: Iterable[Score]) -> Iterator[tuple[str, ...]]:
    for score in scores:
        yield (criterion, score.metric, _format_number(score.value), interval_text(score), str(score.n))


def _system_row(system: SystemScore) -> tuple[str, ...]:
    counts = [f"{label}: {count}" for label, count in system.majority.items()]
    if system.undecided:
        counts.append(f"undecided: {system.undecided}")
    texts = sum(system.majority.values()) + system.undecided
    mean, interval = _format_number(system.score.value), interval_text(system.score)
    return (system.criterion, system.system, mean, interval, str(texts), ", ".join(counts))


def _test_row(row: SystemDifference[PairedTest]) -> tuple[str, ...]:
    test = row.test
    difference, interval = _format_number(test.difference, "+.3f"), _signed_interval(test.low, test.high)
    p, adjusted = _format_number(test.p, ".2g"), _format_number(row.p_holm, ".2g")
    return (row.criterion, row.a, row.b, difference, interval, p, adjusted, str(test.n))


def _correlation(score: Score) -> str:
    return (
        _format_number(score.value) if score.low is None else f"{_format_number(score.value)} ({interval_text(score)})"
    )


def people_notes(results: HumanResults, batch: JudgementBatch) -> Iterator[str]:
    """Yield inferred scales, what was left out, and why numbers are missing."""
    for name, labels in results.inferred.items():
        scale = f"{labels[0]}-{labels[-1]}" if labels[0].isdecimal() else "/".join(labels)
        flag = one_line(f"--criteria {name}={scale}", 80)
        yield f"{name}: the scale is that of the labels that occur; if it is another one, give it: {flag}"
    if batch.skipped:
        counts = [f"{name}: {count}" for name, count in batch.skipped_by.items() if name]
        names = f" ({', '.join(counts[:MAX_NAMES])}{', …' if len(counts) > MAX_NAMES else ''})" if counts else ""
        yield f"{counted(batch.skipped, 'cell')} without a label{names}, which do not count as judgements"
    if batch.ground_truth:
        yield f"{counted(batch.ground_truth, 'annotation')} marked as ground truth, which do not count as judgements"
    for name, (passed, answered, total) in results.checks.items():
        hint = f"; --exclude {shlex.quote(name)} leaves this annotator out" if 2 * passed < total else ""
        empty = f", {total - answered} empty" if answered < total else ""
        yield f"{name}: {passed} of {answered} answers to attention checks as requested{empty}{hint}"
    yield from _missing_agreement(results)
    yield from _missing_correlations(results)
    for difference in results.tests:
        if difference.test.note:
            yield f"{difference.criterion}, {difference.a} and {difference.b}: {difference.test.note}"


def _missing_agreement(results: HumanResults) -> Iterator[str]:
    """Yield why coefficients have no value or no interval, once for each reason."""
    if len(results.annotators) == 1:
        yield "one annotator: no agreement"
        return
    missing: dict[tuple[str, str], list[str]] = {}
    scores = [(agreement.criterion, score) for agreement in results.agreement for score in agreement.scores]
    for criterion, score in scores:
        if score.value is None:
            missing.setdefault((criterion, score.interval.reason), []).append(score.metric)
    for (criterion, reason), coefficients in missing.items():
        yield f"{criterion}: no {', '.join(coefficients)}: {reason}"
    for reason in _missing_intervals(score for _, score in scores):
        yield f"agreement without an interval: {reason}"


def _missing_correlations(results: HumanResults) -> Iterator[str]:
    """Yield why metrics have no correlation, once for each reason, and why correlations have no interval."""
    missing: dict[tuple[str, str, str], list[str]] = {}
    for row in results.correlations:
        if row.scores[0].value is None:
            missing.setdefault((row.criterion, row.system, row.scores[0].interval.reason), []).append(row.metric)
    for (criterion, system, reason), metrics in missing.items():
        yield f"{criterion}, {system}: no correlation with {', '.join(metrics)}: {reason}"
    for reason in _missing_intervals(score for row in results.correlations for score in row.scores):
        yield f"correlations without an interval: {reason}"


def _missing_intervals(scores: Iterable[Score]) -> list[str]:
    return list(
        dict.fromkeys(score.interval.reason for score in scores if score.value is not None and score.low is None)
    )


# ---- judges ----------------------------------------------------------------------------------------------------------


def judge_grids(judges: Sequence[JudgeResults]) -> Iterator[Grid]:
    """Yield the tables about each judge: means, differences between systems, and agreement with people."""
    for judge in judges:
        means = [_mean_row(system) for system in judge.systems]
        yield Grid(JUDGE_MEANS, means, f"Judge {judge.name}: means", JUDGE_MEANS[2:])
        if rows := [_difference_row(difference) for difference in judge.differences if difference.test.labelled]:
            title = f"Judge {judge.name}: corrected differences"
            yield Grid(JUDGE_DIFFERENCES, rows, title, JUDGE_DIFFERENCES[3:])
        if rows := [
            row for agreement in judge.agreement for row in _coefficients(agreement.criterion, agreement.scores)
        ]:
            yield Grid(COEFFICIENTS, rows, f"Judge {judge.name}: agreement with people", COEFFICIENTS[2:])


def _mean_row(system: JudgedSystem) -> tuple[str, ...]:
    powered = system.powered
    corrected = (NO_VALUE, NO_VALUE, NO_VALUE)
    if powered is not None:
        corrected = (_format_number(powered.score.value), interval_text(powered.score), _format_number(powered.tuning))
    return (
        *(system.criterion, system.system),
        *(_format_number(system.people.value), interval_text(system.people), str(system.people.n)),
        *(_format_number(system.judge.value), f"{system.judge.n} of {system.texts}"),
        *corrected,
    )


def _difference_row(row: SystemDifference[PoweredMean]) -> tuple[str, ...]:
    score = row.test.score
    difference, interval = _format_number(score.value, "+.3f"), _signed_interval(score.low, score.high)
    p, adjusted = _format_number(row.test.p, ".2g"), _format_number(row.p_holm, ".2g")
    judged = f"{row.test.labelled} of {score.n}"
    return (row.criterion, row.a, row.b, difference, interval, p, adjusted, judged, _format_number(row.test.tuning))


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
        failures = "".join(f", {status}: {count}" for status, count in record.statuses.items() if status != "ok")
        yield f"judge {judge.name} ({record.model}): {parsed} of {answered} answers parsed{failures}"
        if answered < record.questions:
            yield f"judge {judge.name}: {counted(record.questions - answered, 'question')} not answered yet"
        if record.truncated:
            yield f"judge {judge.name}: {counted(record.truncated, 'text')} not seen as a whole"
        if record.checks[1]:
            passed, checks = record.checks
            hint = "; it may not understand the prompt, so read some of its answers" if 2 * passed < checks else ""
            yield f"judge {judge.name}: {passed} of {checks} answers to attention checks as requested{hint}"
        yield from (f"judge {judge.name}: {describe_constant(name, *label)}" for name, label in judge.constant.items())
        yield from (f"judge {judge.name}: {sentence}" for sentence in record.kin())
        if has_people:
            yield from _missing_judge_numbers(judge)


def _missing_judge_numbers(judge: JudgeResults) -> Iterator[str]:
    """Yield why numbers have no value or no interval, once for each reason."""
    missing: dict[str, list[str]] = {}
    for system in judge.systems:
        name = f"{system.criterion} of {system.system}"
        if system.powered is None:
            reason = "the judge gave no number" if system.texts else "the judge was not asked"
            missing.setdefault(reason, []).append(name)
        elif system.powered.score.low is None:
            missing.setdefault(system.powered.score.interval.reason, []).append(name)
    for agreement in judge.agreement:
        for score in agreement.scores:
            if score.value is None:
                missing.setdefault(score.interval.reason, []).append(f"{agreement.criterion}: {score.metric}")
    unused = sum(system.people.n - system.powered.labelled for system in judge.systems if system.powered is not None)
    if unused:
        yield (
            f"judge {judge.name}: {counted(unused, 'mean judgement')} of people not used in the corrected means, "
            "because the judge was not asked about the text; judge without --limit to use all"
        )
    for reason, names in missing.items():
        yield f"judge {judge.name}: no interval or no value ({', '.join(names)}): {reason}"
