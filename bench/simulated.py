"""Rows of the tables of simulations in `bench/README.md`, from `bench/coverage.csv`.

Every function returns the cells after the first one of a row, as those of `bench/pages.py` do.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

Cell = dict[str, str]  # a line of coverage.csv
RESULTS = Path(__file__).resolve().parent / "coverage.csv"
MIN_EFFECTIVE = 40  # effective clusters for a bootstrap


@cache
def read_cells() -> tuple[Cell, ...]:
    """Return all lines of coverage.csv."""
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def simulated(**expected: str) -> list[Cell]:
    """Return the lines that have these values."""
    return [cell for cell in read_cells() if all(cell[key] == value for key, value in expected.items())]


def share(cell: Cell, digits: int = 2) -> str:
    """Format a share, as `.95` or `1.00`."""
    return f"{float(cell['share']):.{digits}f}".removeprefix("0")


def shares(cells: Iterable[Cell], digits: int = 3) -> str:
    """Format several shares."""
    return ", ".join(share(cell, digits) for cell in cells)


def worst_and_mean(cells: Iterable[Cell]) -> str:
    """Format the lowest share and the mean, or a dash if nothing was simulated."""
    values = [float(cell["share"]) for cell in cells]
    if not values:
        return "–"
    return ", ".join(f"{value:.2f}".removeprefix("0") for value in (min(values), sum(values) / len(values)))


def is_enough(cell: Cell) -> bool:
    """Return whether there are enough effective clusters for a bootstrap."""
    return float(cell["effective"]) >= MIN_EFFECTIVE


def is_equal(cell: Cell) -> bool:
    """Return whether all clusters have the same size."""
    return round(float(cell["effective"])) == int(cell["clusters"])


# first cell → study, rule of the simpler interval, and which of the cells
COVERAGE: dict[str, tuple[str, str, Callable[[Cell], bool]]] = {
    "0/1 values in clusters": ("grid", "first edition", lambda _: True),
    "… fewer than ten effective clusters": ("few", "first edition", lambda _: True),
    "… correlations of .5 and .8": (
        "harder",
        "first edition",
        lambda cell: cell["case"] == "Beta" and float(cell["effective"]) >= 10,
    ),
    "values in [0, 1]": ("unit", "first edition", lambda _: True),
    "values without bounds": ("unbounded", "first edition", lambda _: True),
    "numbers of 0 or more": ("counts", "t, cut off", lambda _: True),
    "means over 3 or 5 seeds": ("seeds", "first edition", lambda cell: not cell["case"].startswith("2")),
    "means over languages": ("languages", "independent languages", lambda cell: cell["case"] != "no cluster shared"),
    "areas under the ROC curve": ("auc", "one variance", lambda _: True),
    "balanced accuracy over tasks": ("balanced_acc", "one variance", lambda _: True),
    "prediction-powered means": ("powered", "labels alone", lambda _: True),
    "macro-F1, 40 clusters of equal size or more": (
        "macro_f1",
        "expanded percentiles",
        lambda cell: is_enough(cell) and is_equal(cell),
    ),
    "… 40 effective clusters of unequal size or more": (
        "macro_f1",
        "expanded percentiles",
        lambda cell: is_enough(cell) and not is_equal(cell),
    ),
    "… fewer, for which none is printed": ("macro_f1", "expanded percentiles", lambda cell: not is_enough(cell)),
}


def coverage_row(name: str, cells: list[str]) -> list[str]:
    """Return: cells | simpler rule | its worst and mean coverage | figeval's."""
    study, simpler, chosen = COVERAGE[name]
    rule = "percentile bootstrap" if study == "macro_f1" else "figeval"
    both = [list(filter(chosen, simulated(study=study, rule=each))) for each in (simpler, rule)]
    return [str(len(both[1])), cells[1], *map(worst_and_mean, both)]


def ignored_row(sizes: str, _cells: list[str]) -> list[str]:
    """Return: Wilson's interval without clusters | percentile bootstrap | clustered t | figeval."""
    rules = ("clusters ignored", "percentile bootstrap", "first edition", "figeval")
    return [share(simulated(study="page", sizes=sizes, rule=rule)[0]) for rule in rules]


LIMITS: dict[str, dict[str, str]] = {
    "7 % of the clusters are hopeless, 10 × 25, p = .8": {
        "study": "harder",
        "sizes": "10 × 25",
        "case": "two-point clusters",
        "p": "0.8",
    },
    "the same, 20 × 12": {"study": "harder", "sizes": "20 × 12", "case": "two-point clusters", "p": "0.8"},
    "large clusters are the easy ones, lognormal 200 (a), p = .004": {
        "study": "harder",
        "sizes": "lognormal 200 (a)",
        "case": "sizes go with accuracies",
        "p": "0.004",
    },
    "four fifths of the numbers are 0, 5 to 100 rows": {"study": "counts", "case": "four fifths 0, else exponential"},
    "two seeds, much of the variance theirs (not printed)": {"study": "seeds", "case": "2 seeds, much of the seed"},
}


def limit_row(name: str, _cells: list[str]) -> list[str]:
    """Return: worst and mean coverage."""
    return [worst_and_mean(simulated(rule="figeval", **LIMITS[name]))]


def alarms_row(sizes: str, _cells: list[str]) -> list[str]:
    """Return: clusters | false alarms by McNemar, t, CR2, flips and figeval | power of the last two."""
    rules = ("McNemar, clusters ignored", "t(G − 1)", "t, CR2", "sign flip", "figeval")
    cases = {"study": "paired", "sizes": sizes, "case": "lean of clusters"}
    equal = [simulated(**cases, p="0.0", rule=rule)[0] for rule in rules]
    powers = [simulated(**cases, p="0.05", rule=rule)[0] for rule in rules[3:]]
    return [clusters(equal[0]), *(share(cell, 3) for cell in equal), shares(powers, 2)]


def skewed_row(sizes: str, _cells: list[str]) -> list[str]:
    """Return: clusters | false alarms by flips, figeval, and figeval without a note | power of the first two."""

    def cell(rule: str, effect: str, p: str = "0.0") -> Cell:
        return simulated(study="skewed", sizes=sizes, case=f"a tenth of the clusters, {effect}", p=p, rule=rule)[0]

    effects = ("0.04", "0.05", "0.1")
    rules = ("sign flip", "figeval", "figeval without a note")
    noted = bool(simulated(study="skewed", sizes=sizes, rule=rules[2]))
    alarms = [shares(cell(rule, effect) for effect in effects) for rule in (rules if noted else rules[:2])]
    powers = shares((cell(rule, "0.04", "-0.05") for rule in rules[:2]), 2)
    return [clusters(cell(rules[0], "0.04")), *alarms, *([] if noted else ["–"]), powers]


def seeds_row(name: str, _cells: list[str]) -> list[str]:
    """Return the highest rate of false alarms of 3 against 1, 3 against 3, 5 against 1, and 10 against 1 trainings."""
    rule = {
        "variance of seeds ignored": "single training ignored",
        "one t test": "one t test",
        "figeval": "figeval",
    }[name]
    rates = []
    for sides in ("3 against 1", "3 against 3", "5 against 1", "10 against 1"):
        against = [
            cell for cell in simulated(study="unequal_seeds", rule=rule) if cell["case"].startswith(f"{sides}, ")
        ]
        rates.append(share(max(against, key=lambda cell: float(cell["share"])), 3))
    return rates


def powered_row(name: str, _cells: list[str]) -> list[str]:
    """Return the worst coverage and the mean width for 20, 50 and 200 labels."""
    kind, judge = name.split(": ")
    rows = [
        cell
        for cell in simulated(study="powered", sizes=judge, rule="figeval")
        if cell["case"].startswith("yes") == (kind == "yes or no")
    ]
    printed = []
    for labels in ("20", "50", "200"):
        with_labels = [cell for cell in rows if cell["clusters"] == labels]
        width = sum(float(cell["width"]) for cell in with_labels) / len(with_labels)
        lowest = min(with_labels, key=lambda cell: float(cell["share"]))
        printed.append(f"{share(lowest)}, {f'{width:.2f}'.removeprefix('0')}")
    return printed


def clusters(cell: Cell) -> str:
    """Format the numbers of clusters and of effective clusters."""
    return f"{cell['clusters']} ({float(cell['effective']):.0f})"
