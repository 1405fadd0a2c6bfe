"""The parts of all NLI sets: their files, readers and rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from figeval.data import DataContext, Row

from .published import (
    PublishedPair,
    Reader,
    Table,
    align_pairs,
    med_columns,
    questions,
    sick_columns,
    snli_json,
    taxi_columns,
)

# snli_sample does not say what its numbers mean; README.md explains how they were identified.
SNLI_NUMBERS = {"1": "neutral", "2": "contradiction", "3": "entailment"}
SNLI = Table("premise", "hypothesis", "label", header=("label", "again", "premise", "hypothesis"), labels=SNLI_NUMBERS)
CAD = Table("sentence1", "sentence2", "gold_label")
CONJ = Table("Premise", "Hypothesis", "Label")
MED = Table("sentence1", "sentence2", "gold_label", med_columns)
TAXI = Table("prem", "hyp", "label", taxi_columns)
SIDES = ("s1", "s2", "labels")
NO_LETTER = re.compile(r"[\W_]+")


def sick(part: str) -> Table:
    """Return the reader of one of SICK's SemEval 2014 splits."""
    return Table("sentence_A", "sentence_B", "entailment_label", sick_columns, only=("SemEval_set", part))


@dataclass(frozen=True, slots=True)
class CorpusPart:
    """A part of one corpus; `name` precedes the row number in the ids of its pairs."""

    corpus: str
    name: str
    files: tuple[str, ...]
    read: Reader

    def pairs(self, paths: Sequence[Path]) -> Iterator[tuple[str, PublishedPair]]:
        """Yield (id, pair) for every row. Raises `DataError`, with file and line, for an invalid row."""
        for pair in self.read(paths):
            yield f"{self.name}:{pair.number}", pair


def _single_file(corpus: str, file: str, read: Reader) -> CorpusPart:
    return CorpusPart(corpus, file.rpartition(".")[0], (file,), read)


def _align_files(corpus: str, folder: str, ending: str) -> CorpusPart:
    return CorpusPart(corpus, f"{folder}/{ending}", tuple(f"{folder}/{side}.{ending}" for side in SIDES), align_pairs)


PARTS = {
    "mnli_train": _single_file("mnli", "mnli_sample/mnli_train.csv", questions),
    "mnli_validation": _single_file("mnli", "mnli_sample/mnli_validation.csv", questions),
    "snli_train": _single_file("snli", "snli_sample/train.csv", SNLI),
    "snli_test": _single_file("snli", "snli_sample/test.csv", SNLI),
    "esnli_dev": _align_files("esnli", "esnli", "dev"),
    "esnli_test": _align_files("esnli", "esnli", "test"),
    "cad_train": _single_file("cad", "cad_nli/all_combined/train.tsv", CAD),
    "cad_dev": _single_file("cad", "cad_nli/all_combined/dev.tsv", CAD),
    "cad_test": _single_file("cad", "cad_nli/all_combined/test.tsv", CAD),
    "sick_train": _single_file("sick", "sick/SICK.txt", sick("TRAIN")),
    "sick_trial": _single_file("sick", "sick/SICK.txt", sick("TRIAL")),
    "sick_test": _single_file("sick", "sick/SICK.txt", sick("TEST")),
    "conj_train": _single_file("conj", "conjnli/adversarial_train_15k.tsv", CONJ),
    "conj_dev": _single_file("conj", "conjnli/conj_dev.tsv", CONJ),
    "med": _single_file("med", "med/MED.tsv", MED),
    "taxi": _single_file("taxi", "taxinli/taxinli10k.tsv", TAXI),
    "mnli_hard_matched": _align_files("mnli", "mnli_hard/MNLIMatchedHardWithHardTest", "test"),
    "mnli_hard_mismatched": _align_files("mnli", "mnli_hard/MNLIMismatchedHardWithHardTest", "test"),
    "snli_hard": _single_file("snli", "mnli_hard/snli_1.0_test_hard.jsonl", snli_json),
}


def fetch_part(name: str, context: DataContext) -> tuple[Path, ...]:
    """Return the local paths of a part's files."""
    return tuple(context.fetch("nli", file) for file in PARTS[name].files)


def part_rows(name: str, paths: Sequence[Path]) -> Iterator[Row]:
    """Yield the rows of a part.

    `meta` has the corpus, the pair's other columns (`genre`, `category` …) and, as `premise`, a key that is equal for
    equal premises.
    """
    part = PARTS[name]
    for identity, pair in part.pairs(paths):
        yield {
            "id": identity,
            "premise": pair.premise,
            "hypothesis": pair.hypothesis,
            "label": pair.label,
            "corpus": part.corpus,
            "meta": {"corpus": part.corpus, **pair.columns, "premise": premise_key(pair.premise)},
        }


def fold(text: str) -> str:
    """Return the case-folded letters and digits of a text, by which copies are recognised across sets.

    Punctuation and blanks are ignored because some sets are tokenised and one has lost its last punctuation marks.
    """
    return NO_LETTER.sub("", text.casefold())


def premise_key(premise: str) -> str:
    """Return a digest of a folded premise; it is stored with predictions, so it must not reveal the text."""
    return blake2b(fold(premise).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
