"""Mean word vectors: small files made on the spot, the real one where it is at hand."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import DataError, Harness, ModelError, Text

LINES = "rome 1 0 2\nday 0 1 0\nhaste -1 0.5 0\n"


@pytest.fixture
def path(tmp_path):
    def write(content: str | bytes):
        file = tmp_path / "vectors.txt"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


def embed(model: Any, *texts: str) -> np.ndarray:
    return model.embed([Text(text) for text in texts])


def test_mean_of_the_known_words_each_as_often_as_it_stands(path, open_model: Any):
    vectors = embed(open_model("glove", path=str(path(LINES))), "Rome, rome: DAY unknown", "haste")
    assert vectors.dtype == np.float64
    assert vectors.tolist() == [[2 / 3, 1 / 3, 4 / 3], [-1, 0.5, 0]]


def test_a_text_without_a_known_word_is_nan_not_zero(path, open_model: Any):
    vectors = embed(open_model("glove", path=str(path(LINES))), "unknown", "", "day")
    assert np.isnan(vectors[:2]).all() and not np.isnan(vectors[2]).any()


def test_a_text_of_unknown_words_falls_back_on_their_beginnings(path, open_model: Any):
    """The 10,000 most frequent words know none of "familiarity breeds contempt", but "familiar" and "breed"."""
    model = open_model("glove", path=str(path(LINES + "dayl 4 4 4\nda 9 9 9\n")))
    vectors = embed(model, "daylight robbery", "daydreams hastens", "day daylight", "dawn")
    assert vectors[:3].tolist() == [[4, 4, 4], [-1, 0.5, 0], [0, 1, 0]] and np.isnan(vectors[3]).all()
    assert (model.describe()["texts_by_beginnings"], model.describe()["texts_unknown"]) == (2, 1)


def test_word2vec_header_windows_line_ends_and_words_with_blanks(path, open_model: Any):
    model = open_model("glove", path=str(path("3 2\r\nrome 1 2\r\n. . . 3 4\r\nline\u2028end 5 6\r\nday 7 8\r\n")))
    assert embed(model, "rome", "day").tolist() == [[1, 2], [7, 8]]
    assert (model.describe()["vectors"], model.describe()["dimensions"]) == (4, 2)


@pytest.mark.parametrize("header", ["", "2 2\n"])
def test_a_byte_order_mark_is_no_part_of_the_first_word(path, header: str, open_model: Any):
    model = open_model("glove", path=str(path(f"\ufeff{header}rome 1 2\nday 3 4\n")))
    assert embed(model, "rome", "day").tolist() == [[1, 2], [3, 4]]
    assert (model.describe()["vectors"], model.describe()["dimensions"]) == (2, 2)


def test_of_a_doubled_word_the_first_vector_counts(path, open_model: Any):
    model = open_model("glove", path=str(path("rome 1 2\nrome 3 4\nday 5 6\n")))
    assert embed(model, "rome", "day").tolist() == [[1, 2], [5, 6]]
    assert model.describe()["vectors"] == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("rome 1 2\nday 3\n", r"vectors.txt line 2: .*1 numbers instead of 2"),
        ("rome 1 2\nday 3 x\n", r"line 2: .*could not convert"),
        (b"rome 1 2\n\xff 3 4\n", r"line 2: .*utf-8"),
        ("\nrome 1 2\n", r"line 1: .*0 numbers instead of some"),
        ("", r"contains no vectors"),
        ("3 2\n", r"contains no vectors"),
        ("3 2\nrome 1 2\nday 3 4\n", r"2 of the 3 vectors"),
        ("rome 1 2\nday nan 4\n", r"'day' has a number that is infinite"),
    ],
)
def test_a_broken_file_is_one_line_that_names_the_place(path, content, message, open_model: Any):
    with pytest.raises(DataError, match=message) as caught:
        embed(open_model("glove", path=str(path(content))), "rome")
    assert "\n" not in str(caught.value)


NUMBERS = st.lists(st.integers(-9, 9), min_size=3, max_size=3)
WORDS = st.dictionaries(st.text("abcxyzäß", min_size=1, max_size=5), NUMBERS, min_size=1)


def binary_file(vectors: dict[str, list[int]], line_end: bytes = b"\n") -> bytes:
    """The vectors in word2vec's binary format."""
    size = len(next(iter(vectors.values())))
    rows = (word.encode() + b" " + np.array(row, "<f4").tobytes() + line_end for word, row in vectors.items())
    return f"{len(vectors)} {size}\n".encode() + b"".join(rows)


def vectors_of(open_model: Any, file: Path, words: Iterable[str]) -> list[list[float]]:
    return embed(open_model("glove", path=str(file)), *words).tolist()


@pytest.mark.parametrize("line_end", [b"\n", b""], ids=["with line ends", "without"])
def test_binary_and_text_formats_of_word2vec_are_the_same(line_end: bytes, tmp_path: Path, open_model: Any) -> None:
    """Whatever the name of the file, and packed or not."""

    @settings(max_examples=20)
    @given(WORDS)
    def check(vectors: dict[str, list[int]]) -> None:
        text = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in vectors.items())
        binary = binary_file(vectors, line_end)
        (tmp_path / "v.txt").write_text(text, "utf-8")
        (tmp_path / "header.vec").write_text(f"{len(vectors)} 3\n{text}", "utf-8")
        (tmp_path / "v.bin").write_bytes(binary)
        (tmp_path / "unnamed").write_bytes(binary)
        (tmp_path / "v.bin.gz").write_bytes(gzip.compress(binary))
        for name in ("v.txt", "header.vec", "v.bin", "v.bin.gz", "unnamed"):
            assert vectors_of(open_model, tmp_path / name, vectors) == list(vectors.values()), name

    check()


def test_a_binary_file_that_was_cut_anywhere_is_refused_in_one_line(tmp_path: Path, open_model: Any) -> None:
    binary, file = binary_file({"rome": [1, 2, 3], "day": [4, 5, 6]}, b""), tmp_path / "v.bin"
    for size in range(len(binary)):
        file.write_bytes(binary[:size])
        with pytest.raises(DataError) as caught:
            vectors_of(open_model, file, ["rome"])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"999999999999 300\nrome \0\0\x80\x3f", "ends within vector 1 of 999999999999"),
        (b"1 999999\nrome \0\0\x80\x3f", "999999 dimensions"),
        (b"1 0\nrome ", "0 dimensions"),
        (b"2 1\n" + b"x" * 70_000, "no word before vector 1"),
        (b"1 1\nrome \0\0\x80\x3f\nday \0\0\x80\x3f", "goes on after the 1 vectors"),
        (b"1 1\nrome \0\0\x80\x7f", "'rome' has a number that is infinite"),
        (b"\xba\x16\x4f\x2f\x0c\0\0\0", "not in word2vec's binary format"),
    ],
)
def test_a_hostile_binary_file_is_refused_in_one_line(
    content: bytes, message: str, tmp_path: Path, open_model: Any
) -> None:
    (tmp_path / "v.bin").write_bytes(content)
    with pytest.raises(DataError) as caught:
        vectors_of(open_model, tmp_path / "v.bin", ["rome"])
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_words_are_found_in_lower_case_or_as_written(path: Any, open_model: Any) -> None:
    model = open_model("glove", path=str(path("Rome 1 2\nday 3 4\nDay 5 6\n")))
    assert embed(model, "Rome", "Day").tolist() == [[1, 2], [3, 4]]


def test_a_missing_file_is_told_at_once(open_model: Any):
    with pytest.raises(ModelError, match=r"'glove' found no file 'nowhere\.txt'"):
        open_model("glove", path="nowhere.txt")
    with pytest.raises(ModelError, match="use --model glove"):
        open_model("glove", "6B")


def test_describe_counts_coverage(path, open_model: Any):
    model = open_model("glove", path=str(path(LINES)))
    assert model.describe() == {
        "file": "vectors.txt",
        "vectors": 3,
        "dimensions": 3,
        "coverage": None,
        "texts_by_beginnings": 0,
        "texts_unknown": 0,
    }
    embed(model, "rome unknown", "day day")
    assert model.describe()["coverage"] == 0.75


def test_fingerprint_is_that_of_the_file(path, open_model: Any):
    before = open_model("glove", path=str(path(LINES))).fingerprint()
    assert before == open_model("glove", path=str(path(LINES))).fingerprint()
    assert before != open_model("glove", path=str(path(LINES + "new 1 1 1\n"))).fingerprint()


@pytest.mark.slow
def test_the_real_vectors_know_every_proverb_and_narrative_of_epic(real_data, open_model: Any):
    """One NaN candidate would make every ranking NaN."""
    harness = Harness()
    texts = {
        text
        for task in harness.catalogue.expand(["epic_retrieval_all"])
        for example in harness.examples(task)
        for text in example.texts
    }
    model = open_model("glove")
    assert not np.isnan(embed(model, *texts)).any()
    assert model.describe()["texts_by_beginnings"] == 1
    assert 0.92 < model.describe()["coverage"] < 0.94


def test_the_real_vectors(real_data, open_model: Any):
    model = open_model("glove")
    king, queen, paper, unknown = embed(model, "King", "the queen", "paper", "qzxqzx")
    assert king.shape == (50,) and np.isnan(unknown).all()
    assert model.describe()["vectors"] == 10_000

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    assert cosine(king, queen) > cosine(king, paper)
