"""`figeval.checklist`, and the `Checklist` that it returns."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from figeval import frontend
from figeval.api.frames import data_frame
from figeval.api.runs import Folders, Runs, paths_in, run_paths
from figeval.errors import OptionError, near
from figeval.io.text import one_line
from figeval.io.validation import checked_arguments
from figeval.runs.harness import Harness
from figeval.wings.checklist.checklist import CHECKLISTS, Answer
from figeval.wings.checklist.checklist import checklist as answers_of
from figeval.wings.checklist.facts import FILL_IN, Facts

if TYPE_CHECKING:
    import pandas

COLUMNS = {"item": "string", "question": "string", "answer": "string"}
TAG = re.compile("<(?=[A-Za-z/!?])")
LONGEST = 20_000  # characters of an answer; instructions are quoted in full


@checked_arguments
def checklist(
    runs: Runs,
    *,
    form: str = "arr",
    items: Folders = (),
    include_path: Folders = (),
) -> Checklist:
    """Answer a conference's reproducibility checklist from the records of runs.

    Args:
        runs: all runs of a paper or their folders, since hours are added up over them; folders of several seeds and of
            trainings stand for their runs.
        form: "arr" for Responsible NLP of ACL Rolling Review, "neurips" for the checklist of NeurIPS.
        items: folders of `figeval.export_items` whose instructions are quoted.
        include_path: further folders with task files.

    Raises:
        OptionError: there are no runs, or no such checklist.
        RecordError: there is no run at a path, or a record is damaged.
        DataError: a folder of items has no key, or it is damaged.

    Example:
        ```python
        print(figeval.checklist(["results/runs/minilm", "results/runs/tfidf"], form="neurips"))
        ```
    """
    if form not in CHECKLISTS:
        raise OptionError(f"form={form!r:.80}{near(form, CHECKLISTS)}; the checklists are {', '.join(CHECKLISTS)}")
    if not (places := run_paths(runs)):
        raise OptionError("runs is empty; give all runs of the paper, or their folders")
    with frontend.python_program(watched=False):
        facts = Facts.of(places, Harness(include=paths_in(include_path)), paths_in(items, "items"))
        return Checklist(tuple(answers_of(facts, form)))


@dataclass(frozen=True, slots=True)
class Checklist:
    """Answers to a checklist as far as records know them, as `figeval.checklist` returns them.

    `print` prints it as Markdown, as `figeval checklist` does.

    Attributes:
        answers: the items in order; an answer without lines has to be filled in by the authors.
    """

    answers: tuple[Answer, ...]

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per item: `item`, `question`, and `answer`, which is missing if no record knows it.

        Raises:
            FigevalError: pandas is not installed.
        """
        rows = (
            {"item": one.item, "question": one.question, "answer": "\n".join(one.lines) or None} for one in self.answers
        )
        return data_frame(rows, COLUMNS)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the answers as `figeval checklist --json` prints them."""
        return [asdict(one) for one in self.answers]

    def to_markdown(self) -> str:
        """Return a heading for each item and a list with its answer, which is "fill in" if no record knows it."""
        return "\n\n".join(
            "\n".join(
                [f"### {one.item} {one.question}", "", *(f"- {_escaped(line)}" for line in one.lines or (FILL_IN,))]
            )
            for one in self.answers
        )

    def __str__(self) -> str:
        return self.to_markdown()

    def __repr__(self) -> str:
        missing = sum(not one.lines for one in self.answers)
        return f"<figeval.Checklist of {len(self.answers)} items, {missing} to fill in>"

    def _repr_html_(self) -> str:
        items = (
            f"<dt><b>{escape(f'{one.item} {one.question}')}</b></dt>"
            + "".join(f"<dd>{escape(_flat(line))}</dd>" for line in one.lines or (FILL_IN,))
            for one in self.answers
        )
        return f"<dl>{''.join(items)}</dl>"


def _escaped(line: str) -> str:
    """Return a line for Markdown, which would take a name or a text in it for HTML."""
    return TAG.sub(r"\\<", _flat(line))


def _flat(line: str) -> str:
    return one_line(line, LONGEST)
