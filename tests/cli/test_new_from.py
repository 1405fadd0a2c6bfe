"""`figeval new task --from`: tasks from rows of every shape, whose files pass `figeval validate` and run."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Cli

WORDS = ["dawn", "oak", "river", "stone", "lamp", "crow", "well", "field"]
LETTERS = "ABCD"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def rows_of(**columns: Any) -> list[dict[str, Any]]:
    """Eight rows; a column is a function of the number of the row."""
    return [{name: column(number) for name, column in columns.items()} for number in range(8)]


def text(number: int, about: str = "text") -> str:
    return f"The {WORDS[number]} is a long {about} of many words."


SHAPES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "letters": ("choice", rows_of(question=text, A=str, B=lambda n: n + 10, answer=lambda n: LETTERS[n % 2])),
    "list": (
        "choice",
        rows_of(question=text, choices=lambda n: [f"a{n}", f"b{n}"], answer=lambda n: n % 2, subject=lambda _: "x"),
    ),
    "arc": (
        "choice",
        rows_of(
            question=text,
            choices=lambda n: {"text": [f"a{n}", f"b{n}"], "label": ["A", "B"]},
            answerKey=lambda n: LETTERS[n % 2],
        ),
    ),
    "objects": (
        "choice",
        rows_of(
            question=text,
            choices=lambda n: [{"text": f"a{n}", "label": "A"}, {"text": f"b{n}", "label": "B"}],
            answer=lambda n: LETTERS[n % 2],
        ),
    ),
    "brackets": ("choice", rows_of(question=text, A=str, B=lambda n: n + 10, answer=lambda n: f"({LETTERS[n % 2]})")),
    "from one": (
        "choice",
        rows_of(sentence=text, option1=lambda n: f"a{n}", option2=lambda n: f"b{n}", answer=lambda n: str(1 + n % 2)),
    ),
    "answer text": (
        "choice",
        rows_of(
            stem=text, option_a=lambda n: f"a{n}", option_b=lambda n: f"b{n}", answer=lambda n: f"{'ab'[n % 2]}{n}"
        ),
    ),
    "label": ("classification", rows_of(tweet=text, sarcastic=lambda n: n % 2, dialect=lambda n: WORDS[n % 3])),
    "nli": (
        "pairs",
        rows_of(premise=text, hypothesis=lambda n: text(n, "claim"), label=lambda n: ["neutral", "entailment"][n % 2]),
    ),
    "sts": ("rating", rows_of(sentence1=text, sentence2=lambda n: text(n, "twin"), score=lambda n: n / 2)),
    "story": ("generation", rows_of(story=text, moral=lambda n: text(n, "moral"))),
    "tagged": (
        "labelling",
        rows_of(tokens=lambda n: [WORDS[n], "ran"], ner_tags=lambda n: [["B-FIG", "O"][n % 2], "O"]),
    ),
    "flags": ("multilabel", rows_of(text=text, irony=lambda n: n % 2, satire=lambda n: n % 3 // 2)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_recognised(shape: str, cli: Cli, tmp_path: Path) -> None:
    kind, rows = SHAPES[shape]
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    done = cli("new", "task", "mine", "--from", "rows.jsonl")
    assert done.code == 0, done.err
    task = yaml.safe_load((tmp_path / "mine" / "mine.task.yaml").read_text(encoding="utf-8"))
    assert task["type"] == kind
    assert cli("validate", "mine/mine.task.yaml").code == 0


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_splits_beside_the_file_are_splits_of_the_task(cli: Cli, tmp_path: Path) -> None:
    _, rows = SHAPES["nli"]
    for name in ("nli_train.csv", "nli_dev.csv", "nli_test.csv"):
        write_csv(tmp_path / name, rows)
    assert cli("new", "task", "mine", "--from", "nli_train.csv").code == 0
    task = yaml.safe_load((tmp_path / "mine" / "mine.task.yaml").read_text(encoding="utf-8"))
    assert task["data"] == {"test": "csv:nli_test.csv", "train": "csv:nli_train.csv", "dev": "csv:nli_dev.csv"}
    assert task["labels"] == ["entailment", "neutral"]
    done = cli("run", "--tasks", "mine", "--include_path", "mine", "--model", "tfidf", "--output_path", "out")
    assert done.code == 0, done.err


@pytest.mark.parametrize("hides", [lambda row: {**row, "label": "-1"}, lambda row: {"premise": row["premise"]}])
def test_a_split_with_hidden_answers_is_not_the_test_split(
    hides: Callable[[dict[str, Any]], dict[str, Any]], cli: Cli, tmp_path: Path
) -> None:
    """As of data sets whose answers are on a server; variants of one question, here its `qid`, are a cluster."""
    rows = [{**row, "qid": number // 2} for number, row in enumerate(SHAPES["nli"][1])]
    for name, split_rows in {"train": rows, "dev": rows, "test": list(map(hides, rows))}.items():
        write_csv(tmp_path / f"{name}.csv", split_rows)
    done = cli("new", "task", "mine", "--from", "train.csv")
    assert done.code == 0, done.err
    task = yaml.safe_load((tmp_path / "mine" / "mine.task.yaml").read_text(encoding="utf-8"))
    assert task["data"] == {"test": "csv:dev.csv", "train": "csv:train.csv"}
    assert task["cluster"] == "qid"


@pytest.mark.parametrize(("hiding", "has_train"), [("train", False), ("test", True)])
def test_a_split_that_hides_some_answers(hiding: str, has_train: bool, cli: Cli, tmp_path: Path) -> None:
    """Of the rows to train on, all need an answer; those that are scored may lack it."""
    _, rows = SHAPES["nli"]
    hidden = [{**row, "label": ""} if number > 5 else row for number, row in enumerate(rows)]
    for name in ("train", "test"):
        write_csv(tmp_path / f"{name}.csv", hidden if name == hiding else rows)
    done = cli("new", "task", "mine", "--from", "test.csv")
    assert done.code == 0, done.err
    task = yaml.safe_load((tmp_path / "mine" / "mine.task.yaml").read_text(encoding="utf-8"))
    assert ("train" in task["data"]) is has_train
    assert ["2 of 8" in line and "train" in line for line in done.err.splitlines()] == [True] * (not has_train)


def test_packed_rows_with_hidden_answers(cli: Cli, tmp_path: Path) -> None:
    _, rows = SHAPES["letters"]
    hidden = [{**row, "answer": ""} if number > 5 else row for number, row in enumerate(rows)]
    write_csv(tmp_path / "a.csv", hidden)
    Path("rows.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    done = cli("new", "task", "mine", "--from", "rows.csv.gz")
    assert "hidden ×2" in done.out, done.err


HOSTILE = (
    'x"}}: {{ 1 }}',
    "# {% raw %}",
    "a\nb: !!python/object:os.system",
    "items",
    "__class__",
    "\u202elabel",
    "'; é 𝄞\\",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_and_values_are_no_code(name: str, cli: Cli, tmp_path: Path) -> None:
    labels = ["yes: {no}", "- [x]\n# \x1b[1m"]
    rows = rows_of(**{"text": text, name: lambda n: labels[n % 2]})
    Path("rows.json").write_text(json.dumps(rows), encoding="utf-8")
    done = cli("new", "task", "mine", "--from", "rows.json", "--type", "classification")
    assert done.code == 0, done.err
    task = yaml.safe_load((tmp_path / "mine" / "mine.task.yaml").read_text(encoding="utf-8"))
    assert set(task["labels"]) == set(labels)
    assert set(task) == {"name", "type", "labels", "data", "fields"}


def test_what_nobody_sees_is_escaped_and_read_back(cli: Cli, tmp_path: Path) -> None:
    labels = ["a\u202eb\x1b", "c\u200bd\u2066", "語"]
    rows = rows_of(text=text, label=lambda n: labels[n % 3])
    Path("rows.json").write_text(json.dumps(rows), encoding="utf-8")
    done = cli("new", "task", "mine", "--from", "rows.json")
    assert done.code == 0, done.err
    written = (tmp_path / "mine" / "mine.task.yaml").read_text(encoding="utf-8")
    assert "語" in written
    assert all(letter.isprintable() for line in written.splitlines() for letter in line)
    assert set(yaml.safe_load(written)["labels"]) == set(labels)
    assert cli("package", "mine", "--include_path", "mine", "-o", "figs", "--licence", "mit").code == 0


def test_a_column_whose_name_has_controls_is_read(cli: Cli) -> None:
    rows = rows_of(**{"\x1b[31mtext": text, "label\x1b]0;x\x07": lambda n: "ab"[n % 2]})
    Path("rows.json").write_text(json.dumps(rows), encoding="utf-8")
    done = cli("new", "task", "mine", "--from", "rows.json", "--type", "classification")
    assert done.code == 0, done.err
    assert "does not read" not in done.out


REFUSED = {
    "no shape": ([{"a": "x", "b": 3.25}, {"a": "y", "b": 4.5}], (), "--type"),
    "no column": ([{"a": "x"}], ("--columns", "text=b,label=a"), "there is no column 'b'"),
    "no field": ([{"a": "x"}], ("--columns", "colour=a"), "'colour=a'"),
    "no rows": ([], (), "no rows"),
    "other type": ([{"a": "x"}], ("--type", "spans"), "spans"),
    "several right options": (
        rows_of(question=text, A=str, B=lambda n: f"b{n}", C=lambda n: f"c{n}", answer=lambda n: ["A,C", "B"][n % 2]),
        (),
        "no known shape",
    ),
    "options in a text": (
        rows_of(question=text, choices=lambda n: f"[a{n}, b{n}]", answer=lambda n: LETTERS[n % 2]),
        (),
        "no known shape",
    ),
    "bad rows": (rows_of(text=lambda n: text(n) * (n < 7), label=lambda n: "ab"[n % 2]), (), "row 8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_task_is_refused_and_nothing_written(case: str, cli: Cli, tmp_path: Path) -> None:
    rows, flags, words = REFUSED[case]
    Path("rows.json").write_text(json.dumps(rows), encoding="utf-8")
    done = cli("new", "task", "mine", "--from", "rows.json", *flags)
    assert done.code == 2
    assert words in done.err
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "mine").exists()


def test_columns_that_the_task_does_not_read_are_named(cli: Cli, tmp_path: Path) -> None:
    rows = rows_of(proverb=text, meaning=lambda n: text(n, "meaning"), label=lambda n: ["no", "yes"][n % 2])
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = cli("new", "task", "mine", "--from", "rows.jsonl")
    assert "mine: a classification task, which does not read 'proverb'; name another with --type" in done.out
    columns = "left=proverb,right=meaning,label=label"
    done = cli("new", "task", "both", "--from", "rows.jsonl", "--type", "pairs", "--columns", columns)
    assert "both: a pairs task\n" in done.out


def test_columns_can_be_named(cli: Cli, tmp_path: Path) -> None:
    rows = rows_of(zin=text, eins=lambda n: f"a{n}", zwei=lambda n: f"b{n}", richtig=lambda n: n % 2)
    write_csv(tmp_path / "rows.csv", rows)
    done = cli(
        "new", "task", "mine", "--from", "rows.csv", "--type", "choice", "--columns", "options=eins+zwei,gold=richtig"
    )
    assert done.code == 0, done.err
    fields = yaml.safe_load((tmp_path / "mine" / "mine.task.yaml").read_text(encoding="utf-8"))["fields"]
    assert fields["options"] == "[row.eins, row.zwei]"
    assert fields["query"] == "row.zin"


# ---- eval.yaml -------------------------------------------------------------------------------------------------------


def write_cache(folder: Path, files: Mapping[str, str]) -> None:
    """Write a data set as the hub's client keeps it."""
    root = folder / "datasets--acme--figs"
    for name, content in {
        "refs/main": COMMIT,
        f".no_exist/{COMMIT}/README.md": "",  # the hub has no card
        **{f"snapshots/{COMMIT}/{name}": text for name, text in files.items()},
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")


EVAL = """
name: figs
evaluation_framework: inspect-ai
tasks:
- id: pick
  split: test
  field_spec: {input: q, target: key, choices: [one, two]}
  solvers: [{name: prompt_template, args: {template: "{prompt}"}}, {name: multiple_choice}]
  scorers: [{name: choice}]
- id: judged
  split: test
  field_spec: {input: q, target: key}
  solvers: [{name: generate}]
  scorers: [{name: model_graded_qa}]
- id: tools
  split: test
  field_spec: {input: q, target: key}
  solvers: [{name: use_tools}]
  scorers: [{name: match}]
- {id: "broken\\u202e\\n", field_spec: {input: 3}}
"""


@pytest.mark.slow
def test_tasks_of_an_eval_yaml(cli: Cli, tmp_path: Path, hub_cache: Path) -> None:
    rows = rows_of(q=text, one=lambda n: f"a{n}", two=lambda n: f"b{n}", key=lambda n: LETTERS[n % 2])
    write_cache(hub_cache, {"eval.yaml": EVAL, "test.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows)})
    done = cli("new", "task", "figs", "--from", "hub:acme/figs")
    assert done.code == 0, done.err
    warned = done.err.splitlines()
    assert ["pick" in line or "judged" in line or "tools" in line or "broken" in line for line in warned] == [True] * 4
    task = yaml.safe_load((tmp_path / "figs" / "figs_pick.task.yaml").read_text(encoding="utf-8"))
    assert task["data"] == {"test": "hub:acme/figs#test"}
    assert cli("run", "--tasks", "figs_pick", "--include_path", "figs", "--model", "tfidf").code == 0


@pytest.mark.slow
def test_a_split_of_the_hub_with_hidden_answers_is_not_the_test_split(
    cli: Cli, tmp_path: Path, hub_cache: Path
) -> None:
    rows = SHAPES["nli"][1]
    splits = {"train": rows, "validation": rows, "test": [{**row, "label": "-1"} for row in rows]}
    write_cache(
        hub_cache,
        {f"{name}.jsonl": "".join(f"{json.dumps(row)}\n" for row in listed) for name, listed in splits.items()},
    )
    done = cli("new", "task", "figs", "--from", "hub:acme/figs")
    assert done.code == 0, done.err
    task = yaml.safe_load((tmp_path / "figs" / "figs.task.yaml").read_text(encoding="utf-8"))
    assert task["data"] == {"test": "hub:acme/figs#validation", "train": "hub:acme/figs#train"}


def test_a_packaged_task_is_read_again(cli: Cli, tmp_path: Path) -> None:
    assert cli("package", "mini_fables", "-o", "figs", "--licence", "apache-2.0").code == 0
    assert yaml.safe_load(Path("figs/eval.yaml").read_text(encoding="utf-8"))["tasks"][0]["field_spec"] == {
        "input": "input",
        "target": "target",
        "choices": "choices",
        "metadata": ["id"],
    }
    done = cli("new", "task", "again", "--from", "hub:acme/figs", "--data", "acme/figs=figs")
    assert done.code == 0, done.err
    flags = ("--model", "tfidf", "--data", "acme/figs=figs", "--include_path", "again", "--output_path", "out")
    done = cli("run", "--tasks", "again,mini_fables", *flags)
    record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    scores = [score["value"] for task in record["tasks"] for score in task["scores"] if score["metric"] == "acc"]
    assert len(scores) == 2
    assert scores[0] == scores[1]


def test_a_packaged_task_has_clusters_and_languages(cli: Cli, tmp_path: Path) -> None:
    rows = rows_of(text=text, label=lambda n: n % 2, idiom=lambda n: WORDS[n // 2], lang=lambda n: ["en", "de"][n % 2])
    Path("mine").mkdir()
    Path("mine/rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert cli("new", "task", "mine", "--from", "mine/rows.jsonl").code == 0
    done = cli("package", "mine", "--include_path", "mine", "-o", "figs", "--licence", "mit")
    assert done.code == 0, done.err
    assert cli("new", "task", "again", "--from", "hub:acme/figs", "--data", "acme/figs=figs").code == 0
    tasks = [yaml.safe_load((tmp_path / f"{n}/{n}.task.yaml").read_text(encoding="utf-8")) for n in ("mine", "again")]
    assert tasks[0]["cluster"] == "idiom"
    assert tasks[1]["cluster"] == "cluster"
    assert [sorted(task["language"]) for task in tasks] == [["de", "en"]] * 2
    assert tasks[1]["fields"]["language"] == "row.language"


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("task", ["epic_mcq", "danish_metaphors", "nli_sick"])
def test_texts_without_a_licence_are_not_passed_on(task: str, cli: Cli, tmp_path: Path) -> None:
    """The second may be passed on only unchanged, under CC BY-ND."""
    done = cli("package", task, "-o", "out")
    assert done.code == 2
    assert "--permitted" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("licence", "name"), [("CC0-1.0", "cc0-1.0"), ("CC BY-NC-SA 4.0", "cc-by-nc-sa-4.0"), ("X", "X")]
)
def test_a_card_names_a_licence_as_the_hub_does(licence: str, name: str, cli: Cli) -> None:
    done = cli("package", "mini_fables", "-o", "out", "--licence", licence)
    assert done.code == 0, done.err
    assert yaml.safe_load(Path("out/README.md").read_text(encoding="utf-8").split("---")[1])["license"] == name


@pytest.mark.parametrize("address", ["hub:acme/figs", "csv:rows.csv", "rows.csv"])
def test_rows_are_no_task(address: str, cli: Cli) -> None:
    Path("rows.csv").write_text("text,label\n", encoding="utf-8")
    done = cli("run", "--tasks", address, "--model", "chance")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert f"figeval new task NAME --from {address}" in done.err


def test_a_copy_that_nothing_reads_is_named(cli: Cli, tmp_path: Path) -> None:
    test_a_packaged_task_is_read_again(cli, tmp_path)
    flags = ("--include_path", "again", "--data", "acme/figs=figs", "--model", "tfidf")
    done = cli("run", "--tasks", "again", *flags, "--data", "acme/fig=figs")
    assert done.code == 0, done.err
    assert [line for line in done.err.splitlines() if "acme/fig=" in line and "'acme/figs'" in line]
    assert "acme/figs=" not in done.err
