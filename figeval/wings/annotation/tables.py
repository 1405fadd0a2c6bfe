"""Results of judgements, as DataFrames, tables and small print.

Means, agreement, tests and correlations of people, and judges beside them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from figeval import JSON, Column, Result, Score, Table
from figeval.io.text import one_line, pluralize
from figeval.metrics.differences import PairedTest
from figeval.records.schema import to_json
from figeval.reporting.grid import AND, format_interval
from figeval.wings.annotation.agreement import PairAgreement
from figeval.wings.annotation.battles.results import BattleResults
from figeval.wings.annotation.battles.tables import PAIRS as BATTLE_PAIRS
from figeval.wings.annotation.battles.tables import (
    POSITIONS,
    battle_notes,
    battle_tables,
    pair_rows,
)
from figeval.wings.annotation.columns import (
    COEFFICIENTS,
    INTERVAL,
    Coefficient,
    format_decimals,
    format_difference,
    format_p_value,
    score_columns,
)
from figeval.wings.annotation.human_results import HumanResults, MetricCorrelation, SystemScore
from figeval.wings.annotation.items import ERRORS
from figeval.wings.annotation.judge_record import describe_constant
from figeval.wings.annotation.judge_results import JudgedSystem, JudgeResults
from figeval.wings.annotation.prediction_powered import PoweredMean
from figeval.wings.annotation.remarks import CategoryCount, Comment
from figeval.wings.annotation.system_tests import SampleDifference, SystemDifference
from figeval.wings.annotation.tool_files import JudgementBatch

if TYPE_CHECKING:
    import pandas

MAX_NAMES = 10  # annotators that a note names


@dataclass(frozen=True)
class AnnotationResults(Result):
    """Results of judgements of people, and of models beside them, as `figeval.import_judgements` returns them.

    A notebook shows them as the tables that `figeval annotate import` prints; `print` prints the same as text.

    Attributes:
        people: all numbers of people; without `systems` if no person has judged.
        judges: all numbers of the judges.
        batch: the judgements as they were read.
        battles: all numbers of battles, None if the items are none.
    """

    people: HumanResults
    judges: tuple[JudgeResults, ...]
    batch: JudgementBatch
    battles: BattleResults | None = None

    @property
    def found(self) -> AnnotationResults:
        """This object, which has the attributes that `found` had in figeval 0.2."""
        return self

    @property
    def tables(self) -> list[Table[Any]]:
        """All tables; the first has the mean judgement of each system by each criterion.

        Columns of `to_frame`: `criterion`, `system`, `value`, `low`, `high`, `n` (texts), `clusters`, `interval`,
        `by_majority` (the mean by majority labels), `undecided` (texts without one); it is empty if no person has
        judged. If the items are battles, the first table is the ranking: `criterion`, `by`, `rank`, `rank_low`,
        `rank_high`, `system`, `win_rate`, `strength`, `elo`, `wins`, `ties`, `losses` …
        """
        people = self.people
        of_all = [row for row in self._coefficients if not row.raters] if len(people.annotators) > 1 else []
        pairs = [(agreement.criterion, pair) for agreement in people.agreement for pair in agreement.pairs]
        return [
            *(battle_tables(people.task, self.battles) if self.battles else ()),
            Table(SYSTEMS, people.systems, f"{people.task}: judgements"),
            Table(COEFFICIENTS, of_all, f"Agreement of {len(people.annotators)} annotators"),
            Table(PAIRS, pairs, "Agreement of pairs of annotators"),
            Table(DIFFERENCES, people.tests, "Differences between systems, for these annotators"),
            Table(SAMPLES, people.samples, "Differences from other items, by Welch's t-test"),
            Table(CATEGORIES, people.categories, _title_of_categories(people)),
            Table(METRICS, people.correlations, "Correlation of metrics with the mean judgement"),
            *judge_tables(self.judges),
        ]

    @property
    def _coefficients(self) -> list[Coefficient]:
        """Coefficients of all annotators, and those of each pair."""
        rows = []
        for agreement in self.people.agreement:
            rows += [Coefficient(agreement.criterion, score) for score in agreement.scores]
            for pair in agreement.pairs:
                scores = (pair.percent, pair.kappa, pair.kappa_quadratic)
                rows += [Coefficient(agreement.criterion, score, pair.raters) for score in scores if score is not None]
        return rows

    @property
    def agreement(self) -> pandas.DataFrame:
        """Coefficients of agreement: `criterion`, `coefficient`, `rater_a`, `rater_b`, `value`, `low`, `high`, `n` …

        `rater_a` and `rater_b` are missing for coefficients of all annotators. Rows of pairs need `pairs=True`.
        """
        return Table(COEFFICIENTS, self._coefficients).to_frame()

    @property
    def differences(self) -> pandas.DataFrame:
        """Paired tests between systems, for these annotators: `criterion`, `a`, `b`, `difference` (a − b), `p` …

        `p_sign` is that of the sign test, with `wins`, `ties` and `losses`; `p_t` is that of Student's t-test.
        """
        return Table(DIFFERENCES, self.people.tests).to_frame()

    @property
    def battle_pairs(self) -> pandas.DataFrame:
        """Battles of each pair of systems: `criterion`, `by`, `a`, `b`, `wins`, `ties`, `losses`, `value` …"""
        return Table(BATTLE_PAIRS, pair_rows(self.battles) if self.battles else []).to_frame()

    @property
    def position_bias(self) -> pandas.DataFrame:
        """Wins of the first text: `criterion`, `rater`, `answers`, `ties`, `first`, `contradictions` …"""
        return Table(POSITIONS, self.battles.biases if self.battles else ()).to_frame()

    @property
    def samples(self) -> pandas.DataFrame:
        """Welch's t-tests against the systems of other items: `criterion`, `a`, `b`, `difference` (a − b), `p` …"""
        return Table(SAMPLES, self.people.samples).to_frame()

    @property
    def comments(self) -> pandas.DataFrame:
        """Comments of the annotators: `item`, `annotator`, `system`, `example`, `text`."""
        return Table(COMMENTS, self.people.comments).to_frame()

    @property
    def categories(self) -> pandas.DataFrame:
        """Categories of remarks, or of wrong answers to questions: `category`, `system`, `count`, `total`."""
        return Table(CATEGORIES, self.people.categories).to_frame()

    @property
    def correlations(self) -> pandas.DataFrame:
        """Correlations of metrics with the mean judgement: `criterion`, `system`, `metric`, `coefficient`, `value` …"""
        rows = [(row, score) for row in self.people.correlations for score in row.scores]
        return Table(CORRELATIONS, rows).to_frame()

    @property
    def judge_means(self) -> pandas.DataFrame:
        """Means of systems by judges and people.

        Columns: `judge`, `criterion`, `system`, `asked` (texts), `people` (their mean alone), `uncorrected` (that of
        the judge alone), `corrected` (that of people over all texts, estimated with the judge's answers) with `low`
        and `high`, `tuning` (λ), `labelled` (texts that people judged) of `n`.
        """
        rows = [(judge.name, system) for judge in self.judges for system in judge.systems]
        return Table(JUDGE_MEANS, rows).to_frame()

    def to_dict(self) -> JSON:
        """Return all numbers as `figeval annotate import --json` prints them."""
        batch = self.batch
        return (
            dict[str, Any](to_json(self.people))
            | {
                "judges": [_judge_dict(judge) for judge in self.judges],
                "skipped": batch.skipped,
                "ground_truth": batch.ground_truth,
            }
            | ({"battles": to_json(self.battles)} if self.battles else {})
        )

    def notes(self) -> Iterator[str]:
        """Yield inferred scales, what was left out, and why numbers are missing."""
        if self.battles:
            yield from battle_notes(self.battles)
        yield from people_notes(self.people, self.batch)
        if self.judges and not self.battles:
            yield _meaning_of_means(has_people=self._has_people)
        yield from judge_notes(self.judges, has_people=self._has_people)

    @property
    def _has_people(self) -> bool:
        return self.people.judgements > 0

    def __repr__(self) -> str:
        people = self.people
        judges = "".join(f", judge {judge.name}" for judge in self.judges)
        names = ", ".join(people.annotators) or "nobody"
        return f"<figeval.AnnotationResults of {people.task}: {people.judgements} judgements of {names}{judges}>"


def _judge_dict(judge: JudgeResults) -> JSON:
    systems = [
        {"asked" if name == "texts" else name: value for name, value in to_json(system).items()}
        for system in judge.systems
    ]
    return dict[str, Any](to_json(judge)) | {"systems": systems, "record": judge.record.model_dump(mode="json")}


# ---- people ----------------------------------------------------------------------------------------------------------


def _majority(system: SystemScore) -> str:
    counts = [f"{label}: {count}" for label, count in system.majority.items()]
    if system.undecided:
        counts.append(f"undecided: {system.undecided}")
    return ", ".join(counts)


def _sign_count(row: SystemDifference[PairedTest], name: str) -> int | None:
    return None if row.sign is None else getattr(row.sign, name)


def _title_of_categories(results: HumanResults) -> str:
    return "Wrong answers by category" if results.has_questions else "Remarks by category"


def _correlation(score: Score) -> str:
    value = format_decimals(score.value)
    return value if score.low is None else f"{value} ({format_interval(score.low, score.high)})"


SYSTEMS: tuple[Column[SystemScore], ...] = (
    Column("criterion", head="criterion"),
    Column("system", head="texts by"),
    *score_columns(lambda system: system.score, "mean"),
    Column(value=lambda row: sum(row.majority.values()) + row.undecided, head="judged", align="right"),
    Column("by_majority", "float64", lambda row: row.by_majority.value, "by majority", format_decimals),
    Column("undecided", "Int64"),
    Column(value=_majority, head="majority"),
)
PAIRS: tuple[Column[tuple[str, PairAgreement]], ...] = (
    Column(value=lambda row: row[0], head="criterion"),
    Column(value=lambda row: AND.join(row[1].raters), head="annotators"),
    Column(value=lambda row: format_decimals(row[1].percent.value), head="agreement", align="right"),
    Column(value=lambda row: format_decimals(row[1].kappa.value), head="Cohen's kappa", align="right"),
    Column(value=lambda row: row[1].percent.n, head="items", align="right"),
)
DIFFERENCES: tuple[Column[SystemDifference[PairedTest]], ...] = (
    Column("criterion", head="criterion"),
    Column("a", head="A"),
    Column("b", head="B"),
    Column("difference", "float64", lambda row: row.test.difference, "A − B", format_difference),
    Column(value=lambda row: format_interval(row.test.low, row.test.high, "+.3f"), head=INTERVAL, align="right"),
    Column("low", "float64", lambda row: row.test.low),
    Column("high", "float64", lambda row: row.test.high),
    Column("p", "float64", lambda row: row.test.p, "p", format_p_value),
    Column("p_holm", "float64", head="p (Holm)", text=format_p_value),
    Column("p_sign", "float64", lambda row: row.sign and row.sign.p, "p (sign)", format_p_value),
    *(Column(name, "Int64", partial(_sign_count, name=name)) for name in ("wins", "ties", "losses")),
    Column("p_t", "float64", head="p (t)", text=format_p_value),
    Column("n", "Int64", lambda row: row.test.n, "examples"),
    Column("clusters", "Int64", lambda row: row.test.clusters),
    Column("test", "string", lambda row: row.test.test),
    Column("note", "string", lambda row: row.test.note),
)
SAMPLES: tuple[Column[SampleDifference], ...] = (
    Column("criterion", head="criterion"),
    Column("a", head="A"),
    Column("b", head="B"),
    Column("difference", "float64", head="A − B", text=format_difference),
    Column(
        value=lambda row: format_interval(row.interval.low, row.interval.high, "+.3f"), head=INTERVAL, align="right"
    ),
    Column("low", "float64", lambda row: row.interval.low),
    Column("high", "float64", lambda row: row.interval.high),
    Column("p", "float64", head="p", text=format_p_value),
    Column("n_a", "Int64", head="n of A"),
    Column("n_b", "Int64", head="n of B"),
)
CATEGORIES: tuple[Column[CategoryCount], ...] = (
    Column("category", head="category"),
    Column("system", head="texts by"),
    Column("count", "Int64", head="number"),
    Column("total", "Int64", head="of"),
)
COMMENTS: tuple[Column[Comment], ...] = tuple(map(Column, ("item", "annotator", "system", "example", "text")))
METRICS: tuple[Column[MetricCorrelation], ...] = (
    Column(head="criterion", value=lambda row: row.criterion),
    Column(head="texts by", value=lambda row: row.system),
    Column(head="metric", value=lambda row: row.metric),
    Column(head="Kendall", value=lambda row: _correlation(row.scores[0]), align="right"),
    Column(head="Spearman", value=lambda row: _correlation(row.scores[1]), align="right"),
    Column(head="Pearson", value=lambda row: _correlation(row.scores[2]), align="right"),
    Column(head="texts", value=lambda row: row.scores[0].n, align="right"),
)
CORRELATIONS: tuple[Column[tuple[MetricCorrelation, Score]], ...] = (
    Column("criterion", "string", lambda row: row[0].criterion),
    Column("system", "string", lambda row: row[0].system),
    Column("metric", "string", lambda row: row[0].metric),
    Column("coefficient", "string", lambda row: row[1].metric),
    *score_columns(lambda row: row[1], "value"),
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
        yield f"{pluralize(batch.skipped, 'cell')} without a label{names}, which do not count as judgements"
    if batch.ground_truth:
        yield f"{pluralize(batch.ground_truth, 'annotation')} marked as ground truth, which do not count as judgements"
    for name, (passed, answered, total) in results.checks.items():
        hint = f"; --exclude {shlex.quote(name)} leaves this annotator out" if 2 * passed < total else ""
        empty = f", {total - answered} empty" if answered < total else ""
        yield f"{name}: {passed} of {answered} answers to attention checks as requested{empty}{hint}"
    yield from _missing_agreement(results)
    yield from _missing_correlations(results)
    yield from _remarks(results)
    for sample in results.samples:
        if sample.interval.reason:
            yield f"{sample.criterion}, {sample.a} and {sample.b}: no test: {sample.interval.reason}"
    for difference in results.tests:
        if difference.test.note:
            yield f"{difference.criterion}, {difference.a} and {difference.b}: {difference.test.note}"


def _remarks(results: HumanResults) -> Iterator[str]:
    """Yield where comments are, and where wrong answers can be coded by category."""
    if results.comments:
        yield f"{pluralize(len(results.comments), 'comment')} of annotators; --json and judgements.csv have their texts"
    if results.has_questions and not results.categories and any(system.score.value != 1 for system in results.systems):
        yield f"{ERRORS} has the wrong answers; write the kind of each into its column label and import again"


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


def judge_tables(judges: Sequence[JudgeResults]) -> Iterator[Table[Any]]:
    """Yield the tables about each judge: means, differences between systems, and agreement with people."""
    for judge in judges:
        yield Table(JUDGE_MEANS, [(judge.name, system) for system in judge.systems], f"Judge {judge.name}: means")
        differences = [difference for difference in judge.differences if difference.test.labelled]
        yield Table(JUDGE_DIFFERENCES, differences, f"Judge {judge.name}: corrected differences")
        rows = [Coefficient(agreement.criterion, score) for agreement in judge.agreement for score in agreement.scores]
        yield Table(COEFFICIENTS, rows, f"Judge {judge.name}: agreement with people")


def _powered(row: tuple[str, JudgedSystem], name: str) -> Any:
    """Return an attribute of the corrected mean or of its score; None if there is no such mean."""
    powered = row[1].powered
    return None if powered is None else getattr(powered if hasattr(powered, name) else powered.score, name)


JUDGE_MEANS: tuple[Column[tuple[str, JudgedSystem]], ...] = (
    Column("judge", "string", lambda row: row[0]),
    Column("criterion", "string", lambda row: row[1].criterion, "criterion"),
    Column("system", "string", lambda row: row[1].system, "texts by"),
    Column("asked", "Int64", lambda row: row[1].texts),
    Column("people", "float64", lambda row: row[1].people.value, "people", format_decimals),
    Column(value=lambda row: format_interval(row[1].people.low, row[1].people.high), head=INTERVAL, align="right"),
    Column(value=lambda row: row[1].people.n, head="judged", align="right"),
    Column("uncorrected", "float64", lambda row: row[1].judge.value, "judge, uncorrected", format_decimals),
    Column(value=lambda row: f"{row[1].judge.n} of {row[1].texts}", head="parsed", align="right"),
    Column("corrected", "float64", lambda row: _powered(row, "value"), "corrected", format_decimals),
    Column(
        value=lambda row: format_interval(_powered(row, "low"), _powered(row, "high")), head=INTERVAL, align="right"
    ),
    Column("low", "float64", lambda row: _powered(row, "low")),
    Column("high", "float64", lambda row: _powered(row, "high")),
    Column("tuning", "float64", lambda row: _powered(row, "tuning"), "λ", format_decimals),
    Column("labelled", "Int64", lambda row: _powered(row, "labelled")),
    Column("n", "Int64", lambda row: _powered(row, "n")),
)
JUDGE_DIFFERENCES: tuple[Column[SystemDifference[PoweredMean]], ...] = (
    Column("criterion", head="criterion"),
    Column("a", head="A"),
    Column("b", head="B"),
    Column("difference", "float64", lambda row: row.test.score.value, "A − B", format_difference),
    Column(
        value=lambda row: format_interval(row.test.score.low, row.test.score.high, "+.3f"), head=INTERVAL, align="right"
    ),
    Column("p", "float64", lambda row: row.test.p, "p", format_p_value),
    Column("p_holm", "float64", head="p (Holm)", text=format_p_value),
    Column(value=lambda row: f"{row.test.labelled} of {row.test.score.n}", head="judged", align="right"),
    Column("tuning", "float64", lambda row: row.test.tuning, "λ", format_decimals),
)


def _meaning_of_means(*, has_people: bool) -> str:
    if not has_people:
        return "nobody has judged a text: the means are those of a model, and no measurement of people"
    return (
        "corrected: the mean of people over all texts, estimated from their judgements and the judge's answers; it is "
        "valid if the texts that people judged are a random part"
    )


def judge_notes(judges: Sequence[JudgeResults], *, has_people: bool) -> Iterator[str]:
    """Yield how the judges answered, and why numbers are missing."""
    for judge in judges:
        record = judge.record
        parsed, answered = record.statuses.get("ok", 0), sum(record.statuses.values())
        failures = "".join(f", {status}: {count}" for status, count in record.statuses.items() if status != "ok")
        yield f"judge {judge.name} ({record.model}): {parsed} of {answered} answers parsed{failures}"
        if answered < record.questions:
            yield f"judge {judge.name}: {pluralize(record.questions - answered, 'question')} not answered yet"
        if record.truncated:
            yield f"judge {judge.name}: {pluralize(record.truncated, 'text')} not seen as a whole"
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
            f"judge {judge.name}: {pluralize(unused, 'mean judgement')} of people not used in the corrected means, "
            "because the judge was not asked about the text; judge without --limit to use all"
        )
    for reason, names in missing.items():
        yield f"judge {judge.name}: no interval or no value ({', '.join(names)}): {reason}"
