"""Compare IMPLI's recovered idioms with published idiom lists.

    python bench/idioms.py --lists FOLDER

FOLDER holds `epie/{Formal,Static}_idioms.txt` of prateeksaxena2809/EPIE_Corpus (commit cb6007e),
`mwe_pie/data_cleaned.csv` of zhjjn/MWE_PIE (6c985dc) and `pie_english/idiomscorpus.csv` of tosingithub/idesk (fcc8774);
figeval itself needs none of them. The comparison includes the pairs in which exactly one listed idiom occurs, inflected
or not, as a contiguous phrase where premise and hypothesis differ. The columns are:

* same: both names have the same words, ignoring inflection, articles and pronouns;
* agreement: the words of one of the two names include those of the other;
* homogeneity and completeness (Rosenberg and Hirschberg 2007) of the recovered names with respect to the listed ones;
* modal: the share of pairs with the most frequent recovered name of their listed idiom.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from sklearn.metrics import completeness_score, homogeneity_score

from figeval.builtin.tasks.impli.idioms import ARTICLES, POSSESSIVES, TOKEN, changed_span, stem
from figeval.runs import Harness

SLOT = re.compile(r"\(.*?\)|\[.*?\]|\b(?:somebody|someone|something|oneself|one)(?:\s?['’]s)?(?!\w)")
FREE = ARTICLES | POSSESSIVES | {"one", "is", "are", "be"}
Stems = tuple[str, ...]


def read_idioms(folder: Path) -> Iterator[str]:
    """Yield every idiom of the three lists, as it is written there."""
    for name in ("Formal", "Static"):
        yield from (folder / "epie" / f"{name}_idioms.txt").read_text(encoding="utf-8").splitlines()
    with (folder / "mwe_pie" / "data_cleaned.csv").open(encoding="utf-8", newline="") as file:
        yield from (row["Idiom"] for row in csv.DictReader(file))
    with (folder / "pie_english" / "idiomscorpus.csv").open(encoding="utf-8", newline="") as file:
        tokens: list[str] = []  # samples with a meaning are the bare idioms
        meant = False
        for row in csv.DictReader(file):
            if row["id"]:
                if meant:
                    yield " ".join(tokens)
                tokens, meant = [], bool(row["meaning"])
            tokens.append(row["token"])


def words(text: str) -> dict[int, str]:
    """Return the stem of every word that counts, by its place among the tokens."""
    tokens = enumerate(TOKEN.findall(text.lower()))
    return {index: stem(token) for index, token in tokens if token[0].isalnum() and token not in FREE}


def key(name: str) -> Stems:
    """Return the stems of a name, without its slots."""
    return tuple(words(SLOT.sub(" ", name.lower())).values())


def within(part: Stems, sequence: Stems) -> bool:
    """Return whether the stems of `part` are consecutive in `whole`."""
    return any(sequence[start : start + len(part)] == part for start in range(len(sequence) - len(part) + 1))


def find_listed_idiom(premise: str, hypothesis: str, idioms: Mapping[str, list[Stems]]) -> Stems | None:
    """Return the one listed idiom of a pair, or None if there is none or more than one."""
    start, end = changed_span(TOKEN.findall(premise.lower()), TOKEN.findall(hypothesis.lower()))
    indices, stems = list(words(premise)), tuple(words(premise).values())
    matches = set()
    for begin, first in enumerate(stems):
        for idiom in idioms.get(first, ()):
            if stems[begin : begin + len(idiom)] == idiom:
                low, high = indices[begin], indices[begin + len(idiom) - 1]
                if start < end and ((low <= start and high >= end - 1) or (low >= start and high < end)):
                    matches.add(idiom)
    longest = [idiom for idiom in matches if not any(idiom != other and within(idiom, other) for other in matches)]
    return longest[0] if len(longest) == 1 else None


def compare(pairs: list[tuple[Stems, str]]) -> dict[str, float]:
    """Return the figures of one column from its pairs of listed idiom and recovered name (empty if unknown)."""
    keys = [key(name) for _, name in pairs]
    by_listed: dict[Stems, Counter[str]] = defaultdict(Counter)
    for idiom, name in pairs:
        by_listed[idiom][name] += 1
    agreeing = sum(
        bool(name_stems) and (within(idiom, name_stems) or within(name_stems, idiom))
        for (idiom, _), name_stems in zip(pairs, keys, strict=True)
    )
    true, names = [" ".join(idiom) for idiom, _ in pairs], [name for _, name in pairs]
    return {
        "pairs": len(pairs),
        "same": sum(idiom == name_stems for (idiom, _), name_stems in zip(pairs, keys, strict=True)) / len(pairs),
        "agreement": agreeing / len(pairs),
        "homogeneity": homogeneity_score(true, names),
        "completeness": completeness_score(true, names),
        "modal": sum(names.most_common(1)[0][1] for names in by_listed.values()) / len(pairs),
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=Path, required=True, help="folder of the three lists")
    keys = {key(name) for name in read_idioms(parser.parse_args().lists)}
    idioms: dict[str, list[Stems]] = defaultdict(list)
    for idiom_stems in sorted(keys):
        if len(idiom_stems) > 1:
            idioms[idiom_stems[0]].append(idiom_stems)
    harness = Harness()
    columns = {}
    for task in harness.catalogue.expand(["impli_idioms"]):
        rows = (
            (find_listed_idiom(row.left, row.right, idioms), row.meta.get("idiom", ""))
            for row in harness.examples(task)
        )
        columns[task.name] = [(idiom, name) for idiom, name in rows if idiom is not None]
    columns["all"] = [pair for pairs in columns.values() for pair in pairs]
    figures = {name: compare(pairs) for name, pairs in columns.items()}
    print(json.dumps({name: {k: round(v, 4) for k, v in row.items()} for name, row in figures.items()}, indent=1))


if __name__ == "__main__":
    main()
