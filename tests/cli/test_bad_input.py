"""What a user can mend is one line on stderr that says how, exit code 2, and nothing is lost or half begun."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.processes import figeval
from tests.runs.conftest import write_task

SLOW_MODEL_VARIABLES = {"PYTHONPATH": str(Path(__file__).parent.parent / "slow"), "FIGEVAL_PLUGINS": "slow_model"}


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A folder with the sound task `t`."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    write_task(folder, "t")
    return folder


@pytest.fixture
def complaint(cli: Cli, tasks: Path, tmp_path: Path) -> Callable[..., str]:
    """The line with which `figeval run` on `t` is refused; further arguments come last, so they win."""

    def run(*arguments: str | Path) -> str:
        model = () if "--model" in arguments else ("--model", "overlap")
        command = ("run", "--tasks", "t", *model, "--include_path", tasks, "--output_path", "out")
        line = cli(*command, *arguments).complaint
        assert not (tmp_path / "out" / "predictions").exists(), "nothing was begun"
        return line

    return run


# ---- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tasks", "mini_pars"), "unknown task 'mini_pars'; did you mean 'mini_pairs'"),
        (("--tasks", "implli"), "unknown task 'implli'; did you mean 'impli'"),
        (("--model", "overlp"), "; did you mean 'overlap'"),
        (("--model", "random", "--model_args", "sede=1"), "model 'random' has no option 'sede'; did you mean 'seed'"),
        (("--route", "choice=by_cosin"), "choice has no route 'by_cosin'; did you mean 'by_cosine'"),
        (("--route", "choice=by_loglikelihood"), "overlap cannot answer t: this model offers score_pairs"),
        (("--by", "knd"), "--by knd: none of these tasks has it; did you mean 'kind'?"),
        (("--num_fewshot", "2"), "shows no examples; leave out --num_fewshot"),
        (
            ("--reasoning", "hard"),
            "must be on, off, or budget=N with N from 1 to 1,000,000 tokens, such as budget=2000, not 'hard'",
        ),
        (("--reasoning", "budget=0"), "must be on, off, or budget=N with N from 1 to 1,000,000 tokens"),
        (("--reasoning", "on"), "--reasoning is for models that write and can think before they answer; leave it out"),
        (("--constrain",), "the answers of overlap cannot be constrained; leave out --constrain, or use a model"),
        (("--include_path", "nowhere"), "'nowhere' is not a folder with task files"),
        (("--limt", "3"), "--limit"),
    ],
)
def test_an_unknown_name(arguments: tuple[str, ...], words: str, complaint: Callable[..., str]) -> None:
    assert words in complaint(*arguments)


# ---- task files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[acc,", "[accc,", "unknown metric 'accc'; did you mean 'acc'"),
        (
            "row.q,",
            "row.question,",
            "row 1 of 'jsonl:t.jsonl', field 'query': there is no key 'question'",
        ),
        ("row.q,", "\"''.__class__\",", "t.task.yaml, field 'query': \"''.__class__\" is not allowed in the sandbox"),
        ("row.q,", "row.q.__init__.__globals__,", "t.task.yaml, field 'query': 'row.q.__init__.__globals__' is not"),
        ("cluster: kind", "cluster: knd", "cluster 'knd' is not among meta (kind)"),
        ("metrics:", "metrcs:", "t.task.yaml: unknown key 'metrcs'; did you mean 'metrics'"),
        ("jsonl:t.jsonl", "jsonl:tt.jsonl", "there is no data file 'tt.jsonl'"),
        ("jsonl:t.jsonl", "t.jsonl", "write, for example, 'jsonl:t.jsonl'"),
        ("name: t", "name: [t", "not valid YAML"),
        (
            "name: t",
            "name: mini_pairs",
            "t.task.yaml is already registered by figeval.builtin.tasks.mini; rename it",
        ),
    ],
)
def test_a_wrong_task_file(old: str, new: str, words: str, complaint: Callable[..., str], tasks: Path) -> None:
    edit(tasks / "t.task.yaml", old, new)
    assert words in complaint()


@pytest.mark.parametrize("attack", ["{{ ''.__class__ }}", "{{ query | attr('__class__') }}", "{{ cycler.__init__ }}"])
def test_a_template_that_wants_more_than_its_texts(attack: str, tasks: Path, tmp_path: Path, warm_start: None) -> None:
    edit(tasks / "t.task.yaml", "name: t", "name: t\ntemplate: evil.jinja")
    source = f"{{% block context %}}{attack}{{% endblock %}}{{% block continuation %}} {{{{ option }}}}{{% endblock %}}"
    (tasks / "evil.jinja").write_text(source)
    command = ("run", "--tasks", "t", "--model", "slow", "--include_path", tasks, "--output_path", "out")
    (line,) = figeval(*command, cwd=tmp_path, code=2, **SLOW_MODEL_VARIABLES).stderr.splitlines()
    assert "template evil.jinja, block 'context' is not allowed in the sandbox" in line
    assert not (tmp_path / "out").exists()


# ---- rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"g": 3}, "row 6 of 'jsonl:t.jsonl', field 'gold': 3 is out of range for 3 options (0 to 2)"),
        ({"g": -1}, "field 'gold': -1 is out of range"),
        ({"o": []}, "row 6 of 'jsonl:t.jsonl', field 'options': there are no options"),
        ({"o": ["a", ""]}, "row 6 of 'jsonl:t.jsonl', field 'options': an option is empty"),
        ({"id": "t3"}, "t: rows 4 and 6 have the same id 't3'"),
    ],
)
def test_a_wrong_row(change: dict[str, object], words: str, complaint: Callable[..., str], tasks: Path) -> None:
    write_task(tasks, "t", row5=change)
    assert words in complaint()


def test_a_column_that_one_row_lacks(complaint: Callable[..., str], tasks: Path) -> None:
    lines = (tasks / "t.jsonl").read_text().splitlines()
    row = json.loads(lines[7])
    del row["o"]
    (tasks / "t.jsonl").write_text("\n".join([*lines[:7], json.dumps(row), *lines[8:], ""]))
    line = complaint()
    assert "row 8 of 'jsonl:t.jsonl', field 'options'" in line
    assert "the row has g, id, k, q" in line


def test_a_row_of_ten_megabytes_is_named_and_not_printed(complaint: Callable[..., str], tasks: Path) -> None:
    write_task(tasks, "t", row5={"q": "long " * 2_000_000})
    line = complaint()
    assert "t.jsonl:6: a row of more than 1,000,000 bytes; split it, or raise FIGEVAL_MAX_ROW_BYTES" in line
    assert len(line) < 500


@pytest.mark.slow
def test_a_row_of_ten_megabytes_can_be_wanted(cli: Cli, tasks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIGEVAL_MAX_ROW_BYTES", "20000000")
    write_task(tasks, "t", n=3, row1={"q": "long " * 2_000_000})
    assert cli("run", "-t", "t", "-m", "overlap", "--include_path", tasks, "-o", "out").code == 0


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data.replace(b"word4 here", b"word4 h\xe9re"), "t.jsonl:5: byte 0xe9 at offset"),
        (lambda data: data.replace(b'"q": "word4', b'"q" "word4'), "t.jsonl:5: "),
        (lambda data: data[:-9], "t.jsonl:20: "),
        (lambda data: b"[1, 2]\n" + data, "t.jsonl:1: "),
        (lambda data: b"\x00\x01\x02" + data, "t.jsonl:1: "),
        (lambda data: b"", "t: there are no examples"),
    ],
    ids=["no UTF-8", "no JSON", "cut short", "no object", "binary", "empty"],
)
def test_a_damaged_file(
    damage: Callable[[bytes], bytes], words: str, complaint: Callable[..., str], tasks: Path
) -> None:
    file = tasks / "t.jsonl"
    file.write_bytes(damage(file.read_bytes()))
    assert words in complaint()


def test_a_file_with_a_wrong_sum(
    complaint: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    for folder, cure in ((tmp_path / "mirror", "replace it in that mirror"), (own_home / "data", "--force epic")):
        (folder / "epic").mkdir(parents=True)
        for name in ("full_dataset.json", "all_proverbs.json"):
            (folder / "epic" / name).write_text("[]")
        monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(tmp_path / "mirror"))
        line = complaint("--tasks", "epic_retrieval_all")
        assert str(folder / "epic") in line
        assert (
            "is corrupt: sha256 is 4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945, expected" in line
        )
        assert cure in line


# ---- where results go ----------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made(complaint: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path in ("file", "file/out"):
        assert f"cannot write {path}" in complaint("--output_path", path)
        assert "with --output_path" in complaint("--output_path", path)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(complaint: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    assert "cannot write locked/out" in complaint("--output_path", "locked/out")


def test_a_file_system_that_is_read_only(complaint: Callable[..., str]) -> None:
    line = complaint("--output_path", "/proc/figeval")
    assert "cannot write /proc/figeval" in line
    assert "with --output_path" in line


def test_a_folder_of_another_run(cli: Cli, tasks: Path, tmp_path: Path) -> None:
    command = ("run", "--tasks", "t", "--include_path", tasks, "--output_path", "out")
    assert cli(*command, "--model", "overlap").code == 0
    before = {file: file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()}
    for change, difference in (
        (("--model", "random"), "model was overlap, is random"),
        (("--tasks", "mini_pairs"), 'tasks was ["t"], is ["t", "mini_pairs"]'),
        (("--limit", "3"), "limit was not set, is 3"),
        (("--seed", "1"), "seed was 0, is 1"),
    ):
        model = () if "--model" in change else ("--model", "overlap")
        line = cli(*command, *model, *change).complaint
        assert (
            f"out contains another run ({difference}); choose another --output_path, or start over with --fresh" in line
        )
    assert {file: file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()} == before


def test_a_folder_of_another_run_with_other_options_of_the_model(cli: Cli, tasks: Path) -> None:
    command = ("run", "--tasks", "t", "--model", "random", "--include_path", tasks, "--output_path", "out")
    assert cli(*command, "--model_args", "seed=1").code == 0
    line = cli(*command, "--model_args", "seed=2").complaint
    assert "out contains another run (model_args.seed was 1, is 2); choose another --output_path" in line


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "not valid JSON"), ("[]", "has schema version None"), ('{"schema_version": "9.0"}', "schema version 9.0")],
)
def test_a_folder_with_a_record_of_something_else(
    content: str, words: str, cli: Cli, tasks: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text(content)
    line = cli("run", "-t", "t", "-m", "overlap", "--include_path", tasks, "-o", "out").complaint
    assert words in line
    assert (tmp_path / "out" / "run.json").read_text() == content


# ---- paths -----------------------------------------------------------------------------------------------------------

LONG_NAME = "n" * 300


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("show", LONG_NAME), "File name too long"),
        (("validate", LONG_NAME), "File name too long"),
        pytest.param(("compare", LONG_NAME, LONG_NAME), "File name too long", marks=pytest.mark.wing("comparison")),
        (("show", "/dev/zero"), "/dev/zero: not a regular file"),
        (("train", "--config", "/dev/zero", "--output", "x"), "/dev/zero: not a regular file"),
    ],
)
def test_a_path_that_is_none(command: tuple[str, ...], words: str, cli: Cli) -> None:
    done = cli(*command)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", LONG_NAME), f"there is no folder '{LONG_NAME}'"),
        (("--model", "~nouser/model"), "there is no folder '~nouser/model'"),
        (
            ("--model", "tagger"),
            "no checkpoint is given; add its folder or hub id after a colon, e.g. encoder:org/name",
        ),
        (("--include_path", "/dev/null"), "'/dev/null' is not a folder with task files"),
        (("--batch_size", "²"), "--batch_size must be a positive integer or auto, not '²'"),
        (("--batch_size", "9" * 5_000), "--batch_size must be a positive integer or auto"),
        (("--orders", "²"), "cyclic, all, or a number of at least 2"),
        (("--model", "random", "--model_args", "[" * 1_000), "is not key=value"),
        (("--model", "random", "--model_args", '{"a": ' + "[" * 100_000), "nested too deeply"),
    ],
)
def test_a_value_that_is_none(arguments: tuple[str, ...], words: str, complaint: Callable[..., str]) -> None:
    assert words in complaint(*arguments)


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret.jsonl", "link.jsonl", "deep/../../secret.jsonl", LONG_NAME])
def test_data_outside_of_the_folder_of_the_task(
    path: str, complaint: Callable[..., str], cli: Cli, tasks: Path
) -> None:
    (tasks / "t.jsonl").rename(tasks.parent / "secret.jsonl")
    (tasks / "link.jsonl").symlink_to(tasks.parent / "secret.jsonl")
    edit(tasks / "t.task.yaml", "jsonl:t.jsonl", f"jsonl:{path}")
    words = "there is no data file" if path == LONG_NAME else f"'{path}' leads out of"
    assert words in complaint()
    if path in ("../secret.jsonl", "link.jsonl"):
        allowed = ("-t", "t", "-m", "overlap", "--include_path", tasks, "-o", "out", "--allow_external_files")
        assert cli("run", *allowed).code == 0
