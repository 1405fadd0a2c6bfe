"""Presets: every fine-tuned row of the papers is there, is found, and is a config; what is wrong is told in a line."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from figeval import FigevalError, Harness, Setup, TrainError, hookimpl, plugins
from figeval.records.reference import published
from figeval.wings.training.api import resolve_config
from figeval.wings.training.learners import load_learners
from figeval.wings.training.presets import (
    SENTENCES,
    Preset,
    changed_fields,
    choose_row,
    describe_preset,
    lineage_names,
    load_presets,
    merge_settings,
    preset_record,
    preset_sections,
)
from tests.plugins.tiny import Workshop

TABLES = {f"ePiC, ACL 2022, Table {table}" for table in (7, 8, 9, 11)} | {"IMPLI, ACL 2022 submission, Table 5"}


@pytest.fixture(scope="module")
def presets() -> dict[str, Preset]:
    return {preset.full_name: preset for preset in load_presets(plugins.plugin_manager())}


def test_no_file_of_ours_is_broken(presets: dict[str, Preset]) -> None:
    assert not [plugin.problems for plugin in plugins.plugin_manager().plugins.values() if plugin.problems]
    assert len(presets) > 30


def test_every_fine_tuned_row_of_the_papers_has_one(presets: dict[str, Preset]) -> None:
    """The models of the published numbers, table by table."""
    tasks = [entry.name for entry in Harness().catalogue.tasks]
    rows_of_papers = {
        (reference.source, reference.model)
        for task in tasks
        for reference in published(task)
        if reference.source in TABLES
    }
    papers = [preset for preset in presets.values() if preset.table.name == "paper" and preset.table.source in TABLES]
    rows_of_presets = {(preset.table.source, preset.row.model) for preset in papers}
    assert {row for row in rows_of_papers if row[1] != "Random"} == rows_of_presets


def test_their_tasks_can_be_trained_on(presets: dict[str, Preset]) -> None:
    catalogue = Harness().catalogue
    for task in {task for preset in presets.values() for task in preset.table.tasks}:
        assert "train" in catalogue.tasks.get(task).data, task


def test_what_the_papers_print(presets: dict[str, Preset]) -> None:
    bert = presets["paper:table7-bert"]
    assert {key: bert.printed[key] for key in ("lr", "epochs", "batch_size", "seed")} == {
        "lr": 2e-5,
        "epochs": 25,
        "batch_size": 16,
        "seed": 42,
    }
    t5 = presets["paper:table7-t5"].settings
    assert (t5["optimizer"], t5["lr"], t5["batch_size"]) == ("adafactor", None, 4)
    seen, unseen = (presets[f"released:table7-{split}-roberta"].settings for split in ("seen", "unseen"))
    assert (seen["lr"], seen["epochs"], unseen["lr"], unseen["epochs"]) == (1e-5, 30, 3e-5, 5)
    assert seen["head_args"] == {**bert.settings["head_args"], "pooling": "pooler", "freeze": "pooler"}
    base = presets["paper:table5-roberta-base"].settings
    assert (base["lr"], base["epochs"], base["batch_size"], base["max_length"]) == (1e-5, 3, 32, 128)
    printed, code = (presets[f"{name}:table6-roberta"].settings for name in ("paper", "released"))
    assert (printed["head"], printed["lr"], printed["batch_size"], code["batch_size"]) == ("marker", 3e-5, 16, 10)
    assert (code["epochs"], presets["released:table6-t5"].settings["epochs"]) == (60, 30)
    assert presets["released:table7-mo2st-t5"].settings["head_args"]["max_new_tokens"] == 512


def test_none_chooses_on_test_and_each_says_what_differs(presets: dict[str, Preset]) -> None:
    for preset in presets.values():
        assert preset.settings.get("select_on") != "test"
        assert [sentence for kind in SENTENCES for sentence in preset.sentences(kind)]
        assert all(lines for _, lines in preset_sections(preset.to_dict()))


@pytest.mark.parametrize(
    ("name", "task", "model", "row"),
    [
        ("paper", "epic_retrieval_seen", "bert-base-uncased", "paper:table7-bert"),
        ("paper", "epic_retrieval_unseen", "FacebookAI/RoBERTa-base", "paper:table7-roberta"),
        ("paper", "epic_retrieval_unseen", "models/t5-base/", "paper:table7-t5"),
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
        ("released", "storal_mo2st_zh", "thu-coai/LongLM-base", "released:table7-mo2st-t5"),
        ("paper:post-roberta", "storal_mocpt_en", "roberta-base", "paper:post-roberta"),
        ("paper:table7-bart", "mini_retrieval", "minilm", "paper:table7-bart"),
    ],
)
def test_a_row_is_found_by_task_and_model(name: str, task: str, model: str, row: str) -> None:
    assert choose_row(name, task, model).full_name == row


@pytest.mark.parametrize(
    ("name", "task", "model", "words"),
    [
        ("papr", "epic_alignment", "m", "unknown preset 'papr'; did you mean 'paper'?"),
        ("paper:table7-brt", "epic_alignment", "m", "did you mean 'paper:table7-bert'"),
        ("paper", "epic_retrieval_sen", "m", "no settings for epic_retrieval_sen; did you mean 'epic_retrieval_seen'"),
        ("paper", "epic_retrieval_seen", "m", "no row for m on epic_retrieval_seen; choose one of paper:table7-bert, "),
    ],
)
def test_no_such_row(name: str, task: str, model: str, words: str) -> None:
    with pytest.raises(FigevalError) as raised:
        choose_row(name, task, model)
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_their_options_are_those_of_the_heads(presets: dict[str, Preset], tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    workshop, learners = Workshop(tmp_path), load_learners(plugins.plugin_manager())
    catalogue = Harness().catalogue
    writer = workshop("bart", "ForConditionalGeneration")
    tokenizer = AutoTokenizer.from_pretrained(writer)
    tokenizer.add_tokens(["<extra_id_0>"], special_tokens=True)  # for infill to hide spans under
    tokenizer.save_pretrained(writer)
    models = dict.fromkeys(("seq2seq", "infill"), str(writer))
    encoder = str(workshop("bert", "Model"))
    heads = {
        (catalogue.tasks.get(task).type, preset.settings.get("head"), str(preset.settings.get("head_args", {})))
        for preset in presets.values()
        for task in preset.table.tasks
    }
    for task_type, head_name, options in heads:
        head, factory = learners.choose(task_type, head_name)
        head_options = ast.literal_eval(options)
        model = models.get(head, encoder)
        learner = factory(Setup(model=model, options=head_options, labels=("entailment", "neutral", "contradiction")))
        assert learner.describe()


# ---- in a config ----------------------------------------------------------------------------------------------------

TRAIN_FLAGS = {"task": "epic_retrieval_seen", "model": "roberta-base", "output": "out", "preset": "paper"}


def test_the_preset_loses_to_the_file_and_the_file_to_the_flags(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("epochs: 7\nbatch_size: 4\nhead_args: {temperature: 2.0}\n", encoding="utf-8")
    train_config = resolve_config(file, {**TRAIN_FLAGS, "batch_size": "2", "head_args": {"pooling": "mean"}})
    assert (train_config.lr, train_config.epochs, train_config.batch_size, train_config.warmup) == (2e-5, 7, 2, 0)
    assert train_config.head_args == {"candidates": "all", "similarity": "dot", "temperature": 2.0, "pooling": "mean"}
    assert train_config.preset == "paper:table7-roberta"
    assert train_config.select_on == "dev"


def test_its_own_config_file_means_the_same_again(tmp_path: Path) -> None:
    from figeval.wings.training.train_folder import TrainFolder

    train_config = resolve_config(None, {**TRAIN_FLAGS, "lr": "1e-4", "patience": "2"})
    folder = TrainFolder(tmp_path)
    folder.traces.mkdir()
    folder.write_config(train_config)
    again = resolve_config(folder.traces / "config.yaml", {"output": "out"})
    assert again == train_config and again.identity() == train_config.identity()


def test_none_is_none_where_a_field_may_be() -> None:
    train_config = resolve_config(None, {**TRAIN_FLAGS, "clip": "none", "patience": "none", "select_on": "none"})
    assert (train_config.clip, train_config.patience, train_config.select_on) == (None, None, "none")
    with pytest.raises(TrainError, match="epochs"):
        resolve_config(None, {**TRAIN_FLAGS, "epochs": "none"})


def test_what_is_told_and_recorded() -> None:
    exact = resolve_config(None, {**TRAIN_FLAGS, "lr": 1e-4, "head_args": {"temperature": 2.0}})
    line = describe_preset(exact)
    assert line is not None and line.startswith("--preset paper:table7-roberta (RoBERTa, ePiC, ACL 2022, Table 7); ")
    record = preset_record(exact)
    assert record is not None
    assert (record["exact"], record["changed"]) == (True, ["head_args", "lr"])
    assert any("test set" in sentence for sentence in record["not_reproduced"])
    json.dumps(record)
    near = resolve_config(None, {**TRAIN_FLAGS, "model": "roberta-large"})
    line = describe_preset(near)
    assert line is not None and "published for roberta-base, not for roberta-large" in line
    assert changed_fields(near, choose_row("paper", near.task, near.model)) == []
    plain = resolve_config(None, {**TRAIN_FLAGS, "preset": None})
    assert describe_preset(plain) is None and preset_record(plain) is None


def test_a_model_that_was_trained_here_is_also_what_it_came_from(tmp_path: Path) -> None:
    """The joint model of Table 9 begins with that of Table 7."""
    for name, origin in (("first", "FacebookAI/roberta-base"), ("second", str(tmp_path / "first"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "figeval.json").write_text(json.dumps({"about": {"trained_from": origin}}))
    assert lineage_names(str(tmp_path / "second")) == ["second", "first", "roberta-base"]
    assert choose_row("paper", "epic_joint", str(tmp_path / "second")).full_name == "paper:table9-roberta"


def test_options_of_a_head_are_put_together_one_by_one() -> None:
    parts: list[dict[str, Any]] = [{"lr": 1, "head_args": {"a": 1, "b": 1}}, {}, {"head_args": {"b": 2}, "epochs": 3}]
    assert merge_settings(*parts) == {"lr": 1, "epochs": 3, "head_args": {"a": 1, "b": 2}}


# ---- files of others ------------------------------------------------------------------------------------------------

FILE = """
presets:
  - name: acme
    table: table1
    source: Acme
    tasks: [mini_retrieval]
    config: {CONFIG}
    rows: [{{row: a, model: A, checkpoint: a}}]
"""


class Acme:
    def __init__(self, *files: Path) -> None:
        self.files = files

    @hookimpl
    def register_presets(self, register: Any) -> None:
        for file in self.files:
            register(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FILE.replace("{CONFIG}", "{learning_rate: 1}"), "'learning_rate' cannot be set by a preset"),
        (FILE.replace("{CONFIG}", "{epoch: 1}"), "did you mean 'epochs'"),
        (FILE.replace("{CONFIG}", "{model: x}"), "'model' cannot be set by a preset"),
        (FILE.replace("{CONFIG}", "{select_on: test}"), "a preset does not choose on test"),
        (FILE.replace("{CONFIG}", "{epochs: 0}"), "acme:table1-a: epochs must be greater than 0"),
        (
            FILE.replace("{CONFIG}", "{}").replace("source", "sauce"),
            "unknown key 'presets.0.sauce'; did you mean 'source'",
        ),
    ],
)
def test_a_broken_file_is_a_problem_of_its_plugin_alone(tmp_path: Path, text: str, words: str) -> None:
    broken, sound = tmp_path / "broken.presets.yaml", tmp_path / "sound.presets.yaml"
    broken.write_text(text.replace("{{", "{").replace("}}", "}"), encoding="utf-8")
    sound.write_text(FILE.replace("{CONFIG}", "{epochs: 2}").replace("{{", "{").replace("}}", "}"), encoding="utf-8")
    manager = plugins.load(modules=[])
    manager.load("acme", "test", lambda: Acme(broken, sound))
    assert [preset.full_name for preset in load_presets(manager)] == ["acme:table1-a"]
    (problem,) = manager.plugins["acme"].problems
    assert words in problem
