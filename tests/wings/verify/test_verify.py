"""`figeval verify`: whatever is changed in a run is found and named."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import RunRecord
from tests.cli.conftest import Cli, Outcome
from tests.fakes import FakeGenerator
from tests.finished_runs import finished, seal
from tests.runs.conftest import write_task

RUN = ("run", "--tasks", "mini_proverbs,mini_pairs", "--model", "overlap", "--by", "figure")
PREDICTIONS = "predictions/mini_proverbs.jsonl"
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, which tests copy."""
    return finished(tmp_path_factory.mktemp("finished") / "run", "mini_proverbs", "mini_pairs", by=("figure",))


@pytest.fixture
def copy(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of the run, in the current folder of `cli`."""
    return shutil.copytree(finished_run, tmp_path / "run")


def edit(folder: Path, change: Edit) -> None:
    """Change the content of run.json."""
    file = folder / "run.json"
    content = json.loads(file.read_text("utf-8"))
    change(content)
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")


def edit_row(folder: Path, index: int, change: Edit) -> None:
    """Change one row of the predictions of mini_proverbs."""
    file = folder / PREDICTIONS
    lines = file.read_text("utf-8").splitlines(keepends=True)
    row = json.loads(lines[index])
    change(row)
    lines[index] = json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n"
    file.write_text("".join(lines), encoding="utf-8")


def without_digests(content: dict[str, Any]) -> None:
    """Make a record one that was written before digests."""
    del content["digests"]
    for task in content["tasks"]:
        task["predictions_sha256"] = None


def forge(folder: Path) -> None:
    """Do what a forger does who knows figeval: compute scores from the rows as they are now, and all digests again."""
    seal(folder, figeval.recompute(folder, figeval.Harness(), data=False).record)


def renew_digests(folder: Path) -> None:
    """Compute all digests of a folder again."""
    seal(folder, figeval.load(folder).record)


def problems(outcome: Outcome) -> list[str]:
    """Return the problems that a command printed."""
    assert outcome.code == 2, outcome.out
    lines = [line for line in outcome.out.splitlines() if line.startswith("problem")]
    return lines or [outcome.err]


def test_a_run_that_nobody_touched(cli: Cli, copy: Path) -> None:
    before = {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}
    done = cli("verify", "run")
    assert done.code == 0, done.out
    assert "ok           mini_proverbs: 60 rows; 60 examples as recorded; 60 of 60 recomputed" in done.out
    assert done.out.splitlines()[-1] == "11 checks, 0 problems, 1 not checked"
    checks = json.loads(cli("verify", "run", "--json").out)
    assert {check["state"] for check in checks if check["part"] != "run"} == {"ok"}
    assert {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()} == before


def test_without_the_data(cli: Cli, copy: Path) -> None:
    done = cli("verify", "run", "--no_data")
    assert done.code == 0
    assert "not checked  mini_pairs: data and baselines: needs the task's data (--no_data)" in done.out


@pytest.mark.parametrize("file", ["run.json", PREDICTIONS, "predictions/mini_pairs.jsonl"])
def test_one_changed_byte_anywhere(file: str, cli: Cli, copy: Path) -> None:
    """A bit is flipped at 12 places of the file, one after the other."""
    content = (copy / file).read_bytes()
    for index in range(7, len(content), len(content) // 12):
        changed = bytearray(content)
        changed[index] ^= 1
        (copy / file).write_bytes(changed)
        outcome = cli("verify", "run", "--no_data")
        name = "run.json" if file == "run.json" else file.split("/")[-1]
        assert name in "".join(problems(outcome)), (index, content[index - 20 : index + 20])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda run: run["provenance"]["hardware"].update(cores=99), "provenance was changed"),
        (lambda run: run.update(started="2020-01-01T00:00:00Z"), "started was changed"),
        (lambda run: run["command"].append("--limit=5"), "command was changed"),
        (lambda run: run["tasks"][1].update(seconds=0.0), "tasks/mini_pairs was changed"),
        (lambda run: run["config"].update(seed=3), "is [0-9a-f]{8}, the settings give"),
        (lambda run: run["config"].update(limit="many"), "`config` has an invalid value"),
        (lambda run: run["tasks"][0]["scores"][0].update(value=0.9), r"scores\.acc\.value is 0\.9, recomputed 0\.\d"),
        (lambda run: run["tasks"][0]["scores"][0].update(low=0.01), r"scores\.acc\.low is 0\.01, recomputed"),
        (lambda run: run["tasks"][0]["counts"].update(ties=0), r"counts\.ties is 0, recomputed 15"),
        (lambda run: run["tasks"][1]["breakdowns"][0]["groups"][0]["scores"][0].update(n=1), r"breakdowns\.figure"),
        (lambda run: run["tasks"][1]["baselines"][1]["scores"][0].update(value=0.9), r"baselines\.majority\.scores"),
        (lambda run: run["tasks"][0].update(available=61), "available is 61, the task says 60"),
        (lambda run: run["tasks"][0].update(template_sha256="0"), 'template_sha256 is "0", the task says'),
        (lambda run: run["tasks"][0].update(examples_sha256="0"), "examples of mini_proverbs changed"),
        (lambda run: run["tasks"][0].update(n=59), "60 complete rows, `n` is 59"),
    ],
)
def test_an_edited_record(change: Edit, words: str, cli: Cli, copy: Path) -> None:
    edit(copy, change)
    assert re.search(words, "\n".join(problems(cli("verify", "run"))))


NOT_RECOMPUTED = {  # what only the digests protect: nothing in the folder or in the data says what is right
    *("schema_version", "started", "finished", "command", "model", "provenance", "digests"),
    *("tasks.seconds", "tasks.baseline_seconds", "tasks.peak_memory_mb", "tasks.version"),
    *("config.baselines", "config.batch", "config.batch_size", "config.device", "config.processes", "config.ray"),
    *("warnings", "tasks.warnings"),  # one that is missing is found, not one that was added
}


def fields_in(content: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value in a JSON value that contains no other."""
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    if not parts:
        yield path
    for key, value in parts:
        yield from fields_in(value, (*path, key))


def another(value: Any) -> Any:
    """Return another value of the same type."""
    return not value if isinstance(value, bool) else f"{value}x" if isinstance(value, str) else value + 1


@pytest.mark.slow
def test_every_field_of_a_record_is_recomputed(cli: Cli, tmp_path: Path) -> None:
    """Whichever is altered, renewed digests do not hide it; the exceptions are known."""
    cli(*RUN, "--limit", "8", "--output_path", "run")
    copy = tmp_path / "run"
    content = json.loads((copy / "run.json").read_text("utf-8"))
    paths = {".".join(key for key in path if isinstance(key, str)): path for path in fields_in(content)}
    hidden = []
    for name, path in paths.items():
        forged = json.loads(json.dumps(content))
        *parents, last = path
        parent = reduce(lambda part, key: part[key], parents, forged)
        if any(f"{name}.".startswith(f"{field}.") for field in NOT_RECOMPUTED) or not parent[last]:
            continue  # an empty value has no type that another one could be of
        parent[last] = another(parent[last])
        try:
            record = RunRecord.model_validate(forged)
        except ValueError:
            continue  # it is refused
        seal(copy, record, tasks=False)
        try:
            verified = figeval.verify(copy)
        except figeval.RecordError:
            continue
        if verified.ok:
            hidden.append(name)
    assert hidden == []
    assert len(paths) > 100


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: row.update(gold=row["pred"]), r"row 'P02N1': gold is \d, recomputed"),
        (
            lambda row: (row.update(pred=row["gold"]), row["metrics"].update(acc=1.0)),
            r"row 'P02N1': pred is \d, recomputed \d",  # no model that scores as this one takes that option
        ),
        (lambda row: row["metrics"].update(acc=0.75), r"row 'P02N1': metrics\.acc is 0\.75, recomputed"),
        (lambda row: row["metrics"].pop("acc"), r"row 'P02N1': metrics\.acc is absent, recomputed"),
        (lambda row: row.update(cluster="P77"), r"row 'P02N1': cluster is"),
        (lambda row: row.update(group="P77"), r'row \'P02N1\': group is "P77", recomputed null'),
        (lambda row: row["meta"].update(figure="irony"), r"row 'P02N1': meta\.figure is"),
        (lambda row: row["meta"].update(more="1"), r"row 'P02N1': meta\.more is \"1\", recomputed absent"),
        (lambda row: row.update(language="de"), r"row 'P02N1': language is \"de\", recomputed absent"),
        (lambda row: row.update(id="P99N9"), r"row 'P99N9' is for an example that the run does not have"),
    ],
)
def test_a_forged_row_in_a_record_that_agrees(change: Edit, words: str, cli: Cli, copy: Path) -> None:
    """Scores are those of the forged row, and all digests are renewed."""
    edit_row(copy, 2, change)
    forge(copy)
    done = cli("verify", "run")
    assert re.search(words, "\n".join(problems(done)))
    assert "has been changed since" not in done.out


def test_a_lost_row_in_a_record_that_agrees(cli: Cli, copy: Path) -> None:
    file = copy / PREDICTIONS
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    edit(copy, lambda run: run["tasks"][0].update(n=59, predictions_sha256=None))
    forge(copy)
    assert re.search(r"n is 59, the task says 60.*there is no row for", "".join(problems(cli("verify", "run"))))


def test_a_task_that_was_taken_out_of_a_record_or_put_into_it(cli: Cli, copy: Path) -> None:
    edit(copy, lambda run: run["tasks"].pop())
    renew_digests(copy)
    assert "problem      run: tasks: the record lacks mini_pairs" in problems(cli("verify", "run"))
    edit(copy, lambda run: run["config"].update(tasks=["mini_pairs"]))
    renew_digests(copy)
    assert "problem      run: tasks: `config.tasks` does not ask for mini_proverbs" in problems(cli("verify", "run"))


def test_a_trivial_baseline_that_calls_itself_trained(cli: Cli, copy: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        baseline = content["tasks"][1]["baselines"][0]
        baseline["weights"] = "ab" * 32
        baseline["scores"][0]["value"] = 0.01

    edit(copy, change)
    renew_digests(copy)
    assert "baselines.chance.scores.acc.value is 0.01, recomputed 0.5" in "".join(problems(cli("verify", "run")))


def test_spaces_in_a_record(cli: Cli, copy: Path) -> None:
    edit(copy, lambda _: None)  # without the line feed at the end
    assert "spaces, the order of keys or a digest were changed" in problems(cli("verify", "run", "--no_data"))[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: row["metrics"].update(acc=1 - row["metrics"]["acc"]), r"row 'P02N1': metrics\.acc is"),
        (lambda row: row.update(gold=(row["gold"] + 1) % 5), r"row 'P02N1': gold is"),
        (lambda row: row["meta"].update(proverb="P77"), r'row \'P02N1\': meta\.proverb is "P77", recomputed "P02"'),
        (lambda row: row.update(cluster="P77"), r"row 'P02N1': cluster is"),
        (lambda row: row.update(id="\x1b[31mx\u202e"), r"row '.*x.*' is for an example that the run does not have"),
        (lambda row: row.update(id="P01N1"), r"two rows for 'P01N1'"),
    ],
)
@pytest.mark.parametrize("digests", [True, False])
def test_an_edited_row(change: Edit, words: str, digests: bool, cli: Cli, copy: Path) -> None:
    """It is named by id and field, also if only recomputation can find it."""
    edit_row(copy, 2, change)
    if not digests:
        edit(copy, without_digests)
    done = cli("verify", "run")
    assert re.search(words, "\n".join(problems(done)))
    assert not {"\x1b", "\u202e"} & set(done.out)
    assert ("has been changed since" in done.out) == (digests and "two rows" not in done.out)


@pytest.mark.parametrize(
    ("cut", "words"),
    [(-1, "59 complete rows, `n` is 60"), (-30, "59 complete rows, `n` is 60"), (0, "0 complete rows, `n` is 60")],
)
def test_cut_predictions(cut: int, words: str, cli: Cli, copy: Path) -> None:
    file = copy / PREDICTIONS
    file.write_bytes(file.read_bytes()[:cut])
    assert words in problems(cli("verify", "run", "--no_data"))[0]


def test_a_rest_behind_the_last_row(cli: Cli, copy: Path) -> None:
    with (copy / PREDICTIONS).open("a", encoding="ascii") as stream:
        stream.write('{"id":')
    edit(copy, without_digests)
    assert "does not end with a line feed" in problems(cli("verify", "run", "--no_data"))[0]


def test_a_record_without_predictions(cli: Cli, copy: Path) -> None:
    shutil.rmtree(copy / "predictions")
    done = cli("verify", "run")
    assert done.code == 0
    assert f"not checked  mini_proverbs: predictions: {PREDICTIONS} is not there" in done.out


def test_a_record_of_an_old_schema(cli: Cli, copy: Path) -> None:
    def old(content: dict[str, Any]) -> None:
        without_digests(content)
        content["schema_version"] = "1.4"
        for task in content["tasks"]:
            task["protocol"] = task.pop("task_type")

    edit(copy, old)
    done = cli("verify", "run")
    assert done.code == 0, done.out
    assert "the record has no digests (schema 1.4)" in done.out
    assert "60 rows, no digest to compare the file with" in done.out


def test_rows_of_an_old_version_without_scores(cli: Cli, tmp_path: Path) -> None:
    cli("run", "--tasks", "mini_motif", "--model", "tfidf", "--output_path", "run")
    edit(tmp_path / "run", without_digests)
    file = tmp_path / "run" / "predictions" / "mini_motif.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    lines = [json.dumps({key: value for key, value in row.items() if key != "scores"}) + "\n" for row in rows]
    file.write_text("".join(lines), encoding="utf-8")
    done = cli("verify", "run")
    (line,) = (line for line in done.out.splitlines() if "KeyError" in line)
    assert re.match(
        r"not checked  mini_motif: rows: \S+(, \S+)+ of each row, which cannot be computed from the stored rows", line
    )
    assert not done.err


@pytest.mark.parametrize("version", ["2.99", "3.0"])
def test_a_record_of_a_later_schema(version: str, cli: Cli, copy: Path) -> None:
    edit(copy, lambda content: content.update(schema_version=version))
    assert f"schema version {version}" in cli("verify", "run").complaint


def test_a_task_that_is_not_installed(cli: Cli, copy: Path) -> None:
    def renamed(content: dict[str, Any]) -> None:
        content["tasks"][0]["task"] = "elsewhere"
        content["tasks"][0]["predictions"] = "predictions/elsewhere.jsonl"

    edit(copy, without_digests)
    edit(copy, renamed)
    (copy / PREDICTIONS).rename(copy / "predictions" / "elsewhere.jsonl")
    done = cli("verify", "run")
    assert "not checked  elsewhere: data and baselines: version 1 of elsewhere is not installed" in done.out
    assert "ok           elsewhere: 60 rows, no digest to compare the file with; scores recomputed" in done.out


def test_the_same_run_again(cli: Cli, copy: Path, tmp_path: Path) -> None:
    cli(*RUN, "--output_path", tmp_path / "again")
    done = cli("verify", "run", "--no_data", "--against", "again")
    assert done.code == 0, done.out
    assert "the same tasks; the same settings, examples and prompts; the same model; the same versions" in done.out


def test_two_runs_that_differ(cli: Cli, copy: Path, tmp_path: Path) -> None:
    other = shutil.copytree(copy, tmp_path / "other")
    edit_row(other, 2, lambda row: row.update(pred=None))
    edit(other, lambda run: run["config"].update(num_fewshot=2))
    edit(other, lambda run: run["provenance"]["packages"].update(numpy="0.1"))
    edit(other, lambda run: run["model"].update(fingerprint="other"))
    edit(other, lambda run: run["tasks"].pop())
    edit(other, lambda run: run["tasks"][0]["scores"][0].update(stderr=0.5))
    edit(other, lambda run: run["tasks"][0]["scores"][0].update(low=run["tasks"][0]["scores"][0]["low"] + 1e-16))
    done = cli("verify", "run", "--no_data", "--against", "other")
    lines = "\n".join(line for line in done.out.splitlines() if "against" in line)
    assert done.code == 2
    assert "problem      against: tasks: only this run has mini_pairs" in lines
    assert "problem      against: settings: --num_fewshot is 0, there 2" in lines
    assert re.search(r'against: model: fingerprint is ".*", there "other"', lines)
    assert re.search(r'note +against: versions: numpy is "[\d.]+", there "0\.1"', lines)
    assert re.search(r"problem +against: scores: mini_proverbs\.scores\.acc\.stderr is 0\.\d+, there 0\.5", lines)
    assert re.search(r"note +against: scores: .* \(differs by 1e-16: rounding\)", lines)
    assert re.search(r"against: rows: 1 of 60 rows differ: mini_proverbs, row 'P02N1': pred is \d, there null", lines)


def test_rows_that_one_of_two_runs_lacks_do_not_count_as_different(cli: Cli) -> None:
    for name, limit in (("few", "3"), ("more", "7")):
        cli("run", "-t", "mini_proverbs", "-m", "overlap", "--limit", limit, "--no_baselines", "-o", name)
    lacks = "lacks 4 of 7 rows ('P02N2', 'P03N1', 'P03N2', …)"
    assert (
        f"problem      against: rows: mini_proverbs: this run {lacks}\n"
        in cli("verify", "few", "--no_data", "--against", "more").out
    )
    assert (
        f"problem      against: rows: mini_proverbs: the other run {lacks}\n"
        in cli("verify", "more", "--no_data", "--against", "few").out
    )


def test_replies_are_read_again(cli: Cli, tmp_path: Path) -> None:
    """A changed reply, or a changed answer to it, is named by its row."""
    (tmp_path / "tasks").mkdir()
    write_task(tmp_path / "tasks", "t")
    writer = FakeGenerator(function=lambda _: "B")
    figeval.run("t", writer, include_path=tmp_path / "tasks", output_path=tmp_path / "run", orders="cyclic")
    command = ("verify", "run", "--include_path", "tasks")
    assert "20 of 20 recomputed" in cli(*command).out
    file = tmp_path / "run" / "predictions" / "t.jsonl"
    file.write_text(file.read_text("utf-8").replace('"raw":"B"', '"raw":"C"', 1), encoding="utf-8")
    assert "problem      t: rows: row 't0': pred is 0, recomputed 2" in "\n".join(problems(cli(*command)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"g": 0', '"g": 1', "examples of t changed since this run was made"),
        ("word0 here", "word0 there", "examples of t changed since this run was made"),
        ('"k3"}', '"k3}', r"t\.jsonl:4"),
    ],
)
def test_changed_data(old: str, new: str, words: str, cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    write_task(folder, "t")
    cli("run", "--tasks", "t", "--model", "overlap", "--include_path", "tasks", "--output_path", "run")
    assert cli("verify", "run", "--include_path", "tasks").code == 0
    file = folder / "t.jsonl"
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert re.search(words, "\n".join(problems(cli("verify", "run", "--include_path", "tasks"))))


def test_an_annotation_that_was_added_later_is_no_change(cli: Cli, tmp_path: Path) -> None:
    """The rows of an earlier run lack it; one that they have is checked as everything else."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    write_task(folder, "t")
    cli("run", "--tasks", "t", "--model", "overlap", "--include_path", "tasks", "--output_path", "run")
    file = folder / "t.task.yaml"
    meta = re.search(r"meta: \{(.*)\}\}", file.read_text("utf-8"))
    assert meta
    text = file.read_text("utf-8").replace(meta[1], f"{meta[1]}, flaw: \"'typo'\"")
    file.write_text(f"{text}annotations: [flaw]\n", encoding="utf-8")
    assert cli("verify", "run", "--include_path", "tasks").code == 0
    rows = tmp_path / "run" / "predictions" / "t.jsonl"
    rows.write_text(rows.read_text("utf-8").replace('"meta":{', '"meta":{"flaw":"none",', 1), encoding="utf-8")
    assert "flaw" in "\n".join(problems(cli("verify", "run", "--include_path", "tasks")))


def test_a_task_that_is_listed_twice(cli: Cli, copy: Path) -> None:
    edit(copy, lambda content: content["tasks"].append(content["tasks"][0]))
    assert "is listed 2 times" in cli("verify", "run", "--no_data").out


HOSTILE_RECORDS: list[tuple[Edit, str]] = [
    (lambda content: content.update(schema_version="2." + "9" * 5000), "has schema version 2.999"),
    (lambda content: content["tasks"][0].update(n=10**400), "an integer has more than 64 bits"),
    (lambda content: content["tasks"][0].update(seconds=float("inf")), "seconds"),
    (lambda content: content["config"].update(routes=["x"]), "routes"),
    (lambda content: content["tasks"][0]["settings"].update(metric_arguments=[1]), "metric_arguments"),
    (lambda content: content["provenance"].update(packages=["x"]), "packages"),
    (lambda content: content["provenance"].update(hardware="x"), "hardware"),
    (lambda content: content["provenance"].update(git=1), "git"),
]


@pytest.mark.wing("report")
@pytest.mark.parametrize(("change", "words"), HOSTILE_RECORDS, ids=[words for _, words in HOSTILE_RECORDS])
def test_a_hostile_record_is_one_line_for_every_reader(change: Edit, words: str, cli: Cli, copy: Path) -> None:
    edit(copy, change)
    for command in (("verify", "run"), ("show", "run"), ("report", "run"), ("checklist", "run", "--format", "arr")):
        assert words in cli(*command).complaint


def test_a_nan_of_an_earlier_version_is_unknown(cli: Cli, copy: Path) -> None:
    edit(copy, lambda content: content["tasks"][0]["scores"][0].update(value=float("nan")))
    assert cli("show", "run").code == 0


@pytest.mark.wing("comparison", "report")
def test_a_number_in_a_row_beyond_64_bits(cli: Cli, copy: Path) -> None:
    edit(copy, lambda content: content["tasks"][0].update(predictions_sha256=None))
    edit_row(copy, 0, lambda row: row.update(gold=10**400))
    for command in (("report", "run"), ("compare", "run", "run"), ("verify", "run")):
        outcome = cli(*command)
        assert "an integer has more than 64 bits" in outcome.out + outcome.err


@pytest.mark.wing("report")
def test_a_right_answer_that_is_no_index(cli: Cli, copy: Path) -> None:
    edit(copy, lambda content: [task.update(predictions_sha256=None) for task in content["tasks"]])
    edit_row(copy, 0, lambda row: row.update(gold=True, scores=[0.5, 0.5], status="ok"))
    assert cli("report", "run", "--no_plots", "--no_texts").code == 0
