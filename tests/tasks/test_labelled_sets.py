"""ID10M, Meta4XNLI and EPIE: the readers on files of our own, and counts on the real files."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from figeval import DataError, Harness
from tests.sources import Row, Source, read_rows

BOOTS = "The \tO\nboots\tB-{0}\nkicked \tI-{0}\n\nHe \tO\nslept\tO\n"
BOOT = "A\tO\nboot\tB-{0}\nkicks\tI-{0}\n"


def put_file(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text, encoding="utf-8")


def test_id10m_rows(tmp_path: Path) -> None:
    put_file(tmp_path, "resources/bio_format/english/test_english.tsv", BOOTS.format("IDIOM"))
    put_file(tmp_path, "resources/bio_format/english/dev_english.tsv", BOOT.format("IDIOM"))
    source = Source("id10m:test_en", tmp_path)
    first, second = source
    assert first["tokens"] == ["The", "boots", "kicked"]
    assert first["tags"] == ["O", "B-IDIOM", "I-IDIOM"]
    assert first["seen"] == [(1, 3)]  # up to inflection
    assert (first["id"], second["id"]) == ("test_en:1", "test_en:2")
    assert (second["seen"], second["expression"]) == ([], None)
    assert source.notes == {"stripped_words": 3}
    (trained,) = read_rows("id10m:dev_en", tmp_path)
    assert trained["seen"] is None
    assert trained["expression"] == first["expression"]  # so the same idiom is one cluster
    assert "boot" not in first["expression"]


@pytest.mark.slow
def test_meta4xnli_rows(tmp_path: Path) -> None:
    put_file(tmp_path, "data/cometa/cometa_test.tsv", BOOTS.format("METAPHOR").replace("kicked ", ""))
    put_file(tmp_path, "data/cometa/cometa_train.tsv", "El\tO\n\tO\nboots\tB-METAPHOR\n")
    source = Source("meta4xnli:cometa_test", tmp_path)
    first, second = source
    assert (first["tokens"], first["metaphors"], first["seen"]) == (["The", "boots"], 1, [(1, 2)])
    assert second["metaphors"] == 0
    assert source.notes == {"stripped_words": 2, "left_out_words": 1}
    (trained,) = read_rows("meta4xnli:cometa_train", tmp_path)
    assert (trained["tokens"], trained["seen"]) == (["El", "boots"], None)


def epie_rows(folder: Path, **changes: str) -> list[Row]:
    """The rows of all splits of a corpus of three sentences."""
    texts = {
        "Words": "He slept . \nHis boots shook\nA boot slept\n",
        "Tags": "O B-IDIOM O\nO B-IDIOM I-IDIOM\nO B-IDIOM O \n",
        "Candidates": "sleep\nboots shake\nboots shake\n",
        "Labels": "1\n1\n0\n",
    }
    for kind, text in (texts | changes).items():
        put_file(folder, f"Formal_Idioms_Corpus/Formal_Idioms_{kind}.txt", text)
    rows = [row for split in ("test", "dev", "train") for row in read_rows(f"epie:formal_{split}", folder)]
    return sorted(rows, key=lambda row: int(row["id"].partition(":")[2]))


def test_epie_rows(tmp_path: Path) -> None:
    rows = epie_rows(tmp_path)
    assert [row["id"] for row in rows] == ["formal:1", "formal:2", "formal:3"]
    assert [row["idiom"] for row in rows] == ["formal:1", "formal:2", "formal:2"]
    assert [row["use"] for row in rows] == ["figurative", "figurative", "literal"]
    assert rows[1]["tags"] == ["O", "B-IDIOM", "I-IDIOM"]
    assert rows[2]["tags"] == ["O", "O", "O"]  # meant literally


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"Tags": "O B-IDIOM\nO O O\nO O O\n"}, "Formal_Idioms_Tags.txt:1: 2 tags for 3 words"),
        ({"Labels": "1\n"}, "do not have the same number of lines: .*Formal_Idioms_Labels.txt 1"),
    ],
)
def test_epie_files_that_do_not_fit(changes: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        epie_rows(tmp_path, **changes)


def test_the_split_of_an_idiom_is_drawn_by_a_rule(tmp_path: Path) -> None:
    numbers = [str(number) for number in range(2000)]
    columns = {"Words": ["He"] * 2000, "Tags": ["O"] * 2000, "Candidates": numbers, "Labels": ["1"] * 2000}
    epie_rows(tmp_path, **{kind: "\n".join(lines) for kind, lines in columns.items()})
    sizes = {split: len(read_rows(f"epie:formal_{split}", tmp_path)) for split in ("train", "test", "dev")}
    assert sizes == {"train": 1388, "test": 404, "dev": 208}


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("id10m:dev_es", "id10m has no file 'dev_es'; did you mean 'dev_"),
        ("meta4xnli:train_fr", "meta4xnli has no file 'train_fr'"),
        ("epie:formal", "epie has no split 'formal'"),
    ],
)
def test_a_file_that_is_not_there(reference: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        read_rows(reference, tmp_path)


# ---- the real files --------------------------------------------------------------------------------------------------

# task, split → sentences, words, chunks, tags read as B-, stretches that were seen in training
REAL_COUNTS = {
    ("id10m_en", "test"): (200, 3287, 159, 0, 2),
    ("id10m_en", "train"): (3724, 125319, 735, 0, None),
    ("id10m_de", "test"): (200, 4529, 181, 0, 94),
    ("id10m_de", "train"): (2673, 71574, 835, 0, None),
    ("id10m_es", "test"): (199, 2240, 133, 0, None),
    ("id10m_it", "test"): (200, 5043, 155, 0, None),
    ("meta4xnli_en", "test"): (3630, 50153, 1090, 1, None),
    ("meta4xnli_es", "test"): (3630, 52892, 767, 0, None),
    ("meta4xnli_cometa", "test"): (727, 23774, 432, 0, None),
    ("meta4xnli_cometa", "train"): (2906, 93340, 1713, 0, None),
    ("epie_formal", "test"): (647, None, 543, 0, None),
    ("epie_formal", "train"): (2122, None, 1877, 0, None),
}


def first_tags_of(tags: Sequence[str]) -> list[str]:
    """The first tag of each chunk, which should be a B-."""
    neighbours = pairwise(("O", *tags))
    return [tag for before, tag in neighbours if tag != "O" and (tag.startswith("B") or before[2:] != tag[2:])]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "split"), REAL_COUNTS, ids=["-".join(name_parts) for name_parts in REAL_COUNTS])
def test_real_counts(task: str, split: str, real_data: str) -> None:
    harness = Harness()
    examples = list(harness.examples(harness.catalogue.tasks.get(task), split))
    sentences, words, chunk_count, stray, seen = REAL_COUNTS[task, split]
    assert len(examples) == sentences
    assert words in (None, sum(len(example.tokens) for example in examples))
    first_tags = [tag for example in examples for tag in first_tags_of(example.tags)]
    assert (len(first_tags), sum(tag.startswith("I") for tag in first_tags)) == (chunk_count, stray)
    if seen is not None:
        assert sum(len(example.seen) for example in examples) == seen
    if split == "train":
        assert all(example.seen is None for example in examples)


@pytest.mark.slow
def test_no_idiom_of_an_english_test_is_trained_on(real_data: str) -> None:
    """Of ID10M's English and EPIE's tests none is; of ID10M's German test many are."""
    harness = Harness()

    def clusters(task: str, split: str) -> set[str]:
        return {
            example.cluster for example in harness.examples(harness.catalogue.tasks.get(task), split) if example.cluster
        }

    shared = {task: len(clusters(task, "test") & clusters(task, "train")) for task in ("id10m_en", "epie_formal")}
    assert shared == {"id10m_en": 0, "epie_formal": 0}
    assert len(clusters("id10m_de", "test") & clusters("id10m_de", "train")) == 42


def test_the_splits_of_epie_stay_as_they_are(real_data: str) -> None:
    numbers = sorted({row["idiom"] for row in read_rows("epie:formal_test")})
    assert len(numbers) == 76
    assert sha256("\n".join(numbers).encode()).hexdigest()[:16] == "861a36b554324dd4"
