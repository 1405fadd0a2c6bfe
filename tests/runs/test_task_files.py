"""Tasks and suites named by their files, and one's own template for a task, from the command line and from Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import figeval
from figeval import FigevalError, Prompt
from tests.cli.conftest import Cli
from tests.runs.conftest import write_task

TEMPLATE = """{% block context %}Pair: {{ left }} / {{ right }}
Answer:{% endblock %}
{% block continuation %} {{ option }}{% endblock %}
{% block word %}Pair: {{ left }} / {{ right }}
Answer:{% endblock %}
{% block cloze %}{{ left }} / {{ right }}: {{ gap }}{% endblock %}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tasks and a suite in `my tasks`, beside the working folder."""
    tasks = tmp_path / "my tasks"
    tasks.mkdir()
    for name in ("first", "second"):
        write_task(tasks, name, 6)
    (tasks / "both.suite.yaml").write_text("name: both\ntasks: [first, second]\n", encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tasks


def test_files_and_names_are_run_together_and_resumed(folder: Path, cli: Cli) -> None:
    tasks = f"mini_pairs,{folder}/first.task.yaml"
    command = ("run", "--tasks", tasks, "--model", "tfidf", "--limit", "4", "--no_baselines", "-o", "run")
    cli(*command)
    record = json.loads(Path("run/run.json").read_text("utf-8"))
    assert record["config"]["tasks"] == ["mini_pairs", "first"], "as the files name them: paths are of one machine"
    assert [task["task"] for task in record["tasks"]] == ["mini_pairs", "first"]
    cli(*command)
    resumed = figeval.run(
        ["mini_pairs", folder / "first.task.yaml"], "tfidf", limit=4, baselines=False, output_path="run"
    )
    assert resumed.record.started == record["started"]
    assert "ok" in cli("verify", "run", "--include_path", folder / "first.task.yaml").out


def test_settings_are_verified_where_another_task_of_the_run_is_not_installed(folder: Path, cli: Cli) -> None:
    tasks = f"mini_motif,{folder}/first.task.yaml"
    run = ("run", "--tasks", tasks, "--model", "tfidf", "--limit", "4", "--no_baselines", "-o", "run")
    cli(*run, "--set", "mini_motif.temperature=2")
    verified = cli("verify", "run")
    assert "mini_motif: 4 rows; 60 examples as recorded" in verified.out
    assert "first is not installed" in verified.out


def test_a_comma_in_the_path_of_a_task_file_parts_nothing(folder: Path) -> None:
    moved = folder.rename(folder.with_name("a, b"))
    run = figeval.run(f"{moved}/both.suite.yaml", "tfidf", limit=4, baselines=False, output_path="run")
    assert run.tasks == ("first", "second")


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_file_of_a_suite_brings_its_tasks(processes: int, folder: Path) -> None:
    run = figeval.run(str(folder / "both.suite.yaml"), "tfidf", limit=4, processes=processes, output_path="run")
    assert run.tasks == ("first", "second")


@pytest.mark.parametrize("command", ["show", "preview", "audit"])
def test_other_commands_take_files_too(command: str, folder: Path, cli: Cli) -> None:
    assert "first" in cli(command, folder / "first.task.yaml").out


def test_a_file_that_is_missing_is_one_line(folder: Path, cli: Cli) -> None:
    complaint = cli("run", "--tasks", "third.task.yaml", "--model", "tfidf").complaint
    assert "there is no file third.task.yaml; correct the path" in complaint


@pytest.mark.parametrize("name", ["mini_pairs", "second"])
def test_a_taken_name_is_that_of_the_file_which_the_user_gave(name: str, folder: Path, cli: Cli) -> None:
    file = folder / "first.task.yaml"
    file.write_text(file.read_text("utf-8").replace("name: first", f"name: {name}"), encoding="utf-8")
    include = () if name == "mini_pairs" else ("--include_path", folder / "second.task.yaml")
    other = "figeval.builtin.tasks.mini" if name == "mini_pairs" else f"{folder}/second.task.yaml"
    expected = f"task {name!r} of {file} is already registered by {other}; rename it"
    assert expected in cli("run", "--tasks", file, "--model", "tfidf", *include).complaint


@pytest.mark.parametrize("name", ["first.yml", "first.yaml"])
@pytest.mark.parametrize("command", ["run --model tfidf --tasks", "show", "preview", "audit", "validate"])
def test_a_task_file_of_another_name_is_to_be_renamed(command: str, name: str, folder: Path, cli: Cli) -> None:
    file = (folder / "first.task.yaml").rename(folder / name)
    done = cli(*command.split(), file)
    expected = f"{file}: the name of a task file must end in .task.yaml, that of a suite in .suite.yaml; rename it"
    assert expected in done.out + done.err
    assert done.code == 2


@pytest.mark.parametrize("command", ["report run --no_plots", "export run --to lm_eval --include_text -o out"])
def test_texts_of_a_task_from_a_file_need_the_file_again(command: str, folder: Path, cli: Cli) -> None:
    file = folder / "first.task.yaml"
    cli("run", "--tasks", file, "--model", "tfidf", "--limit", "4", "--no_baselines", "-o", "run")
    cure = "unknown task 'first'; see `figeval ls tasks`, or give its file or folder with --include_path"
    done = cli(*command.split())
    assert cure in done.out + done.err
    done = cli(*command.split(), "--include_path", file)
    assert cure not in done.out + done.err


# ---- templates -------------------------------------------------------------------------------------------------------


def test_one_s_own_template_is_shown_and_part_of_the_run(tmp_path: Path, folder: Path, cli: Cli) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(TEMPLATE, encoding="utf-8")
    assert "Pair: " in cli("preview", "mini_pairs", "-n", "1", "--template", file, "--num_fewshot", "0").out
    identities = set()
    for text in (TEMPLATE, TEMPLATE.replace("Answer", "So")):
        file.write_text(text, encoding="utf-8")
        identities.add(identity_with(file))
    moved = file.rename(tmp_path / "work" / "mine.jinja")
    assert identity_with(moved) in identities
    assert len(identities) == 2


def test_a_template_that_was_moved_is_the_same_one(folder: Path, cli: Cli) -> None:
    file = Path("mine.jinja")
    file.write_text(TEMPLATE, encoding="utf-8")
    run = figeval.run("mini_pairs", Affirms(), template=file, limit=1, baselines=False, output_path="run")
    (folder / "new").mkdir()
    moved = file.rename(folder / "new" / "mine.jinja")
    other = figeval.run("mini_pairs", Affirms(), template=moved, limit=1, baselines=False, output_path="other")
    assert str(folder) not in (Path("other") / "run.json").read_text("utf-8")
    assert run.record.config["template"] == other.record.config["template"]
    assert "the same settings" in cli("verify", "run", "--against", "other").out


class Affirms:
    """Writes the same to every prompt."""

    deterministic_by_name = True

    def generate(self, prompts: Sequence[Prompt]) -> list[str]:
        return ["entailment"] * len(prompts)


def identity_with(file: Path) -> str:
    return figeval.run("mini_pairs", Affirms(), template=file, limit=1, baselines=False).record.identity


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("{% block context %}{{ premise }}{% endblock %}", "premise"),
        ("{% block other %}{% endblock %}", "lacks the block"),
    ],
)
def test_a_template_that_does_not_fit_is_one_line(text: str, cure: str, folder: Path, cli: Cli) -> None:
    Path("mine.jinja").write_text(text, encoding="utf-8")
    assert cure in cli("preview", "mini_pairs", "--template", "mine.jinja").out


def test_a_template_that_no_model_would_see_is_refused(folder: Path) -> None:
    with pytest.raises(FigevalError, match="shows no prompt; leave out --template"):
        figeval.run("mini_pairs", "tfidf", template="impli/nli.en.jinja")
    with pytest.raises(FigevalError, match=r"did you mean 'impli/nli.en.jinja'.*figeval ls templates"):
        figeval.run("mini_pairs", "tfidf", template="impli/nli.on")
    Path("mine.txt").write_text(TEMPLATE, encoding="utf-8")
    with pytest.raises(FigevalError, match=r"mine.txt: .*\.jinja; rename the file"):
        figeval.run("mini_pairs", "tfidf", template="mine.txt")
    Path("mine.jinja").write_text("{% include 'part.jinja' %}", encoding="utf-8")
    with pytest.raises(FigevalError, match=r"template 'part.jinja'"):
        figeval.run("mini_pairs", "tfidf", template="mine.jinja")


def test_templates_that_have_a_name_everywhere_are_listed_with_their_tasks(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "1", "left": "a", "right": "b", "grade": 2}\n', encoding="utf-8")
    rated = """type: rating
data: {test: "jsonl:rows.jsonl"}
labels: ['1', '2', '3']
fields: {id: row.id, left: row.left, right: row.right, grade: row.grade}
"""
    (tmp_path / "own.jinja").write_text(TEMPLATE, encoding="utf-8")
    (tmp_path / "rated.task.yaml").write_text(f"name: rated\n{rated}", encoding="utf-8")
    (tmp_path / "own.task.yaml").write_text(f"name: own\ntemplate: own.jinja\n{rated}", encoding="utf-8")
    rows = json.loads(cli("ls", "templates", "--include_path", tmp_path, "--json").out)
    tasks = {row["name"]: row["tasks"] for row in rows}
    assert "mini_pairs" in tasks["impli/nli.en.jinja"]
    assert "own.jinja" not in tasks
    assert tasks["_default/rating.jinja"] == ["rated"]
    shown = cli("preview", "own", "--include_path", tmp_path, "--template", "_default/rating.jinja")
    assert "First: a" in shown.out
