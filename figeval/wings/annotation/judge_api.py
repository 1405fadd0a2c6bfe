"""`figeval.judge_items`, and the `JudgedItems` that it returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from figeval import frontend
from figeval.api.frames import data_frame
from figeval.api.runs import Folders, given_options, model_name, paths_in
from figeval.errors import OptionError
from figeval.io.text import clean, counted
from figeval.io.validation import checked_arguments
from figeval.runs.harness import Guests, Harness
from figeval.types import JSON
from figeval.wings.annotation.judge import Judging
from figeval.wings.annotation.judge import judge_items as judged_by
from figeval.wings.annotation.judge_record import Judged, constant_labels, describe_constant

if TYPE_CHECKING:
    from typing import Unpack

    import pandas

COLUMNS = {
    "item": "string",
    "criterion": "string",
    "label": "string",
    "status": "string",
    "raw": "string",
    "probabilities": "object",
    "truncated": "bool",
}
COMMON = ("device", "seed", "max_cost", "max_tokens")


class JudgeOptions(TypedDict, total=False):
    """Further flags of `figeval annotate judge`; `figeval annotate judge --help` describes each."""

    model_args: Mapping[str, Any]
    template: str | Path | None
    limit: int | None
    device: str | None
    max_cost: float | None
    max_tokens: int | None
    seed: int
    include_path: Folders


@checked_arguments
def judge_items(
    items: str | Path,
    model: object,
    *,
    name: str | None = None,
    progress: bool = False,
    **options: Unpack[JudgeOptions],
) -> JudgedItems:
    """Have a model judge the items of `figeval.export_items` by the same criteria as people.

    The model sees what annotators see, and not who wrote a text. The same call continues after an interruption, and
    asks questions again that failed.

    Args:
        items: folder of the items.
        model: a name, a folder or a hub id, or an object with `loglikelihood` or `generate`.
        name: name of the judge's files in the folder; by default that of the model. For an object also its name.
        progress: print on stderr what is already answered, and what the rest will cost.
        options: further flags of `figeval annotate judge` under the same names: `model_args`, `template`, `limit`,
            `device`, `max_cost`, `max_tokens`, `seed`, `include_path`.

    Raises:
        TypeError: there is no such option.
        OptionError: an option has an invalid value, the items are questions with an answer, or files with this name
            come from another model, prompt or version of the texts.
        CapabilityError: the model can neither compare labels nor reply in words.
        FigevalError: an unknown model, a budget that is exhausted …

    Example:
        ```python
        figeval.judge_items("items", "openai:gpt-4o-mini", max_cost=2.0)
        figeval.import_judgements(to="items").judge_means
        ```
    """
    found = given_options("figeval.judge_items", options, JudgeOptions.__annotations__)
    called, objects = model_name(model, name if not isinstance(model, str | Path) else None)
    limit, template = found.get("limit"), found.get("template")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise OptionError(f"limit={limit!r:.80}: give a whole number of at least 1")
    if template is not None and not isinstance(template, str | Path):
        raise OptionError(f"template={template!r:.80}: give the path of a file")
    wanted = Judging(
        folder=Path(items),
        model=called,
        options=found.get("model_args") or {},
        name=name,
        template=None if template is None else Path(template),
        limit=limit,
        common={"seed": 0} | {one: found[one] for one in COMMON if found.get(one) is not None},
    )
    with frontend.python_program(watched=progress):
        harness = Harness(include=paths_in(found.get("include_path", ())), guests=Guests(models=objects))
        return JudgedItems(Path(items), judged_by(wanted, harness))


@dataclass(frozen=True, slots=True)
class JudgedItems:
    """Answers of a model as a judge, as `figeval.judge_items` returns them.

    `print` prints the lines that `figeval annotate judge` prints.

    Attributes:
        path: folder of the items.
        judged: the judge's name, record and answers, and the number of questions that failed.
    """

    path: Path
    judged: Judged

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per question, attention checks included.

        Columns: `item`, `criterion`, `label` (missing unless `status` is `ok`), `status`, `raw` (a reply in words),
        `probabilities` (of the labels), `truncated` (whether the model saw only a part of the text).

        Raises:
            FigevalError: pandas is not installed.
        """
        return data_frame((row.model_dump() for row in self.judged.rows), COLUMNS)

    def to_dict(self) -> JSON:
        """Return the record as `figeval annotate judge --json` prints it."""
        return self.judged.record.model_dump(mode="json")

    def _lines(self) -> Iterator[str]:
        record = self.judged.record
        rows = [row for row in self.judged.rows if row.item in self.judged.items]
        statuses = Counter(row.status for row in rows)
        items = counted(len(self.judged.items), "item")
        yield f"{record.model} judged {items}: {statuses['ok']} of {len(rows)} answers parsed"
        if failures := ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()) if status != "ok"):
            yield f"without a label: {failures}"
        if rest := len(self.judged.rows) - len(rows):
            yield f"{counted(rest, 'answer')} about other items stored earlier"
        for criterion, label in constant_labels(rows).items():
            yield describe_constant(criterion, *label)
        if record.truncated:
            yield f"{counted(record.truncated, 'question')} did not fit the model, which saw only a part of the text"
        if record.checks[1]:
            yield f"{record.checks[0]} of {record.checks[1]} answers to attention checks as requested"
        if record.description.get("tokens_in") is not None:
            cost = record.description.get("cost")
            told = "" if cost is None else f", at a cost of {cost:,.4f}"
            yield f"{record.description['tokens_in']:,} tokens read, {record.description['tokens_out']:,} written{told}"
        file = self.path / f"judge_{self.judged.name}.json"
        yield f"{file}: figeval annotate import --to {self.path} compares it with people"

    def __str__(self) -> str:
        return clean("\n".join(self._lines()))

    def __repr__(self) -> str:
        answers = counted(len(self.judged.rows), "answer")
        return f"<figeval.JudgedItems of {self.judged.record.model!r} in {self.path}: {answers}>"
