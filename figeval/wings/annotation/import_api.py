"""`figeval.import_judgements`, and the `AnnotationResults` that it returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figeval.api.frames import data_frame
from figeval.api.runs import Runs, listed, paths_in, run_paths
from figeval.errors import OptionError
from figeval.io.validation import checked_arguments
from figeval.records.result_json import to_json
from figeval.reporting.grid import Grid, page, plain
from figeval.spec.criteria import criteria_of
from figeval.types import JSON, Score
from figeval.wings.annotation.export_api import Criteria, parts_of
from figeval.wings.annotation.importing import Import, Imported
from figeval.wings.annotation.importing import import_judgements as imported
from figeval.wings.annotation.judge_tables import judge_grids, judge_notes
from figeval.wings.annotation.tables import people_grids, people_notes

if TYPE_CHECKING:
    import pandas

NUMBER = {
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "n": "Int64",
    "clusters": "Int64",
    "interval": "string",
}
MEANS = {"criterion": "string", "system": "string", **NUMBER, "undecided": "Int64"}
AGREEMENT = {"criterion": "string", "coefficient": "string", "rater_a": "string", "rater_b": "string", **NUMBER}
DIFFERENCES = {
    "criterion": "string",
    "a": "string",
    "b": "string",
    "difference": "float64",
    "low": "float64",
    "high": "float64",
    "p": "float64",
    "p_holm": "float64",
    "n": "Int64",
    "clusters": "Int64",
    "test": "string",
    "note": "string",
}
CORRELATIONS = {"criterion": "string", "system": "string", "metric": "string", "coefficient": "string", **NUMBER}
JUDGES = {
    "judge": "string",
    "criterion": "string",
    "system": "string",
    "asked": "Int64",
    "people": "float64",
    "uncorrected": "float64",
    "corrected": "float64",
    "low": "float64",
    "high": "float64",
    "tuning": "float64",
    "labelled": "Int64",
    "n": "Int64",
}


@checked_arguments
def import_judgements(  # noqa: PLR0913 - one argument per option of the command
    files: str | Path | Sequence[str | Path] = (),
    *,
    to: str | Path | None = None,
    runs: Runs = (),
    task: str | None = None,
    criteria: Criteria = (),
    last: bool = False,
    exclude: Sequence[str] = (),
    pairs: bool = False,
    seed: int = 0,
) -> AnnotationResults:
    """Read judgements, store them next to the key, and return means, agreement, tests and correlations.

    Args:
        files: files of annotators (`figeval annotate import --help` lists the forms); by default, the sheets in the
            folder `to` and the answers that `figeval annotate serve` stored there.
        to: folder of `figeval.export_items`, to which the judgements belong.
        runs: runs whose metrics are correlated with the judgements. Without `to`, items are ids of the examples of the
            only one.
        task: task of the run, if items are ids of its examples and it has several tasks.
        criteria: scales of the criteria, if there is no key, as for `figeval.export_items`; by default, the labels that
            occur.
        last: count the last answer if an annotator judged an item twice.
        exclude: annotators to leave out of the results.
        pairs: also compute the agreement of each pair of annotators.
        seed: random seed of intervals and tests.

    Raises:
        OptionError: an argument has an invalid value, there are no files, or nobody has an excluded name.
        DataError: a file or a judgement is wrong, or there are no judgements.
        RecordError: a run does not have the task, or the folder cannot be written.

    Example:
        ```python
        found = figeval.import_judgements(to="items", runs=["runs/a", "runs/b"])
        found.to_frame()
        found.agreement
        ```
    """
    parts = parts_of(criteria)
    scales = dict(part.partition("=")[::2] for part in parts) if isinstance(parts, list) else parts
    try:
        named = criteria_of(scales)
    except ValueError as error:
        raise OptionError(f"--criteria: {error}") from error
    wanted = Import(
        files=paths_in(files, "files"),
        folder=None if to is None else Path(to),
        runs=run_paths(runs),
        task=task,
        criteria=named,
        last=last,
        pairs=pairs,
        exclude=tuple(listed(exclude, str, "exclude", "the names of annotators")),
    )
    return AnnotationResults(imported(wanted, seed))


@dataclass(frozen=True, slots=True)
class AnnotationResults:
    """Results of judgements of people, and of models beside them, as `figeval.import_judgements` returns them.

    A notebook shows them as the tables that `figeval annotate import` prints; `print` prints the same as text.

    Attributes:
        found: all numbers: those of `people` and of the `judges`, and the judgements as they were `given`.
    """

    found: Imported

    def to_frame(self) -> pandas.DataFrame:
        """Return the mean judgement of each system by each criterion; empty if no person has judged.

        Columns: `criterion`, `system`, `value`, `low`, `high`, `n` (texts), `clusters`, `interval`, `undecided` (texts
        without a majority label).

        Raises:
            FigevalError: pandas is not installed.
        """
        rows = ({**asdict(one), **_number(one.score)} for one in self.found.people.systems)
        return data_frame(rows, MEANS)

    @property
    def agreement(self) -> pandas.DataFrame:
        """Coefficients of agreement: `criterion`, `coefficient`, `rater_a`, `rater_b`, `value`, `low`, `high`, `n` …

        `rater_a` and `rater_b` are missing for coefficients of all annotators. Rows of pairs need `pairs=True`.
        """
        rows: list[JSON] = []
        for one in self.found.people.agreement:
            rows += (
                {"criterion": one.criterion, "coefficient": score.metric, **_number(score)} for score in one.scores
            )
            for pair in one.pairs:
                both = {"criterion": one.criterion, "rater_a": pair.raters[0], "rater_b": pair.raters[1]}
                scores = [score for score in (pair.percent, pair.kappa, pair.kappa_quadratic) if score is not None]
                rows += ({**both, "coefficient": score.metric, **_number(score)} for score in scores)
        return data_frame(rows, AGREEMENT)

    @property
    def differences(self) -> pandas.DataFrame:
        """Paired tests between systems, for these annotators: `criterion`, `a`, `b`, `difference` (a − b), `p` …"""
        rows = (
            {**one.test.to_dict(), "criterion": one.criterion, "a": one.a, "b": one.b, "p_holm": one.p_holm}
            for one in self.found.people.tests
        )
        return data_frame(rows, DIFFERENCES)

    @property
    def correlations(self) -> pandas.DataFrame:
        """Correlations of metrics with the mean judgement: `criterion`, `system`, `metric`, `coefficient`, `value` …"""
        rows = (
            {**asdict(one), "coefficient": score.metric, **_number(score)}
            for one in self.found.people.correlations
            for score in one.scores
        )
        return data_frame(rows, CORRELATIONS)

    @property
    def judge_means(self) -> pandas.DataFrame:
        """Means of systems by judges and people.

        Columns: `judge`, `criterion`, `system`, `asked` (texts), `people` (their mean alone), `uncorrected` (that of
        the judge alone), `corrected` (that of people over all texts, estimated with the judge's answers) with `low`
        and `high`, `tuning` (λ), `labelled` (texts that people judged) of `n`.
        """
        rows = []
        for judge in self.found.judges:
            for one in judge.systems:
                row = {"judge": judge.name, "criterion": one.criterion, "system": one.system, "asked": one.asked}
                row |= {"people": one.people.value, "uncorrected": one.judge.value}
                if one.powered is not None:
                    powered = {"tuning": one.powered.tuning, "labelled": one.powered.labelled}
                    row |= _number(one.powered.score) | powered | {"corrected": one.powered.score.value}
                rows.append(row)
        return data_frame(rows, JUDGES)

    def to_dict(self) -> JSON:
        """Return all numbers as `figeval annotate import --json` prints them."""
        judges = [to_json(one) | {"record": one.record.model_dump(mode="json")} for one in self.found.judges]
        given, people = self.found.given, dict[str, Any](to_json(self.found.people))
        return people | {
            "judges": judges,
            "skipped": given.skipped,
            "ground_truth": given.ground_truth,
        }

    @property
    def grids(self) -> list[Grid]:
        """Tables that the command line prints."""
        people = people_grids(self.found.people) if self._has_people else ()
        return [*people, *judge_grids(self.found.judges)]

    def notes(self) -> Iterator[str]:
        """Yield inferred scales, what was left out, and why numbers are missing."""
        yield from people_notes(self.found.people, self.found.given)
        yield from judge_notes(self.found.judges, has_people=self._has_people)

    @property
    def _has_people(self) -> bool:
        return self.found.people.judgements > 0

    def __str__(self) -> str:
        return plain(self.grids, self.notes())

    def __repr__(self) -> str:
        people = self.found.people
        judges = "".join(f", judge {one.name}" for one in self.found.judges)
        names = ", ".join(people.annotators) or "nobody"
        return f"<figeval.AnnotationResults of {people.task}: {people.judgements} judgements of {names}{judges}>"

    def _repr_html_(self) -> str:
        return page(self.grids, self.notes())


def _number(score: Score) -> JSON:
    number = to_json(score)
    return {name: number[name] for name in NUMBER}
