"""G-IdiomAlign: the reader on files of our own, choices with a repeated option, and counts on the real files."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import ChoiceExample, DataError, Harness, Prediction
from figeval.testing import check_task_type
from figeval.testing.fakes import FakeGenerator, FakeLanguageModel
from tests.aggregated import statistic
from tests.cli.conftest import Cli
from tests.sources import Row, read_rows

TYPE = "g_idiomalign_choice"
FILE = "Multiple-Choice_Idiom_Equivalence/En-target/mcq_data_mcq_data_French_English.json"
ITEM: dict[str, Any] = {
    "source_idiom": "être aux anges",
    "source_language": "French",
    "target_language": "English",
    "target_idiom": "on cloud nine",
    "options_detail": {"A": "be at the angels", "B": "on cloud nine", "C": "angel's advocate", "D": "walk on air "},
    "correct_option": "B",
    "original_positions": [2, 1, 3, 4],
}
GARBLED = {**ITEM, "source_idiom": "être bête".encode().decode("latin-1")}
TWICE = {**ITEM, "options_detail": {**ITEM["options_detail"], "C": "On cloud nine!"}}
EQUIVALENT, OTHER, COPY = "on cloud nine", "at the angels", "on cloud nine"
OPTIONS = (EQUIVALENT, OTHER, COPY, "angel's advocate")


def read_items(folder: Path, *items: Any, name: str = "fr_en") -> list[Row]:
    """The rows of a direction whose file has these items."""
    file = folder / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(items), "utf-8")
    return read_rows(f"g_idiomalign:{name}", folder)


# ---- reader ----------------------------------------------------------------------------------------------------------


def test_a_question(tmp_path: Path) -> None:
    (row,) = read_items(tmp_path, ITEM)
    assert row == {
        "id": "fr_en-0",
        "idiom": "être aux anges",
        "options": ("be at the angels", "on cloud nine", "angel's advocate", "walk on air"),
        "gold": 1,
        "kinds": ["literal translation", "equivalent", "lexical cue", "contextual association"],
        "repeated": "none",
        "repaired": "no",
        "language": "en",
        "source_language": "French",
        "target_language": "English",
        "direction": "fr_en",
        "cluster": "fr_en-0",
    }


def test_an_idiom_that_was_decoded_wrongly_is_repaired_unless_the_published_one_is_wanted(tmp_path: Path) -> None:
    for name, idiom, is_repaired in (("fr_en", "être bête", "yes"), ("published/fr_en", GARBLED["source_idiom"], "no")):
        (row,) = read_items(tmp_path, GARBLED, name=name)
        assert (row["idiom"], row["repaired"]) == (idiom, is_repaired)


def test_copies_of_the_right_option_are_equivalents(tmp_path: Path) -> None:
    exact = {**TWICE, "options_detail": {**ITEM["options_detail"], "C": "on cloud nine"}}
    wrong = {**ITEM, "options_detail": {**ITEM["options_detail"], "C": "Be at the angels"}}
    rows = read_items(tmp_path, ITEM, TWICE, exact, wrong)
    assert [row["repeated"] for row in rows] == ["none", "right, spelt differently", "right", "wrong"]
    assert [row["kinds"].count("equivalent") for row in rows] == [1, 2, 2, 1]


def test_the_key_may_name_another_copy_than_the_number_1(tmp_path: Path) -> None:
    (row,) = read_items(tmp_path, {**TWICE, "original_positions": [2, 3, 1, 4]})
    assert (row["gold"], row["kinds"][1:3]) == (1, ["equivalent", "equivalent"])


def test_questions_with_an_idiom_in_common_are_a_cluster(tmp_path: Path) -> None:
    other = {**ITEM, "target_idiom": "walk on air ", "correct_option": "D", "original_positions": [2, 4, 3, 1]}
    rows = read_items(tmp_path, ITEM, {**ITEM, "source_idiom": "planer"}, {**other, "source_idiom": "Planer."}, GARBLED)
    assert {row["cluster"] for row in rows} == {"fr_en-0"}
    assert len({row["cluster"] for row in read_items(tmp_path, ITEM, {**other, "source_idiom": "planer"})}) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source_language": "German"}, "row 0, field 'source_language': 'German' is not French"),
        ({"source_idiom": "  "}, "row 0, field 'source_idiom': expected a text, found '  '"),
        ({"source_idiom": 3}, "field 'source_idiom': expected a text, found 3"),
        ({"options_detail": ["a", "b", "c", "d"]}, "field 'options_detail': expected the options A, B, C and D"),
        ({"options_detail": {"B": "x", "A": "y", "C": "z", "D": "w"}}, "expected the options A, B, C and D"),
        ({"options_detail": {"A": "x", "B": None, "C": "z", "D": "w"}}, "field 'B': expected a text, found None"),
        ({"original_positions": [1, 1, 3, 4]}, "field 'original_positions': expected the numbers 1 to 4"),
        ({"original_positions": [True, 2, 3, 4]}, "expected the numbers 1 to 4"),
        ({"original_positions": None}, "expected the numbers 1 to 4"),
        ({"correct_option": "E"}, "field 'correct_option': 'E' is not one of A, B, C, D"),
        ({"correct_option": "A"}, "correct_option, target_idiom and original_positions name different options"),
        ({"original_positions": [1, 2, 3, 4]}, "name different options as the right one"),
    ],
)
def test_what_is_no_question_is_one_line(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_items(tmp_path, {**ITEM, **changes})
    assert "\n" not in str(caught.value)


def test_a_direction_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="g_idiomalign has no direction 'en_fr'; it has all, de_en"):
        read_items(tmp_path, ITEM, name="en_fr")


# ---- choices with a repeated option ----------------------------------------------------------------------------------


@cache
def repeated_choice() -> Any:
    """The task type."""
    return Harness().task_types.get(TYPE)


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    """A function that asks a model a question with two copies of the right option; `ask(model)` returns the run."""
    kinds = [{"kind": kind} for kind in ("equivalent", "literal", "equivalent", "lexical")]
    row = {"id": "1", "query": "être aux anges", "options": OPTIONS, "gold": 0, "kinds": kinds}
    (tmp_path / "copies.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    (tmp_path / "copies.task.yaml").write_text(
        f"name: copies\ntype: {TYPE}\ndata: {{test: 'jsonl:copies.jsonl'}}\nmetrics: [acc]\nbaselines: [chance]\n"
        "fields: {id: row.id, query: row.query, options: row.options, gold: row.gold, option_meta: row.kinds}\n",
        "utf-8",
    )

    def run(model: object, **options: Any) -> figeval.Run:
        return figeval.run("copies", model, include_path=tmp_path, output_path=tmp_path / "run", fresh=True, **options)

    return run


def accuracy(run: figeval.Run) -> float | None:
    return next(score.value for score in run.record.tasks[0].scores if score.metric == "acc")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        *(("A", 1.0), ("B", 0.0), ("C", 1.0), ("D", 0.0)),
        *(("on cloud nine", 1.0), ("C. on cloud nine", 1.0), ('The answer is "on cloud nine".', 1.0)),
        *(("B. at the angels", 0.0), ("at the angels", 0.0), ("A. at the angels", None), ("B or C", None)),
    ],
)
def test_by_letter_either_copy_is_right(reply: str, expected: float | None, ask: Any, cli: Cli, tmp_path: Path) -> None:
    run = ask(FakeGenerator(function=lambda _prompt: reply))
    assert accuracy(run) == expected
    stored = list(run.rows("copies"))
    cli("rescore", tmp_path / "run", "--include_path", tmp_path)
    assert list(figeval.load(tmp_path / "run").rows("copies")) == stored


def test_in_every_order_either_copy_is_right(ask: Any) -> None:
    assert accuracy(ask(FakeGenerator(function=lambda _prompt: "A"), orders="cyclic")) == 0.5


def test_by_likelihood_a_tie_of_both_copies_is_right(ask: Any) -> None:
    run = ask(FakeLanguageModel(function=lambda _context, text: -1.0 if "cloud" in text else -2.0))
    assert accuracy(run) == 1.0
    (row,) = run.rows("copies")
    assert row["choice"]["right"] == [0, 2]
    assert row["choice"]["chosen"] == [0.5, 0.0, 0.5, 0.0]
    (table,) = run.record.tasks[0].choices
    assert (table.wrong, {kind.value: kind.chosen.value for kind in table.kinds}["equivalent"]) == (0, 1.0)


def test_chance_has_one_half(ask: Any) -> None:
    run = ask(FakeGenerator(function=lambda _prompt: "B"))
    (chance,) = run.record.tasks[0].baselines
    assert (chance.baseline, [score.value for score in chance.scores if score.metric == "acc"]) == ("chance", [0.5])


@pytest.mark.parametrize(("prediction", "expected"), [("on cloud nine", 1.0), (2, 1.0), ("C", 1.0), (OTHER, 0.0)])
def test_predictions_of_other_systems(prediction: Any, expected: float, ask: Any, tmp_path: Path) -> None:
    ask(FakeGenerator(function=lambda _prompt: "B"))
    given_rows = [{"id": "1", "prediction": prediction}]
    run = figeval.score("copies", given_rows, name="x", include_path=tmp_path, output_path=tmp_path / "given")
    assert accuracy(run) == expected


def test_people_see_every_option_once() -> None:
    example = repeated_choice().Example(id="1", query="q", options=OPTIONS, gold=2)
    assert repeated_choice().human_question(example) == ("q", [EQUIVALENT, OTHER, "angel's advocate"], 0)


def test_the_type_keeps_to_the_contract() -> None:
    rows = [
        {"id": "1", "query": "être aux anges", "options": list(OPTIONS), "gold": 2},
        {"id": "2", "query": "planer", "options": ["walk on air", "plane", "glide"], "gold": 0},
    ]
    check_task_type(repeated_choice(), rows, replies=["A", "C. on cloud nine", "neither"])


@given(scores=st.lists(st.sampled_from([-3.0, -2.0, -1.0]), min_size=4, max_size=4), gold=st.integers(0, 3))
def test_without_copies_an_accuracy_is_that_of_a_choice(scores: list[float], gold: int) -> None:
    fields: Any = {"id": "1", "query": "q", "options": ("an", "option", "each", "differs"), "gold": gold}
    best = [index for index, score in enumerate(scores) if score == max(scores)]
    prediction = Prediction(example_id="1", value=best[0], scores=tuple(scores), tied=len(best), priors=(-1.0,) * 4)
    for name in ("acc", "acc_norm", "acc_pmi", "acc_of_all"):
        expected = statistic(name, "choice").features(ChoiceExample(**fields), prediction)
        assert statistic(name, TYPE).features(repeated_choice().Example(**fields), prediction) == expected


# ---- the real files --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_real_files(real_data: str) -> None:
    rows = read_rows("g_idiomalign:all")
    assert Counter(row["direction"] for row in rows) == {
        "de_en": 520,
        "es_en": 1114,
        "fi_en": 693,
        "fr_en": 376,
        "ja_en": 336,
        "pl_en": 1182,
        "pt_en": 534,
        "zh_en": 1782,
        "de_zh": 509,
        "ja_zh": 416,
        "ja_pl": 345,
        "fr_fi": 267,
    }
    assert Counter(row["repeated"] for row in rows) == {
        "none": 8015,
        "right": 47,
        "right, spelt differently": 11,
        "wrong": 1,
    }
    assert Counter(row["direction"] for row in rows if row["repaired"] == "yes") == {"fr_en": 128, "fr_fi": 97}
    assert len({row["cluster"] for row in rows}) == 3488
    assert [row["direction"] for row in rows[:3]] == ["de_en", "es_en", "fi_en"]


def test_the_numbers_of_wrong_options_are_the_traps_in_the_order_of_the_authors(real_data: str) -> None:
    """Literal translations share characters with the Japanese idiom, lexical cues some of them, associations none."""
    shares: dict[str, list[float]] = {}
    for row in read_rows("g_idiomalign:ja_zh"):
        characters = {character for character in row["idiom"] if "一" <= character <= "鿿"}
        for kind, option in zip(row["kinds"], row["options"], strict=True):
            if characters:
                shares.setdefault(kind, []).append(len(characters & {*option}) / len(characters))
    means = {kind: sum(values) / len(values) for kind, values in shares.items()}
    assert means["literal translation"] > 0.4 > means["lexical cue"] > 0.2
    assert means["contextual association"] < 0.1
