"""`figeval validate`: everything that is wrong is found, each with file, row and field, and nothing that is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, Outcome
from tests.runs.conftest import write_task

PAIRS = """
name: pairs
type: pairs
labels: [yes_it_does, no_it_does_not]
data: {test: "jsonl:pairs.jsonl"}
fields: {id: row.id, left: row.a, right: row.b, label: row.label}
group: row.pair
"""


PAIR_LABELS = ("yes_it_does", "no_it_does_not")


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def write_pairs(folder: Path, rows: list[dict[str, Any]], *lines: str) -> Path:
    (folder / "pairs.task.yaml").write_text("\n".join([PAIRS, *lines, ""]))
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "pairs.task.yaml"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A sound task file in a folder of its own, without any packaging."""
    write_task(tmp_path, "t")
    return tmp_path / "t.task.yaml"


def test_the_built_in_sample_is_sound_and_described(cli: Cli) -> None:
    done = cli("validate", "mini")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "4 tasks, 0 errors, 0 warnings"
    assert "mini_pairs (pairs.task.yaml): ok" in done.out
    assert "60 examples, 30 clusters, 30 minimal groups; gold entailment ×30, non-entailment ×30" in done.out
    assert "20 examples; gold 0 ×4, 1 ×4, 2 ×4, 3 ×4, 4 ×4" in done.out


def test_a_file_a_folder_and_an_include_path_mean_the_same(task: Path, cli: Cli) -> None:
    by_file = cli("validate", task)
    assert (by_file.code, by_file.out.splitlines()[-1]) == (0, "1 task, 0 errors, 1 warning")  # train is test
    assert "test: 20 examples, 5 clusters; gold 0 ×15, 1 ×5" in by_file.out
    assert "train: 20 examples" in by_file.out
    assert cli("validate", task.parent).out == by_file.out
    assert cli("validate", "--include_path", task.parent).out == by_file.out
    assert cli("validate", "t", "--include-path", task.parent).out == by_file.out


ROWS = {
    "a gold out of range": (
        {"row3": {"g": 3}},
        "t: row 4 of 'jsonl:t.jsonl', field 'gold': 3 is out of range for 3 options",
    ),
    "a gold that is a text": ({"row3": {"g": "1"}}, "row 4 of 'jsonl:t.jsonl', field 'gold': '1' is not an index"),
    "no options": ({"row0": {"o": []}}, "row 1 of 'jsonl:t.jsonl', field 'options': there are no options"),
    "an empty option": ({"row0": {"o": ["a", " "]}}, "row 1 of 'jsonl:t.jsonl', field 'options': an option is empty"),
    "options that are a text": ({"row0": {"o": "a, b"}}, "row 1 of 'jsonl:t.jsonl', field 'options': expected a list"),
    "a query that is a number": ({"row7": {"q": 5}}, "row 8 of 'jsonl:t.jsonl', field 'query': 5 is not a string"),
    "no id": ({"row7": {"id": ""}}, "row 8 of 'jsonl:t.jsonl', field 'id': '' is not a valid id"),
    "two rows of one id": ({"row7": {"id": "t2"}}, "rows 3 and 8 have the same id 't2'"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_wrong_row(name: str, task: Path, cli: Cli) -> None:
    changes, words = ROWS[name]
    write_task(task.parent, "t", **changes)
    done = cli("validate", task)
    assert done.code == 2
    assert f"error: {words}" in done.out or f"error: t: {words}" in done.out or f": {words}" in done.out


def test_a_row_without_a_cluster_is_one_of_its_own(task: Path, cli: Cli) -> None:
    write_task(task.parent, "t", row7={"k": None})
    done = cli("validate", task)
    assert done.code == 0
    assert "test: 20 examples, 6 clusters (1 of them are rows without a cluster);" in done.out


def test_a_cluster_that_no_row_has(task: Path, cli: Cli) -> None:
    write_task(task.parent, "t", **{f"row{number}": {"k": None} for number in range(20)})
    assert "warning: t, test: 'kind' is null in every row, so there are no clusters" in cli("validate", task).out


DEFINITIONS = {
    "a column that is not there": (
        "row.q,",
        "row.qq,",
        "t: all 20 rows of 'jsonl:t.jsonl', field 'query': there is no key 'qq'",
    ),
    "a field outside the sandbox": (
        "row.q,",
        "\"''.__class__\",",
        "t.task.yaml, field 'query': \"''.__class__\" is not",
    ),
    "a field that is no Jinja": ("row.q,", "row.q |,", "t.task.yaml, field 'query'"),
    "an unknown metric": ("[acc,", "[accc,", "unknown metric 'accc'; did you mean 'acc'"),
    "a metric of another task type": ("acc_norm", "mrr", "metric 'mrr' is for joint, ranking, not choice"),
    "an unknown baseline": ("[chance]", "[chanse]", "baseline 'chanse': unknown model 'chanse'; did you mean 'chance'"),
    "a cluster that is no meta column": ("cluster: kind", "cluster: knd", "cluster 'knd' is not among meta (kind)"),
    "an unknown key": ("metrics:", "metrcs:", "t.task.yaml: unknown key 'metrcs'; did you mean 'metrics'"),
    "an unknown task type": ("type: choice", "type: choose", "t.task.yaml: unknown task type 'choose'"),
    "a scheme that nobody reads": ("jsonl:t.jsonl", "jsnl:t.jsonl", "unknown data scheme 'jsnl'; did you mean 'json"),
    "a file that is not there": ("jsonl:t.jsonl", "jsonl:u.jsonl", "there is no data file 'u.jsonl'"),
    "no YAML": ("name: t", "name: [t", "not valid YAML"),
    "no such template": (
        "name: t",
        "name: t\ntemplate: no.jinja",
        "template 'no.jinja' is neither next to its task nor",
    ),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_wrong_definition(name: str, task: Path, cli: Cli) -> None:
    old, new, words = DEFINITIONS[name]
    edit(task, old, new)
    done = cli("validate", task)
    assert done.code == 2
    (line, *_) = [line for line in done.out.splitlines() if "error: " in line]
    assert words in line


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("{treshold: 0.7}", "'treshold'; did you mean 'threshold'"),
        ("{threshold: high}", "threshold"),
        ("{threshold: .inf}", "threshold"),
    ],
)
def test_settings_that_no_route_can_obey(settings: str, words: str, tmp_path: Path, cli: Cli) -> None:
    rows = [
        {"id": str(n), "a": f"a {n}", "b": "b", "label": label, "pair": 1}
        for n, label in enumerate(("yes_it_does", "no_it_does_not"))
    ]
    assert cli("validate", write_pairs(tmp_path, rows, "settings: {threshold: 0.7}")).code == 0
    done = cli("validate", write_pairs(tmp_path, rows, f"settings: {settings}"))
    assert done.code == 2
    (line,) = [line for line in (done.out + done.err).splitlines() if words in line]
    assert "pairs.task.yaml" in line


TEMPLATES = {
    "an attack": ("{{ ''.__class__.__mro__ }}", "not allowed in the sandbox"),
    "an attack by a filter": ("{{ query | attr('__class__') }}", "not allowed in the sandbox"),
    "a name that is not there": ("{{ qery }}", "'qery' is undefined"),
    "no Jinja": ("{{ query", "template bad.jinja: expected token"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_wrong_template(name: str, task: Path, cli: Cli) -> None:
    source, words = TEMPLATES[name]
    edit(task, "name: t", "name: t\ntemplate: bad.jinja")
    text = f"{{% block context %}}{source}{{% endblock %}}{{% block continuation %}} {{{{ option }}}}{{% endblock %}}"
    (task.parent / "bad.jinja").write_text(text)
    done = cli("validate", task)
    assert done.code == 2
    (error,) = [line for line in done.out.splitlines() if "error: " in line]
    assert "bad.jinja" in error
    assert words in error


def test_where_the_prompt_of_the_task_type_stands_in(task: Path, cli: Cli) -> None:
    edit(task, "name: t", "name: t\ntemplate: own.jinja")
    (task.parent / "own.jinja").write_text(
        "{% block context %}{{ query }}{% endblock %}{% block continuation %} {{ option }}{% endblock %}"
    )
    done = cli("validate", task)
    assert done.code == 0
    assert "template own.jinja has no block 'letter', so by_letter uses _default/choice.jinja" in done.out
    assert "by_loglikelihood uses" not in done.out


def test_a_metric_that_asks_for_a_block_which_is_not_there(task: Path, cli: Cli) -> None:
    test_where_the_prompt_of_the_task_type_stands_in(task, cli)
    edit(task, "acc_norm", "acc_pmi")
    assert "route by_loglikelihood: template own.jinja has no block 'unconditional'" in cli("validate", task).out


def test_every_further_prompt_is_rendered(task: Path, cli: Cli) -> None:
    edit(task, "name: t", "name: t\nprompts: {loud: loud.jinja, lost: lost.jinja}")
    (task.parent / "loud.jinja").write_text(
        "{% block context %}{{ qery }}{% endblock %}{% block continuation %} {{ option }}{% endblock %}"
    )
    done = cli("validate", task)
    assert done.code == 2
    assert "template 'lost.jinja' is neither next to its task nor built in" in done.out
    assert "row 1, id 't0', route by_loglikelihood, prompt loud: template loud.jinja, block 'context'" in done.out


def test_more_options_than_letters_close_one_way_and_are_no_error(task: Path, cli: Cli) -> None:
    write_task(task.parent, "t", row4={"o": [f"o{i}" for i in range(30)]})
    done = cli("validate", task)
    assert done.code == 0
    assert "warning: t: row 5, id 't4', route by_letter: 't4' has 30 options, more than the 26 letters" in done.out


def test_a_prompt_that_fails_in_one_row_only_names_the_row(task: Path, cli: Cli) -> None:
    write_task(task.parent, "t", row11={"q": "odd one"})
    edit(task, "name: t", "name: t\ntemplate: bad.jinja")
    (task.parent / "bad.jinja").write_text(
        "{% block context %}{{ query.split()[2] if query[0] == 'o' else query }}{% endblock %}"
        "{% block continuation %} {{ option }}{% endblock %}"
    )
    done = cli("validate", task)
    assert "row 12, id 't11', route by_loglikelihood" in done.out


def errors_of(done: Outcome) -> list[str]:
    return [line.removeprefix("  error: ") for line in done.out.splitlines() if "error: " in line]


def test_wrong_rows_are_all_told_each_problem_once(task: Path, cli: Cli) -> None:
    write_task(task.parent, "t", row2={"g": 7}, row5={"o": []}, row9={"q": 1})
    edit(task, ', train: "jsonl:t.jsonl"', "")
    assert [line.split(" of ")[0] for line in errors_of(cli("validate", task))] == ["t: row 3", "t: row 6", "t: row 10"]
    wrong = {f"row{i}": {"g": 9} for i in range(50)} | {"row52": {"o": []}, "row57": {"o": []}}
    write_task(task.parent, "t", n=60, **wrong)
    done = cli("validate", task)
    assert errors_of(done) == [
        "t: 50 rows of 'jsonl:t.jsonl' (first 1, 2, 3), field 'gold': 9 is out of range for 3 options (0 to 2)",
        "t: 2 rows of 'jsonl:t.jsonl' (53, 58), field 'options': there are no options",
    ]
    assert done.out.splitlines()[-1] == "1 task, 2 errors, 0 warnings"


def test_a_missing_column_is_one_error_for_all_rows_and_splits(task: Path, cli: Cli) -> None:
    write_task(task.parent, "t", n=84)
    edit(task, "row.g,", "row.gold,")
    (line,) = errors_of(cli("validate", task))
    assert line.startswith("t: all 84 rows of 'jsonl:t.jsonl', field 'gold': there is no key 'gold'; ")


def test_many_different_errors_of_a_field_are_counted_the_commonest_named(task: Path, cli: Cli) -> None:
    wrong: dict[str, Any] = {f"row{i}": {"g": f"x{i}"} for i in range(40)} | {f"row{i}": {"g": 7} for i in (1, 50, 51)}
    write_task(task.parent, "t", n=60, **wrong)
    edit(task, ', train: "jsonl:t.jsonl"', "")
    lines = errors_of(cli("validate", task))
    assert [line.split(": ")[-1] for line in lines[:1]] == ["7 is out of range for 3 options (0 to 2)"]
    assert lines[0].startswith("t: 3 rows of 'jsonl:t.jsonl' (2, 51, 52), field 'gold': ")
    assert all(" is not an index; give the place of an option" in line for line in lines[1:3])
    assert lines[3] == "t: 37 rows of 'jsonl:t.jsonl' (first 4, 5, 6), field 'gold': further errors"
    assert len(lines) == 4


def test_rows_of_one_id_are_counted(task: Path, cli: Cli) -> None:
    write_task(task.parent, "t", **{f"row{i}": {"id": "same"} for i in range(5, 15)})
    edit(task, ', train: "jsonl:t.jsonl"', "")
    assert errors_of(cli("validate", task)) == [
        "t, test: rows 6 and 7 have the same id 'same'",
        "t, test: rows 6 and 8 have the same id 'same'",
        "t, test: rows 6 and 9 have the same id 'same'",
        "t, test: … in total, 9 rows have the id of an earlier row",
    ]


def test_a_run_names_the_first_wrong_row_in_one_line(task: Path, cli: Cli) -> None:
    edit(task, "row.g,", "row.gold,")
    done = cli("run", "--tasks", "t", "--model", "overlap", "--include_path", task.parent, "--output_path", "run")
    assert done.complaint.startswith("figeval: t: row 1 of 'jsonl:t.jsonl', field 'gold': ")


def test_one_broken_file_hides_no_other(task: Path, cli: Cli) -> None:
    (task.parent / "a.task.yaml").write_text("name: [")
    write_task(task.parent, "z", row0={"g": 5})
    for arguments in ((task.parent,), ("--include_path", task.parent)):
        done = cli("validate", *arguments)
        assert done.code == 2
        assert "a.task.yaml:2: not valid YAML" in done.out
        assert "t (t.task.yaml): ok" in done.out
        assert "z: row 1" in done.out


def test_repeated_options_and_empty_texts_are_warnings(task: Path, cli: Cli) -> None:
    write_task(task.parent, "t", row4={"o": ["same", "Same ", "other"]}, row6={"q": " "})
    done = cli("validate", task)
    assert done.code == 0
    assert "warning: t, test: row 5, id 't4': option 1 ('Same ', as option 0) repeats another one" in done.out
    assert "warning: t, test: row 7, id 't6': query is empty" in done.out
    assert done.out.splitlines()[-1] == "1 task, 0 errors, 5 warnings"  # in both splits, which are one
    write_task(task.parent, "t", n=30, **{f"row{i}": {"o": ["a", "a"]} for i in range(30)})
    assert "… in total, 30 rows have a text that repeats another one" in cli("validate", task).out


def test_pairs(tmp_path: Path, cli: Cli) -> None:
    row = {"id": 1, "a": "x", "b": "y", "label": "yes_it_does", "pair": 1}
    file = write_pairs(tmp_path, [row, {**row, "id": 2, "label": None, "pair": 1}])
    done = cli("validate", file)
    assert (done.code, done.out.splitlines()[1]) == (
        0,
        "  test: 2 examples, 1 minimal groups; gold hidden ×1, yes_it_does ×1",
    )
    write_pairs(tmp_path, [row, {**row, "id": 2, "label": "maybe", "pair": 2}])
    assert "row 2 of 'jsonl:pairs.jsonl', field 'label': 'maybe' is not among the labels" in cli("validate", file).out
    write_pairs(tmp_path, [row, {**row, "id": 2, "pair": 2}])
    assert "no two examples share a group" in cli("validate", file).out
    write_pairs(tmp_path, [row], "verbalizer: {yes_it_does: [Yes, Sure], no_it_does_not: [No, Sure]}")
    assert "verbalizer.yes_it_does: True is not a string: YAML reads Yes, No" in cli("validate", file).out
    write_pairs(tmp_path, [row], "verbalizer: {yes_it_does: ['Yes', Sure], no_it_does_not: ['No', Sure]}")
    assert "verbalizer: 'Sure' stands for 2 labels" in cli("validate", file).out


def test_a_suite_file_stands_for_its_tasks(task: Path, cli: Cli) -> None:
    suite = task.parent / "s.suite.yaml"
    suite.write_text("name: s\ntasks: [t, mini_fables]\n")
    done = cli("validate", suite)
    assert (done.code, done.out.splitlines()[-1]) == (0, "2 tasks, 0 errors, 1 warning")
    suite.write_text("name: s\ntasks: [t, mini_fbles]\n")
    done = cli("validate", suite)
    assert done.code == 2
    assert "unknown task 'mini_fbles'; did you mean 'mini_fables'" in done.out


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("mini_prs", "unknown task 'mini_prs'; did you mean 'mini_pairs'"),
        ("absent.task.yaml", "absent.task.yaml: cannot be read"),
        ("mine.yaml", "the name of a task file must end in .task.yaml"),
        (".", ". does not contain a *.task.yaml file"),
    ],
)
def test_targets_that_are_none(target: str, words: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("validate", target, "mini_fables")
    assert done.code == 2
    assert words in done.out
    assert "mini_fables (fables.task.yaml): ok" in done.out


def test_data_that_cannot_be_had_is_an_error_of_its_task(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mirror" / "epic").mkdir(parents=True)
    (tmp_path / "mirror" / "epic" / "full_dataset.json").write_text("[]")
    (tmp_path / "mirror" / "epic" / "all_proverbs.json").write_text("[]")
    monkeypatch.setenv("FIGEVAL_DATA_MIRROR", str(tmp_path / "mirror"))
    done = cli("validate", "epic_retrieval_all", "mini_fables")
    assert done.code == 2
    assert "is corrupt: sha256 is" in done.out
    assert "mini_fables (fables.task.yaml): ok" in done.out


PYTHON_TASK = """
from figeval import PairExample, hookimpl, task

@task(name="mine", type="pairs", labels=("a", "b"), baselines=("chance",))
def mine():
    yield PairExample(id="1", left="x", right="y", label="a")
    yield PairExample(id="1", left="x", right=" ", label="b")

@hookimpl
def register_tasks(register):
    register(mine)
"""


def test_a_task_written_in_python(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[..., None]
) -> None:
    (tmp_path / "python_task_plugin.py").write_text(PYTHON_TASK)
    monkeypatch.syspath_prepend(tmp_path)
    install("python_task_plugin")
    assert cli("validate", "mine").out.splitlines()[1:] == [
        "  test: 2 examples; gold a ×1, b ×1",
        "  warning: mine, test: row 2, id '1': right is empty",
        "  error: mine, test: rows 1 and 2 have the same id '1'",
        "1 task, 1 error, 1 warning",
    ]


@pytest.mark.slow
def test_built_in_benchmarks_are_sound(cli: Cli, real_data: str) -> None:
    """One task of every base file, and with the prior split every row of IMPLI."""
    tasks = (
        "epic_mcq",
        "epic_mcq_random",
        "epic_retrieval_unseen",
        "epic_alignment_published",
        "epic_joint",
        "epic_motif",
        "mini_narratives",
        "impli_idioms_silver_lit",
        "impli_metaphors_gold_ent",
    )
    done = cli("validate", *tasks)
    assert done.code == 0, done.out
    assert "prior: 26124 examples" in done.out
    assert "Span(" not in done.out
    assert done.out.splitlines()[-1] == "12 tasks, 0 errors, 0 warnings"


def test_a_folder_that_is_called_like_a_task_does_not_hide_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mini_fables").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "20 examples" in cli("validate", "mini_fables").out


def pairs_of(*labels: str) -> list[dict[str, Any]]:
    return [{"id": f"p{i}", "a": f"left {i}", "b": f"right {i}", "label": label} for i, label in enumerate(labels)]


def write_ungrouped_pairs(folder: Path, rows: list[dict[str, Any]], *lines: str) -> Path:
    file = write_pairs(folder, rows, *lines)
    edit(file, "group: row.pair\n", "")
    return file


def test_equal_gold_labels_are_worth_a_warning_unless_they_are_declared(tmp_path: Path, cli: Cli) -> None:
    equal = pairs_of(*["yes_it_does"] * 1542)
    done = cli("validate", write_ungrouped_pairs(tmp_path, equal))
    assert done.code == 0
    assert (
        "warning: pairs, test: all 1,542 gold answers are 'yes_it_does', so a constant answer is always right"
        in done.out
    )
    declared = cli("validate", write_ungrouped_pairs(tmp_path, equal, "only_label: yes_it_does"))
    assert (declared.code, declared.out.splitlines()[-1]) == (0, "1 task, 0 errors, 0 warnings")


def test_a_right_option_that_always_comes_first_is_worth_a_warning(task: Path, cli: Cli) -> None:
    write_task(task.parent, "t", n=12, **{f"row{i}": {"g": 0} for i in range(12)})
    cure = "a constant answer is always right; `shuffle_options: true` changes the order of the options"
    assert cure in cli("validate", task).out
    edit(task, "type: choice\n", "type: choice\nshuffle_options: true\n")
    assert "always right" not in cli("validate", task).out


def test_a_declared_label_must_be_that_of_all_rows(tmp_path: Path, cli: Cli) -> None:
    mixed = pairs_of(*["yes_it_does"] * 3, "no_it_does_not")
    done = cli("validate", write_ungrouped_pairs(tmp_path, mixed, "only_label: yes_it_does"))
    assert done.code == 2
    assert "1 of 4 gold labels differ from only_label: yes_it_does" in done.out
    unknown = cli("validate", write_ungrouped_pairs(tmp_path, mixed, "only_label: perhaps"))
    assert (unknown.code, "only_label 'perhaps' is not among the labels" in unknown.out) == (2, True)


def test_hidden_golds_and_absent_spans_are_told(tmp_path: Path, cli: Cli) -> None:
    rows = [{"id": i, "text": "the sea is calm", "gold": gold} for i, gold in enumerate(["sea", None, "", []])]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "s.task.yaml").write_text(
        "name: s\ntype: spans\ndata: {test: 'jsonl:s.jsonl'}\nmetrics: [squad_f1]\nbaselines: [random]\n"
        "fields: {id: row.id, text: row.text, given: row.text, known: row.text, gold: row.gold}\n"
    )
    done = cli("validate", tmp_path / "s.task.yaml")
    assert done.code == 0
    assert "test: 4 examples; gold a span ×1, hidden ×1, no span ×2" in done.out
    assert "warning: s, test: 1 of 4 gold answers are hidden (null) and will not be scored" in done.out


def test_an_error_of_a_file_in_an_included_folder_is_printed_once(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "bad.task.yaml").write_text("name: bad\ntype: pairs\nfields: {id: row.id}\n", encoding="utf-8")
    for arguments in (("--include_path", str(tmp_path)), ("--include_path", str(tmp_path), str(tmp_path))):
        done = cli("validate", *arguments)
        assert done.code == 2
        assert done.out.count("bad.task.yaml") == 1 and "1 error" in done.out


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ("tasks: [pairs, nope]", "suite.yaml: unknown task 'nope'"),
        ("tasks: [pairs]\ncontrasts: {a: {tasks: [pears]}}", "contrast 'a': 'pears' is not a task of this suite"),
        ("tasks: [pairs]\ncontrasts: {a: {tasks: [pairs], within: idoim}}", "no example has 'idoim' in meta"),
        ("tasks: [pairs]\ncontrasts: {a: [pairs]}", "'a' is not a mapping; write `a: {tasks: [FIRST, SECOND]}`"),
        ("tasks: [pairs, t]\ncontrasts: {a: {tasks: [pairs, t]}}", "the tasks have different first labels"),
    ],
)
def test_a_suite_that_cannot_be_run(suite: str, message: str, task: Path, cli: Cli) -> None:
    rows = [{"id": n, "a": f"{n}", "b": "b", "label": PAIR_LABELS[n % 2], "pair": n // 2} for n in range(4)]
    file = write_pairs(task.parent, rows)
    edit(file, "label: row.label}", "label: row.label, meta: {idiom: row.pair}}")
    suite_file = task.parent / "s.suite.yaml"
    suite_file.write_text(f"name: s\n{suite}\n")
    for target in (task.parent, suite_file):
        done = cli("validate", target)
        assert done.code == 2
        assert message in done.out


def test_test_rows_in_train_are_counted_and_what_shots_can_be_met(tmp_path: Path, cli: Cli) -> None:
    row = {"id": "a", "q": "He spilled the beans.", "o": ["He ate.", "He told."], "g": 1}
    train = [{**row, "id": "b", "q": "he spilled the beans"}, {**row, "id": "c", "q": "She left."}]
    (tmp_path / "test.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in train))
    (tmp_path / "shots.task.yaml").write_text(
        "name: shots\ntype: choice\n"
        'data: {test: "jsonl:test.jsonl", train: "jsonl:train.jsonl", validation: "jsonl:train.jsonl"}\n'
        "fields: {id: row.id, query: row.q, options: row.o, gold: row.g}\n"
    )
    done = cli("validate", tmp_path / "shots.task.yaml")
    assert (done.code, done.out.splitlines()[-1]) == (0, "1 task, 0 errors, 2 warnings")
    assert done.out.count("1 of 1 test rows is in") == 2 and "('a' as 'b')" in done.out
    assert "--num_fewshot 1 is possible; 2 is impossible for 1 of 1 test rows" in done.out
    few_shot = cli("validate", tmp_path / "shots.task.yaml", "--num_fewshot", "2")
    assert "--num_fewshot 2 is impossible for 1 of 1 test rows ('a')" in few_shot.out
    refused = cli("run", "--tasks", "shots", "--include_path", tmp_path, "-m", "overlap", "--num_fewshot", "2")
    assert refused.code == 2
    preview = cli("preview", "shots", "--include_path", tmp_path, "--num_fewshot", "1").out
    assert "She left." in preview and "he spilled the beans\n" not in preview
