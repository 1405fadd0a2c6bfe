"""The README of a built folder: how to run its tasks, and the report in tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from figeval.data.building import markdown_table
from figeval.types import JSON

from .topics import TOP_WORDS

RULES = "## Rules that do not read the story"


def readme(name: str, report: JSON) -> str:
    """Return the README of the folder: how to run its tasks, and the report as tables."""
    tasks = ",".join(f"{name}_{kind}" for kind in report["tasks"])
    parts = [
        f"# {name}\n\nTasks in {report['language']!r}, built by `figeval benchmark build storal` "
        f"with the seed {report['seed']} "
        "from pairs of stories and morals. `report.json` holds all numbers; the rules are in figeval's "
        f"`tasks/storal/README.md`.\n\n    figeval run --include_path FOLDER --tasks {tasks} --model minilm",
        _sizes(report),
        *warnings(report),
        *([_topics(report["mocpt"])] if "mocpt" in report else []),
        *([_dropped("Morals without a wrong option", report["mopref"])] if "mopref" in report else []),
        *([_dropped("Morals without both versions", report["preference"])] if "preference" in report else []),
        *([_dropped("Stories without an item", report["mo2st"])] if "mo2st" in report else []),
        _duplicates(report),
        *([_rules(report["rules"])] if report["rules"] else []),
        *([_ambiguous(report["ambiguous"])] if report["ambiguous"] else []),
    ]
    return "\n\n".join(parts) + "\n"


def words_in_common(vocabulary: int) -> str:
    """Return a warning that the topics were learned from few words."""
    return (
        f"The training morals have only {vocabulary} content words that occur in two of them, so the topics mean next "
        "to nothing, and whether a wrong moral has another topic is arbitrary."
    )


def warnings(report: JSON) -> Iterator[str]:
    """Yield the warnings that a user should read before running the tasks."""
    splits = list(report["sizes"]["pairs"])
    if "test" not in splits:
        yield f"There is no test split, so the tasks are run on the split '{splits[-1]}'."
    if "mocpt" in report and report["mocpt"]["vocabulary"] <= TOP_WORDS:
        yield words_in_common(report["mocpt"]["vocabulary"])


def _sizes(report: JSON) -> str:
    splits = list(report["sizes"]["pairs"])
    paper: Mapping[str, Mapping[str, int]] = report["paper_sizes"]
    rows = [
        [kind, *counts.values(), *(paper.get(kind, {}).get(split, "–") for split in splits)]
        for kind, counts in report["sizes"].items()
    ]
    header = ["", *splits, *(f"paper, {split}" for split in splits)]
    return f"## Sizes\n\n{markdown_table(header, rows)}"


def _topics(topics: JSON) -> str:
    has_few_words = topics["vocabulary"] <= TOP_WORDS
    if topics["given"]:
        rule = "as given"
    elif topics["by_rule"]:
        rule = "the smallest number from 8 on for which the specificity of every topic exceeds 0.5"
    else:
        reason = (
            "the rule needs more words"
            if has_few_words
            else "no number up to 60 gives every topic a specificity above 0.5"
        )
        rule = f"the paper's number or that of the training morals, whichever is smaller, because {reason}"
    rows = [
        [number, f"{share:.1%}", f"{specificity:.2f}", " ".join(words)]
        for number, (share, specificity, words) in enumerate(
            zip(topics["shares"], topics["specificity"], topics["words"], strict=True)
        )
    ]
    table = markdown_table(["topic", "share of training morals", "specificity", "heaviest words"], rows)
    rules = "; ".join(f"{split}: {rule}" for split, split_rules in topics["rules"].items() for rule in split_rules)
    specificity = "undefined" if has_few_words else f"{min(topics['specificity']):.3f}"
    empty = sum(share == 0 for share in topics["shares"])
    empty_note = f"; {empty} topics have no moral" if empty else ""
    summary = (
        f"{topics['count']} topics, {rule}. Smallest specificity {specificity}, smallest share "
        f"{min(topics['shares']):.1%}{empty_note}. Negatives: {rules}."
    )
    return "\n\n".join(("## Topics", summary, table))


def _dropped(title: str, notes: JSON) -> str:
    rows = [[split, reason, count] for split, reasons in notes.items() for reason, count in reasons.items()]
    return f"## {title}\n\n{markdown_table(['split', 'reason', 'pairs'], rows) if rows else 'None.'}"


def _duplicates(report: JSON) -> str:
    duplicates = report["duplicates"]
    counts = [
        [name, *(duplicates[name][key] for key in ("repeated", "pairs", "across_splits"))]
        for name in ("stories", "morals")
    ]
    header = ["", "that occur more than once", "their pairs", "of these, in several splits"]
    parts = [
        f"## Duplicates\n\n{markdown_table(header, counts)}",
        f"Pairs that were removed: {len(duplicates['removed'])}.",
    ]
    if report["overlap"]:
        header = ["other pairs", "pairs there", "our stories that are there", "our morals that are there"]
        overlap = [
            [name, *(numbers[key] for key in ("pairs", "stories", "morals"))]
            for name, numbers in report["overlap"].items()
        ]
        parts.append(markdown_table(header, overlap))
    return "\n\n".join(parts)


def _rules(rules: JSON) -> str:
    deviations = [
        (f"{kind}, {split}", rule)
        for kind, by_split in rules.items()
        for split, split_rules in by_split.items()
        for rule in split_rules
        if rule["off"]
    ]
    if not deviations:
        return f"{RULES}\n\nNone differs from chance by more than its 95 % interval."
    rows = [
        [
            task,
            f"{rule['rule']} ({rule['knows']})",
            *(f"{rule[key]:.3f}" for key in ("value", "low", "high", "chance")),
        ]
        for task, rule in deviations
    ]
    header = ["task", "rule (what it knows)", "accuracy", "95 % from", "to", "chance"]
    return f"{RULES}\n\nThose whose 95 % interval does not contain chance:\n\n{markdown_table(header, rows)}"


def _ambiguous(ambiguous: JSON) -> str:
    rows = []
    for model, audit in ambiguous.items():
        if "missing" in audit:
            rows.append([model, audit["missing"], "–", "–"])
        else:
            shares = (audit[key] / audit["items"] for key in ("negative_closer", "gold_closest"))
            rows.append([model, audit["items"], *(f"{share:.1%}" for share in shares)])
    header = ["model", "items", "a negative is closer than the right moral", "the right moral is the closest"]
    return f"## Ambiguous negatives of mocpt\n\n{markdown_table(header, rows)}"
