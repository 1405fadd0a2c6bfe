"""The task files, the suite and the README of a built folder, which runs unchanged with `--include_path`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from figeval.data.building import markdown_table
from figeval.types import JSON

from .kinds import ENTAILMENT, KINDS, METAPHORS, NON_ENTAILMENT

ALL = "all"
LABELS = f"labels: [{ENTAILMENT}, {NON_ENTAILMENT}]\n"
SHARED = """fields:
  id: row.id
  left: row.premise
  right: row.hypothesis
  label: row.label
  meta:
    idiom: row.idiom
    idiom_start: row.idiom_start
    idiom_end: row.idiom_end
    kind: row.kind
    figure: row.figure
    premise: row.premise_key
template: impli/nli.en.jinja
prompts:
  short: impli/nli.short.en.jinja
  question: impli/nli.question.en.jinja
  instruction: impli/nli.instruction.en.jinja
  prose: impli/nli.prose.en.jinja
verbalizer: {entailment: "Yes", non-entailment: ["No", "Maybe"]}
baselines: [chance, majority, overlap]
floor: no_query  # the same model without the premise
"""
FEW = 100  # pairs, below which a kind gets a warning about wide intervals


def task_names(name: str, kinds: Iterable[str]) -> list[str]:
    """Return the names of the tasks of these kinds, and of the task with all their pairs."""
    return [*(f"{name}_{KINDS[kind].task}" for kind in kinds), f"{name}_{ALL}"]


def task_file(name: str, kind: str) -> str:
    """Return the YAML of the task of one kind."""
    of = KINDS[kind]
    cluster = "premise" if kind == METAPHORS else "idiom"
    return (
        f'name: {name}_{of.task}\ndescription: "{name}: {of.description}; {_of(of.label)}"\ntype: pairs\n{LABELS}'
        f'only_label: {of.label}\nlanguage: en\ndata: {{test: "jsonl:{kind}.jsonl", prior: "jsonl:{ALL}.jsonl"}}\n'
        f"{SHARED}metrics: [acc]\ncluster: {cluster}\n"
    )


def _of(label: str) -> str:
    return "all entail" if label == ENTAILMENT else "none entail"


def whole_task_file(name: str) -> str:
    """Return the YAML of the task with the pairs of all kinds."""
    return (
        f'name: {name}_{ALL}\ndescription: "{name}: all kinds of pairs"\ntype: pairs\n{LABELS}language: en\n'
        f'data: {{test: "jsonl:{ALL}.jsonl"}}\n{SHARED}metrics: [balanced_acc, acc]\ncluster: idiom\n'
    )


def suite_file(name: str, kinds: Sequence[str]) -> str:
    """Return the YAML of the suite of all tasks, with contrasts of entailing and non-entailing kinds of idiom pairs."""
    idioms = [f"{name}_{KINDS[kind].task}" for kind in kinds if kind != METAPHORS]
    both = {KINDS[kind].label for kind in kinds if kind != METAPHORS} == {ENTAILMENT, NON_ENTAILMENT}
    listed = f"{{tasks: [{', '.join(idioms)}]"
    contrasts = f"contrasts:\n  idioms: {listed}}}\n  idioms_within: {listed}, within: idiom}}\n" if both else ""
    return (
        f'name: {name}\ndescription: "Idioms and metaphors as inference, built by `figeval build impli-pairs`"\n'
        f"tasks: [{', '.join(task_names(name, kinds))}]\n"
        "macro_mean: false  # columns have opposite gold labels, so the mean of a constant answer would count columns\n"
        f"{contrasts}"
    )


def readme(name: str, report: JSON) -> str:
    """Return the README of the folder: how to run its tasks, and the report as tables."""
    kinds = [kind for kind, made in report["kinds"].items() if made["pairs"]]
    rows = [
        [
            f"`{name}_{KINDS[kind].task}`",
            *(made[key] for key in ("sentences", "pairs", "idioms", "most_of_one", "changed")),
        ]
        for kind, made in report["kinds"].items()
    ]
    header = ["", "sentences", "pairs", "idioms or words", "pairs of the most frequent one", "with a change of form"]
    located, defined = report["located"], report["definitions"]
    read = ", ".join(f"{count} {label}" for label, count in located["read"].items())
    parts = [
        f"# {name}\n\nPairs of IMPLI's kinds, built by `figeval build impli-pairs` with the seed {report['seed']}. "
        "`report.json` holds all numbers, every pair its provenance, `*_rejected.jsonl` the reason for every sentence "
        "without a pair, `sheets/` a sheet for people to judge; the rules are in figeval's `tasks/impli/BUILD.md`."
        f"\n\n    figeval run --include_path FOLDER --tasks {','.join(task_names(name, kinds))} --model minilm",
        *warnings(report),
        f"## Pairs\n\n{markdown_table(header, rows)}",
        f"## Coverage\n\nSentences read: {read}. An idiom or a word was found in {located['found']} of them, "
        f"{located['idioms']} distinct idioms of the {defined['idioms']} that have a definition "
        f"({defined['with_several']} have several).",
        _rejected("Sentences that were left out", located["rejected"]),
        *(_rejected(f"Sentences without a pair: {kind}", made["rejected"]) for kind, made in report["kinds"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def warnings(report: JSON) -> Iterator[str]:
    """Yield the warnings that a user should read before running the tasks."""
    for kind, made in report["kinds"].items():
        read = report["located"]["read"]
        if not made["pairs"] and (kind != METAPHORS or read.get("metaphor")):
            yield f"There are no pairs of the kind {kind}, so it has no task."
        elif 0 < made["pairs"] < FEW:
            yield f"There are only {made['pairs']} pairs of the kind {kind}; intervals will be wide."


def _rejected(title: str, reasons: JSON) -> str:
    return f"## {title}\n\n{markdown_table(['reason', 'sentences'], reasons.items()) if reasons else 'None.'}"
