"""Battles: which texts meet, who judges which, and the ranking that people and judges make of them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import figeval
from figeval import AnnotationItems
from tests.cli.conftest import Cli
from tests.plugins.servers import Desk, desk_open, openai_answer, question
from tests.wings.annotation.served import export_texts, serving

SYSTEMS = ("alva", "bram", "cleo", "dora")
QUALITY = {"alva": 3, "bram": 2, "cleo": 1, "dora": 0}


def export_battles(
    folder: Path, *, systems: tuple[str, ...] = SYSTEMS, examples: int = 12, same: int = 0, **options: Any
) -> AnnotationItems:
    """Battles of systems that have written a text for each example; all wrote the same for `same` examples."""
    texts = [
        (
            system,
            f"e{n}",
            {"proverb": f"Proverb {n}"},
            f"Same {n}." if n < same else f"Text {n} by number {QUALITY[system]}.",
        )
        for n in range(examples)
        for system in systems
    ]
    export_texts(folder, texts, {}, **{"battles": "all", **options})
    return AnnotationItems.load(folder)


def pair(item: Any) -> frozenset[str]:
    return frozenset((item.author, item.opponent))


def fill(folder: Path, choose: Callable[[dict[str, str]], str], sheets: str = "sheet_*.csv") -> None:
    """Write `choose(row)` into each row of the sheets."""
    for file in sorted(folder.glob(sheets)):
        rows = list(csv.DictReader(io.StringIO(file.read_text("utf-8-sig"), newline="")))
        for row in rows:
            row["preference"] = choose(row)
        with file.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def better(row: dict[str, str]) -> str:
    """Return the label of the text by the better system, the higher number."""
    a, b = (int(row[label].rpartition(" ")[2].rstrip(".")) for label in "AB")
    return "A" if a > b else "B" if b > a else "tie"


# ---- which texts meet ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("battles", ["all", 30, 13])
def test_pairs_and_orders_are_balanced(tmp_path: Path, battles: int | str) -> None:
    key = export_battles(tmp_path / "items", battles=battles).key
    items = list(key.battles.values())
    assert len(items) == (72 if battles == "all" else battles)
    pairs = Counter(map(pair, items))
    assert len(pairs) == 6 and max(pairs.values()) - min(pairs.values()) <= 1
    for both in pairs:
        first = Counter(item.author for item in items if pair(item) == both)
        assert abs(first[min(both)] - first[max(both)]) <= 1
    examples = Counter(item.example for item in items)
    assert max(examples.values()) - min(examples.values()) <= 1
    assert len({(pair(item), item.example) for item in items}) == len(items)


def test_few_battles_connect_all_systems(tmp_path: Path) -> None:
    key = export_battles(tmp_path / "items", battles=3, examples=3).key
    groups = [{name} for name in SYSTEMS]
    for both in map(pair, key.battles.values()):
        joined = [group for group in groups if group & both]
        groups = [group for group in groups if not group & both] + [set().union(*joined)]
    assert len(groups) == 1


def test_each_annotator_has_a_balanced_part(tmp_path: Path) -> None:
    key = export_battles(tmp_path / "items", annotators=3, overlap=0.25, checks=2).key
    parts = [set(part) - set(key.checks) for part in key.parts.values()]
    common = set.intersection(*parts)
    assert len(common) == 18 and all(number in part for number in key.checks for part in key.parts.values())
    assert set.union(*parts) == set(key.battles)
    assert sorted(len(part - common) for part in parts) == [18, 18, 18]
    for part in parts:
        pairs = Counter(pair(key.battles[number]) for number in part)
        assert max(pairs.values()) - min(pairs.values()) <= 1
        firsts = Counter(key.battles[number].author for number in part)
        assert max(firsts.values()) - min(firsts.values()) <= 3


def test_some_battles_are_shown_in_both_orders(tmp_path: Path) -> None:
    key = export_battles(tmp_path / "items", both_orders=0.25, annotators=2).key
    shown = Counter((pair(item), item.example) for item in key.battles.values())
    assert sorted(Counter(shown.values()).items()) == [(1, 54), (2, 18)]
    numbers: dict[Any, list[str]] = {}
    for number, item in key.battles.items():
        numbers.setdefault((pair(item), item.example), []).append(number)
    for again in (group for group in numbers.values() if len(group) > 1):
        assert len({key.battles[number].author for number in again}) == 2
        assert len({tuple(sheet for sheet, part in key.parts.items() if number in part) for number in again}) == 1


def test_nothing_but_the_key_says_who_wrote_a_text(tmp_path: Path) -> None:
    export_battles(tmp_path / "items", annotators=2)
    for file in (tmp_path / "items").iterdir():
        assert (file.name == "key.json") is any(name in file.read_text("utf-8-sig") for name in SYSTEMS)


def test_equal_texts_are_ties_that_nobody_judges(cli: Cli, tmp_path: Path) -> None:
    items = export_battles(tmp_path / "items", systems=("alva", "bram"), examples=14, same=4)
    assert len(items.key.battles) == 10 and len(items.key.identical) == 4
    assert "4 battles of equal texts" in str(items)
    fill(tmp_path / "items", better)
    frame = figeval.import_judgements(to=tmp_path / "items").to_frame().set_index("system")
    assert frame.loc["alva", ["wins", "ties", "losses"]].tolist() == [10, 4, 0]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"systems": ("alva",)}, "no opponent"),
        ({"battles": 2}, "2 battles cannot connect 4 systems"),
        ({"battles": 0}, "battles=0"),
        ({"same": 12}, "all texts that meet are equal"),
        ({"overlap": 0.5}, "one annotator judges all"),
        ({"both_orders": 1.5}, "a share from 0 to 1"),
        ({"battles": None, "both_orders": 0.5}, "it is about battles"),
    ],
)
def test_what_cannot_be_exported_is_refused(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(figeval.FigevalError, match=problem):
        export_battles(tmp_path / "items", **options)
    assert not (tmp_path / "items").exists()


def test_criteria_are_names(tmp_path: Path) -> None:
    texts = [(name, "e", {"A": "an input"}, f"By {name}.") for name in ("x", "y")]
    export_texts(tmp_path / "items", texts, "funnier,shorter=A/B", battles="all")  # type: ignore[arg-type]
    key = AnnotationItems.load(tmp_path / "items").key
    assert [(each.name, each.labels) for each in key.criteria] == [
        ("funnier", ("A", "B", "tie")),
        ("shorter", ("A", "B")),
    ]
    header = (tmp_path / "items" / "sheet_1.csv").read_text("utf-8-sig").splitlines()[0]
    assert header == "item,input A,A,B,funnier,shorter,comment"
    with pytest.raises(figeval.OptionError, match="one text wins"):
        export_texts(tmp_path / "other", texts, {"fluency": "1-5"}, battles="all")


# ---- rankings --------------------------------------------------------------------------------------------------------


def test_people_rank_the_systems(cli: Cli, tmp_path: Path) -> None:
    export_battles(tmp_path / "items", annotators=2, checks=0)
    fill(tmp_path / "items", lambda row: better(row) if int(row["item"]) % 5 else "tie")
    results = figeval.import_judgements(to=tmp_path / "items")
    frame = results.to_frame()
    assert frame["system"].tolist() == list(SYSTEMS)
    assert frame["rank"].tolist() == [1, 2, 3, 4]
    assert (frame["win_rate"].diff().dropna() < 0).all()
    assert frame["strength"].sum() == pytest.approx(0, abs=1e-9)
    assert (frame["rank_low"] <= frame["rank"]).all() and (frame["rank"] <= frame["rank_high"]).all()
    assert frame[["wins", "ties", "losses"]].sum(axis=1).tolist() == pytest.approx([36] * 4)
    assert len(results.battle_pairs) == 6
    assert results.position_bias["rater"].tolist() == ["sheet_1", "sheet_2", "all people"]
    assert not len(results.people.systems)

    done = cli("annotate", "import", "--to", "items", "--json")
    battles = json.loads(done.out)["battles"]
    assert [system["system"] for system in battles["rankings"][0]["systems"]] == list(SYSTEMS)
    measured = json.loads((tmp_path / "items" / "measured.json").read_text("utf-8"))["numbers"]
    assert {number["metric"] for number in measured} == {"preference_win_rate", "preference_strength"}
    assert {number["part"] for number in measured} == {"a_task_judged"}


def test_an_annotator_who_prefers_the_first_text_is_noticed_and_does_no_harm(cli: Cli, tmp_path: Path) -> None:
    export_battles(tmp_path / "items", examples=20, checks=0)
    fill(tmp_path / "items", lambda row: "A" if int(row["item"]) % 2 else better(row))
    results = figeval.import_judgements(to=tmp_path / "items")
    bias = results.position_bias.iloc[0]
    assert bias["first"] == pytest.approx(0.75, abs=0.06) and bias["low"] > 0.5
    assert results.to_frame()["system"].tolist() == list(SYSTEMS)


def test_systems_that_never_met_have_no_ranking(tmp_path: Path) -> None:
    key = export_battles(tmp_path / "items", checks=0).key
    couples = {frozenset(("alva", "bram")), frozenset(("cleo", "dora"))}
    fill(tmp_path / "items", lambda row: better(row) if pair(key.battles[row["item"]]) in couples else "")
    results = figeval.import_judgements(to=tmp_path / "items")
    assert results.to_frame()["strength"].isna().all()
    assert "no battle connects cleo, dora with alva" in str(results)


def test_who_wins_everything_has_a_finite_strength_and_a_wide_interval(tmp_path: Path) -> None:
    export_battles(tmp_path / "items", systems=("alva", "bram"), examples=15, checks=0)
    fill(tmp_path / "items", better)
    results = figeval.import_judgements(to=tmp_path / "items")
    alva = results.to_frame().set_index("system").loc["alva"]
    assert alva["strength_high"] - alva["strength_low"] > 2 and alva["win_rate_low"] < 0.95
    assert "alva won all of its 15 battles" in str(results)


def test_few_examples_have_no_interval(tmp_path: Path) -> None:
    export_battles(tmp_path / "items", examples=6, checks=0)
    fill(tmp_path / "items", better)
    frame = figeval.import_judgements(to=tmp_path / "items").to_frame()
    assert frame["strength"].notna().all() and frame["strength_low"].isna().all() and frame["rank_low"].isna().all()


@pytest.mark.parametrize("flags", [("--threshold", "preference=3"), ("--run", "run"), ("--other_items", "items")])
def test_options_about_means_are_refused(cli: Cli, tmp_path: Path, flags: tuple[str, str]) -> None:
    export_battles(tmp_path / "items", checks=0)
    fill(tmp_path / "items", better)
    (tmp_path / "run").mkdir()
    assert cli("annotate", "import", "--to", "items", *flags).code == 2


# ---- texts that are not where they were ------------------------------------------------------------------------------

Rows = list[dict[str, str]]


def exchange_texts(rows: Rows) -> None:
    rows[0]["A"], rows[0]["B"] = rows[0]["B"], rows[0]["A"]


def edit_text(rows: Rows) -> None:
    rows[1]["B"] += " Really."


def sort_one_column(rows: Rows) -> None:
    for row, text in zip(rows, sorted(row["A"] for row in rows), strict=True):
        row["A"] = text


def remove_columns(rows: Rows) -> None:
    for row in rows:
        del row["A"], row["B"], row["proverb"]


def exchange_columns(rows: Rows) -> None:
    rows[:] = [dict(reversed(row.items())) for row in rows]


def type_as_spreadsheets_do(rows: Rows) -> None:
    for row in rows:
        row["A"] = f" {row['A']}\n".replace(" ", "\u00a0\r\n", 1)


def change_sheet(sheet: Path, change: Callable[[Rows], None]) -> None:
    rows = list(csv.DictReader(io.StringIO(sheet.read_text("utf-8-sig"), newline="")))
    for row in rows:
        row["preference"] = "A"
    change(rows)
    with sheet.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (exchange_texts, "'A' and 'B' are exchanged"),
        (edit_text, "column 'B' has another text"),
        (sort_one_column, "column 'A' has the text of item"),
    ],
)
def test_labels_of_other_texts_are_refused(
    change: Callable[[Rows], None], problem: str, cli: Cli, desk: Desk, tmp_path: Path
) -> None:
    export_battles(tmp_path / "items", checks=0)
    change_sheet(tmp_path / "items" / "sheet_1.csv", change)
    arguments = json.dumps({"base_url": desk.url})
    for command in (("import", "--to", "items"), ("judge", "items", "--judge", "openai:m", "--model_args", arguments)):
        refused = cli("annotate", *command)
        assert refused.code == 2
        assert problem in refused.complaint
    assert not desk.requests
    assert not (tmp_path / "items" / "judgements.csv").exists()


@pytest.mark.parametrize("change", [remove_columns, exchange_columns, type_as_spreadsheets_do, Rows.reverse])
def test_what_spreadsheets_do_to_a_sheet_is_not_refused(change: Callable[[Rows], None], tmp_path: Path) -> None:
    export_battles(tmp_path / "items", checks=0)
    change_sheet(tmp_path / "items" / "sheet_1.csv", change)
    assert len(figeval.import_judgements(to=tmp_path / "items").batch.judgements) == 72


def test_the_sheet_of_other_items_is_refused(tmp_path: Path) -> None:
    for seed in (0, 1):
        export_battles(tmp_path / f"items_{seed}", checks=0, seed=seed)
        fill(tmp_path / f"items_{seed}", better)
    with pytest.raises(figeval.DataError, match="has the text of item"):
        figeval.import_judgements(tmp_path / "items_0" / "sheet_1.csv", to=tmp_path / "items_1")


def test_tasks_of_label_studio_are_compared_too(tmp_path: Path) -> None:
    export_battles(tmp_path / "items", examples=1, checks=0, to="label_studio")
    tasks = json.loads((tmp_path / "items" / "tasks.json").read_text("utf-8"))
    result = {"from_name": "preference", "value": {"choices": ["A"]}}
    annotation = {"id": 1, "completed_by": 3, "result": [result]}
    returned = [{**task, "id": number, "annotations": [annotation]} for number, task in enumerate(tasks)]
    (tmp_path / "returned.json").write_text(json.dumps(returned), "utf-8")
    batch = figeval.import_judgements(tmp_path / "returned.json", to=tmp_path / "items").batch
    assert len(batch.judgements) == len(tasks)
    exchange = returned[0]["data"]
    exchange["a"], exchange["b"] = exchange["b"], exchange["a"]
    (tmp_path / "returned.json").write_text(json.dumps(returned), "utf-8")
    with pytest.raises(figeval.DataError, match="are exchanged"):
        figeval.import_judgements(tmp_path / "returned.json", to=tmp_path / "items")


@pytest.mark.parametrize("text", ["007", "3.10", "1/2", "=1+1 is two", "- a list;=SUM(A1)", "word " * 9000])
def test_texts_that_spreadsheets_change_can_be_judged(text: str, tmp_path: Path) -> None:
    texts = [(name, "e", {"proverb": "P"}, by) for name, by in (("alva", text), ("bram", "Another."))]
    export_texts(tmp_path / "items", texts, {}, battles="all")
    sheet = tmp_path / "items" / "sheet_1.csv"
    rows = list(csv.reader(io.StringIO(sheet.read_text("utf-8-sig"), newline="")))
    rows[1][rows[0].index("preference")] = "B"
    workbook = openpyxl.Workbook()
    for row in rows:  # as a spreadsheet reads a file with commas, and then saves a workbook
        workbook.active.append([float(cell) if re.fullmatch(r"[\d.]+", cell) else cell[:32767] for cell in row])
    for cell in workbook.active[2]:
        cell.data_type = "s" if cell.data_type == "f" else cell.data_type
    workbook.save(tmp_path / "kim.xlsx")
    assert len(figeval.import_judgements(tmp_path / "kim.xlsx", to=tmp_path / "items").batch.judgements) == 1


# ---- judges ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A judge that prefers the better system, but the first text if the difference is small."""
    monkeypatch.setenv("FIGEVAL_HOME", str(tmp_path / "home"))

    def behave(handler: Any, body: bytes) -> None:
        a, b = (int(number) for number in re.findall(r"by number (\d)\.$", question(body), re.MULTILINE))
        handler.send(200, openai_answer("Text B is better." if b > a + 1 else "A"))

    with desk_open() as desk:
        desk.usual = behave
        yield desk


def test_a_judge_is_asked_in_both_orders(cli: Cli, desk: Desk, tmp_path: Path) -> None:
    export_battles(tmp_path / "items", examples=4, checks=0, both_orders=0.5)
    arguments = json.dumps({"base_url": desk.url})
    done = cli("annotate", "judge", "items", "--judge", "openai:m", "--model_args", arguments, "--name", "m")
    assert done.code == 0, done.err
    assert len(desk.requests) == 48  # 24 battles; those that people see in both orders are no others
    assert not any(name in json.dumps(desk.requests) for name in SYSTEMS)
    assert "12 of 24 battles had another result in the other order" in done.out
    results = figeval.import_judgements(to=tmp_path / "items")
    bias = results.position_bias.iloc[0]
    assert (bias["both_orders"], bias["contradictions"]) == (24, 12)
    assert bias["first"] == pytest.approx(0.75)
    pairs = results.battle_pairs.set_index(["a", "b"])
    assert pairs.loc[("alva", "bram"), "value"] == 0.5 and pairs.loc[("alva", "cleo"), "value"] == 1
    again = cli("annotate", "judge", "items", "--judge", "openai:m", "--model_args", arguments, "--name", "m")
    assert again.code == 0 and len(desk.requests) == 48


@pytest.mark.slow
def test_people_correct_a_judge(cli: Cli, desk: Desk, tmp_path: Path) -> None:
    export_battles(tmp_path / "items", examples=40, battles=100, checks=0)
    fill(tmp_path / "items", lambda row: better(row) if int(row["item"]) <= 60 else "")
    arguments = json.dumps({"base_url": desk.url})
    assert cli("annotate", "judge", "items", "--judge", "openai:m", "--model_args", arguments, "--name", "m").code == 0
    frame = figeval.import_judgements(to=tmp_path / "items").to_frame()
    assert frame["by"].unique().tolist() == ["people", "m", "people and m"]
    corrected = frame[frame["by"] == "people and m"]
    assert corrected["system"].tolist() == list(SYSTEMS) and corrected["strength_low"].notna().all()
    assert "60 of 100 battles decided" in str(figeval.import_judgements(to=tmp_path / "items"))


def test_a_judge_reads_tasks_for_label_studio(cli: Cli, desk: Desk, tmp_path: Path) -> None:
    export_battles(tmp_path / "items", examples=1, checks=0, to="label_studio")
    arguments = json.dumps({"base_url": desk.url})
    done = cli("annotate", "judge", "items", "--judge", "openai:m", "--model_args", arguments)
    assert "12 of 12 answers parsed" in done.out, done.err


def test_sheets_without_one_of_the_texts_are_refused(cli: Cli, desk: Desk, tmp_path: Path) -> None:
    export_battles(tmp_path / "items", examples=1, checks=0)
    sheet = tmp_path / "items" / "sheet_1.csv"
    sheet.write_text(sheet.read_text("utf-8-sig").replace(",A,B,", ",A,Bee,"), "utf-8")
    arguments = json.dumps({"base_url": desk.url})
    assert cli("annotate", "judge", "items", "--judge", "openai:m", "--model_args", arguments).code == 2
    assert not desk.requests


# ---- the page --------------------------------------------------------------------------------------------------------


def test_the_page_gives_each_annotator_a_part(tmp_path: Path) -> None:
    key = export_battles(tmp_path / "items", annotators=2, overlap=0.25, checks=0).key
    first, second = (set(part) for part in key.parts.values())
    with serving(tmp_path / "items") as server:
        kim, lou = server.items("kim"), server.items("lou")
        assert kim["beside"] == ["A", "B"] and [name for name, _ in kim["items"][0]["fields"]][-2:] == ["A", "B"]
        shown = [{item["item"] for item in content["items"]} for content in (kim, lou)]
        assert shown == [first, second]
        assert {item["item"] for item in server.items("sheet_2")["items"]} == second
        number = min(second - first)
        assert server.answer("lou", number, "preference", "tie")[0] == 200
        assert server.answer("lou", number, "preference", "both")[0] == 422
        server.stop()
    with serving(tmp_path / "items") as server:
        assert {item["item"] for item in server.items("lou")["items"]} == second
        assert {item["item"] for item in server.items("kim")["items"]} == first
