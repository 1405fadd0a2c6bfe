"""Annotation in Python: items, a model as a judge, and judgements, as `figeval annotate` has them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import figeval
from tests.cli.conftest import Cli
from tests.finished_runs import finished

pandas = pytest.importorskip("pandas")


class Strict:
    """A judge that gives long texts a high rating, and is a model object that nobody registered."""

    deterministic_by_name = True

    def generate(self, requests: Sequence[figeval.Prompt]) -> list[str]:
        return [str(1 + len(request.messages[-1].content) % 5) for request in requests]


def fill(file: Path, label: Callable[[int], str]) -> None:
    """Judge the items of a sheet by their numbers."""
    rows = list(csv.DictReader(io.StringIO(file.read_bytes().decode("utf-8-sig"), newline="")))
    lines = ["item,fluency", *(f"{row['item']},{label(int(row['item']))}" for row in rows)]
    file.write_text("\n".join(lines), "utf-8")


@pytest.fixture
def run(cli: Cli, tmp_path: Path) -> figeval.Run:
    """A run whose texts can be judged, in the working folder."""
    return figeval.load(finished(tmp_path / "run", "mini_narrative", model="echo", limit=8))


def test_items_are_those_of_the_command(cli: Cli, run: figeval.Run) -> None:
    shared = ("--n", "6", "--references", "--annotators", "2", "--seed", "3")
    done = cli("annotate", "export", "run", *shared, "--criteria", "fluency=1-5,coherent=yes/no", "-o", "typed")
    criteria = {"fluency": "1-5", "coherent": "yes/no"}
    items = figeval.export_items(run, output="called", n=6, references=True, annotators=2, seed=3, criteria=criteria)
    assert str(items).replace("called", "typed") == done.out.strip()
    files = {file.name: file.read_bytes() for file in Path("called").iterdir()}
    assert files == {file.name: file.read_bytes() for file in Path("typed").iterdir()}
    frame = items.to_frame()
    assert (list(frame), len(frame)) == (["item", "author", "example", "cluster", "gold"], 12)
    assert items.to_dict() == json.loads(files["key.json"])
    assert repr(items) == "<figeval.AnnotationItems of mini_narrative: 12 items in called>"


def test_questions_of_a_choice_task_have_gold_answers(cli: Cli) -> None:
    items = figeval.export_items(task="mini_proverbs", output="questions", n=5, checks=0)
    assert items.to_frame()["gold"].isin(list("ABCDE")).all()


def test_criteria_may_be_described(run: figeval.Run) -> None:
    criteria = {"fluency": {"scale": "1-3", "description": "3: natural."}}
    key = figeval.export_items(run, output="items", criteria=criteria, instructions="").key
    (criterion,) = key.criteria
    assert (criterion.labels, criterion.description) == (("1", "2", "3"), "3: natural.")


def test_judgements_and_a_judge(cli: Cli, run: figeval.Run) -> None:
    figeval.export_items(run, output="items", n=8, references=True, annotators=2, criteria="fluency=1-5", checks=1)
    judged = figeval.judge_items("items", Strict(), name="strict")
    assert judged.to_frame()["status"].eq("ok").all()
    assert len(judged.to_frame()) == 17
    assert str(judged).startswith("strict judged 17 items: 17 of 17 answers parsed")
    assert judged.to_dict() == json.loads(Path("items/judge_strict.json").read_text("utf-8"))

    alone = figeval.import_judgements(to="items")
    assert alone.to_frame().empty
    assert "nobody has judged a text" in str(alone)

    fill(Path("items/sheet_1.csv"), lambda number: str(1 + number % 5))
    fill(Path("items/sheet_2.csv"), lambda number: str(1 + (number + number % 2) % 5))
    results = figeval.import_judgements(to="items", runs=[run], pairs=True)
    printed = cli("annotate", "import", "--to", "items", "--run", "run", "--pairs")
    assert printed.out.strip() == str(results).strip()
    stored = json.loads(cli("annotate", "import", "--to", "items", "--run", "run", "--pairs", "--json").out)
    assert stored == json.loads(json.dumps(results.to_dict()))
    assert results.to_frame()["system"].tolist() == ["echo", "reference"]
    both = results.agreement[results.agreement["rater_a"].notna()]
    assert both[["rater_a", "rater_b"]].drop_duplicates().values.tolist() == [["sheet_1", "sheet_2"]]
    assert results.differences["n"].tolist() == [8]
    assert set(results.correlations["coefficient"]) == {"kendall", "spearman", "pearson"}
    assert results.judge_means["labelled"].tolist() == [8, 8]
    assert results.judge_means["people"].tolist() == results.to_frame()["value"].tolist()
    assert results._repr_html_().startswith("<div>")
    assert repr(results).endswith("32 judgements of sheet_1, sheet_2, judge strict>")
    without = figeval.import_judgements(to="items", exclude="sheet_2")
    assert without.people.annotators == ("sheet_1",)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: figeval.export_items(output="o"), "give the runs whose texts are to be judged"),
        (lambda: figeval.export_items("run", output="o", n=0), "n=0: give a whole number from 1"),
        (lambda: figeval.export_items("run", output="o", checks=True), "checks=True: give a whole number"),
        (lambda: figeval.export_items("run", output="o", to="label-studio"), "did you mean 'label_studio'"),  # type: ignore[arg-type]
        (lambda: figeval.export_items("run", output="o", criteria="fluency=5"), "'5' is not a scale"),
        (lambda: figeval.export_items("run", output="o", criteria={"fluency": "5"}), "'5' is not a scale"),
        (lambda: figeval.export_items("run", output="o", criteria={"fluency": {"scal": "1-5"}}), "criteria: "),
        (lambda: figeval.export_items("run", output="o", criteria=[3]), "criteria has an int; give criteria with"),  # type: ignore[list-item]
        (
            lambda: figeval.export_items("run", output="o", criteria="f=1-5", categories=["a", "A"]),
            "'a' is blank, given",
        ),
        (lambda: figeval.export_items("run", output="o", seed=1.5), "seed=1.5: give a whole number"),  # type: ignore[arg-type]
        (lambda: figeval.export_items("run", output="o", instructions="no_file.md"), "no_file.md"),
        (lambda: figeval.export_items("run", output="o", instructions="@"), ".: not a regular file; give --instr"),
        (lambda: figeval.judge_items("run", Strict()), "annotate export"),
        (lambda: figeval.judge_items("run", Strict(), limit=0), "limit=0: give a whole number"),
        (lambda: figeval.judge_items("run", Strict(), template=3), "template=3: give the path of a file"),  # type: ignore[arg-type]
        (lambda: figeval.judge_items("run", object()), "without capabilities"),
        (lambda: figeval.import_judgements(), "give --to FOLDER"),
        (lambda: figeval.import_judgements(3), "files is an int; give a path"),  # type: ignore[arg-type]
        (lambda: figeval.import_judgements("a.csv", exclude=3), "exclude is an int; give the names of"),  # type: ignore[arg-type]
        (lambda: figeval.import_judgements("a.csv", runs="run", criteria="fluency"), "not a scale"),
    ],
)
def test_a_mistake_is_one_line(call: Callable[[], object], words: str, run: figeval.Run) -> None:
    with pytest.raises(figeval.FigevalError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_option_names_the_nearest_one(run: figeval.Run) -> None:
    with pytest.raises(TypeError, match=r"export_items\(\) has no option 'annotator'; did you mean 'annotators'"):
        figeval.export_items(run, output="o", annotator=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"judge_items\(\) has no option 'max_token'; did you mean 'max_tokens'"):
        figeval.judge_items("items", Strict(), max_token=2)  # type: ignore[call-arg]
