"""`figeval.checklist`: a conference's reproducibility checklist, as far as the records of runs and trainings answer it.

ARR's Responsible NLP checklist (https://aclrollingreview.org/responsibleNLPresearch) and NeurIPS's paper checklist
(https://neurips.cc/public/guides/PaperChecklist) ask for the same `Facts` in another order. A checklist is a list of
items with the facts that answer them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from figeval import Column, Harness, OptionError, Result, Table
from figeval.api.runs import Runs, run_paths
from figeval.config import Folders
from figeval.io import frontend
from figeval.io.text import near, one_line
from figeval.io.validation import checked_arguments, paths_in
from figeval.wings.checklist.facts import FILL_IN, Facts

Fact = Callable[[Facts], Iterator[str]]
ARR: tuple[tuple[str, str, tuple[Fact, ...]], ...] = (
    ("A1", "Limitations of the work", ()),
    ("A2", "Potential risks of the work", ()),
    ("B1", "Creators of the artifacts used", (Facts.citations,)),
    ("B2", "Licences and terms of use", (Facts.licences,)),
    ("B3", "Use of artifacts as intended", ()),
    ("B4", "Personal or offensive content in the data", ()),
    ("B5", "Documentation of artifacts: domains, languages", (Facts.documentation,)),
    ("B6", "Statistics of the data and its splits", (Facts.splits,)),
    ("C1", "Parameters, computational budget, infrastructure", (Facts.compute,)),
    ("C2", "Experimental setup, hyperparameters and their search", (Facts.settings, Facts.training)),
    ("C3", "Descriptive statistics of the results", (Facts.statistics,)),
    ("C4", "Versions and parameters of packages", (Facts.versions, Facts.implementations)),
    ("D1", "Full text of instructions given to participants", (Facts.instructions,)),
    ("D2–D5", "Human annotators: recruitment, payment, consent, ethics review", ()),
    ("E1", "Use of AI assistants", ()),
)
NEURIPS: tuple[tuple[str, str, tuple[Fact, ...]], ...] = (
    ("1", "Claims", ()),
    ("2", "Limitations", ()),
    ("3", "Theory, assumptions and proofs", ()),
    ("4", "Reproducibility of the results", (Facts.commands, Facts.versions, Facts.implementations)),
    ("5", "Open access to data and code", (Facts.licences,)),
    ("6", "Experimental setting", (Facts.splits, Facts.settings, Facts.training)),
    ("7", "Statistical significance", (Facts.statistics,)),
    ("8", "Compute resources", (Facts.compute,)),
    ("9", "Code of ethics", ()),
    ("10", "Broader impacts", ()),
    ("11", "Safeguards", ()),
    ("12", "Licences of existing assets", (Facts.citations, Facts.licences)),
    ("13", "New assets", ()),
    ("14", "Crowdsourcing and human subjects", (Facts.instructions,)),
    ("15", "Approval by a review board", ()),
    ("16", "Use of language models", ()),
)
CHECKLISTS = {"arr": ARR, "neurips": NEURIPS}
TAG = re.compile("<(?=[A-Za-z/!?])")
MAX_ANSWER_CHARS = 20_000  # instructions are quoted in full


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
    if not (folders := run_paths(runs)):
        raise OptionError("runs is empty; give all runs of the paper, or their folders")
    with frontend.python_program(watched=False):
        facts = Facts.of(folders, Harness(include=paths_in(include_path)), paths_in(items, "items"))
        return Checklist(
            tuple(
                ChecklistAnswer(item, question, tuple(line for fact in answer for line in fact(facts)))
                for item, question, answer in CHECKLISTS[form]
            )
        )


@dataclass(frozen=True, slots=True)
class ChecklistAnswer:
    """One item of a checklist; `lines` are what the records know, and are empty if the author has to fill it in."""

    item: str
    question: str
    lines: tuple[str, ...]

    @property
    def title(self) -> str:
        """Number and question."""
        return f"{self.item} {self.question}"

    @property
    def shown_lines(self) -> list[str]:
        """The lines, each on one line of text; "fill in" if there are none."""
        return [one_line(line, MAX_ANSWER_CHARS) for line in self.lines or (FILL_IN,)]


@dataclass(frozen=True, slots=True)
class Checklist(Result):
    """Answers to a checklist as far as records know them, as `figeval.checklist` returns them.

    `print` prints it as Markdown, as `figeval checklist` does.

    Attributes:
        answers: the items in order; an answer without lines has to be filled in by the authors.
    """

    answers: tuple[ChecklistAnswer, ...]

    @property
    def tables(self) -> list[Table[ChecklistAnswer]]:
        """One row per item: `item`, `question`, and `answer`, which is missing if no record knows it."""
        answer: Column[ChecklistAnswer] = Column("answer", value=lambda row: "\n".join(row.lines) or None)
        return [Table([Column("item"), Column("question"), answer], self.answers)]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the answers as `figeval checklist --json` prints them."""
        return [asdict(answer) for answer in self.answers]

    def to_markdown(self) -> str:
        """Return a heading for each item and a list with its answer, which is "fill in" if no record knows it."""
        return "\n\n".join(
            "\n".join([f"### {answer.title}", "", *(f"- {_without_tags(line)}" for line in answer.shown_lines)])
            for answer in self.answers
        )

    def __str__(self) -> str:
        return self.to_markdown()

    def __repr__(self) -> str:
        missing = sum(not answer.lines for answer in self.answers)
        return f"<figeval.Checklist of {len(self.answers)} items, {missing} to fill in>"

    def _repr_html_(self) -> str:
        items = (
            f"<dt><b>{escape(answer.title)}</b></dt>"
            + "".join(f"<dd>{escape(line)}</dd>" for line in answer.shown_lines)
            for answer in self.answers
        )
        return f"<dl>{''.join(items)}</dl>"


def _without_tags(line: str) -> str:
    """Return a line for Markdown, which would take a name or a text in it for HTML."""
    return TAG.sub(r"\\<", line)
