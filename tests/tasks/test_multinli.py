"""All of MultiNLI from a user's copy: every layout gives the same rows, and what is missing is said."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from figeval import DataError, Harness
from tests.sources import Row, read_rows

LABELS = ("entailment", "neutral", "contradiction")
SIZES = {"matched": 9_815, "mismatched": 9_832}
PARSES = ["sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse"]
OFFICIAL = ["gold_label", *PARSES, "sentence1", "sentence2", "promptID", "pairID", "genre"]
GLUE = ["index", "promptID", "pairID", "genre", *PARSES, "sentence1", "sentence2", "label1", "gold_label"]
ANNOTATORS = [f"label{number}" for number in range(1, 6)]

Pair = dict[str, str]


def pairs(n: int) -> list[Pair]:
    """Pairs of our own, with quotes and line separators that are characters like any other."""
    texts = ({"sentence1": f'It is "so"\u2028 {number // 3}', "sentence2": f"So {number} "} for number in range(n))
    return [{**text, "gold_label": LABELS[number % 3], "genre": "fiction"} for number, text in enumerate(texts)]


def official(corpus: list[Pair]) -> Iterator[Pair]:
    """The pairs as in the authors' files, some of them without a gold label."""
    for number, pair in enumerate(corpus):
        if number % 1000 == 7:
            yield {**pair, "gold_label": "-"}
        yield pair


def table(names: list[str], rows: Iterator[Pair] | list[Pair], short: int = 0) -> str:
    """Lines without quoting; `short` columns at the end have no cell."""
    cells = ([row.get(name, "x") for name in names][: len(names) - short] for row in rows)
    return "".join("\t".join(row) + "\n" for row in (names, *cells))


def write_official(folder: Path, name: str, corpus: list[Pair]) -> None:
    lines = "".join(json.dumps({**pair, "annotator_labels": ["neutral"]}) + "\n" for pair in official(corpus))
    (folder / f"multinli_1.0_{name}.jsonl").write_text(lines, encoding="utf-8")


def write_official_text(folder: Path, name: str, corpus: list[Pair]) -> None:
    (folder / f"multinli_1.0_{name}.txt").write_text(
        table(OFFICIAL + ANNOTATORS, official(corpus), 4), encoding="utf-8"
    )


def write_glue(folder: Path, name: str, corpus: list[Pair]) -> None:
    (folder / "MNLI").mkdir()
    (folder / "QQP").mkdir()
    (folder / "MNLI" / f"{name}.tsv").write_text(table(GLUE, corpus), encoding="utf-8")
    (folder / "QQP" / f"{name}.tsv").write_text("another corpus\n", encoding="utf-8")


def hub(pair: Pair) -> Row:
    label = LABELS.index(pair["gold_label"])
    return {"premise": pair["sentence1"], "hypothesis": pair["sentence2"], "genre": pair["genre"], "label": label}


def write_parquet(folder: Path, name: str, corpus: list[Pair]) -> None:
    for shard in range(2):
        rows = pyarrow.Table.from_pylist([hub(pair) for pair in corpus][shard * 5000 : (shard + 1) * 5000])
        file = f"{name.replace('dev', 'validation')}-{shard:05d}-of-00002.parquet"
        parquet.write_table(rows, folder / file)


def write_csv(folder: Path, name: str, corpus: list[Pair]) -> None:
    with (folder / f"{name.replace('dev', 'validation')}.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["premise", "hypothesis", "genre", "label"])
        writer.writeheader()
        writer.writerows(hub(pair) for pair in corpus)


LAYOUTS = [write_official, write_official_text, write_glue, write_parquet, write_csv]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder of a user's copy."""
    monkeypatch.setenv("FIGEVAL_DATA_COPIES", f"mnli={tmp_path / 'copy'}")
    (tmp_path / "copy").mkdir()
    return tmp_path / "copy"


@pytest.mark.parametrize(("split", "write"), [*(("matched", write) for write in LAYOUTS), ("mismatched", write_glue)])
def test_every_layout_has_the_same_rows(split: str, write: Callable[[Path, str, list[Pair]], None], copy: Path) -> None:
    corpus = pairs(SIZES[split])
    write(copy, f"dev_{split}", corpus)
    read = read_rows(f"mnli:{split}")
    assert [row["id"] for row in read] == [f"multinli/{split}:{number}" for number in range(1, len(corpus) + 1)]
    columns = [(row["premise"], row["hypothesis"], row["label"], row["meta"]["genre"]) for row in read]
    assert columns == [tuple(pair[key] for key in ("sentence1", "sentence2", "gold_label", "genre")) for pair in corpus]
    assert read[0]["meta"]["premise"] == read[1]["meta"]["premise"] != read[3]["meta"]["premise"]


def test_two_classes_are_entailment_and_the_rest(copy: Path) -> None:
    write_glue(copy, "dev_matched", pairs(SIZES["matched"]))
    harness = Harness()
    task = harness.catalogue.tasks.get("nli_train_mnli_two_class")
    counts = Counter(example.label for example in harness.examples(task))
    assert counts == {"entailment": 3272, "non-entailment": 6543}
    assert set(counts) == set(task.labels)


def test_the_pooled_pairs_have_two_classes_too() -> None:
    tasks = Harness().catalogue.tasks
    three, two = tasks.get("nli_train"), tasks.get("nli_train_two_class")
    assert two.data == three.data and two.labels == ("entailment", "non-entailment")
    assert {word for words in two.verbalizer.values() for word in words} == {
        word for words in three.verbalizer.values() for word in words
    }


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("dev_matched.tsv", table(GLUE, pairs(3)), "3 labelled pairs, but matched of MultiNLI has 9,815"),
        ("dev_mismatched.tsv", "", "matched was not found"),
        ("train.tsv", table(GLUE, pairs(3)), "matched was not found"),
        ("test_matched.tsv", table(GLUE, pairs(3)), "matched was not found"),
        ("dev_matched.tsv", table(GLUE, [{**pairs(1)[0], "gold_label": "maybe"}]), "tsv:2: 'maybe' is not a label"),
        ("dev_matched.tsv", table(GLUE, [{**pairs(1)[0], "sentence1": "a\tb"}]), "tsv:2: 13 values for 12 columns"),
        ("dev_matched.tsv", table(GLUE, pairs(1), 1), "tsv:2: 11 values for 12 columns"),
        (
            "dev_matched.jsonl",
            '{"sentence1": "a", "sentence2": 3}',
            "jsonl:1: there is no text",
        ),
        ("dev_matched.jsonl", '{"premise": "a", "label": 1}', "no text in a column sentence2 or hypothesis"),
        ("dev_matched.parquet", "no parquet", "cannot be read as Parquet"),
        ("validation_matched-00000-of-00003.parquet", "", "has 1 of 3 shards of matched"),
    ],
)
def test_what_is_wrong_with_a_copy(file: str, text: str, words: str, copy: Path) -> None:
    (copy / file).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        read_rows("mnli:matched")


def test_the_training_pairs_are_counted(copy: Path) -> None:
    (copy / "train.tsv").write_text(table(GLUE, pairs(3)), encoding="utf-8")
    with pytest.raises(DataError, match="3 labelled pairs, but train of MultiNLI has 392,702"):
        read_rows("mnli:train")


def test_without_a_copy_the_flag_is_named() -> None:
    with pytest.raises(DataError, match="--data mnli=FOLDER"):
        read_rows("mnli:train")
    with pytest.raises(DataError, match="did you mean 'matched'"):
        read_rows("mnli:matchd")
