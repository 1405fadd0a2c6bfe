"""The charts of a report."""

from __future__ import annotations

import base64
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import ChoiceExample
from tests.cli.conftest import Cli
from tests.finished_runs import model, row, run, score, store, task

pytestmark = pytest.mark.skipif(find_spec("altair") is None, reason="needs the extra analysis")


def drawings(*folders: Path) -> dict[str, str]:
    """The SVGs of a report by their descriptions."""
    page = figeval.report(folders, output=folders[0].parent / "report.html").path.read_text(encoding="utf-8")
    images = re.findall(r'<img src="[^"]*?base64,([^"]*)" alt="([^"]*)"', page)
    return {description: base64.b64decode(image).decode("utf-8") for image, description in images}


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def store_answers(folder: Path, name: str, *, of: str = "fables", read: bool = True) -> Path:
    """Store a run of ten questions, whose answers may all be unreadable."""
    answered = {"pred": 0, "scores": [0.9, 0.1]}
    unread = {"status": "unparseable", "pred": None, "metrics": {}}
    rows = [row(f"x{number}", gold=number % 2, **(answered if read else unread)) for number in range(10)]
    record = task(of, n=10, available=10, counts={"ok" if read else "unparseable": 10})
    if not read:
        record = record.model_copy(update={"scores": [score(value=None, low=None, high=None, stderr=None)]})
    return store(folder / name, run(record, **model(name)), {of: rows})


@figeval.task(name="fables", type="choice")
def fables() -> list[ChoiceExample]:
    return [ChoiceExample(id=str(n), query=f"fable {n}", options=("x", "y"), gold=n % 2) for n in range(10)]


def score_seeds(folder: Path, *first_options: int) -> dict[str, Any]:
    """The charts of a system whose seeds choose the first option so many times."""
    rows = [
        {"id": str(n), "seed": seed, "scores": [0.9, 0.1] if n < count else [0.1, 0.9]}
        for seed, count in enumerate(first_options)
        for n in range(10)
    ]
    return drawings(figeval.score(fables, rows, name="first", output_path=folder / "first", baselines=False).path)


@pytest.mark.slow
def test_a_legend_names_only_runs_with_points(tmp_path: Path) -> None:
    folders = [store_answers(tmp_path, name, read=name != "second") for name in ("first", "second", "third")]
    pictures = drawings(*folders)
    assert len(pictures) == 4
    for picture in pictures.values():
        shown = texts(picture)
        assert {"first", "third"} <= set(shown)
        assert "second" not in shown


@pytest.mark.slow
def test_seeds_are_lines_of_one_colour(tmp_path: Path) -> None:
    svg = score_seeds(tmp_path, 3, 6)["Reliability diagram of fables"]
    lines = re.findall(r'<path aria-label="[^"]*single: ([^";]+)"[^>]*"line mark"[^>]* stroke="(#\w+)"', svg)
    assert len({single for single, _ in lines}) == 2
    assert len({colour for _, colour in lines}) == 1
    assert sum("first" in text for text in texts(svg)) == 1


def test_the_answers_of_all_seeds_are_counted_together(tmp_path: Path) -> None:
    svg = score_seeds(tmp_path, 2, 4)["Positions of the options chosen in fables"]
    shares = re.findall(r'aria-label="[^"]*share of answers: ([^;"]*); [^"]*who: first', svg)
    assert [float(share.rstrip("%")) for share in shares] == [30, 70]


def test_charts_are_written_as_files_for_a_paper(cli: Cli, tmp_path: Path) -> None:
    store_answers(tmp_path, "first")
    done = cli("report", "first", "--figures", "figures", "--no_plots")
    assert done.code == 0, done.err
    names = {file.stem for file in (tmp_path / "figures").iterdir()} - {"figeval-figures"}
    assert {"scores-by-task", "reliability-fables"} <= names
    for name in names:
        assert (tmp_path / "figures" / f"{name}.svg").read_text(encoding="utf-8").startswith("<svg")
        assert (tmp_path / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert "<img" not in (tmp_path / "report.html").read_text(encoding="utf-8"), "the page has no charts"


def test_figures_of_an_earlier_report_are_replaced(cli: Cli, tmp_path: Path) -> None:
    store_answers(tmp_path, "first", of="fables")
    store_answers(tmp_path, "second", of="proverbs")
    figures, command = tmp_path / "figures", ("--figures", "figures", "--no_plots", "-o", "figures/report.html")
    assert cli("report", "first", *command).code == 0
    earlier = figures / "reliability-fables.svg"
    (figures / "mine.svg").write_text("mine")
    assert earlier.exists()
    assert cli("report", "second", *command).code == 0
    assert not earlier.exists()
    earlier.write_text("mine")
    assert "reliability-fables.svg was not written by `figeval report`" in cli("report", "first", *command).complaint
    assert earlier.read_text() == (figures / "mine.svg").read_text() == "mine"
    assert (figures / "reliability-proverbs.pdf").exists(), "nothing is written"


REFUSED_FOLDERS = {
    "mine": "--figures mine has files that `figeval report` did not write, such as 'scores-by-task.svg'; choose a new",
    "first": "--figures first has files that `figeval report` did not write, such as 'predictions'; choose a new",
    "first/predictions": "--figures first/predictions/figeval-figures.json is in a folder of the run ",
    "first/predictions/new": "--figures first/predictions/new/figeval-figures.json is in a folder of the run ",
}


@pytest.mark.parametrize(("folder", "message"), REFUSED_FOLDERS.items(), ids=REFUSED_FOLDERS)
def test_figures_are_not_put_among_others(cli: Cli, tmp_path: Path, folder: str, message: str) -> None:
    store_answers(tmp_path, "first")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "scores-by-task.svg").write_text("mine")
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert message in cli("report", "first", "--figures", folder).complaint
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == files


def scores_of(folder: Path) -> str:
    return next(svg for description, svg in drawings(folder).items() if description.startswith("Scores of "))


def test_there_is_room_for_wider_fonts(tmp_path: Path) -> None:
    """Browsers without the font of the layout draw the labels about a fifth wider."""
    name = "impli_metaphors_silver_ent_of_a_long_name"
    svg = scores_of(store_answers(tmp_path, "first", of=name))
    (label,) = (text for text in texts(svg) if text.startswith(name))
    (left,) = re.findall(r'<g[^>]*transform="translate\(([\d.]+),[\d.]+\)"', svg)[:1]
    assert float(left) > 1.2 * 6 * len(label)


def test_long_names_are_not_cut(tmp_path: Path) -> None:
    name = "a-model-whose-name-has-its-path on the task, augmented with concepts, 3 seeds"
    svg = scores_of(store_answers(tmp_path, name))
    assert name in texts(svg)
    (width,) = re.findall(r'<svg[^>]*? width="([\d.]+)"', svg)
    assert float(width) > 6 * len(name)
