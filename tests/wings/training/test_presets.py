"""Presets: every fine-tuned row of the papers is there, is found, and is a config; what is wrong is told in a line."""

from __future__ import annotations

import json
import os
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from figeval import Harness, Setup
from tests import trainings
from tests.cli.conftest import Cli, exit_code
from tests.learners import head
from tests.plugins.tiny import Workshop
from tests.processes import figeval

TABLES = {
    *(f"ePiC, ACL 2022, Table {table}" for table in (7, 8, 9, 11)),
    *(f"STORAL, NAACL 2022, Table {table}" for table in (6, 7)),
    "IMPLI, ACL 2022 submission, Table 5",
}
NOT_FINE_TUNED = {"Random", "Human", "Truth", "ConvS2S", "Fusion", "PM"}  # people, texts, models trained from scratch
LABELS = ("entailment", "neutral", "contradiction")
Presets = dict[str, dict[str, Any]]
Published = dict[str, list[dict[str, Any]]]


def read_json(*arguments: str) -> Any:
    """Return what a command prints as JSON."""
    with redirect_stdout(StringIO()) as out:
        assert exit_code(*arguments, "--json") == 0
    return json.loads(out.getvalue())


@pytest.fixture(scope="module")
def presets() -> Presets:
    return {preset["name"]: preset for preset in read_json("ls", "presets")}


@pytest.fixture
def published() -> Published:
    """Return the published numbers of the tasks of the papers, by the name of the task."""
    names = [entry.name for entry in Harness().catalogue.tasks]
    tasks = [name for name in names if name.startswith(("epic", "impli", "nli", "storal"))]
    return {task: read_json("show", task)["published"] for task in tasks}


def test_no_file_of_ours_is_broken(presets: Presets, cli: Cli) -> None:
    assert not [plugin for plugin in json.loads(cli("ls", "plugins", "--json").out) if plugin["problems"]]
    assert len(presets) > 30


@pytest.mark.slow
def test_every_fine_tuned_row_of_the_papers_has_one(presets: Presets, published: Published) -> None:
    """The models of the published numbers, table by table."""
    rows_of_papers = {
        (number["source"], number["model"])
        for numbers in published.values()
        for number in numbers
        if number["source"] in TABLES
    }
    rows_of_presets = {
        (preset["source"], preset["model"])
        for name, preset in presets.items()
        if name.startswith("paper:") and preset["source"] in TABLES
    }
    assert {row for row in rows_of_papers if row[1] not in NOT_FINE_TUNED} == rows_of_presets
    for task in (
        f"storal_{kind}_{language}" for kind in ("mocpt", "mopref", "st2mo", "mo2st") for language in ("en", "zh")
    ):
        models = {number["model"] for number in published[task] if number["source"] in TABLES}
        rows = {row["model"] for row in presets.values() if task in row["tasks"] and row["source"] in TABLES}
        assert rows == models - NOT_FINE_TUNED, task


def test_their_tasks_can_be_trained_on(presets: Presets) -> None:
    catalogue = Harness().catalogue
    for task in {task for preset in presets.values() for task in preset["tasks"]}:
        assert "train" in catalogue.tasks.get(task).data, task


def test_what_the_papers_print(presets: Presets) -> None:
    bert = presets["paper:table7-bert"]
    assert {key: bert["printed"][key] for key in ("lr", "epochs", "batch_size", "seed")} == {
        "lr": 2e-5,
        "epochs": 25,
        "batch_size": 16,
        "seed": 42,
    }
    t5 = presets["paper:table7-t5"]["settings"]
    assert (t5["optimizer"], t5["lr"], t5["batch_size"]) == ("adafactor", None, 4)
    seen, unseen = (presets[f"released:table7-{split}-roberta"]["settings"] for split in ("seen", "unseen"))
    assert (seen["lr"], seen["epochs"], unseen["lr"], unseen["epochs"]) == (1e-5, 30, 3e-5, 5)
    assert seen["head_args"] == {**bert["settings"]["head_args"], "pooling": "pooler", "freeze": "pooler"}
    base = presets["paper:table5-roberta-base"]["settings"]
    assert (base["lr"], base["epochs"], base["batch_size"], base["max_length"]) == (1e-5, 3, 32, 128)
    printed, code = (presets[f"{name}:table6-roberta"]["settings"] for name in ("paper", "released"))
    assert (printed["head"], printed["lr"], printed["batch_size"], code["batch_size"]) == ("marker", 3e-5, 16, 10)
    assert (code["epochs"], presets["released:table6-t5"]["settings"]["epochs"]) == (60, 30)
    assert presets["released:table7-mo2st-t5"]["settings"]["head_args"]["max_new_tokens"] == 512
    writer = presets["paper:table7-st2mo-gpt2"]
    assert (writer["printed"]["head"], writer["printed"]["head_args"]) == ("causal", {"temperature": 0.7})
    assert "top_k" not in writer["printed"]["head_args"] and writer["settings"]["head_args"]["top_k"] == 40
    assert "epochs" not in writer["settings"] and any("Epochs" in sentence for sentence in writer["unknown"])
    assert presets["paper:table6-bert-without-story"]["settings"]["probe"] == "no_query"
    retrieval = {"k": 10, "retriever": "bert-base-uncased", "pooling": "mean"}
    assert presets["paper:table6-ra-t5"]["settings"]["augment"] == {"add": "concepts", **retrieval}
    assert presets["paper:table7-mo2st-ra-t5"]["settings"]["augment"] == {"add": "outline", **retrieval}


def test_none_chooses_on_test_and_each_says_what_differs(presets: Presets, cli: Cli) -> None:
    for preset in presets.values():
        assert preset["settings"].get("select_on") != "test"
        assert any(preset[kind] for kind in ("as_released", "not_reproduced", "unknown"))
    for name in {preset["source"]: name for name, preset in presets.items()}.values():
        assert "published" in cli("show", name).out


@pytest.fixture
def describe(cli: Cli) -> Any:
    """The first line of a training with a preset, which ends there: there is no such device."""

    def describe(**settings: Any) -> str:
        flags = trainings.flags({"task": "epic_retrieval_seen", "output": "out", "device": "none-such", **settings})
        outcome = cli("train", *flags)
        assert outcome.code == 2
        return outcome.err.splitlines()[0]

    return describe


@pytest.mark.parametrize(
    ("name", "task", "model", "row"),
    [
        ("paper", "epic_retrieval_seen", "bert-base-uncased", "paper:table7-bert"),
        ("paper", "epic_retrieval_unseen", "FacebookAI/RoBERTa-base", "paper:table7-roberta"),
        ("paper", "epic_retrieval_unseen", "models/t5-base/", "paper:table7-t5"),
        ("paper", "epic_retrieval_seen", "models/trial:2/roberta-base", "paper:table7-roberta"),
        ("released", "epic_retrieval_seen", "t5-base", "released:table7-seen-t5"),
        ("released", "epic_retrieval_unseen", "t5-base", "released:table7-unseen-t5"),
        ("paper", "epic_retrieval_seen", "minilm", "paper:table7-sentence-bert"),
        ("paper", "epic_retrieval_seen", "roberta-large", "paper:table7-roberta"),
        ("paper", "epic_alignment", "somebody/something", "paper:table8-bert"),
        ("paper", "epic_joint", "roberta-base", "paper:table9-roberta"),
        ("paper", "epic_narrative_unseen", "google/flan-t5-small", "paper:table11-t5"),
        ("paper", "nli_train", "roberta-large", "paper:table5-roberta-large"),
        ("paper", "nli_mnli", "minilm", "paper:table5-roberta-base"),
        ("paper", "storal_mocpt_en", "google-bert/bert-base-uncased", "paper:table6-bert"),
        ("paper", "storal_mopref_en", "minilm", "paper:table6-bert"),
        ("paper", "storal_mopref_en", "google/mt5-base", "paper:table6-t5"),
        ("paper", "storal_mocpt_zh", "hfl/chinese-roberta-wwm-ext", "paper:table6-zh-roberta"),
        ("released", "storal_mocpt_en", "roberta-large", "released:table6-roberta"),
        ("paper", "storal_st2mo_en", "t5-small", "paper:table7-st2mo-t5"),
        ("released", "storal_mo2st_zh", "thu-coai/LongLM-base", "released:table7-zh-mo2st-t5"),
        ("paper", "storal_st2mo_en", "gpt2", "paper:table7-st2mo-gpt2"),
        ("paper", "storal_mo2st_zh", "somebody/gpt2-chinese", "paper:table7-zh-mo2st-gpt2"),
        ("paper", "storal_faithfulness_en", "roberta-base", "paper:faithfulness-roberta"),
        ("paper", "impli_idioms_unseen", "minilm", "paper:figure4-roberta-base"),
        ("paper:table6-bert-without-story", "storal_mocpt_en", "minilm", "paper:table6-bert-without-story"),
        ("paper:post-roberta", "storal_mocpt_en", "roberta-base", "paper:post-roberta"),
        ("paper:table7-bart", "mini_retrieval", "minilm", "paper:table7-bart"),
    ],
)
def test_a_row_is_found_by_task_and_model(name: str, task: str, model: str, row: str, describe: Any) -> None:
    assert describe(preset=name, task=task, model=model).startswith(f"--preset {row} (")


@pytest.mark.parametrize(
    ("name", "task", "model", "words"),
    [
        ("papr", "epic_alignment", "m", "unknown preset 'papr'; did you mean 'paper'?"),
        ("paper:table7-brt", "epic_alignment", "m", "did you mean 'paper:table7-bert'"),
        ("paper", "epic_retrieval_sen", "m", "no settings for epic_retrieval_sen; did you mean 'epic_retrieval_seen'"),
        ("paper", "epic_retrieval_seen", "m", "no row for m on epic_retrieval_seen; choose one of paper:table7-bert, "),
    ],
)
def test_no_such_row(name: str, task: str, model: str, words: str, describe: Any) -> None:
    assert words in describe(preset=name, task=task, model=model)


def test_their_options_are_those_of_the_heads(presets: Presets, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    workshop, catalogue = Workshop(tmp_path), Harness().catalogue
    writer, encoder = workshop("bart", "ForConditionalGeneration"), workshop("bert", "Model")
    causal = workshop("gpt2", "LMHeadModel")
    tokenizer = AutoTokenizer.from_pretrained(writer)
    tokenizer.add_tokens(["<extra_id_0>"], special_tokens=True)  # for infill to hide spans under
    tokenizer.save_pretrained(writer)
    heads = {
        (catalogue.tasks.get(task).type, settings.get("head"), json.dumps(settings.get("head_args", {}))): settings
        for preset in presets.values()
        for task in preset["tasks"]
        for settings in [preset["settings"]]
    }
    for (task_type, name, _), settings in heads.items():
        writes = name in ("seq2seq", "infill") or (name is None and task_type == "generation")
        model = causal if name == "causal" else writer if writes else encoder
        setup = Setup(model=str(model), options=settings.get("head_args", {}), labels=LABELS)
        assert head(task_type, name)(setup).describe()


# ---- in a config ----------------------------------------------------------------------------------------------------


def test_what_is_told(describe: Any) -> None:
    exact = describe(preset="paper", model="roberta-base")
    assert exact.startswith("--preset paper:table7-roberta (RoBERTa, ePiC, ACL 2022, Table 7); ")
    assert "published for" not in exact
    assert "published for roberta-base, not for roberta-large" in describe(preset="paper", model="roberta-large")


def test_the_preset_loses_to_the_file_and_the_file_to_the_flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was trained says so, and its own configuration file means the same again."""
    (tmp_path / "config.yaml").write_text("epochs: 7\nbatch_size: 4\nhead_args: {temperature: 2.0}\n", encoding="utf-8")
    model = Workshop(tmp_path)("bert", "Model").rename(tmp_path / "roberta-base")
    changes = {"preset": "paper:table7-roberta", "head_args": {"pooling": "mean"}, "clip": None, "evaluate": ()}
    settings = trainings.settings(model, tmp_path / "tasks", tmp_path / "out", **changes, batch_size=2, max_length=60)
    del settings["lr"]
    trained = trainings.train(**settings, config=tmp_path / "config.yaml")
    config, preset = trained.to_dict()["config"], trained.to_dict()["preset"]
    assert (config["lr"], config["epochs"], config["batch_size"], config["warmup"]) == (2e-5, 7, 2, 0)
    options = {"candidates": "all", "similarity": "dot", "temperature": 2.0, "pooling": "mean"}
    assert config["head_args"] == options
    assert (config["preset"], config["clip"], config["select_on"]) == ("paper:table7-roberta", None, "dev")
    assert preset["exact"] is True
    assert {"head_args", "epochs", "batch_size", "clip"} <= set(preset["changed"])
    assert any("test set" in sentence for sentence in preset["not_reproduced"])
    written = (trained.path / "training/config.yaml").read_text(encoding="utf-8")
    for line, warned in (("", 0), ("compile: false\n", 0), ("compile: true\n", 1)):  # a field of an older figeval
        (tmp_path / "again.yaml").write_text(written + line, encoding="utf-8")
        with trainings.optimizer_steps(0):
            again = trainings.train("tiny_retrieval", model, trained.path, config=tmp_path / "again.yaml")
        assert again.record.identity == trained.record.identity
        assert capsys.readouterr().err.count("compile no longer has any effect") == warned


def test_none_is_none_where_a_field_may_be(cli: Cli) -> None:
    flags = ("--task=mini_retrieval", "--model=minilm", "--output=out", "--device=none-such", "--batch_size=2")
    assert "none-such" in cli("train", *flags, "--clip=none", "--patience=none", "--select_on=none").err
    assert "epochs" in cli("train", *flags, "--epochs=none").complaint


def test_a_model_that_was_trained_here_is_also_what_it_came_from(tmp_path: Path, describe: Any) -> None:
    """The joint model of Table 9 begins with that of Table 7."""
    for name, origin in (("first", "FacebookAI/roberta-base"), ("second", str(tmp_path / "first"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "figeval.json").write_text(json.dumps({"about": {"trained_from": origin}}))
    line = describe(preset="paper", task="epic_joint", model=tmp_path / "second")
    assert line.startswith("--preset paper:table9-roberta (") and "published for" not in line


def test_a_post_trained_model_has_the_row_of_post_trained_ones(tmp_path: Path, describe: Any) -> None:
    for name, about in (
        ("post", {"trained_from": "roberta-base", "preset": "paper:post-roberta"}),
        ("choice", {"trained_from": str(tmp_path / "post"), "preset": "paper:table6-roberta-post"}),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "figeval.json").write_text(json.dumps({"about": about}))
        line = describe(preset="paper", task="storal_mocpt_en", model=tmp_path / name)
        assert line.startswith("--preset paper:table6-roberta-post (") and "published for" not in line


def test_an_unknown_checkpoint_is_said_to_be_unknown(describe: Any, cli: Cli) -> None:
    line = describe(preset="paper", task="storal_st2mo_zh", model="gpt2")
    assert "checkpoint" in line and "unknown" in line and "None" not in line
    assert "checkpoint unknown" in cli("show", "paper:table7-zh-st2mo-gpt2").out


# ---- files of others ------------------------------------------------------------------------------------------------

PLUGIN = """
from pathlib import Path

from figeval import hookimpl

@hookimpl
def register_presets(register):
    for file in sorted(Path(__file__).parent.glob("*.presets.yaml")):
        register(file)
"""
FILE = """
presets:
  - name: acme
    table: table1
    source: Acme
    tasks: [mini_retrieval]
    config: CONFIG
    rows: [{row: a, model: A, checkpoint: a}]
"""


def test_a_broken_file_is_a_problem_of_its_plugin_alone(tmp_path: Path, warm_start: None) -> None:
    broken = {
        FILE.replace("CONFIG", "{learning_rate: 1}"): "'learning_rate' cannot be set by a preset",
        FILE.replace("CONFIG", "{epoch: 1}"): "did you mean 'epochs'",
        FILE.replace("CONFIG", "{model: x}"): "'model' cannot be set by a preset",
        FILE.replace("CONFIG", "{select_on: test}"): "a preset does not choose on test",
        FILE.replace("CONFIG", "{epochs: 0}"): "acme:table1-a: epochs must be greater than 0",
        FILE.replace("CONFIG", "{}").replace("source", "sauce"): "unknown key 'presets.0.sauce'; did you mean 'source'",
    }
    (tmp_path / "acme").mkdir()
    for number, text in enumerate(broken):
        (tmp_path / "acme" / f"{number}.presets.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "acme" / "sound.presets.yaml").write_text(FILE.replace("CONFIG", "{epochs: 2}"), encoding="utf-8")
    (tmp_path / "acme" / "__init__.py").write_text(PLUGIN, encoding="utf-8")

    def ls(kind: str) -> Any:
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        done = figeval("ls", kind, "--json", cwd=tmp_path, FIGEVAL_PLUGINS="acme", PYTHONPATH=path)
        return json.loads(done.stdout)

    assert [row["name"] for row in ls("presets") if row["name"].startswith("acme")] == ["acme:table1-a"]
    (problems,) = (plugin["problems"] for plugin in ls("plugins") if plugin["name"] == "acme")
    assert len(problems) == len(broken)
    for words, problem in zip(broken.values(), problems, strict=True):
        assert words in problem
