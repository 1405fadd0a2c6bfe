"""Layouts of LaTeX tables: published, measured and trivial rows, footnotes, the best in bold, and one-line refusals."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import figeval
from figeval import FigevalError, OptionError, RunRecord, UnknownName, hookimpl
from tests.cli.conftest import Cli
from tests.finished_runs import finished, model, run, score, store, task
from tests.measured import MEASURED_FOLDER

MINILM, TFIDF, RANDOM = (MEASURED_FOLDER / name for name in ("minilm", "tfidf", "random"))


def latex(*folders: Path, **choices: object) -> str:
    table = figeval.export(list(folders), to="latex", **choices)  # type: ignore[arg-type]
    assert table is not None
    return table


def test_the_blocks_of_a_printed_table() -> None:
    """Both versions of Table 7, then the run, then its trivial models; the slipped decimal has a footnote."""
    text = latex(MINILM, layout="epic_table_7")
    order = (
        "ePiC, ACL 2022, Table 7",
        "ePiC, arXiv v1, Table 7",
        "Measured",
        "minilm & 8.2",
        "Trivial models",
        "chance",
    )
    positions = [text.index(part) for part in order]
    assert positions == sorted(positions)
    assert r"BERT & 22.9 & 0.342 & 19.2 & 0.307 \\" in text
    assert r"BERT & 15.7 & 0.2544 & 11.1 & 0.2152 \\" in text
    assert "0.005{$^{a}$}" in text
    assert "$^{a}$ The closed form for 100 candidates is 0.0519" in text
    assert "[" not in text.partition("Measured")[2].partition(r"\bottomrule")[0]


def test_intervals_and_examples_are_shown_on_request() -> None:
    text = latex(MINILM, layout="epic_table_7", intervals=True, examples=True)
    assert "{\\scriptsize [6.4, 10.5]} & {\\scriptsize [0.128, 0.173]}" in text
    assert "$n$ & {1000} & {1000} & {1000} & {1000}" in text


def test_a_table_without_runs_has_the_published_numbers_alone() -> None:
    text = latex(layout="impli_table_2")
    assert "Measured" not in text
    assert "375{$^{a}$}" in text


def test_counts_come_from_the_tasks_of_the_run() -> None:
    assert r"minilm & 645 & 387 & 281 \\" in latex(MINILM, layout="impli_table_2")


def test_a_task_without_a_score_is_two_hyphens(tmp_path: Path) -> None:
    none = task("epic_retrieval_seen", scores=[score("acc", None), score("mrr", float("nan"))], baselines=[])
    text = latex(store(tmp_path / "run", run(none)), layout="epic_table_7")
    assert r"a-model & {--} & {--} & {--} & {--} \\" in text


def test_a_run_without_the_tasks_is_told_which_to_run() -> None:
    with pytest.raises(OptionError, match="minilm has none of the tasks of storal_table_6; run `figeval run --tasks"):
        latex(MINILM, layout="storal_table_6")


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"layout": "epic_table_4", "tasks": ["epic_mcq"]}, "tasks is for the layout comparison"),
        ({"metrics": ["acc"]}, "metrics is for the layout comparison"),
        ({"intervals": True}, "are for layouts"),
        ({"layout": "comparison", "tasks": ["nope"]}, "the runs have no task 'nope'"),
        ({"layout": "comparison", "metrics": ["nope"]}, "the runs have no metric 'nope'"),
        ({"layout": "comparison", "against": 3}, "against 3 is no place of a run"),
    ],
)
def test_choices_that_do_not_fit(choices: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        latex(MINILM, **choices)


def test_an_unknown_layout() -> None:
    with pytest.raises(UnknownName, match="epic_table_7"):
        latex(MINILM, layout="epic_table_77")


def test_other_formats_have_no_layouts() -> None:
    with pytest.raises(OptionError, match="this format has no argument 'layout'"):
        figeval.export(MINILM, to="csv", layout="epic_table_7")


@pytest.mark.wing("comparison")
def test_the_best_run_is_bold_and_those_that_tie(tmp_path: Path) -> None:
    """Runs of one model have equal scores: both are bold and neither differs."""
    folders = [finished(tmp_path / name, "mini_fables") for name in "ab"]
    text = latex(*folders, layout="comparison", metrics="acc", examples=True)
    line = next(line for line in text.splitlines() if line.startswith(r"mini\_fables"))
    assert line.count(r"\bfseries") == 2
    assert r"$^{\dagger}$" not in line
    assert re.search(r"caption\{Scores of [^,]+ and [^,]+ on mini\\_fables, with", text)


@pytest.mark.wing("comparison")
def test_every_run_has_its_own_number_of_examples(tmp_path: Path) -> None:
    """A run that answered 10 of 40, and one that answered all, in any order and in every format of tables."""
    limited = task(scores=[score(value=1.0, n=10)], counts={"ok": 10, "empty": 30})
    records = [run(task(), identity="a" * 8), run(limited, identity="b" * 8)]
    folders = [store(tmp_path / record.identity, record) for record in records]
    for both in (folders, folders[::-1]):
        text = latex(*both, layout="comparison", metrics="acc", examples=True)
        assert r"1.000{$^{\circ}$}" in text
        assert re.search(
            r"circ\$ Rests on fewer examples, and is never in bold: 10 of 40 for [^,]+ on proverbs \(acc\)", text
        )
        rows = csv.DictReader(io.StringIO(str(figeval.export(both, to="csv"))))
        numbers = {row["run"]: row["n"] for row in rows if (row["kind"], row["metric"]) == ("model", "acc")}
        assert numbers == {"a" * 8: "40", "b" * 8: "10"}
        assert str(figeval.export(both, to="markdown")).count("(n = 10)") == 1


@pytest.mark.parametrize("layout", ["comparison", "epic_table_10", "", "published"])
def test_runs_of_two_versions_of_a_task_are_told_apart(layout: str, tmp_path: Path) -> None:
    def export(old_version: int) -> str | None:
        folders = [
            store(tmp_path / f"{name}-{version}", run(task("epic_mcq", version=version), **model(name)))
            for name, version in (("old", old_version), ("new", 3))
        ]
        choices = {"to": "published"} if layout == "published" else {"to": "latex", "layout": layout}
        return figeval.export(folders, **choices)  # type: ignore[arg-type]

    assert "version 2: old; version 3: new" in str(export(2))
    assert "version 3" not in str(export(3))


@pytest.mark.slow
def test_a_significant_difference_has_a_dagger() -> None:
    choices = {"layout": "comparison", "tasks": ["epic_retrieval_all"], "metrics": ["acc"]}
    best = latex(MINILM, TFIDF, RANDOM, **choices)
    assert r"\bfseries 0.079 & 0.034{$^{\dagger}$} & 0.004{$^{\dagger}$} \\" in best
    assert "Benjamini and Hochberg" in best
    against = latex(MINILM, TFIDF, RANDOM, **choices, against=1)
    assert r"\bfseries 0.079{$^{\dagger}$} & 0.034 & 0.004{$^{\dagger}$} \\" in against
    assert "differs from tfidf" in against


@pytest.mark.slow
def test_a_task_with_a_single_right_answer_has_no_best_run() -> None:
    """A model that always gives this answer would be in bold."""
    text = latex(MINILM, TFIDF, layout="comparison", tasks=["impli_idioms_gold_ent"], metrics=["acc"])
    assert r"0.975 & 0.943 \\" in text
    assert r"\bfseries 0" not in text
    assert "the right answer is entailment for every example" in text


@pytest.mark.wing("comparison")
def test_the_contrast_stands_beside_tasks_with_a_single_right_answer(tmp_path: Path) -> None:
    name = {"suite": "s", "contrast": "c", "tasks": ["yes", "no"], "label": "yes"}
    contrast = {**name, "positive": 40, "negative": 40, "scores": [score("auc", 0.7)]}
    both = [
        run(task("yes", only_label="yes"), task("no", only_label="no"), identity=str(number) * 8, contrasts=[contrast])
        for number in (1, 2)
    ]
    folders = [store(tmp_path / record.identity, record) for record in both]
    text = latex(*folders, layout="comparison", tasks=["yes"])
    yes, s_c = (line for line in text.splitlines() if line.startswith(("yes &", "s:c &")))
    assert "bfseries" not in yes
    assert "auc" in s_c
    assert s_c.count("bfseries") == 2
    assert "the right answer is yes for every example of yes." in text
    assert "the right answer is no" not in text, "a task that is not shown"


def test_authors_choose_the_names_in_the_table_of_a_paper(tmp_path: Path) -> None:
    names = {"minilm": "MiniLM", "chance": "guessing", "epic_retrieval_seen": "Known proverbs", "acc": "right"}
    text = latex(MINILM, layout="epic_table_7", names=names)
    assert "MiniLM & 8.2" in text and "guessing & " in text
    assert "Known proverbs" in text and "{right}" in text
    assert r"Tasks in figeval: Known proverbs (epic\_retrieval\_seen)." in text
    file = numbers_file(tmp_path, {"part": "storal_table_8", "metric": "x", "model": "person", "value": 1})
    with pytest.raises(OptionError, match="did you mean 'person'"):
        latex(layout="storal_table_8", measured=[file], names={"persn": "human"})


def test_runs_without_a_task_of_the_table_are_left_out_with_a_note(tmp_path: Path) -> None:
    seen = run(task("epic_retrieval_seen"), task("other", warnings=["a warning about another task"]))
    other = run(task("other"), identity="22222222")
    other.model.name = "stranger"
    folders = [store(tmp_path / record.identity, record) for record in (seen, other)]
    for choices in ({"layout": "epic_table_7"}, {"layout": "comparison", "tasks": ["epic_retrieval_seen"]}):
        text = latex(*folders, **choices)
        assert "Left out: stranger has none of" in text
        assert "another task" not in text
        assert "stranger &" not in text


@pytest.mark.parametrize("version", ["2.4", "2.5"])
def test_notes_that_name_tasks_are_those_of_shown_tasks(version: str, tmp_path: Path) -> None:
    """A warning about several tasks names the shown ones, and a table without tasks has no notes of runs."""
    x, y, z = (task(name, warnings=["its floor is odd"] * (version == "2.5" and name != "z")) for name in "xyz")
    record = run(x, y, z, warnings=["slow: about the model"], schema_version=version)
    if version == "2.4":
        record.warnings += ["x, y: its floor is odd", "left out, since they need your copy: a, b; odd: get one"]
    else:
        omission = {"tasks": ["a", "b"], "reason": "they need your copy", "cure": "odd: get one"}
        record = RunRecord.model_validate({**record.model_dump(), "left_out": [omission]})
    folder = store(tmp_path / "run", record)
    results = figeval.load(folder)
    assert ("x, y: its floor is odd" in results.warnings) and ("x, y: its floor is odd" in results.notes())
    assert "left out, since they need your copy: a, b; odd: get one" in results.warnings
    texts = {name: latex(folder, layout="comparison", tasks=[name]) for name in ("y", "z")}
    assert "y: its floor is odd." in texts["y"]
    assert "x, y:" not in texts["y"]
    assert "its floor is odd" not in texts["z"]
    assert all("slow: about the model" in text for text in texts.values())
    judged = latex(folder, layout="storal_table_8")
    assert "Left out: a-model has none of the tasks" in judged
    assert "odd" not in judged
    assert "slow" not in judged


def test_names_of_models_are_no_commands(tmp_path: Path) -> None:
    record = run(task("epic_retrieval_seen", scores=[score("acc", 0.5)]))
    record.model.name = r"a_b & \input{x} % <script>"
    for layout in ("epic_table_7", "comparison"):
        text = latex(store(tmp_path / layout, record), layout=layout)
        assert r"a\_b \& \textbackslash{}input\{x\} \% \textless{}script\textgreater{}" in text
        assert r"\input" not in text


def test_a_plugin_offers_layouts_as_benchmarks_do(cli: Cli, tmp_path: Path, install: Callable[..., None]) -> None:
    """A broken file is a problem of its plugin, and so is a layout whose name is taken."""
    panels = "[{groups: [{task: TASK, measures: [{head: A, metric: acc}]}]}]"
    layouts_text = f"layouts: [{{name: NAME, caption: Fables, panels: {panels}}}]"
    files = {"good": ("acme_table", "mini_fables"), "taken": ("acme_table", "other"), "bad": ("9", "x")}
    for file, (name, about) in files.items():
        (tmp_path / file).write_text(layouts_text.replace("NAME", name).replace("TASK", about), encoding="utf-8")
    install(*(offering(tmp_path / file) for file in files))
    (layout,) = json.loads(cli("ls", "layouts", "acme_table", "--json").out)
    assert (layout["tasks"], layout["owner"]) == (["mini_fables"], "good")
    problems = {row["name"]: str(row["problems"]) for row in json.loads(cli("ls", "plugins", "--json").out)}
    assert "acme_table" in problems["taken"]
    assert "name" in problems["bad"]


def offering(file: Path) -> ModuleType:
    """Return a plugin with these layouts."""

    @hookimpl
    def register_layouts(register: Any) -> None:
        register(file)

    plugin = ModuleType(file.name)
    plugin.register_layouts = register_layouts  # type: ignore[attr-defined]
    return plugin


def test_counts_and_scores_of_one_benchmark_whose_data_are_not_public(tmp_path: Path) -> None:
    record = run(task("storal_mocpt_en", available=356, scores=[score("acc", 0.5)], baselines=[]))
    folder = store(tmp_path / "run", record)
    assert r"a-model & {--} & 50.00 & {--} & {--} \\" in latex(folder, layout="storal_table_6")
    counts = latex(folder, layout="storal_table_5")
    assert r"a-model & 356 & {--} & {--} & {--} \\" in counts
    assert counts.count("Measured") == 1, "the panel of the Chinese tasks has no run"


def numbers_file(folder: Path, *numbers: dict[str, object], source: str = "three people_x") -> Path:
    """A file of numbers that no run holds."""
    file = folder / "measured.json"
    file.write_text(json.dumps({"source": source, "numbers": numbers}), encoding="utf-8")
    return file


def test_numbers_that_no_run_holds(tmp_path: Path) -> None:
    """They are rows of their own, with their intervals and examples; a hint ends where there are some."""
    column = {"part": "storal_st2mo_en_judged", "metric": "not_a_moral", "model": "my_model"}
    file = numbers_file(tmp_path, {**column, "value": 0.06, "low": 0.03, "high": 0.12, "n": 100})
    bare = latex(layout="storal_table_19")
    assert "figeval annotate sheets" in bare and "Measured" not in bare
    text = latex(layout="storal_table_19", measured=tmp_path, intervals=True, examples=True)
    assert r"my\_model & 6 & {--} & {--} & {--} \\" in text
    assert r"{\scriptsize [3, 12]}" in text and "$n$ & {100}" in text
    assert r"Measured: three people\_x." in text and "figeval annotate sheets" not in text
    assert latex(layout="storal_table_19", measured=[file]) == latex(layout="storal_table_19", measured=tmp_path)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ({"metric": "acc"}, "has no number for storal_table_19; its columns .* storal_st2mo_en_judged not_a_moral"),
        ({"low": 0.1}, "give both low and high, or neither"),
        ({"low": 0.9, "high": 0.1}, "low is greater than high"),
        ({"value": float("nan")}, "measured.json.*finite"),
        ({"model": ""}, "numbers.0.model must not be blank"),
        ({"model": " \n"}, "numbers.0.model must not be blank"),
        ({"low": 0.7, "high": 0.1}, "low is greater than high"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_file_of_numbers_that_does_not_fit(number: dict[str, object], words: str, tmp_path: Path) -> None:
    column = {"part": "storal_st2mo_en_judged", "metric": "not_a_moral", "model": "m", "value": 0.5}
    numbers_file(tmp_path, {**column, **number})
    with pytest.raises(FigevalError, match=words) as refused:
        latex(layout="storal_table_19", measured=tmp_path)
    assert "\n" not in str(refused.value)


def test_two_numbers_for_one_cell(tmp_path: Path) -> None:
    column = {"part": "storal_st2mo_en_judged", "metric": "not_a_moral", "model": "m", "value": 0.5}
    numbers_file(tmp_path, column, column)
    with pytest.raises(
        FigevalError, match="two numbers for storal_st2mo_en_judged, not_a_moral, m; remove one of them"
    ):
        latex(layout="storal_table_19", measured=tmp_path)
    numbers_file(tmp_path, column, {**column, "model": "m "})
    with pytest.raises(FigevalError, match="two numbers for"):
        latex(layout="storal_table_19", measured=tmp_path)
    with pytest.raises(FigevalError, match="`figeval benchmark analyze BENCHMARK` or `figeval annotate import --to`"):
        latex(layout="storal_table_19", measured=tmp_path / "elsewhere")
    with pytest.raises(OptionError, match="--measured"):
        latex(MINILM, measured=tmp_path)


def test_numbers_of_a_validation_split_are_those_of_its_task(tmp_path: Path) -> None:
    ours = task("storal_mopref_en_validation", scores=[score("acc", 0.75, n=343)], baselines=[])
    text = latex(store(tmp_path / "run", run(ours)), layout="storal_table_15")
    assert r"a-model & {--} & {--} & {--} & 75.00 \\" in text
    assert "BERT w/o Story & 20.71 & 21.69 & 72.64{$^{a}$} & 77.62" in text


def write_generation_run(folder: Path, name: str, metrics: Iterable[str]) -> Path:
    """A run with scores of both English generation tasks of STORAL."""
    scores = [score(metric, 0.25) for metric in metrics]
    trivial = [{"baseline": f"{name}-trivial", "scores": scores}]
    tasks = [task(name, scores=scores, baselines=trivial) for name in ("storal_st2mo_en", "storal_mo2st_en")]
    return store(folder / name, run(*tasks, **model(name)))


def test_the_paper_s_scores_stand_under_the_scoring_that_gave_them() -> None:
    text = latex(MINILM, layout="epic_table_8")
    assert r"BERT & 0.070{$^{a}$} & 0.123{$^{a}$} & 0.089{$^{a}$} & {--} & {--} & {--} \\" in text
    assert r"minilm & {--} & {--} & {--} & 0.349 & 0.350 & 0.350 \\" in text


def test_marks_of_significance_and_rows_of_other_code() -> None:
    text = latex(layout="storal_table_6")
    assert r"RA-T5 & 72.68{$^{*}$} & 67.42{$^{**}$} & 82.97 & 82.60 \\" in text
    assert text.count("$^{*") == 2
    text = latex(layout="storal_table_7")
    assert text.count("{$^{**}$}") == 2
    assert text.count(r"ConvS2S$^{a}$ &") == text.count(r"Fusion$^{a}$ &") == 4
    assert text.count("PM$^{b}$ &") == 2
    assert re.search(r"\$\^\{b\}\$ PlotMachines.*from scratch", text)


def test_small_p_values_have_an_exponent() -> None:
    text = latex(layout="storal_table_17")
    assert r"Truth vs. RA-T5 & 2.27e-12 & 1.08e-19 & 1.10e-24 \\" in text
    assert r"RA-T5 vs. T5 & 0.14 & 0.04 & 0.11 \\" in text
    assert "S[table-format=1.2e-2]" in text


def test_people_s_tests_and_answers_are_rows_of_their_tables(tmp_path: Path) -> None:
    test = {"part": "storal_st2mo_en_judged", "metric": "fluency_sign_p", "model": "a vs. b"}
    numbers_file(tmp_path, {**test, "value": 0.0}, {**test, "metric": "coherence_sign_p", "value": 3e-11})
    assert r"a vs. b & 0.00 & 3.00e-11 & {--} \\" in latex(layout="storal_table_17", measured=tmp_path)
    rating = {"part": "epic_narrative_seen_judged", "metric": "overall", "model": "my_model", "value": 3.5}
    numbers_file(tmp_path, rating)
    for layout in ("epic_table_5", "epic_table_12"):
        assert r"my\_model & {--} & {--} & {--} & 3.50" in latex(layout=layout, measured=tmp_path)


def test_a_table_that_is_longer_than_a_page_has_parts(tmp_path: Path) -> None:
    """Every number is in one of them, notes are below the last, and labels differ."""
    metrics = ["bleu_1", "bleu_2", "repetition_4_published", "coverage", "order"]
    runs = [write_generation_run(tmp_path, f"m{n}", metrics) for n in range(4)]
    text = latex(*runs, layout="storal_table_7", intervals=True, width="16cm")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") > 1
    assert r"\label{tab:storal_table_7}" in text and r"\label{tab:storal_table_7_2}" in text
    assert "The notes are below the last part" in text.partition(r"\end{table}")[0]
    assert text.count(r"In brackets the 95\,\% interval") == 1
    assert r"In brackets" not in latex(layout="storal_table_7", intervals=True)
