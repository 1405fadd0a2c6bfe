"""IMPLI: the reader on files of our own, the recovery of idioms, and counts on the real files."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from figeval import DataError
from tests.sources import Row, Source, read_rows

ROOT = Path(__file__).parents[2]
CHECKED_IDIOMS = json.loads((ROOT / "tests/golden/data/idioms_checked.json").read_text(encoding="utf-8"))
CORPORA = ("magpie", "pie", "semeval")
FILES = {
    "idioms_silver_ent": [f"idioms/fig_context_{corpus}_e" for corpus in CORPORA],
    "idioms_silver_lit": [f"idioms/lit_context_{corpus}_ne" for corpus in CORPORA],
    "idioms_silver_adv": [f"idioms/adversarial_definition_ne_{corpus}" for corpus in CORPORA],
    "idioms_gold_ent": ["idioms/manual_e"],
    "idioms_gold_ant": ["idioms/manual_antonyms_ne"],
    "idioms_gold_non": ["idioms/manual_ne"],
    "metaphors_silver_ent": ["metaphors/replacement_tsvetkov_e", "metaphors/replacement_cc_e"],
    "metaphors_gold_ent": ["metaphors/manual_e"],
    "metaphors_gold_non": ["metaphors/manual_ne"],
}
IDIOM_COLUMNS = [column for column in FILES if column.startswith("idioms")]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Every file holds one row of its own; the interesting ones hold more."""
    for file in (file for files in FILES.values() for file in files):
        path = tmp_path / f"{file}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"Row of {file}\tOther of {file}\n", encoding="utf-8")
    silver = '"""Fine,"" she  went bananas"\t"""Fine,"" she  got angry"\t0.9\nWe went bananas\tWe got angry\t\n'
    (tmp_path / "idioms/fig_context_magpie_e.tsv").write_text(silver, encoding="utf-8")
    (tmp_path / "metaphors/replacement_tsvetkov_e.tsv").write_bytes("It’s icy\tIt’s cold\n".encode("cp1252"))
    (tmp_path / "idioms/manual_ne.tsv").write_text("Fine, she went bananas.\tShe was calm.\n")
    return tmp_path


def test_quotes_scores_and_ids(small: Path) -> None:
    (same_premise,) = read_rows("impli:idioms_gold_non", small)
    first, second, third, fourth = read_rows("impli:idioms_silver_ent", small)
    assert first == {
        "id": "idioms/fig_context_magpie_e:1",
        "premise": '"Fine," she  went bananas',
        "hypothesis": '"Fine," she  got angry',
        "premise_key": same_premise["premise_key"],
        "label": "entailment",
        "corpus": "magpie",
        "figure": "idiom",
        "idiom": "go bananas",
        "surface": "went bananas",
        "idiom_start": 13,
        "idiom_end": 25,
        "idiom_confidence": 1.0,
        "flaw": None,
    }
    assert second["id"] == "idioms/fig_context_magpie_e:2"
    assert [third["corpus"], fourth["corpus"]] == ["pie", "semeval"]


def test_windows_1252_is_read_as_such(small: Path) -> None:
    first = read_rows("impli:metaphors_silver_ent", small)[0]
    assert (first["premise"], first["corpus"], first["figure"]) == ("It’s icy", "tsvetkov", "metaphor")


def test_labels_follow_the_column(small: Path) -> None:
    labels = {column: {row["label"] for row in read_rows(f"impli:{column}", small)} for column in FILES}
    expected = {name: {"entailment" if name.endswith("_ent") else "non-entailment"} for name in FILES}
    assert labels == expected


def test_all_is_every_column_once(small: Path) -> None:
    assert len(read_rows("impli:all", small)) == 17


def test_clean_columns_leave_out_what_is_flawed(small: Path, tmp_path: Path) -> None:
    def write(file: str, *lines: str) -> None:
        (tmp_path / f"{file}.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    write("idioms/manual_e", "a b\tc", "a  b\tc ", "d\te", "caf\u00e9\tf", "caf\u00c3\u00a9\tf")
    write("idioms/manual_ne", "d\te", "g\th")
    flaws = [row["flaw"] for row in read_rows("impli:idioms_gold_ent", small)]
    assert flaws == [None, "repeated", "contradictory", None, "encoding"]
    clean = Source("impli:clean/idioms_gold_ent", small)
    assert [row["id"] for row in clean] == [
        "idioms/manual_e:1",
        "idioms/manual_e:4",
    ]
    assert clean.notes["left_out"] == {"contradictory": 1, "encoding": 1, "repeated": 1}
    assert clean.notes["remark"] == ("2 of 5 pairs, without 1 with both labels, 1 with a damaged encoding, 1 repeated")
    assert [row["id"] for row in read_rows("impli:clean/idioms_gold_non", small)] == ["idioms/manual_ne:2"]


def test_a_row_of_another_width_is_named(small: Path, tmp_path: Path) -> None:
    (tmp_path / "idioms/manual_e.tsv").write_text("premise\thypothesis\nonly one\n")
    with pytest.raises(DataError, match=r"manual_e\.tsv:2: 1 values"):
        read_rows("impli:idioms_gold_ent", small)


def test_unknown_columns_get_near_names(small: Path) -> None:
    with pytest.raises(DataError, match=r"no column 'idioms_gold_antonym'; did you mean .*'idioms_gold_ant'"):
        read_rows("impli:idioms_gold_antonym", small)[0]


def test_a_pair_of_unknown_idiom_has_none(small: Path) -> None:
    (row,) = read_rows("impli:idioms_gold_ent", small)
    assert [row[key] for key in ("idiom", "surface", "idiom_start", "idiom_end", "idiom_confidence")] == [None] * 5


# ---- the real files -------------------------------------------------------------------------------------------------

COUNTS = {
    "idioms_silver_ent": 16652,
    "idioms_silver_lit": 886,
    "idioms_silver_adv": 6116,
    "idioms_gold_ent": 528,
    "idioms_gold_ant": 375,
    "idioms_gold_non": 254,
    "metaphors_silver_ent": 645,
    "metaphors_gold_ent": 387,
    "metaphors_gold_non": 281,
}


def column_of(identity: str) -> str:
    """The column of a row's id."""
    file = identity.rpartition(":")[0]
    return next(column for column, names in FILES.items() if file in names)


@pytest.fixture
def everything(real_data: str) -> list[Row]:
    return read_rows("impli:all")


@pytest.mark.slow
def test_real_counts(everything: list[Row]) -> None:
    assert {column: len(read_rows(f"impli:{column}")) for column in FILES} == COUNTS
    assert len({row["id"] for row in everything}) == 26124 == len(everything)


@pytest.mark.slow
def test_real_quoting_and_encodings(everything: list[Row]) -> None:
    assert sum('"' in row["premise"] or '"' in row["hypothesis"] for row in everything) == 344
    assert not any('""' in row["premise"] for row in everything)
    tsvetkov = [row["premise"] + row["hypothesis"] for row in everything if row["corpus"] == "tsvetkov"]
    assert sum(any(mark in text for mark in "’“”") for text in tsvetkov) == 7
    assert all(row["premise"].strip() and row["hypothesis"].strip() for row in everything)


@pytest.mark.slow
def test_real_damage_is_left_as_published(everything: list[Row]) -> None:
    def repairable(text: str) -> bool:
        try:
            return text.encode("latin-1").decode("utf-8") != text
        except UnicodeError:
            return False

    assert sum(repairable(row["premise"]) for row in everything if row["corpus"] == "cc") == 45


@pytest.mark.slow
def test_real_flaws(everything: list[Row]) -> None:
    """Of 10 pairs with both labels there are 22 rows, and 45 + 44 texts are damaged; no other is called so."""
    assert Counter(row["flaw"] for row in everything) == {
        None: 24_904,
        "repeated": 1_109,
        "contradictory": 22,
        "encoding": 89,
    }
    contradictory = {
        (" ".join(row["premise"].split()), " ".join(row["hypothesis"].split()))
        for row in everything
        if row["flaw"] == "contradictory"
    }
    assert len(contradictory) == 10
    assert len(read_rows("impli:clean/all")) == 24_904


def test_real_idioms(everything: list[Row]) -> None:
    rows_with_idiom = [row for row in everything if row["idiom"] is not None]
    assert Counter(row["figure"] for row in everything if row["idiom"] is None) == {"metaphor": 1313, "idiom": 7}
    assert all(row["premise"][row["idiom_start"] : row["idiom_end"]] == row["surface"] for row in rows_with_idiom)
    names = Counter(row["idiom"] for row in rows_with_idiom)
    lexicon = (ROOT / "tasks/impli/idioms.txt").read_text(encoding="utf-8").splitlines()
    assert set(names) == {line.partition("|")[0].strip() for line in lexicon}, "no idiom of the list is idle"
    assert len(names) == 931


@pytest.mark.slow
def test_checked_draws_are_those_of_their_seeds(everything: list[Row]) -> None:
    """Every draw but that of doubtful pairs depends on nothing but the files, the seed and the draws before it."""
    seen: set[str] = set()
    for draw in CHECKED_IDIOMS["draws"]:
        ids = [pair["id"] for pair in draw["pairs"]]
        assert not seen.intersection(ids)
        if draw["name"] != "doubtful":
            rng = random.Random(draw["seed"])
            expected = []
            blind = draw["name"] == "blind"
            for column in sorted(IDIOM_COLUMNS) if blind else IDIOM_COLUMNS:
                pool = [row["id"] for row in everything if row["id"] not in seen and column_of(row["id"]) == column]
                expected += rng.sample(pool, 10 if blind else 34 if column in IDIOM_COLUMNS[:2] else 33)
            assert ids == expected
        seen.update(ids)


@pytest.mark.slow
def test_every_idiom_that_was_checked_by_reading_is_recovered(everything: list[Row]) -> None:
    """Undecidable pairs, and pairs that have no idiom, do not count."""
    idiom_of_id = {row["id"]: row["idiom"] for row in everything}
    for draw in CHECKED_IDIOMS["draws"]:
        pairs = [pair for pair in draw["pairs"] if not pair.get("undecidable")]
        assert len(pairs) >= 60
        assert {pair["id"]: idiom_of_id[pair["id"]] for pair in pairs} == {pair["id"]: pair["idiom"] for pair in pairs}
