"""`figeval export` in the formats of other tools, checked with these tools or with their schemas."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import figeval
from figeval import PluginError, RunRecord, hookimpl
from tests.cli.conftest import Cli
from tests.finished_runs import finished, row, run, score, store, task

HOSTILE_TEXT = '<script>alert(1)</script> \x1b[31m=1+1\u202e \x85 "; DROP TABLE'


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "overlap"
    names = ("mini_fables", "mini_retrieval", "mini_pairs", "mini_alignment", "mini_motif")
    return finished(folder, *names, limit=4, baselines=False)


def write_hostile_run(target: Path, name: str = "=cmd|'/C calc'!A0/../x", tasks: Any = None) -> Path:
    """A run folder from somebody else, whose model and replies are hostile."""
    task_records = tasks or [task("a_task", predictions="predictions/a_task.jsonl")]
    record = run(*task_records, model={"name": name, "backend": "openai"}, provenance={"packages": {}})
    answer = row("x1", raw=HOSTILE_TEXT, texts=["from the benchmark"], finish="stop")
    return store(target, record, {task_record.task: [answer] for task_record in task_records})


def files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in folder.rglob("*") if file.is_file()
    }


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def only(files_by_name: Mapping[str, str], *parts: str) -> str:
    (text,) = [text for name, text in files_by_name.items() if all(part in name for part in parts)]
    return text


# ---- every eval ever ------------------------------------------------------------------------------------------------


def test_every_eval_ever_follows_its_schema(cli: Cli, mini: Path, real_data: str) -> None:
    from jsonschema import Draft7Validator

    kinds = ("eval", "instance_level_eval")
    schema_files = [Path(real_data) / f"schemas/every_eval_ever.{kind}.schema.json" for kind in kinds]
    if not all(schema_file.is_file() for schema_file in schema_files):
        pytest.skip("the mirror has no schemas of Every Eval Ever")
    aggregate, instance = (Draft7Validator(json.loads(schema_file.read_text())) for schema_file in schema_files)
    write_hostile_run(Path("hostile"))
    assert cli("export", mini, "--to", "every_eval_ever", "--include_text", "-o", "texts").code == 0
    assert cli("export", mini, "hostile", "--to", "every_eval_ever", "-o", "numbers").code == 0
    for name, text in {**files(Path("texts")), **files(Path("numbers"))}.items():
        for document in lines(text) if name.endswith("l") else [json.loads(text)]:
            (instance if name.endswith("l") else aggregate).validate(document)


def test_every_eval_ever_says_what_an_interval_is(cli: Cli) -> None:
    scored = [score(effective_clusters=12.5, sd=0.02), score("corpus_bleu", 3.5, low=None, high=None, stderr=None)]
    write_hostile_run(Path("run"), "org/a-model", [task("a_task", scores=scored)])
    cli("export", "run", "--to", "every_eval_ever", "-o", "out")
    ((name, text),) = files(Path("out")).items()
    assert name.startswith("data/figeval/org/a-model/")
    first, second = json.loads(text)["evaluation_results"]
    assert first["score_details"]["score"] == 0.25
    assert first["score_details"]["uncertainty"] == {
        "num_samples": 40,
        "standard_error": {"value": 0.1, "method": "clustered, 20 clusters"},
        "confidence_interval": {"lower": 0.1, "upper": 0.5, "confidence_level": 0.95, "method": "clustered t"},
    }
    assert first["score_details"]["details"]["baseline_chance"] == "0.2"
    assert (first["metric_config"]["min_score"], first["metric_config"]["max_score"]) == (0, 1)
    assert second["score_details"]["uncertainty"] == {"num_samples": 40}
    assert second["metric_config"]["max_score"] is None


def test_answers_of_every_eval_ever_refer_to_their_result(cli: Cli, mini: Path) -> None:
    cli("export", mini, "--to", "every_eval_ever", "--include_text", "-o", "out")
    exported = files(Path("out"))
    aggregate = json.loads(next(text for name, text in exported.items() if name.endswith(".json")))
    samples = lines(next(text for name, text in exported.items() if name.endswith("_samples.jsonl")))
    result_ids = {evaluation["evaluation_result_id"] for evaluation in aggregate["evaluation_results"]}
    assert {sample["evaluation_result_id"] for sample in samples} <= result_ids
    assert aggregate["detailed_evaluation_results"]["file_path"] in exported
    assert aggregate["detailed_evaluation_results"]["total_rows"] == len(samples)
    fable = next(sample for sample in samples if sample["evaluation_name"] == "mini_fables")
    assert set(fable["input"]["reference"]) < set(fable["input"]["choices"])
    assert fable["evaluation"]["is_correct"] == (fable["output"]["raw"] == fable["input"]["reference"])


def test_every_eval_ever_names_the_page_of_a_benchmark(cli: Cli) -> None:
    """Without the benchmark's data; the embedded sample has no page, and a task may not be installed."""
    write_hostile_run(Path("run"), tasks=[task("id10m_en"), task("mini_fables"), task("unknown_task")])
    cli("export", "run", "--to", "every_eval_ever", "-o", "out")
    (text,) = files(Path("out")).values()
    sources = [evaluation["source_data"] for evaluation in json.loads(text)["evaluation_results"]]
    assert [source["source_type"] for source in sources] == ["url", "other", "other"]
    assert sources[0]["url"] == ["https://github.com/Babelscape/ID10M"]


def test_answers_in_several_languages_refer_to_their_language(cli: Cli) -> None:
    """The score of such a task is a mean over languages, and no mean over rows."""
    fables = finished(Path("run"), "mini_fables", limit=1, baselines=False)
    record, (line,) = figeval.load(fables).record, figeval.load(fables).rows("mini_fables")
    content = json.loads(record.model_dump_json())
    content["tasks"][0] |= {"languages": [{"language": "sw", "scores": [score().model_dump()]}]}
    content["tasks"][0] |= {"predictions_sha256": None}
    store(fables, RunRecord.model_validate(content), {"mini_fables": [{**line, "language": "sw"}]})
    cli("export", "run", "--to", "every_eval_ever", "-o", "out", "--include_text")
    (line,) = lines(only(files(Path("out")), "_samples.jsonl"))
    assert line["evaluation_name"] == "mini_fables (sw)"


# ---- lm-eval --------------------------------------------------------------------------------------------------------


@pytest.mark.slow  # imports lm_eval
def test_lm_eval_prints_the_table(cli: Cli, mini: Path) -> None:
    from lm_eval.utils import get_file_task_name, get_results_filenames, get_sample_results_filenames, make_table

    cli("export", mini, "--to", "lm_eval", "-o", "out")
    exported = files(Path("out"))
    (name,) = get_results_filenames(list(exported))
    table = make_table(json.loads(exported[name]))
    assert re.search(r"\|mini_fables +\| +1\|none +\| +0\|acc +\|↑ +\|0\.\d{4}\|± +\|", table)
    samples = [Path(name).name for name in get_sample_results_filenames(list(exported))]
    assert "mini_fables" in {get_file_task_name(name) for name in samples}


def test_macro_means_are_groups_of_lm_eval(cli: Cli) -> None:
    means = [
        {"suite": "a_suite", "metric": name, "value": value, "tasks": 2}
        for name, value in [("acc", 0.5), ("mrr", None)]
    ]
    store(Path("run"), run(task("a,task"), macro=means))
    cli("export", "run", "--to", "lm_eval", "-o", "out")
    lm_eval_results = json.loads(only(files(Path("out")), "results_"))
    assert lm_eval_results["groups"] == {"a_suite": {"alias": "a_suite", "acc,none": 0.5}}
    assert lm_eval_results["results"]["a_suite"] == lm_eval_results["groups"]["a_suite"]
    assert lm_eval_results["results"]["a,task"] == {"alias": "a,task", "acc,none": 0.25, "acc_stderr,none": 0.1}


def test_lm_eval_samples_have_texts_only_on_request(cli: Cli, mini: Path) -> None:
    cli("export", mini, "--to", "lm_eval", "-o", "bare")
    cli("export", mini, "--to", "lm_eval", "-o", "full", "--include_text")
    bare, full = (lines(only(files(Path(name)), "samples_mini_fables_")) for name in ("bare", "full"))
    assert [sample["doc"] for sample in bare] == [{"id": sample["doc"]["id"], "meta": {}} for sample in full]
    assert bare[0]["arguments"] == {"gen_args_0": {"arg_0": ""}}
    assert full[0]["target"] in full[0]["doc"]["options"]
    assert [sample["acc"] for sample in bare] == [sample["acc"] for sample in full]
    assert full[0]["doc_hash"] != bare[0]["doc_hash"]


# ---- inspect --------------------------------------------------------------------------------------------------------


def test_inspect_logs(cli: Cli, mini: Path) -> None:
    cli("export", mini, "--to", "inspect", "-o", "out", "--include_text")
    exported = files(Path("out"))
    assert len(exported) == 5
    log = json.loads(only(exported, "mini_fables"))
    assert (log["version"], log["status"], log["eval"]["task"]) == (2, "success", "mini_fables")
    (acc,) = log["results"]["scores"]
    (*values,) = [sample["scores"]["acc"]["value"] for sample in log["samples"]]
    assert acc["metrics"]["mean"]["value"] == pytest.approx(sum(values) / len(values))
    assert log["samples"][0]["target"] in log["samples"][0]["choices"]


def test_a_failed_task_is_an_error_of_inspect(cli: Cli) -> None:
    failed = task("a_task", status="failed", scores=[], error="Traceback …\nValueError: no")
    write_hostile_run(Path("run"), tasks=[failed])
    cli("export", "run", "--to", "inspect", "-o", "out")
    log = json.loads(only(files(Path("out")), "a_task"))
    assert (log["status"], log["error"]["message"], log["results"]["scores"]) == ("error", "ValueError: no", [])


def test_inspect_reads_its_logs_back(cli: Cli, mini: Path) -> None:
    logs = pytest.importorskip("inspect_ai.log", reason="pip install inspect-ai")
    write_hostile_run(Path("hostile"))
    cli("export", mini, "hostile", "--to", "inspect", "-o", "out", "--include_path", ".")
    for file in Path("out").rglob("*.json"):
        log = logs.read_eval_log(str(file))
        assert log.status == "success"
        assert log.samples
        assert log.results.scores[0].metrics["mean"].value is not None


# ---- model repositories ---------------------------------------------------------------------------------------------


def test_the_hub_reads_a_model_index(cli: Cli, mini: Path) -> None:
    from huggingface_hub import ModelCardData

    write_hostile_run(Path("hostile"), name="a: [model] #1")
    index = yaml.safe_load(cli("export", mini, "hostile", "--to", "model_index").out)["model-index"]
    assert [model_entry["name"] for model_entry in index] == ["overlap", "a: [model] #1"]
    card = ModelCardData(**{"model-index": index[:1]})
    accuracy = {
        evaluation.dataset_name: evaluation for evaluation in card.eval_results if evaluation.metric_name == "acc"
    }
    run_json = json.loads((mini / "run.json").read_text())
    (stored,) = [task_record["scores"][0] for task_record in run_json["tasks"] if task_record["task"] == "mini_fables"]
    fables = accuracy["mini_fables"]
    assert (fables.metric_type, fables.metric_value) == ("accuracy", stored["value"])
    assert (fables.metric_args["ci_lower"], fables.metric_args["n"]) == (stored["low"], 4)


def test_the_hub_reads_eval_results(cli: Cli, mini: Path) -> None:
    hub = pytest.importorskip("huggingface_hub._eval_results", reason="an older huggingface_hub")
    arguments = ("--format_args", "dataset_id=acme/figures")
    cli("export", mini, "--to", "eval_results", "-o", "out", *arguments)
    exported = files(Path("out"))
    assert set(exported) >= {"unknown/overlap/.eval_results/mini_fables.yaml"}
    for text in exported.values():
        (entry,) = hub.parse_eval_result_entries(yaml.safe_load(text))
        assert entry.dataset_id == "acme/figures"
        assert isinstance(entry.value, float)
    complaints = {
        (): "needs dataset_id; add --format_args dataset_id=…",
        ("--format_args", "dataset_id=figures"): "not a hub id; write OWNER/NAME",
        ("--format_args", "dataset_id=acme/figures,metric=f2"): "no run has a score for the metric 'f2'",
        ("--format_args", "dataset=acme/figures"): "no argument 'dataset'; it has dataset_id, metric",
        ("--format_args", "dataset_id=acme/epic"): "the runs have tasks of mini; name those of acme/epic with --tasks",
        (*arguments, "--tasks", "epic_mcq"): "the runs have none of these tasks; they have mini_",
    }
    for flags, complaint in complaints.items():
        assert complaint in cli("export", mini, "--to", "eval_results", "-o", "no", *flags).complaint


def test_a_leaderboard_gets_the_tasks_of_its_data_set_only(cli: Cli, tmp_path: Path) -> None:
    names = ("mini_fables", "epic_mcq", "epic_mcq_random")
    folder = write_hostile_run(tmp_path / "both", "easy", [task(name, scores=[score()]) for name in names])

    def tasks(output: str, dataset: str, *flags: str) -> set[str]:
        done = cli(
            "export", folder, "--to", "eval_results", "-o", output, "--format_args", f"dataset_id={dataset}", *flags
        )
        assert done.code == 0, done.err
        return {file.stem for file in (tmp_path / output).rglob("*.yaml")}

    assert tasks("a", "acme/ePiC") == {"epic_mcq", "epic_mcq_random"}
    assert tasks("b", "acme/figures", "--tasks", "mini_fables") == {"mini_fables"}
    open_ = cli("export", folder, "--to", "eval_results", "-o", "c", "--format_args", "dataset_id=acme/figures")
    assert "the runs have tasks of mini, epic; name those of acme/figures with --tasks" in open_.complaint


def write_unanswered(folder: Path, **changes: Any) -> Path:
    """Write a run in which 10 of 40 examples have an answer, and return its folder."""
    fields = {"scores": [score(value=1.0, n=10)], "counts": {"ok": 10, "empty": 30}}
    return write_hostile_run(folder, "easy", [task(**{**fields, **changes})])


def test_formats_of_others_say_that_examples_have_no_answer(cli: Cli) -> None:
    easy, message = str(write_unanswered(Path("easy"))), "only 10 of 40 examples have an answer"
    for form in ("eval_results", "lm_eval", "every_eval_ever", "inspect", "model_index"):
        arguments = ("--format_args", "dataset_id=acme/figures") if form == "eval_results" else ()
        exported = cli("export", easy, "--to", form, *(() if form == "model_index" else ("-o", form)), *arguments)
        assert message in (exported.out if form == "model_index" else "".join(files(Path(form)).values())), form
    (lm_eval_results,) = Path("lm_eval").rglob("results_*.json")
    assert json.loads(lm_eval_results.read_text())["n-samples"] == {"proverbs": {"original": 40, "effective": 10}}


def test_a_leaderboard_gets_notes_on_some_examples_and_no_seen_ones(cli: Cli) -> None:
    part = write_unanswered(Path("part"), scores=[score(n=10)], n=10, counts={})
    arguments = ("--to", "eval_results", "--format_args", "dataset_id=acme/figures", "-o", "out")
    cli("export", str(part), *arguments)
    (text,) = files(Path("out")).values()
    assert "notes: '10 of 40 examples: the first ones, not a random sample'" in text
    trained = write_unanswered(Path("trained"), scores=[score(seen="trained")], counts={})
    assert (
        "does not belong on a leaderboard: the model was trained" in cli("export", str(trained), *arguments).complaint
    )


# ---- data frames ----------------------------------------------------------------------------------------------------


def test_parquet_has_the_rows_of_the_csv_with_types(cli: Cli, mini: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_hostile_run(Path("hostile"), name="=1+1")
    cli("export", mini, "hostile", "--to", "parquet", "-o", "all.parquet")
    rows = parquet.read_table("all.parquet").to_pylist()
    assert rows == json.loads(cli("export", mini, "hostile", "--to", "json").out)
    assert rows[-1]["model"] in {"overlap", "=1+1"}
    assert "name a file with --output" in cli("export", mini, "--to", "parquet").complaint
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'figeval[parquet]'" in cli("export", mini, "--to", "parquet", "-o", "x").complaint


# ---- all of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["lm_eval", "inspect"])
def test_hostile_replies_survive_as_data(form: str, cli: Cli) -> None:
    stored = write_hostile_run(Path("run")) / "predictions/a_task.jsonl"
    stored.write_text(stored.read_text(encoding="utf-8").replace("DROP", "\\ud800 DROP"), encoding="utf-8")
    assert cli("export", "run", "--to", form, "-o", "out").code == 0
    exported = files(Path("out"))
    assert all(len(Path(name).parts) == 2 and ".." not in Path(name).parts for name in exported)
    assert not [letter for text in exported.values() for letter in "\x1b\x85\u202e" if letter in text]
    assert "from the benchmark" not in "".join(exported.values())
    log = json.loads(only(exported, "a_task"))
    reply = log["resps"][0][0] if form == "lm_eval" else log["samples"][0]["output"]["completion"]
    assert reply == HOSTILE_TEXT.replace("DROP", "\ufffd DROP")


@pytest.mark.parametrize("form", ["every_eval_ever", "lm_eval", "inspect"])
def test_texts_that_are_not_for_every_use_need_a_word(form: str, cli: Cli) -> None:
    write_hostile_run(Path("run"), tasks=[task("id10m_en")])
    complaint = cli("export", "run", "--to", form, "-o", "out", "--include_text").complaint
    assert "CC-BY-NC-SA-4.0; add --allow_noncommercial" in complaint
    assert not Path("out").exists()
    assert (
        "id10m" in cli("export", "run", "--to", form, "-o", "out", "--include_text", "--allow_noncommercial").complaint
    )


@pytest.mark.parametrize(("name", "refused"), [("nli_sick", True), ("nli_med", False)])
def test_a_note_may_restrict_some_files_of_a_benchmark(name: str, refused: bool, cli: Cli, real_data: str) -> None:
    write_hostile_run(Path("run"), tasks=[task(name)])
    complaint = cli("export", "run", "--to", "inspect", "-o", "out", "--include_text").complaint
    assert ("CC BY-NC-SA 3.0" in complaint) == refused
    assert ("examples of nli_med changed since this run was made" in complaint) == (not refused)


@pytest.mark.parametrize("form", ["lm_eval", "inspect", "eval_results"])
def test_runs_of_one_second_have_files_of_their_own(form: str, cli: Cli) -> None:
    for name, task_records in [("a", [task("a b"), task("a,b")]), ("b", [task("a b")])]:
        write_hostile_run(Path(name), tasks=task_records)
    arguments = ("--format_args", "dataset_id=acme/figures") if form == "eval_results" else ()
    cli("export", "a", "b", "--to", form, "-o", "out", *arguments)
    assert len(files(Path("out"))) == (5 if form == "lm_eval" else 3)


def test_several_files_need_a_folder(cli: Cli, mini: Path) -> None:
    assert "name a folder with --output" in cli("export", mini, "--to", "lm_eval").complaint
    Path("taken").write_text("")
    assert "--output" in cli("export", mini, "--to", "lm_eval", "-o", "taken").complaint
    Path("folder").mkdir()
    assert "is a folder" in cli("export", mini, "--to", "csv", "-o", "folder").complaint


def test_what_an_exporter_may_return(tmp_path: Path, mini: Path, install: Callable[..., None]) -> None:
    contents: dict[str, Any] = {
        "count": "1",
        "several": {"a/b.txt": "text", "c.bin": b"\0"},
        "number": 5,
        "numbers": {"a": 5},
        **{f"outside{n}": {name: ""} for n, name in enumerate(("../x", "/x", "", "a\\b", "a/../../x", "a\nb"))},
    }
    plugin = ModuleType("various_exporters")

    @hookimpl
    def register_exporters(register: Any) -> None:
        for name, content in contents.items():
            register(name, lambda runs, content=content: content)

    plugin.register_exporters = register_exporters  # type: ignore[attr-defined]
    install(plugin)
    assert figeval.export(mini, to="count") == "1"
    figeval.export(mini, to="several", output=tmp_path / "new")
    assert files(tmp_path / "new") == {"a/b.txt": "text", "c.bin": "\0"}
    problems = {"number": "a text, bytes or a mapping", "numbers": "return a text or bytes"}
    for name in list(contents)[2:]:
        with pytest.raises(PluginError, match=problems.get(name, "within the folder")):
            figeval.export(mini, to=name, output=tmp_path / name)


def test_python_exports_the_same(cli: Cli, mini: Path) -> None:
    done = figeval.load(mini)
    figeval.export(done, to="inspect", output="python")
    cli("export", mini, "--to", "inspect", "-o", "cli")
    assert files(Path("python")) == files(Path("cli"))
    assert figeval.export([done], to="csv") == done.export("csv")
    with pytest.raises(figeval.OptionError, match="several files; name a folder"):
        done.export("inspect")


@pytest.mark.parametrize(("name", "folder"), [("con", "_con"), ("Nul.x", "_Nul.x"), ("語" * 99, "語" * 26)])
def test_names_of_files_fit_every_system(name: str, folder: str, cli: Cli, tmp_path: Path) -> None:
    write_hostile_run(tmp_path / "run", name)
    assert cli("export", "run", "--to", "lm_eval", "--output", "out").code == 0
    assert [file.name for file in (tmp_path / "out").iterdir()] == [folder]
