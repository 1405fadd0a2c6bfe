"""Answers to the reproducibility checklists of conferences, as far as the records of runs and trainings know them.

ARR's Responsible NLP checklist (https://aclrollingreview.org/responsibleNLPresearch) and NeurIPS's paper checklist
(https://neurips.cc/public/guides/PaperChecklist) ask for the same `Facts` in another order. A checklist is a list of
items with the facts that answer them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from figeval.wings.checklist.facts import Facts


@dataclass(frozen=True, slots=True)
class Answer:
    """One item of a checklist; `lines` are what the records know, and are empty if the author has to fill it in."""

    item: str
    question: str
    lines: tuple[str, ...]


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


def checklist(facts: Facts, form: str) -> list[Answer]:
    """Return the answers to a checklist of `CHECKLISTS`, in its order."""
    return [
        Answer(item, question, tuple(line for fact in known for line in fact(facts)))
        for item, question, known in CHECKLISTS[form]
    ]
