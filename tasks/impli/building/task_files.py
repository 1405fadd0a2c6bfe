"""The task files, the suite and the README of a built folder, which runs unchanged with `--include_path`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from figeval.data.building import markdown_table
from figeval.types import JSON

from .kinds import ENTAILMENT, KINDS, METAPHORS, NON_ENTAILMENT

ALL_KINDS = "all"
LABELS = f"labels: [{ENTAILMENT}, {NON_ENTAILMENT}]\n"
SHARED_KEYS = """fields:
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
MIN_PAIRS = 100  # pairs, below which a kind gets a warning about wide intervals


def task_names(name: str, kinds: Iterable[str]) -> list[str]:
    """Return the names of the tasks of these kinds, and of the task with all their pairs."""
    return [*(f"{name}_{KINDS[kind].task}" for kind in kinds), f"{name}_{ALL_KINDS}"]


def task_file(name: str, kind: str) -> str:
    """Return the YAML of the task of one kind."""
    task, label, description = KINDS[kind].task, KINDS[kind].label, KINDS[kind].description
    cluster = "premise" if kind == METAPHORS else "idiom"
    return (
        f'name: {name}_{task}\ndescription: "{name}: {description}; {_label_summary(label)}"\ntype: pairs\n{LABELS}'
        f'only_label: {label}\nlanguage: en\ndata: {{test: "jsonl:{kind}.jsonl", prior: "jsonl:{ALL_KINDS}.jsonl"}}\n'
        f"{SHARED_KEYS}metrics: [acc]\ncluster: {cluster}\n"
    )


def _label_summary(label: str) -> str:
    return "all entail" if label == ENTAILMENT else "none entail"


def combined_task_file(name: str) -> str:
    """Return the YAML of the task with the pairs of all kinds."""
    return (
        f'name: {name}_{ALL_KINDS}\ndescription: "{name}: all kinds of pairs"\ntype: pairs\n{LABELS}language: en\n'
        f'data: {{test: "jsonl:{ALL_KINDS}.jsonl"}}\n{SHARED_KEYS}metrics: [balanced_acc, acc]\ncluster: idiom\n'
    )


def suite_file(name: str, kinds: Sequence[str]) -> str:
    """Return the YAML of the suite of all tasks, with contrasts of entailing and non-entailing kinds of idiom pairs."""
    idioms = [f"{name}_{KINDS[kind].task}" for kind in kinds if kind != METAPHORS]
    has_both_labels = {KINDS[kind].label for kind in kinds if kind != METAPHORS} == {ENTAILMENT, NON_ENTAILMENT}
    task_list = f"{{tasks: [{', '.join(idioms)}]"
    contrasts = f"contrasts:\n  idioms: {task_list}}}\n  idioms_within: {task_list}, within: idiom}}\n"
    return (
        f"name: {name}\n"
        'description: "Idioms and metaphors as inference, built by `figeval benchmark build impli-pairs`"\n'
        f"tasks: [{', '.join(task_names(name, kinds))}]\n"
        "macro_mean: false  # columns have opposite gold labels, so the mean of a constant answer would count columns\n"
        f"{contrasts if has_both_labels else ''}"
    )


def readme(name: str, report: JSON) -> str:
    """Return the README of the folder: how to run its tasks, and the report as tables."""
    kinds = [kind for kind, counts in report["kinds"].items() if counts["pairs"]]
    rows = [
        [
            f"`{name}_{KINDS[kind].task}`",
            *(counts[key] for key in ("sentences", "pairs", "idioms", "most_of_one", "changed")),
        ]
        for kind, counts in report["kinds"].items()
    ]
    header = ["", "sentences", "pairs", "idioms or words", "pairs of the most frequent one", "with a change of form"]
    located, definitions = report["located"], report["definitions"]
    read = ", ".join(f"{count} {label}" for label, count in located["read"].items())
    parts = [
        f"# {name}\n\nPairs of IMPLI's kinds, built by `figeval benchmark build impli-pairs` "
        f"with the seed {report['seed']}. "
        "`report.json` holds all numbers, every pair its provenance, `*_rejected.jsonl` the reason for every sentence "
        "without a pair, `sheets/` a sheet for people to judge; the rules are in figeval's `tasks/impli/README.md`."
        f"\n\n    figeval run --include_path FOLDER --tasks {','.join(task_names(name, kinds))} --model minilm",
        *warnings(report),
        f"## Pairs\n\n{markdown_table(header, rows)}",
        f"## Coverage\n\nSentences read: {read}. An idiom or a word was found in {located['found']} of them, "
        f"{located['idioms']} distinct idioms of the {definitions['idioms']} that have a definition "
        f"({definitions['with_several']} have several).",
        _rejection_table("Sentences that were left out", located["rejected"]),
        *(
            _rejection_table(f"Sentences without a pair: {kind}", counts["rejected"])
            for kind, counts in report["kinds"].items()
        ),
    ]
    return "\n\n".join(parts) + "\n"


def warnings(report: JSON) -> Iterator[str]:
    """Yield the warnings that a user should read before running the tasks."""
    for kind, counts in report["kinds"].items():
        read = report["located"]["read"]
        if not counts["pairs"] and (kind != METAPHORS or read.get("metaphor")):
            yield f"There are no pairs of the kind {kind}, so it has no task."
        elif 0 < counts["pairs"] < MIN_PAIRS:
            yield f"There are only {counts['pairs']} pairs of the kind {kind}; intervals will be wide."


def _rejection_table(title: str, reasons: JSON) -> str:
    return f"## {title}\n\n{markdown_table(['reason', 'sentences'], reasons.items()) if reasons else 'None.'}"
