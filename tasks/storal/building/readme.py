"""The README of a built folder: how to run its tasks, and the report in tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from figeval.types import JSON

RULES = "## Rules that do not read the story"


def readme(name: str, report: JSON) -> str:
    """Return the page of the folder: how to run its tasks, and the report in tables."""
    tasks = ",".join(f"{name}_{kind}" for kind in report["tasks"])
    parts = [
        f"# {name}\n\nTasks in {report['language']!r}, built by `figeval build storal` with the seed {report['seed']} "
        "from pairs of stories and morals. `report.json` holds all numbers; the rules are in figeval's "
        f"`tasks/storal/BUILD.md`.\n\n    figeval run --include_path FOLDER --tasks {tasks} --model minilm",
        _sizes(report),
        *([_topics(report["mocpt"])] if "mocpt" in report else []),
        *([_dropped("Morals without a wrong option", report["mopref"])] if "mopref" in report else []),
        *([_dropped("Morals without both versions", report["preference"])] if "preference" in report else []),
        *([_dropped("Stories without an item", report["mo2st"])] if "mo2st" in report else []),
        _duplicates(report),
        *([_rules(report["rules"])] if report["rules"] else []),
        *([_ambiguous(report["ambiguous"])] if report["ambiguous"] else []),
    ]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _sizes(report: JSON) -> str:
    splits = list(report["sizes"]["pairs"])
    paper: Mapping[str, Mapping[str, int]] = report["paper_sizes"]
    rows = [
        [kind, *counts.values(), *(paper.get(kind, {}).get(split, "–") for split in splits)]
        for kind, counts in report["sizes"].items()
    ]
    header = ["", *splits, *(f"STORAL {split}" for split in splits)]
    return f"## Sizes\n\n{table(header, rows)}"


def _topics(topics: JSON) -> str:
    rule = "as given"
    if not topics["given"]:
        rule = "the smallest number from 8 on for which the specificity of every topic exceeds 0.5"
    if not (topics["given"] or topics["by_rule"]):
        rule = "as in the paper, because no number from 8 to 60 gives every topic a specificity above 0.5"
    rows = [
        [number, f"{share:.1%}", f"{specificity:.2f}", " ".join(words)]
        for number, (share, specificity, words) in enumerate(
            zip(topics["shares"], topics["specificity"], topics["words"], strict=True)
        )
    ]
    listed = table(["topic", "share of training morals", "specificity", "heaviest words"], rows)
    rules = "; ".join(f"{split}: {rule}" for split, kept in topics["rules"].items() for rule in kept)
    return (
        f"## Topics\n\n{topics['count']} topics, {rule}. Smallest specificity "
        f"{min(topics['specificity']):.3f}, smallest share {min(topics['shares']):.1%}. "
        f"Negatives: {rules}.\n\n{listed}"
    )


def _dropped(title: str, notes: JSON) -> str:
    rows = [[split, reason, count] for split, reasons in notes.items() for reason, count in reasons.items()]
    return f"## {title}\n\n{table(['split', 'reason', 'pairs'], rows) if rows else 'None.'}"


def _duplicates(report: JSON) -> str:
    found = report["duplicates"]
    counted = [
        [name, *(found[name][key] for key in ("repeated", "pairs", "across_splits"))] for name in ("stories", "morals")
    ]
    header = ["", "that occur more than once", "their pairs", "of these, in several splits"]
    parts = [f"## Duplicates\n\n{table(header, counted)}", f"Pairs that were removed: {len(found['removed'])}."]
    if report["overlap"]:
        header = ["other pairs", "pairs there", "our stories that are there", "our morals that are there"]
        overlap = [
            [name, *(of[key] for key in ("pairs", "stories", "morals"))] for name, of in report["overlap"].items()
        ]
        parts.append(table(header, overlap))
    return "\n\n".join(parts)


def _rules(rules: JSON) -> str:
    off = [
        (f"{kind}, {split}", rule)
        for kind, by_split in rules.items()
        for split, found in by_split.items()
        for rule in found
        if rule["off"]
    ]
    if not off:
        return f"{RULES}\n\nNone differs from chance by more than its 95 % interval."
    rows = [
        [
            where,
            f"{rule['rule']} ({rule['knows']})",
            *(f"{rule[key]:.3f}" for key in ("value", "low", "high", "chance")),
        ]
        for where, rule in off
    ]
    header = ["task", "rule (what it knows)", "accuracy", "95 % from", "to", "chance"]
    return f"{RULES}\n\nThose whose 95 % interval does not contain chance:\n\n{table(header, rows)}"


def _ambiguous(ambiguous: JSON) -> str:
    rows = []
    for model, found in ambiguous.items():
        if "missing" in found:
            rows.append([model, found["missing"], "–", "–"])
        else:
            shares = (found[key] / found["items"] for key in ("negative_closer", "gold_closest"))
            rows.append([model, found["items"], *(f"{share:.1%}" for share in shares)])
    header = ["model", "items", "a negative is closer than the right moral", "the right moral is the closest"]
    return f"## Ambiguous negatives of mocpt\n\n{table(header, rows)}"
