"""The Python API: what notebooks call gives what the command line gives, and touches nothing of the program."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import RunConfig
from figeval.testing.fakes import FakeGenerator, FakePairScorer
from tests.cli.conftest import Cli
from tests.measured import MEASURED_FOLDER
from tests.plugins.tiny import Workshop
from tests.processes import beside

pandas = pytest.importorskip("pandas")

TASKS = "mini_proverbs,mini_pairs"
HOSTILE_TEXT = "<img src=x onerror=alert(1)> & \x1b[31m\"'"
TIMES = {"digests", "started", "finished", "seconds", "baseline_seconds", "peak_memory_mb", "command"}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> figeval.Run:
    """A run to look at."""
    return figeval.run(TASKS, "tfidf", limit=20, by="proverb", output_path=tmp_path_factory.mktemp("run") / "tfidf")


@figeval.task(name="crows", type="choice", cluster="bird", labels=())
def crows() -> Iterator[figeval.ChoiceExample]:
    """Twelve questions about crows."""
    for index in range(12):
        birds = {"bird": f"b{index % 3}"}
        options = ("the crow sings", "a snail is slow")
        yield figeval.ChoiceExample(
            id=str(index), query=f"the crow {index}", options=options, gold=index % 2, meta=birds, cluster=birds["bird"]
        )


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def plain(run: figeval.Run) -> Any:
    """A record without times and without what the command line alone knows."""
    return without_times(run.record.model_dump(mode="json"))


# ---- the same as the command line -----------------------------------------------------------------------------------


def test_it_gives_the_record_that_the_command_line_gives(cli: Cli) -> None:
    flags = ["--tasks", TASKS, "--model", "overlap", "--limit", "9", "--by", "proverb", "--seed", "3", "--probes"]
    printed = cli("run", *flags, "--output_path", "typed")
    assert printed.code == 0
    ours = figeval.run(TASKS.split(","), "overlap", limit=9, by="proverb", seed=3, probes=True, output_path="called")
    typed = figeval.load("typed")
    assert plain(ours) == plain(typed)
    assert typed.record.command == ["run", *flags, "--output_path", "typed"]
    assert ours.record.command == []
    assert [row["id"] for _, row in ours.predictions("mini_pairs").iterrows()] == list(
        typed.predictions("mini_pairs")["id"]
    )
    table = cli("show", "typed").out.split("\nmini_proverbs by proverb")[0].strip()
    assert table == str(ours).strip()
    assert printed.err


def test_one_continues_what_the_other_began(cli: Cli) -> None:
    first = figeval.run("mini_fables", "overlap")
    assert first.path.parts[:2] == ("results", "runs")
    done = cli("run", "--tasks", "mini_fables", "--model", "overlap")
    assert f"continuing, 20 of 20 answers kept in {first.path}" in " ".join(done.err.split())
    again = figeval.run("mini_fables", "overlap")
    assert again.path == first.path
    assert figeval.run("mini_fables", "overlap", fresh=True, output_path=first.path).path == first.path
    assert (first.path / "earlier").is_dir()


def test_an_interrupted_run_goes_on() -> None:
    model = FakePairScorer()
    with pytest.raises(KeyboardInterrupt):
        figeval.run([crows, "mini_pairs"], Stopping(), name="model", output_path="out")
    before = figeval.load("out")
    assert not before.complete
    assert "examples answered" in str(before)
    assert "examples answered" in before._repr_html_()
    after = figeval.run([crows, "mini_pairs"], model, name="model", output_path="out")
    assert after.complete
    assert not any("the crow" in pair.left for pair in model.asked)


class Stopping(FakePairScorer):
    """Is interrupted when the second task begins."""

    def score_pairs(self, requests: Sequence[figeval.TextPair]) -> list[float]:
        if self.asked:
            raise KeyboardInterrupt
        return super().score_pairs(requests)


@pytest.mark.wing("comparison")
def test_compare_has_the_numbers_of_the_command(done: figeval.Run, cli: Cli) -> None:
    other = figeval.run(TASKS, "overlap", limit=20)
    comparison = figeval.compare(done, other)
    assert cli("compare", done.path, other.path).out.strip() == str(comparison).strip()
    assert comparison.metric == "acc"
    assert comparison.family == 2
    assert comparison.left_out == {}
    assert list(comparison.differences["task"]) == TASKS.split(",")
    assert comparison.differences["difference"].dtype == "float64"
    assert comparison.to_dict()["tasks"][0]["difference"] == pytest.approx(comparison.differences["difference"][0])
    assert "figeval.Comparison of acc: 'tfidf' minus 'overlap'" in repr(comparison)


@pytest.mark.parametrize("flag", [flag.name for flag in dataclasses.fields(RunConfig)][2:])
def test_every_flag_of_run_is_an_option(flag: str) -> None:
    value = getattr(RunConfig(tasks=("mini_fablez",), model="overlap"), flag)
    with pytest.raises(figeval.UnknownName, match="mini_fablez"):
        figeval.run("mini_fablez", "overlap", **{flag: value})


def test_every_flag_of_train_is_an_option(cli: Cli) -> None:
    settings = figeval.Training(MEASURED_FOLDER / "minilm-seen" / "seed-0").record.config.model_dump()
    flags = set(re.findall(r"(?<![\w-])--(\w+)", cli("train", "--help-all").out))
    names = flags & settings.keys() - {"task", "model", "output"}
    assert len(names) > 20
    for name in names:
        with pytest.raises(figeval.FigevalError):  # and no TypeError
            figeval.train("mini_fablez", "tfidf", "out", **{name: settings[name]})


# ---- DataFrames -----------------------------------------------------------------------------------------------------


def test_scores(done: figeval.Run) -> None:
    scores = done.scores
    kinds = {name: str(kind) for name, kind in scores.dtypes.items()}
    assert {name: kinds[name] for name in ("run", "task", "metric", "interval", "seen")} == dict.fromkeys(
        ("run", "task", "metric", "interval", "seen"), "string"
    )
    assert {kinds[name] for name in ("value", "low", "high", "stderr", "effective_clusters")} == {"float64"}
    assert {kinds[name] for name in ("n", "clusters")} == {"Int64"}
    assert kinds["higher_is_better"] == "bool"
    assert kinds["baseline_chance"] == kinds["baseline_majority"] == "float64"
    flat = [score for task in done.record.tasks for score in task.scores]
    assert list(scores["metric"]) == [score.metric for score in flat]
    assert scores["value"].tolist() == pytest.approx([score.value for score in flat])
    assert set(scores["run"]) == {done.record.identity}
    assert done.tasks == ("mini_proverbs", "mini_pairs")


def test_no_scores_have_the_same_columns() -> None:
    record = figeval.run("mini_fables", "overlap", baselines=False, output_path="out").record
    empty = figeval.Run(record.model_copy(update={"tasks": []}), Path("out")).scores
    assert len(empty) == 0
    full = figeval.load("out").scores
    assert list(empty.columns) == list(full.columns)
    assert list(empty.dtypes) == list(full.dtypes)


def test_predictions(done: figeval.Run) -> None:
    predictions = done.predictions("mini_proverbs")
    assert list(predictions.columns) == [
        *("id", "status", "prediction", "gold", "acc", "tied", "truncated", "seen", "cluster", "group", "meta.proverb")
    ]
    assert str(predictions["acc"].dtype) == "float64"
    assert str(predictions["prediction"].dtype) == "object"
    score = next(score for score in done.record.tasks[0].scores if score.metric == "acc")
    assert predictions["acc"].mean() == pytest.approx(score.value)
    assert predictions.loc[predictions["acc"] == 1, "prediction"].equals(
        predictions.loc[predictions["acc"] == 1, "gold"]
    )


def test_predictions_have_the_texts_that_were_stored() -> None:
    stored = figeval.run("mini_proverbs,mini_pairs", "overlap", limit=3, log_samples=True, output_path="out")
    rows = stored.predictions("mini_proverbs")
    texts = [row["texts"] for row in stored.rows("mini_proverbs")]
    assert list(rows.texts) == texts
    assert list(rows.options) == [options for _, *options in texts]
    assert all(row.options[row.gold] in row.texts for row in rows.itertuples())
    pairs = stored.predictions("mini_pairs")
    assert [len(texts) for texts in pairs.texts] == [2, 2, 2]
    assert "options" not in pairs


def test_settings_are_texts_as_on_the_command_line() -> None:
    text = figeval.run("mini_pairs", "tfidf", limit=2, model_args="fit=train", output_path="out")
    assert text.record.model.options == {"fit": "train"}
    again = figeval.run("mini_pairs", "tfidf", limit=2, model_args={"fit": "train"}, output_path="out")
    assert again.record.identity == text.record.identity
    for wrong in ("fit", "{", "=1"):
        with pytest.raises(figeval.OptionError, match="model_args"):
            figeval.run("mini_pairs", "tfidf", model_args=wrong)
    with pytest.raises(figeval.OptionError, match="augment"):
        figeval.run("mini_pairs", "tfidf", augment="add=magic")


def test_predictions_of_a_model_that_writes() -> None:
    predictions = figeval.run(crows, FakeGenerator(function=lambda _: "I say A")).predictions("crows")
    assert set(predictions["raw"]) == {"I say A"}
    assert {"raw", "finish", "meta.bird"} <= set(predictions.columns)


def test_stored_rows_are_read_one_at_a_time(done: figeval.Run) -> None:
    assert figeval.load(done) is done
    rows = done.rows("mini_pairs")
    first = next(rows)
    assert {"id", "status", "pred", "gold", "metrics"} <= first.keys()
    frame = done.predictions("mini_pairs")
    assert [first["id"], *(row["id"] for row in rows)] == list(frame.id)
    with pytest.raises(figeval.RecordError, match="the run has no task 'mini_pair'; did you mean 'mini_pairs'"):
        done.rows("mini_pair")


def test_breakdowns_need_no_model(done: figeval.Run) -> None:
    breakdown = done.breakdown("idiom")
    assert set(breakdown["by"]) == {"idiom"}
    assert set(breakdown["task"]) == {"mini_pairs"}
    assert str(breakdown["value"].dtype) == "float64"
    assert list(breakdown.columns)[:7] == ["run", "model", "task", "by", "group", "metric", "value"]
    with pytest.raises(figeval.RecordError, match="idiomm"):
        done.breakdown("idiomm")


def test_macro_means() -> None:
    means = figeval.run("mini_narratives", "tfidf", limit=5).macro
    assert list(means.columns) == ["run", "model", "suite", "metric", "value", "tasks", "seen"]


def test_what_is_imported_when() -> None:
    program = "import sys, figeval; figeval.run; print('pandas' in sys.modules, 'torch' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert printed.stdout == "False False\n"


# ---- objects as tasks and models ------------------------------------------------------------------------------------


def test_a_task_and_a_model_that_nobody_registered() -> None:
    model = FakePairScorer()
    run = figeval.run([crows, "mini_fables"], model, limit=6)
    assert run.tasks == ("crows", "mini_fables")
    assert run.record.model.name == "FakePairScorer"
    assert run.complete
    assert run.record.config["tasks"] == ("crows", "mini_fables")
    assert "FakePairScorer" in str(run.path)
    named_run = figeval.run(crows, model, name="mine: v2")
    assert named_run.record.model.name == "mine: v2"
    with pytest.raises(figeval.UnknownName, match="unknown task 'crows'"):
        figeval.run("crows", model)
    with pytest.raises(figeval.FigevalError, match="FakePairScorer"):
        figeval.run("mini_fables", "FakePairScorer")
    assert crows.bound_to is None


@pytest.mark.wing("comparison")
def test_breakdowns_and_comparisons_of_such_a_run() -> None:
    run, other = (figeval.run(crows, FakePairScorer(), name=name) for name in ("one", "other"))
    assert set(run.breakdown("bird")["group"]) == {"b0", "b1", "b2"}
    assert figeval.compare(run, other).differences["difference"].tolist() == [0.0]


def test_the_model_is_not_closed() -> None:
    model = Closing()
    figeval.run(crows, model)
    assert not model.closed


class Closing(FakePairScorer):
    """Could not be used again."""

    closed = False

    def close(self) -> None:
        self.closed = True


class Changed(FakePairScorer):
    """Has a fingerprint of its own."""

    deterministic_by_name = False  # type: ignore[assignment]
    version = "1"

    def fingerprint(self) -> str:
        return self.version


def test_a_changed_model_does_not_go_on() -> None:
    model = Changed()
    figeval.run(crows, model, output_path="out")
    model.version = "2"
    with pytest.raises(figeval.RecordError, match="the weights of Changed have changed"):
        figeval.run(crows, model, output_path="out")


class Nameless:
    """Has no fingerprint."""

    def score_pairs(self, requests: Sequence[figeval.TextPair]) -> list[float]:
        return [0.0] * len(requests)


BIRDS = """
import figeval

@figeval.task(name="crows", type="choice", labels=())
def crows():
    yield figeval.ChoiceExample(id="1", query="caw", options=("caw", "moo"), gold=0)

@figeval.hookimpl
def register_tasks(register):
    register(crows)
"""


def test_what_a_plugin_registered_may_be_given_as_an_object(tmp_path: Path) -> None:
    (tmp_path / "birds.py").write_text(BIRDS)
    program = "import birds, figeval; print(*figeval.run(birds.crows, 'overlap', output_path='out').tasks)"
    variables = {**os.environ, "FIGEVAL_PLUGINS": "birds", "PYTHONPATH": beside(str(tmp_path))}
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    assert (printed.stdout, printed.stderr) == ("crows\n", "")


def test_the_name_of_a_registered_task_is_taken() -> None:
    again = figeval.task(name="mini_fables", type="choice")(lambda: iter(()))
    with pytest.raises(figeval.DuplicateName, match="mini_fables"):
        figeval.run(again, "overlap")


# ---- errors ---------------------------------------------------------------------------------------------------------

WRONG_CALLS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: figeval.run("mini_fablez", "overlap"), figeval.UnknownName, "did you mean 'mini_fables'"),
    (lambda: figeval.run("mini_fables", "overlab"), figeval.FigevalError, "did you mean 'overlap'"),
    (lambda: figeval.run("mini_fables", "overlap", limt=3), TypeError, "no option 'limt'; did you mean 'limit'"),
    (
        lambda: figeval.run("mini_fables", "overlap", limit=0),
        figeval.OptionError,
        "limit=0: a number of examples from 1",
    ),
    (lambda: figeval.run("mini_fables", "overlap", limit=0), ValueError, "limit=0"),
    (lambda: figeval.run("mini_fables", "overlap", max_cost=float("nan")), figeval.OptionError, "finite"),
    (lambda: figeval.run("mini_fables", "overlap", batch_size="big"), figeval.OptionError, "batch_size='big'"),
    (lambda: figeval.run("mini_fables", "overlap", orders="some"), figeval.OptionError, "cyclic, all, or a number"),
    (
        lambda: figeval.run("mini_fables", "overlap", augment="concepts"),
        figeval.OptionError,
        'augment=\'concepts\': write {"add": "concepts"}',
    ),
    (lambda: figeval.run("mini_fables", "overlap", augment=["x"]), figeval.OptionError, 'write {"add": "concepts"}'),
    (lambda: figeval.run("mini_fables", "overlap", augment={"k": 3}), figeval.OptionError, "does not say what to add"),
    (lambda: figeval.run("mini_fables", "overlap", name="x"), figeval.OptionError, "for models given as objects"),
    (lambda: figeval.run("mini_fables", "overlap", by="idiom"), figeval.TaskError, "idiom"),
    (lambda: figeval.run("mini_fables", "overlap", by=["my column, b"]), figeval.TaskError, "--by my column, b:"),
    (lambda: figeval.run([], "overlap"), figeval.OptionError, "tasks is empty"),
    (lambda: figeval.run([3], "overlap"), figeval.OptionError, "tasks has an int"),
    (
        lambda: figeval.run(5, "overlap"),
        figeval.OptionError,
        "tasks is an int; give names, or tasks made",
    ),
    (lambda: figeval.run(None, "overlap"), figeval.OptionError, "tasks is None; give names"),
    (lambda: figeval.run(crows, FakePairScorer), figeval.OptionError, r"pass an object of it: FakePairScorer\(…\)"),
    (lambda: figeval.run(crows, None), figeval.OptionError, "None without capabilities"),
    (lambda: figeval.run(crows, Nameless()), figeval.ModelError, "fingerprint"),
    (lambda: figeval.run(crows, FakePairScorer(), name=""), figeval.OptionError, "name=''"),
    (lambda: figeval.run(crows, FakePairScorer(), name="tfidf"), figeval.DuplicateName, "'tfidf'"),
    (lambda: figeval.run(crows, FakePairScorer(), processes=2), figeval.OptionError, "leave out processes"),
    (lambda: figeval.run(crows, FakePairScorer(), model_args={"a": 1}), figeval.OptionError, "model_args"),
    (lambda: figeval.load("nowhere"), figeval.RecordError, "give a run folder"),
    (lambda: figeval.load(5), figeval.OptionError, "path=5: give a Run, a string or a path"),
    (lambda: figeval.train("mini_fables", "tfidf", "out", epoch=3), TypeError, "did you mean 'epochs'"),
    (lambda: figeval.train("mini_fables", "tfidf", "out", epochs=0), figeval.TrainError, "epochs"),
    (lambda: figeval.train(crows, "tfidf", "out"), figeval.OptionError, r"task=TaskSpec\(.*: give a string"),
    (lambda: figeval.train("mini_fables", "tfidf", None), figeval.OptionError, "output=None: give a string or a path"),
    (lambda: figeval.train("mini_fables", "tfidf", "out", config=3), figeval.OptionError, "config=3: give a string, a"),
    (lambda: figeval.train("mini_fables", "tfidf", "out", head_args="a"), figeval.OptionError, "not key=value"),
    (lambda: figeval.Training("nowhere").record, figeval.TrainError, "not contain a finished training"),
    (lambda: figeval.Training(None), figeval.OptionError, "path=None: give a string or a path"),
    (lambda: figeval.run("mini_fables", "overlap", progress="loud"), figeval.OptionError, "progress='loud': give True"),
    (lambda: run_in_folder().predictions(None), figeval.OptionError, "task=None: give a string"),
    (lambda: run_in_folder().by(3), figeval.OptionError, "key=3: give a string"),
    (lambda: run_in_folder().breakdown(["proverb"]), figeval.OptionError, r"by=\['proverb'\]: give a string"),
    (lambda: run_in_folder().export(None), figeval.OptionError, "form=None: give a string"),
    (lambda: figeval.load(), TypeError, r"load\(\) missing 1 required positional argument: 'path'"),
    (
        lambda: figeval.task(name="x", type="choice", descripton="y")(iter),
        figeval.TaskError,
        r"@task\(name='x'\): unknown key 'descripton'; did you mean 'description'",
    ),
    (lambda: figeval.task(name="x", type="choice", metrics=3)(iter), figeval.TaskError, "metrics must be a"),
    (lambda: figeval.task(name="x", type="choice")(3), figeval.TaskError, "examples must be callable"),
]


def run_in_folder() -> figeval.Run:
    """A run as it is read from a folder, of which only arguments are checked."""
    return figeval.Run(figeval.RunRecord.model_construct(tasks=[]), Path("nowhere"))


@pytest.mark.parametrize(("call", "kind", "words"), WRONG_CALLS)
def test_a_mistake_is_an_exception_of_one_line(
    call: Callable[[], object], kind: type[Exception], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind, match=words) as raised:
        call()
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


def test_a_task_that_fails_is_a_warning_and_the_others_are_done() -> None:
    with pytest.warns(figeval.FigevalWarning, match="crows failed") as heard:
        run = figeval.run([crows, "mini_pairs"], FakePairScorer(function=breaking), limit=3)
    assert heard[0].filename == __file__
    assert not run.complete
    assert any("crows failed: ZeroDivisionError" in text for text in run.warnings)
    assert run.record.tasks[1].status == "done"


def breaking(left: str, right: str) -> float:
    return 1 / 0 if "crow" in left else 1.0


def test_a_task_that_is_not_there(done: figeval.Run) -> None:
    with pytest.raises(figeval.RecordError, match="did you mean 'mini_pairs'"):
        done.predictions("mini_pair")


# ---- what a program sees --------------------------------------------------------------------------------------------


@pytest.mark.wing("comparison")
def test_nothing_is_printed_and_nothing_is_changed(capfd: pytest.CaptureFixture[str]) -> None:
    figeval.run("mini_fables", "tfidf")  # scikit-learn sets a variable when it is imported
    before = dict(os.environ), Path.cwd(), list(sys.path), sys.argv[:], warnings.showwarning
    run = figeval.run(TASKS, "tfidf", limit=5)
    figeval.compare(run, run)
    assert capfd.readouterr() == ("", "")
    assert (dict(os.environ), Path.cwd(), list(sys.path), sys.argv[:], warnings.showwarning) == before


def test_progress_is_printed_where_it_is_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    figeval.run("mini_fables", "overlap", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "mini_fables: 20 examples" in err


def test_in_a_running_event_loop_and_in_threads() -> None:
    async def notebook() -> figeval.Run:
        return figeval.run(crows, FakePairScorer(), output_path="loop")

    stdout = sys.stdout
    assert asyncio.run(notebook()).complete
    runs: list[figeval.Run] = []
    both = threading.Barrier(2)

    class Waiting(FakePairScorer):
        """Is asked while the other one is."""

        def score_pairs(self, requests: Sequence[figeval.TextPair]) -> list[float]:
            both.wait(30)
            return super().score_pairs(requests)

    threads = [
        threading.Thread(target=lambda folder=folder: runs.append(figeval.run(crows, Waiting(), output_path=folder)))
        for folder in ("one", "two")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [run.complete for run in runs] == [True, True]
    assert sys.stdout is stdout


@pytest.mark.wing("comparison")
@pytest.mark.parametrize("method", ["_repr_html_", "__str__", "__repr__"])
def test_hostile_names_are_shown_as_text(method: str, done: figeval.Run) -> None:
    record = done.record.model_copy(deep=True)
    record.model.name, record.warnings = HOSTILE_TEXT, [HOSTILE_TEXT]
    record.tasks[0].scores[0].metric = HOSTILE_TEXT
    run = figeval.Run(record, done.path)
    result = figeval.compare(done, done).result
    (pair,) = result.pairs.values()
    pairs = {(0, 1): dataclasses.replace(pair, a=record, left_out={HOSTILE_TEXT: HOSTILE_TEXT})}
    compared = figeval.Comparison(dataclasses.replace(result, runs=(record, result.runs[1]), pairs=pairs))
    for text in (getattr(run, method)(), getattr(compared, method)()):
        assert "\x1b" not in text
        if method == "_repr_html_":
            assert "<img" not in text
            assert "&lt;img src=x onerror=alert(1)&gt; &amp;" in text


def test_html_is_the_table_of_the_command_line(done: figeval.Run) -> None:
    html = done._repr_html_()
    for cell in ("tfidf (tfidf)", "mini_proverbs", "95 % interval", "chance 0.200 · overlap 0.062", "Holm"):
        assert (cell in html) == (cell != "Holm")
    assert html.count("<tr>") == 1 + len(done.scores)


@pytest.mark.wing("exporters")
def test_exports(done: figeval.Run) -> None:
    assert "\\begin{tabular}" in done.to_latex()
    assert done.to_markdown().startswith("| task")
    with pytest.raises(figeval.UnknownName, match="latex"):
        done.export("latx")


# ---- training -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.wing("training")
def test_a_training_and_its_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from tests.trainings import write_tasks

    model = Workshop(tmp_path / "models")("bert", "Model")
    before = dict(os.environ)
    options: Any = {
        "include_path": write_tasks(tmp_path / "tasks"),
        "head_args": {"pooling": "mean"},
        "device": "cpu",
        "batch_size": 8,
        "max_steps": 2,
        "lr": 0.01,
    }
    capfd.readouterr()
    with pytest.warns(figeval.FigevalWarning, match="chosen on only 6 examples"):
        trained = figeval.train("tiny_retrieval", model, "out", **options)
    assert capfd.readouterr() == ("", "")
    assert dict(os.environ) == before
    assert trained.path == Path("out")
    assert [str(kind) for kind in trained.scores.dtypes] == ["Int64", "float64", "float64", "bool"]
    assert list(trained.scores.columns) == ["step", "acc", "mrr", "best"]
    assert trained.scores["step"].tolist()[0] == 0 and not trained.scores["best"][0]
    assert trained.best == {name: trained.scores[name][trained.scores["best"]].item() for name in ("acc", "mrr")}
    assert trained.run is not None
    assert trained.run.tasks == ("tiny_retrieval",)
    assert "tiny_retrieval" in trained._repr_html_()
    assert figeval.train("tiny_retrieval", model, "out", **options).record == trained.record
    assert figeval.Training("out").record == trained.record
    assert trained.evaluate("mini_pairs", limit=3).complete
