"""`figeval benchmark analyze storal`: sizes, outlines, topics, nouns and 5-grams of the stories."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import figeval
from tests.cli.conftest import Cli

ANIMALS, VALUES = ("狐狸", "乌鸦", "狮子", "老虎", "猴子"), ("诚实", "骄傲", "友谊", "智慧", "勇气", "贪心")
SIZES = {"train": 3368, "valid": 420, "test": 421}
SENTENCES = 4


def read_numbers(folder: Path) -> dict[str, dict[str, str]]:
    """The numbers of `tables.csv` by name."""
    with (folder / "tables.csv").open(encoding="utf-8", newline="") as stream:
        return {row["name"]: row for row in csv.DictReader(stream)}


def read_listing(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the archive with as many Chinese stories as the paper has, of four sentences each."""
    folder = tmp_path_factory.mktemp("copy")
    for split, size in SIZES.items():
        rows: list[dict[str, Any]] = []
        for number in range(size):
            animal, value = ANIMALS[number % len(ANIMALS)], VALUES[number % len(VALUES)]
            story = f"从前，有一只{animal}。“你好！”{animal}说。他们一起走了很远的路……"
            rows.append({"id": number, "story": story, "moral": f"{value}很重要。", "beginning": "从前，"})
        for task, outline in {"st2mo": {}, "mo2st": {"outline": ["很远的路", "一只"]}}.items():
            file = folder / f"{task}_data_zh" / f"{split}.json"
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps([{**row, **outline} for row in rows]), encoding="utf-8")
    return folder


@pytest.mark.slow
def test_chinese_is_counted_in_a_copy(copy: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "more.txt").write_text("从前有一个人。他走了。\n\n再见！\n", encoding="utf-8")
    command = (
        "benchmark",
        "analyze",
        "storal",
        "--output",
        tmp_path / "out",
        "--language",
        "zh",
        "--data",
        f"storal={copy}",
    )
    assert cli(*command, "--unlabelled", f"zh={tmp_path / 'more.txt'}", "--topics", 5).code == 0
    numbers = read_numbers(tmp_path / "out")
    pairs, sentences = numbers["pairs of a story and a moral"], numbers["stories: sentences per text"]
    assert (pairs["value"], pairs["published"], pairs["agrees"]) == ("4209", "4209", "True")
    assert (float(sentences["value"]), sentences["agrees"]) == (SENTENCES, "False")
    assert float(numbers["texts without a moral"]["value"]) == 2
    assert float(numbers["texts without a moral: sentences per text"]["value"]) == 1.5
    assert float(numbers["phrases per outline"]["value"]) == 2
    assert numbers["number of topics"]["value"] == ""  # five were asked for, and no rule applied
    assert len(read_listing(tmp_path / "out", "topics_zh")) == 5
    assert {row["noun"] for row in read_listing(tmp_path / "out", "nouns_zh")} >= {"狐狸", "乌鸦"}
    assert read_listing(tmp_path / "out", "five_grams_zh")[0]["stories"] == "4209"
    measured = json.loads((tmp_path / "out" / "measured.json").read_text(encoding="utf-8"))
    cells = {(number["part"], number["metric"]): number["value"] for number in measured["numbers"]}
    assert cells["storal_statistics", "labeled_examples"] == 4209
    assert 0 < cells["storal_topics", "min_topic_share"] <= 0.2
    assert ("storal_topics", "lda_topics") not in cells


@pytest.mark.slow
def test_english_is_counted_and_chinese_is_left_out(nltk_data: Path, real_data: str, tmp_path: Path, cli: Cli) -> None:
    outcome = cli("benchmark", "analyze", "storal", "--output", tmp_path, "--no_plots")
    assert outcome.code == 0 and "Chinese: left out" in outcome.out
    numbers = read_numbers(tmp_path)
    assert {name for name, row in numbers.items() if row["agrees"] == "True"} == {
        *("pairs of a story and a moral", "morals: words per text", "smallest topic, % of morals")
    }
    assert float(numbers["stories: words per text"]["value"]) == pytest.approx(302.33, abs=0.2)
    assert float(numbers["stories: vocabulary"]["value"]) == pytest.approx(15873, rel=0.01)
    assert float(numbers["phrases per outline"]["value"]) == pytest.approx(6.7, abs=0.05)
    assert len(read_listing(tmp_path, "topics_en")) == 24
    assert len(read_listing(tmp_path, "per_story")) == 1779
    assert read_listing(tmp_path, "five_grams_en")[0]["5-gram"] == "once upon a time there"
    for layout, cell in {"storal_table_3": "3.2", "storal_table_4": "19.77"}.items():
        table = figeval.export([], to="latex", layout=layout, measured=tmp_path)
        assert table is not None
        assert any(cell in line for line in table.partition("{Measured}")[2].splitlines() if "STORAL-EN" in line)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--topics", "many"), "--topics many"),
        (("--topics", "1"), "--topics 1"),
        (("--unlabelled", "zh=nowhere.txt"), "--unlabelled zh=nowhere.txt"),
        (("--unlabelled", "fr=here.txt"), "--unlabelled fr=here.txt"),
        (("--language", "zh"), "Jiann/STORAL"),
    ],
)
def test_what_cannot_be_analysed_is_refused_in_one_line(
    options: tuple[str, ...], complaint: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.txt").write_text("Once.\n")
    assert complaint in cli("benchmark", "analyze", "storal", "--no_plots", *options).complaint
