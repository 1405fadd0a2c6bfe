"""Convert two published corpora into sentences and definitions for `figeval benchmark build impli-pairs`.

    python bench/idiom_pairs.py --lists FOLDER --output inputs
    figeval benchmark build impli-pairs --sentences inputs/sentences.jsonl \
        --definitions inputs/mwe_pie.jsonl --output pairs

FOLDER contains `mwe_pie/data_cleaned.csv` of zhjjn/MWE_PIE (commit 6c985dc) and `pie_english/idiomscorpus.csv` of
tosingithub/idesk (fcc8774); figeval itself needs neither. The script writes

* `sentences.jsonl`: the samples of PIE-English without a meaning, joined from their tokens, labelled literal if the
  class is `Literal`, otherwise figurative;
* `mwe_pie.jsonl` and `pie_english.jsonl`: idioms and their definitions; in PIE-English, these are the samples with a
  meaning, whose text is just the idiom;
* `both.jsonl`: the definitions of MWE_PIE, and those of PIE-English for all other idioms.

It prints how many idioms of each list occur verbatim in the sentences.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from nltk.tokenize.treebank import TreebankWordDetokenizer


def samples(file: Path) -> Iterator[Mapping[str, str]]:
    """Yield the samples of PIE-English: id, text, class and meaning."""
    detokenizer = TreebankWordDetokenizer()
    tokens: list[str] = []
    sample: dict[str, str] = {}
    with file.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["id"] and sample:
                yield {**sample, "text": detokenizer.detokenize(tokens)}
            if row["id"]:
                sample, tokens = {"id": row["id"], "class": "", "meaning": ""}, []
            tokens.append(row["token"])
            for name in ("class", "meaning"):
                sample[name] = sample[name] or row[name].strip()
    yield {**sample, "text": detokenizer.detokenize(tokens)}


def write(file: Path, rows: Iterable[Mapping[str, str]]) -> None:
    """Write JSON Lines."""
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def has_letters(sample: Mapping[str, str]) -> bool:
    """Return whether a sample has a real meaning; two meanings are full stops."""
    return any(map(str.isalpha, sample["meaning"]))


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=Path, required=True, help="folder of the two corpora")
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    with (options.lists / "mwe_pie" / "data_cleaned.csv").open(encoding="utf-8", newline="") as stream:
        senses = dict.fromkeys((row["Idiom"].strip(), row["Sense"].strip()) for row in csv.DictReader(stream))
    pie_samples = list(samples(options.lists / "pie_english" / "idiomscorpus.csv"))
    lists = {
        "mwe_pie": [{"idiom": idiom, "definition": sense} for idiom, sense in senses if any(map(str.isalpha, sense))],
        "pie_english": [
            {"idiom": sample["text"], "definition": sample["meaning"]} for sample in pie_samples if has_letters(sample)
        ],
    }
    mwe_idioms = {row["idiom"].casefold() for row in lists["mwe_pie"]}
    further_rows = [row for row in lists["pie_english"] if row["idiom"].casefold() not in mwe_idioms]
    lists["both"] = [*lists["mwe_pie"], *further_rows]
    options.output.mkdir(parents=True, exist_ok=True)
    sentences = [
        {
            "id": sample["id"],
            "sentence": sample["text"],
            "label": "literal" if sample["class"] == "Literal" else "figurative",
        }
        for sample in pie_samples
        if not sample["meaning"]
    ]
    write(options.output / "sentences.jsonl", sentences)
    everything = "\n".join(row["sentence"].casefold() for row in sentences)
    for name, rows in lists.items():
        write(options.output / f"{name}.jsonl", rows)
        idioms = {row["idiom"].casefold() for row in rows}
        print(f"{name}: {len(idioms)} idioms, {sum(idiom in everything for idiom in idioms)} verbatim in the sentences")
    print(f"sentences: {len(sentences)}")


if __name__ == "__main__":
    main()
