"""IMPLI: the reader on files of our own, the recovery of idioms, and counts on the real files."""

from __future__ import annotations

import json
import random
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import DataContext, DataError
from figeval.builtin.tasks.impli import idioms, impli_rows
from figeval.data import Row
from figeval.data.cache import fetch
from figeval.metrics.intervals import wilson

FOLDER = Path(__file__).parents[1] / "golden" / "data"
GOLDEN = json.loads((FOLDER / "idioms.json").read_text(encoding="utf-8"))
CHECKED_IDIOMS = json.loads((FOLDER / "idioms_checked.json").read_text(encoding="utf-8"))
STRATIFIED_SAMPLES = ("first", "second", "third")
IDIOM_COLUMNS = [column for column in impli_rows.COLUMNS if column.startswith("idioms")]
OLD_CLUSTERS = {  # clusters and effective clusters of version 1
    "idioms_silver_ent": "649 | 176.8",
    "idioms_silver_lit": "139 | 30.0",
    "idioms_silver_adv": "463 | 112.6",
    "idioms_gold_ent": "394 | 305.7",
    "idioms_gold_ant": "298 | 242.0",
    "idioms_gold_non": "218 | 190.9",
}


@pytest.fixture
def small(tmp_path: Path) -> DataContext:
    """Every file holds one row of its own; the interesting ones hold more."""
    for file in impli_rows.FILES:
        path = tmp_path / f"{file}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"Row of {file}\tOther of {file}\n", encoding="utf-8")
    silver = '"""Fine,"" she  went bananas"\t"""Fine,"" she  got angry"\t0.9\nWe went bananas\tWe got angry\t\n'
    (tmp_path / "idioms/fig_context_magpie_e.tsv").write_text(silver, encoding="utf-8")
    (tmp_path / "metaphors/replacement_tsvetkov_e.tsv").write_bytes("It’s icy\tIt’s cold\n".encode("cp1252"))
    return DataContext(folder=tmp_path, fetch=lambda benchmark, path: tmp_path / path)


def test_quotes_scores_and_ids(small: DataContext) -> None:
    first, second, third, fourth = impli_rows.open("idioms_silver_ent", small)
    assert first == {
        "id": "idioms/fig_context_magpie_e:1",
        "premise": '"Fine," she  went bananas',
        "hypothesis": '"Fine," she  got angry',
        "premise_key": impli_rows.premise_key("Fine, she went bananas."),
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


def test_windows_1252_is_read_as_such(small: DataContext) -> None:
    first = next(impli_rows.open("metaphors_silver_ent", small))
    assert (first["premise"], first["corpus"], first["figure"]) == ("It’s icy", "tsvetkov", "metaphor")


def test_labels_follow_the_column(small: DataContext) -> None:
    labels = {column: {row["label"] for row in impli_rows.open(column, small)} for column in impli_rows.COLUMNS}
    expected = {name: {"entailment" if name.endswith("_ent") else "non-entailment"} for name in impli_rows.COLUMNS}
    assert labels == expected


def test_all_is_every_column_once(small: DataContext) -> None:
    assert len(list(impli_rows.open("all", small))) == 17


def test_clean_columns_leave_out_what_is_flawed(small: DataContext, tmp_path: Path) -> None:
    def write(file: str, *lines: str) -> None:
        (tmp_path / f"{file}.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    write("idioms/manual_e", "a b\tc", "a  b\tc ", "d\te", "caf\u00e9\tf", "caf\u00c3\u00a9\tf")
    write("idioms/manual_ne", "d\te", "g\th")
    flaws = [row["flaw"] for row in impli_rows.open("idioms_gold_ent", small)]
    assert flaws == [None, "repeated", "contradictory", None, "encoding"]
    assert [row["id"] for row in impli_rows.open("clean/idioms_gold_ent", small)] == [
        "idioms/manual_e:1",
        "idioms/manual_e:4",
    ]
    assert small.notes["left_out"] == {"contradictory": 1, "encoding": 1, "repeated": 1}
    assert small.notes["remark"] == ("2 of 5 pairs, without 1 with both labels, 1 with a damaged encoding, 1 repeated")
    assert [row["id"] for row in impli_rows.open("clean/idioms_gold_non", small)] == ["idioms/manual_ne:2"]


def test_a_row_of_another_width_is_named(small: DataContext, tmp_path: Path) -> None:
    (tmp_path / "idioms/manual_e.tsv").write_text("premise\thypothesis\nonly one\n")
    with pytest.raises(DataError, match=r"manual_e\.tsv:2: 1 values"):
        list(impli_rows.open("idioms_gold_ent", small))


def test_unknown_columns_get_near_names(small: DataContext) -> None:
    with pytest.raises(DataError, match=r"no column 'idioms_gold_antonym'; did you mean .*'idioms_gold_ant'"):
        next(impli_rows.open("idioms_gold_antonym", small))


def test_idioms_are_looked_up_once_per_process(small: DataContext) -> None:
    impli_rows.idioms.cache_clear()
    for _ in range(3):
        list(impli_rows.open("idioms_gold_ent", small))
    assert impli_rows.idioms.cache_info().misses == 1


def test_a_pair_of_unknown_idiom_has_none(small: DataContext) -> None:
    (row,) = impli_rows.open("idioms_gold_ent", small)
    assert [row[key] for key in ("idiom", "surface", "idiom_start", "idiom_end", "idiom_confidence")] == [None] * 5


@pytest.mark.parametrize("case", GOLDEN, ids=[case["why"][:60] for case in GOLDEN])
def test_golden_idioms(case: dict[str, Any]) -> None:
    idiom = idioms.Lexicon(case["lexicon"]).idiom(case["premise"], case["hypothesis"])
    if case["idiom"] is None:
        assert idiom is None
        return
    assert idiom is not None
    assert (idiom.name, idiom.surface, idiom.confidence) == (case["idiom"], case["surface"], case["confidence"])
    assert case["premise"][idiom.start : idiom.end] == idiom.surface


def test_the_lexicon_is_sorted_and_has_every_form_once() -> None:
    lines = files(idioms.__package__).joinpath("idioms.txt").read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines, key=lambda line: (line.casefold(), line))
    forms = [form.strip() for line in lines for form in line.split("|")]
    assert len(forms) == len(set(forms))
    assert all(2 <= len(form) <= 60 for form in forms)


words = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "and", "hit", "roof", ",", "."]), max_size=8)


@given(before=words, left=words, right=words, after=words)
def test_the_changed_span_is_what_changed(
    before: list[str], left: list[str], right: list[str], after: list[str]
) -> None:
    premise, hypothesis = before + left + after, before + right + after
    start, end = idioms.changed_span(premise, hypothesis)
    assert 0 <= start <= end <= len(premise)
    tail = len(premise) - end
    assert premise[:start] == hypothesis[:start]
    assert premise[end:] == hypothesis[len(hypothesis) - tail :]
    assert start >= len(before) or premise == hypothesis[: len(premise)]
    assert start + tail <= min(len(premise), len(hypothesis))


@given(premise=st.text(max_size=60) | words.map(" ".join), hypothesis=st.text(max_size=60) | words.map(" ".join))
def test_offsets_are_those_of_the_surface_form_whatever_the_text(premise: str, hypothesis: str) -> None:
    idiom = idioms.Lexicon(["hit the roof", "on the mat", "sit"]).idiom(premise, hypothesis)
    if idiom is not None:
        assert premise[idiom.start : idiom.end] == idiom.surface != ""
        assert 0 <= idiom.confidence <= 1


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
    return next(column for column, names in impli_rows.COLUMNS.items() if file in names)


@pytest.fixture
def real(real_data: str, tmp_path: Path) -> DataContext:
    return DataContext(folder=tmp_path, fetch=fetch)


@pytest.fixture
def everything(real: DataContext) -> list[Row]:
    return list(impli_rows.open("all", real))


@pytest.mark.slow
def test_real_counts(real: DataContext, everything: list[Row]) -> None:
    assert {column: sum(1 for _ in impli_rows.open(column, real)) for column in impli_rows.COLUMNS} == COUNTS
    assert len({row["id"] for row in everything}) == 26124 == len(everything)


@pytest.mark.slow
def test_real_quoting_and_encodings(real: DataContext, everything: list[Row]) -> None:
    assert sum('"' in row["premise"] or '"' in row["hypothesis"] for row in everything) == 344
    assert not any('""' in row["premise"] for row in everything)
    tsvetkov = [row["premise"] + row["hypothesis"] for row in everything if row["corpus"] == "tsvetkov"]
    assert sum(any(mark in text for mark in "’“”") for text in tsvetkov) == 7
    assert all(row["premise"].strip() and row["hypothesis"].strip() for row in everything)


def test_real_damage_is_left_as_published(everything: list[Row]) -> None:
    def repairable(text: str) -> bool:
        try:
            return text.encode("latin-1").decode("utf-8") != text
        except UnicodeError:
            return False

    assert sum(repairable(row["premise"]) for row in everything if row["corpus"] == "cc") == 45


@pytest.mark.slow
def test_real_flaws(real: DataContext, everything: list[Row]) -> None:
    """Of 10 pairs with both labels there are 22 rows, and 45 + 44 texts are damaged; no other is called so."""
    assert Counter(row["flaw"] for row in everything) == {
        None: 24_904,
        "repeated": 1_109,
        "contradictory": 22,
        "encoding": 89,
    }
    contradictory = {
        impli_rows.normalize_pair(row["premise"], row["hypothesis"])
        for row in everything
        if row["flaw"] == "contradictory"
    }
    assert len(contradictory) == 10
    assert sum(1 for _ in impli_rows.open("clean/all", real)) == 24_904


def test_real_idioms(everything: list[Row]) -> None:
    rows_with_idiom = [row for row in everything if row["idiom"] is not None]
    assert Counter(row["figure"] for row in everything if row["idiom"] is None) == {"metaphor": 1313, "idiom": 7}
    assert all(row["premise"][row["idiom_start"] : row["idiom_end"]] == row["surface"] for row in rows_with_idiom)
    names = Counter(row["idiom"] for row in rows_with_idiom)
    assert set(names) == set(impli_rows.lexicon().names), "no idiom of the list is idle"
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


def test_readme_has_the_measured_precision_and_clusters(everything: list[Row]) -> None:
    """Precision: right among the named. Recall: right among the pairs with an idiom. Undecidable pairs do not count."""
    idiom_of_id = {row["id"]: row["idiom"] for row in everything}
    readme = files(impli_rows.__package__).joinpath("README.md").read_text(encoding="utf-8")
    stratified = [
        pair for draw in CHECKED_IDIOMS["draws"] if draw["name"] in STRATIFIED_SAMPLES for pair in draw["pairs"]
    ]
    for column in IDIOM_COLUMNS:
        pairs = [pair for pair in stratified if column_of(pair["id"]) == column and not pair.get("undecidable")]
        before = [pair["before"] == "right" for pair in pairs if "before" in pair]
        pairs_with_idiom = [pair for pair in pairs if idiom_of_id[pair["id"]] is not None]
        right = sum(idiom_of_id[pair["id"]] == pair["idiom"] for pair in pairs_with_idiom)
        sizes = Counter(row["idiom"] or row["id"] for row in everything if column_of(row["id"]) == column)
        effective = sum(sizes.values()) ** 2 / sum(size**2 for size in sizes.values())
        cells = f"{sum(before)} of {len(before)} | {right} of {len(pairs_with_idiom)} | {right} of {len(pairs)}"
        line = f"| `{column}` | {cells} | {OLD_CLUSTERS[column]} | {len(sizes)} | {effective:.1f} |"
        assert line in readme, line
    draws = {draw["name"]: draw["pairs"] for draw in CHECKED_IDIOMS["draws"]}
    doubtful, third, blind = draws["doubtful"], draws["third"], draws["blind"]
    right = sum(idiom_of_id[pair["id"]] == pair["idiom"] for pair in doubtful)
    assert f"{right} of {len(doubtful)}\npairs with a confidence below 1" in readme
    decidable = [pair for pair in third if not pair.get("undecidable")]
    right = sum(idiom_of_id[pair["id"]] == pair["idiom"] for pair in decidable)
    interval = wilson(right, len(decidable))
    assert f"{right} of {len(decidable)} (95 % interval {f'{interval[0]:.3f}'[1:]} to {interval[1]:g})" in readme
    right = sum(idiom_of_id[pair["id"]] == pair["idiom"] for pair in blind)
    low, _ = wilson(right, len(blind))
    same = sum("read" not in pair for pair in blind)
    sentence = (
        f"{same} of {len(blind)} names were the same and {right}\nare right by the rule ({f'{low:.3f}'[1:]} to 1)"
    )
    assert sentence in readme


def test_readme_has_the_comparison_with_published_lists() -> None:
    readme = files(impli_rows.__package__).joinpath("README.md").read_text(encoding="utf-8")
    figures = json.loads((FOLDER.parents[2] / "bench" / "idioms.json").read_text(encoding="utf-8"))
    assert len(figures) == 7
    for name, row in figures.items():
        cells = ["all" if name == "all" else f"`{name.removeprefix('impli_')}`", f"{row.pop('pairs'):,}"]
        (line,) = (line for line in readme.splitlines() if line.startswith(f"| {' | '.join(cells)} |"))
        after = [cell.partition("→")[2].strip() for cell in line.split("|")[3:-1]]
        assert after == [f"{value:.3f}".removeprefix("0") for value in row.values()]


def test_all_columns_together_have_all_rows(real: DataContext) -> None:
    assert sum(1 for _ in impli_rows.open("all", real)) == 26124
