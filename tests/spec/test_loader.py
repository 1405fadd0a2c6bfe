"""YAML files → tasks and suites; broken ones are named and do not hide the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from figeval import (
    PairExample,
    SuiteSpec,
    TaskError,
    TaskSpec,
    UnknownName,
    hookimpl,
    task,
)
from figeval.testing import harness

YAML = """
name: t
type: pairs
labels: [yes_, no_]
data: {test: "jsonl:x.jsonl"}
fields: {id: row.id, left: row.a, right: row.b, label: row.label}
"""


def catalogue_of(folder):
    return harness(include=(folder,)).catalogue


def read_task(file):
    """The task of a file, by the name of the file; a broken file is an error."""
    (spec,) = catalogue_of(file.parent).expand([file.name.removesuffix(".task.yaml")])
    return spec


def write(folder, name, text):
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_a_task_file(tmp_path):
    read = read_task(write(tmp_path, "t.task.yaml", YAML))
    assert isinstance(read, TaskSpec)
    assert (read.name, read.labels, read.folder, read.origin) == ("t", ("yes_", "no_"), tmp_path, "t.task.yaml")


def test_include_is_read_first_and_own_keys_win(tmp_path):
    write(tmp_path, "_base.yaml", YAML.replace("name: t", "description: base\nsettings: {threshold: 0.9}"))
    read = read_task(write(tmp_path, "t2.task.yaml", "include: _base.yaml\nname: t2\nsettings: {threshold: 0.1}"))
    assert (read.name, read.settings, read.description) == ("t2", {"threshold": 0.1}, "base")


BASE = """
type: pairs
labels: [yes_, no_]
data: {test: "jsonl:x.jsonl", train: "jsonl:y.jsonl"}
fields: {id: row.id, left: row.a, right: row.b, label: row.label, meta: {idiom: row.idiom, kind: row.kind}}
template: x.jinja
metrics: [acc, macro_f1]
cluster: idiom
"""


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("data: {test: 'jsonl:z.jsonl'}", "data", {"test": "jsonl:z.jsonl", "train": "jsonl:y.jsonl"}),
        ("data: {train: null}", "data", {"test": "jsonl:x.jsonl"}),
        (
            "fields: {meta: {kind: null, place: row.place}}",
            "fields",
            {
                "id": "row.id",
                "left": "row.a",
                "right": "row.b",
                "label": "row.label",
                "meta": {"idiom": "row.idiom", "place": "row.place"},
            },
        ),
        ("verbalizer: {yes_: Yes it does}", "verbalizer", {"yes_": ("Yes it does",)}),
        ("metrics: [acc]", "metrics", ("acc",)),
        ("template: null\ncluster: null", "template", None),
        ("floor: null", "floor", None),  # a key that was not included
    ],
)
def test_mappings_of_an_included_file_are_merged_lists_replaced_and_null_removes(tmp_path, text, key, expected):
    write(tmp_path, "_base.yaml", BASE)
    read = read_task(write(tmp_path, "t.task.yaml", f"include: _base.yaml\nname: t\n{text}\n"))
    assert getattr(read, key) == expected
    assert read_task(write(tmp_path, "u.task.yaml", "include: _base.yaml\nname: u\n")).template == "x.jinja"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "fields: {meta: {knd: null}}",
            r"t.task.yaml: fields.meta: null removes an included key, but _base.yaml has no 'knd' there; did you mean "
            "'kind'",
        ),
        ("fields: {lable: null}", "fields: null removes an included key.*did you mean 'label'"),
        ("settings: {threshold: null}", "settings: null removes an included key, but _base.yaml has no 'threshold'"),
        ("templat: null", "unknown key 'templat'; did you mean 'template'"),
        ("labels: null", "a pairs task must list its labels"),
        ("fields: null", "a pairs task needs the fields id, label, left, right"),
        ("data: {test: null}", "data has no test split"),
        ("fields: {left: {a: row.a}}", ""),  # a mapping replaces a text
    ],
)
def test_mistakes_beside_an_include(tmp_path, text, message):
    write(tmp_path, "_base.yaml", BASE)
    file = write(tmp_path, "t.task.yaml", f"include: _base.yaml\nname: t\n{text}\n")
    if not message:
        assert read_task(file).fields["left"] == {"a": "row.a"}
        return
    with pytest.raises(TaskError, match=message):
        read_task(file)


def test_an_included_file_may_include_another(tmp_path):
    write(tmp_path, "_base.yaml", BASE)
    write(tmp_path, "_middle.yaml", "include: _base.yaml\nsettings: {threshold: 0.25}\nfields: {meta: null}\n")
    file = write(tmp_path, "t.task.yaml", "include: _middle.yaml\nname: t\nsettings: {threshold: 0.75}\n")
    read = read_task(file)
    assert read.settings == {"threshold": 0.75}
    assert "left" in read.fields
    assert "meta" not in read.fields


def test_files_that_include_one_another_in_a_circle(tmp_path):
    write(tmp_path, "_base.yaml", "include: _other.yaml\n")
    write(tmp_path, "_other.yaml", "include: ./_base.yaml\n")
    with pytest.raises(TaskError, match=r"yaml: include: files include one another more than 8 deep; is there a"):
        read_task(write(tmp_path, "t.task.yaml", "include: _base.yaml\nname: t"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (YAML + "shuffle_options: true", "the options of pairs tasks cannot be shuffled; remove the key"),
        (YAML + "shuffle_options: 3", "shuffle_options: write `shuffle_options: true`, or `{seed: 1}`"),
        (YAML + "shuffle_options: yes please", "shuffle_options: write `shuffle_options: true`"),
        (YAML + "shuffle_options: [1]", "shuffle_options: write `shuffle_options: true`"),
        (YAML + "shuffle_options: {sed: 3}", "unknown key 'shuffle_options.sed'; did you mean 'seed'"),
        (YAML + "shuffle_options: {seed: -1}", "shuffle_options.seed must be at least 0"),
        (YAML + "shuffle_options: {seed: true}", "shuffle_options.seed must be an integer"),
        (YAML + "shuffle_option: true", "unknown key 'shuffle_option'; did you mean 'shuffle_options'"),
        (YAML + "metrisc: [acc]", r"t.task.yaml: unknown key 'metrisc'; did you mean 'metrics'"),
        (YAML.replace("name: t", "name: My Task"), "name: a name is at most 100 lower-case letters"),
        (YAML.replace("pairs", "pears"), "t.task.yaml: unknown task type 'pears'; did you mean 'pairs'"),
        (YAML.replace("labels: [yes_, no_]", ""), "must list its labels"),
        (YAML.replace("left: row.a, ", ""), r"a pairs task needs the field left"),
        (YAML.replace("id: row.id", "id: row.id, query: row.q"), "has no field 'query'"),
        (YAML.replace("test:", "train:"), "data has no test split"),
        (YAML + "verbalizer: {perhaps: x}", "but the labels are"),
        (YAML + "vocabulary: {noun: x}", "it takes words for `option` and `answer`"),
        (YAML + "vocabulary: {option: [proverb, ' ']}", "vocabulary has an empty word"),
        ("just text", "must be a mapping"),
        ("a: [", "not valid YAML"),
        ("include: nowhere.yaml\nname: t", "t.task.yaml: include: there is no file .*nowhere.yaml"),
    ],
)
def test_mistakes_in_a_task_file(tmp_path, text, message):
    with pytest.raises(TaskError, match=message):
        read_task(write(tmp_path, "t.task.yaml", text))


def harness_with(folder):
    class Plugin:
        @hookimpl
        def register_tasks(self, register):
            register.folder(folder)

    return harness(Plugin())


def test_a_broken_file_is_a_problem_of_its_plugin_and_hides_nothing(tmp_path, capsys):
    write(tmp_path, "a.task.yaml", YAML + "zzzzzz: 1")
    write(tmp_path, "b.task.yaml", YAML)
    trial = harness_with(tmp_path)
    assert [entry.name for entry in trial.catalogue.tasks] == ["t"]
    assert trial.manager.plugins["Plugin"].problems == [f"{tmp_path}/a.task.yaml: unknown key 'zzzzzz'"]
    assert capsys.readouterr().err.count("\n") == 1


def test_suites_expand_in_order_and_once(tmp_path):
    for name in "abc":
        write(tmp_path, f"{name}.task.yaml", YAML.replace("name: t", f"name: {name}"))
    write(tmp_path, "s.suite.yaml", "name: s\ntasks: [c, a]")
    write(tmp_path, "r.suite.yaml", "name: r\ntasks: [s, b]")
    catalogue = harness_with(tmp_path).catalogue
    assert [task.name for task in catalogue.expand(["a", "r"])] == ["a", "c", "b"]
    with pytest.raises(UnknownName, match="unknown task 'rr'; did you mean 'r'"):
        catalogue.expand(["rr"])


def test_tasks_and_suites_share_one_space_of_names():
    class Plugin:
        @hookimpl
        def register_tasks(self, register):
            register(TaskSpec(name="t", type="pairs", labels=("a", "b"), examples=lambda: iter(())))
            register(SuiteSpec(name="t", tasks=("t",)))

    trial = harness(Plugin())
    assert [entry.name for entry in trial.catalogue.tasks] == ["t"]
    assert "'t' of Plugin is already registered by Plugin" in trial.manager.plugins["Plugin"].problems[0]


def test_a_broken_file_of_a_user_is_a_warning_for_the_others_and_an_error_if_it_is_requested(tmp_path, capsys):
    write(tmp_path, "a.task.yaml", YAML + "zzzzzz: 1")
    write(tmp_path, "b.task.yaml", YAML)
    write(tmp_path, "c.task.yaml", YAML)
    write(tmp_path, "s.suite.yaml", "name: s\ntasks: [t]\ncontrasts: {x: {tasks: [t, a]}}")
    catalogue = catalogue_of(tmp_path)
    for name, message in {"a": "unknown key 'zzzzzz'", "t": "is already registered", "s": "contrast 'x'"}.items():
        with pytest.raises(TaskError, match=message):
            catalogue.expand([name])
    assert capsys.readouterr().err == ""  # an error is not said twice
    (tmp_path / "c.task.yaml").unlink()
    catalogue = catalogue_of(tmp_path)
    assert [task.name for task in catalogue.expand(["t"])] == [task.name for task in catalogue.expand(["t"])] == ["t"]
    assert [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()] == ["warning"] * 2


def test_a_file_is_included_from_the_folder_of_the_one_that_names_it(tmp_path):
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts", "more.yaml", YAML.replace("name: t", "description: from more"))
    write(tmp_path / "parts", "base.yaml", "include: more.yaml\n")
    write(tmp_path, "more.yaml", YAML.replace("name: t", "description: another file of this name"))
    write(tmp_path, "t.task.yaml", "name: t\ninclude: parts/base.yaml\n")
    assert catalogue_of(tmp_path).tasks.get("t").description == "from more"
    write(tmp_path / "parts", "base.yaml", "include: parts/more.yaml\n")  # from the task's folder, as up to 0.2
    write(tmp_path, "t.task.yaml", "name: t\ninclude: parts/base.yaml\nlabels: null\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("metrcs: [acc]\n", "base.yaml: unknown key 'metrcs'; did you mean 'metrics'"),
        ("metrics: 7\n", "base.yaml: metrics"),
    ],
)
def test_the_file_that_has_to_change_is_named_and_once(content, message, tmp_path, capsys):
    write(tmp_path, "base.yaml", content)
    write(tmp_path, "a.task.yaml", f"include: base.yaml\n{YAML.replace('name: t', 'name: a')}")
    write(tmp_path, "b.task.yaml", f"include: base.yaml\n{YAML.replace('name: t', 'name: b')}")
    write(tmp_path, "good.task.yaml", YAML)
    catalogue = catalogue_of(tmp_path)
    with pytest.raises(TaskError, match=message):
        catalogue.expand(["b"])
    catalogue.expand(["t"])
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_no_name_is_suggested_in_its_own_place():
    assert "; did you mean 'included'?" in str(UnknownName("key", "include", ["include", "included"], see="x"))
    assert "; did you mean 'gold'?" in str(UnknownName("key", "Gold", ["gold"], see="x"))


def test_a_task_in_python():
    @task(name="py", type="pairs", labels=("a", "b"))
    def pairs():
        """Pairs made on the spot."""
        yield PairExample(id="1", left="x", right="y", label="a")

    assert isinstance(pairs, TaskSpec)
    assert (pairs.name, pairs.description) == ("py", "Pairs made on the spot.")
    assert pairs.bound(harness().task_types).metrics == ("acc",)
    assert [e.id for e in pairs.examples()] == ["1"]


def suites(folder: Path, members: dict[str, str]) -> Any:
    (folder / "t.task.yaml").write_text(YAML)
    for name, tasks in members.items():
        (folder / f"{name}.suite.yaml").write_text(f"name: {name}\ntasks: {tasks}\n")
    return catalogue_of(folder)


def test_suites_that_name_each_other(tmp_path: Path) -> None:
    catalogue = suites(tmp_path, {"a": "[t, b]", "b": "[c]", "c": "[t, a]", "me": "[me]"})
    with pytest.raises(TaskError, match=r"the suite 'a' contains itself \(a → b → c → a\); remove one of them"):
        catalogue.expand(["a"])
    with pytest.raises(TaskError, match=r"the suite 'me' contains itself \(me → me\)"):
        catalogue.expand(["t", "me"])


def test_suites_that_name_the_next_one_twice_end_at_once(tmp_path: Path) -> None:
    members = {f"s{n}": f"[s{n + 1}, s{n + 1}]" for n in range(60)} | {"s60": "[t, t]"}
    assert [task.name for task in suites(tmp_path, members).expand(["s0", "s30"])] == ["t"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("name: t", "name: t\ninclude: /etc/passwd", "'/etc/passwd' leads out of"),
        ("name: t", "name: t\ninclude: ../base.yaml", "'../base.yaml' leads out of"),
        ("name: t", "name: t\ninclude: link.yaml", "'link.yaml' leads out of"),
        ("name: t", "name: t\ninclude: [a]", r"include: \['a'\] is not a path"),
        ("name: t", f"name: {'t' * 101}", "name: a name is at most 100 lower-case letters"),
        ("name: t", "name: t\nsettings: {threshold: .nan}", "threshold.*finite number"),
        ("name: t", "name: t\nmax_new_tokens: -1", "max_new_tokens must be greater than 0"),
        ("[yes_, no_]", "[a, b, a]", "labels: 'a' is listed twice"),
    ],
)
def test_what_a_task_file_may_not_say(tmp_path: Path, old: str, new: str, words: str) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (tmp_path / "base.yaml").write_text("version: 2\n")
    (folder / "link.yaml").symlink_to(tmp_path / "base.yaml")
    (folder / "t.task.yaml").write_text(YAML.replace(old, new))
    with pytest.raises(TaskError, match=words):
        read_task(folder / "t.task.yaml")


def test_includes_outside_of_the_folder_can_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIGEVAL_ALLOW_EXTERNAL_FILES", "1")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "base.yaml").write_text("version: 2\n")
    (tmp_path / "tasks" / "t.task.yaml").write_text(YAML + "include: ../base.yaml\n")
    assert read_task(tmp_path / "tasks" / "t.task.yaml").version == 2
