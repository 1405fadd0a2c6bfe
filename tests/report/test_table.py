"""Tables for people: plain text for pipes, folded columns on a terminal, and nothing left unsaid."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from figeval import Grid, Interval, Route, Run, RunRecord
from figeval.testing import harness
from tests.cli.conftest import Cli
from tests.finished_runs import model, run, score, task
from tests.runs.conftest import write_task


def print_table(record: RunRecord, **console: Any) -> str:
    out = io.StringIO()
    Run(record, Path("nowhere")).print(Console(file=out, **console))
    return out.getvalue()


def rows(record: RunRecord) -> list[Any]:
    """Return the rows of the table of scores."""
    return list(Run(record, Path("nowhere")).grids[0].rows)


def notes(record: RunRecord) -> list[str]:
    return Run(record, Path("nowhere")).notes()


# ---- what is said ---------------------------------------------------------------------------------------------------


def test_a_score_stands_with_its_interval_and_its_floor() -> None:
    (row,) = rows(run(task()))
    assert row == (
        *("proverbs", "by_cosine", "acc", "0.2500", "0.100 to 0.500", "40", "20"),
        "chance 0.200 · overlap 0.125",
    )


@pytest.mark.parametrize(
    ("effective", "cell"), [(None, "20"), (19.9, "20"), (12.34, "20 (12 eff.)"), (3.21, "20 (3.2 eff.)")]
)
def test_effective_clusters_are_printed_where_they_differ(effective: float | None, cell: str) -> None:
    (row,) = rows(run(task(scores=[score(effective_clusters=effective)])))
    assert row[6] == cell


def test_an_unreliable_interval_is_marked() -> None:
    unreliable = run(task(scores=[score(interval=Interval("wilson on effective n", reliable=False))]))
    assert rows(unreliable)[0][4] == "0.100 to 0.500*"
    assert notes(unreliable) == ["* fewer than 10 effective clusters: the interval is unreliable"]


PARTIAL_SCORES = [score(value=1.0, n=10), score("macro_f1", n=10), score("acc_of_all"), score("parse_rate")]


def test_the_score_of_all_examples_comes_first_where_answers_are_missing() -> None:
    part = run(task(scores=PARTIAL_SCORES, counts={"ok": 10, "empty": 30}))
    assert [(row[2], row[5]) for row in rows(part)] == [
        *(("acc_of_all", "40"), ("acc", "10 of 40"), ("macro_f1", "10 of 40"), ("parse_rate", "40"))
    ]
    limits = "if all 40 had one, acc would be between 0.2500 and 1.0000"
    assert f"proverbs: only 10 of 40 examples have an answer (acc, macro_f1); {limits}" in notes(part)
    both_scores = run(task(scores=[score(), score("acc_of_all")]))
    assert [(row[2], row[5]) for row in rows(both_scores)] == [("acc", "40"), ("acc_of_all", "40")]


def test_there_are_no_limits_where_the_scores_are_no_means_of_the_same_examples() -> None:
    other = [score(value=0.5, n=10), score("acc_of_all")]  # 5 and 10 right answers: means over languages, for example
    (note,) = (note for note in notes(run(task(scores=other, counts={"ok": 10, "empty": 30}))) if "only" in note)
    assert note == "proverbs: only 10 of 40 examples have an answer (acc)"


def test_why_a_metric_has_no_value_is_told() -> None:
    nothing = score("position_bias", None, low=None, high=None, n=0, interval="none: shown in one order only")
    assert notes(run(task(scores=[score(), nothing]))) == ["proverbs: no position_bias: shown in one order only"]


def test_examples_without_answers_are_still_examples() -> None:
    none = score(value=None, low=None, high=None, stderr=None, n=0, interval="none: no examples")
    stored = task(scores=[none, score("acc_of_all", value=0.0)], counts={"truncated": 40})
    assert "proverbs: no acc: no example has an answer" in notes(run(stored))
    assert "proverbs: no acc: no examples" in notes(run(stored.model_copy(update={"counts": {"ok": 40}})))


def test_why_scores_have_no_interval_is_told_once_for_all_tasks() -> None:
    exact = score(low=None, high=None, interval="none: an exact expectation")
    tasks = [task("a", scores=[exact]), task("b", scores=[exact, score("f1")]), task("c")]
    assert notes(run(*tasks)) == ["a, b: no interval of acc: an exact expectation"]


def test_a_task_is_named_once() -> None:
    first, second = rows(run(task(scores=[score(), score("mrr", 0.5)])))
    assert first[:3] == ("proverbs", "by_cosine", "acc")
    assert second[:3] == ("", "", "mrr")
    assert second[-1] == "overlap 0.300"


def test_what_is_unknown_is_a_dash() -> None:
    (row,) = rows(run(task(scores=[score(value=None, low=None, high=None)])))
    assert row[3:5] == ("–", "–")


def test_a_failed_task_has_a_row_and_its_last_line() -> None:
    record = run(task(status="failed", scores=[], error="Traceback …\n  somewhere\nValueError: no such word\n"))
    (row,) = rows(record)
    assert row[:4] == ("proverbs", "by_cosine", "failed", "–")
    assert notes(record) == ["proverbs failed: ValueError: no such word"]


def test_a_task_still_to_come_has_a_row() -> None:
    (row,) = rows(run(task(status="running", scores=[]), status="running"))
    assert row[:4] == ("proverbs", "by_cosine", "not yet", "–")


def test_a_suite_shows_a_macro_mean_under_its_name() -> None:
    record = run(task(), macro=[{"suite": "all", "metric": "acc", "value": 0.25, "tasks": 9}])
    assert (rows(record))[-1][:4] == ("all: macro mean of 9", "", "acc", "0.2500")


def test_everything_odd_is_a_note() -> None:
    counts = {"ok": 30, "nan": 4, "unparseable": 6, "ties": 2, "truncated_inputs": 1, "refusal": 0}
    record = run(task(counts=counts, warnings=["--limit: the first 40 of 99"]), warnings=["the clock went back"])
    assert notes(record) == [
        "proverbs: 4 NaN; 6 answers that name none of the options; 2 ties, scored by expectation; "
        "1 input truncated to the model's maximum length",
        "proverbs: --limit: the first 40 of 99",
        "the clock went back",
    ]
    assert not (notes(run(task(counts={"ok": 40}))))


def test_how_the_model_was_asked_stands_under_the_table() -> None:
    added = {"add": "concepts", "from": "train", "k": 3, "retriever": "minilm"}
    text = print_table(run(task(settings={"augment": added, "num_fewshot": 2})))
    assert text.splitlines()[3:] == [
        "  augmented: concepts of the 3 nearest training examples (minilm)",
        "  2-shot: training examples drawn for each question",
    ]


def test_probes_are_marked_and_prompts_are_named() -> None:
    prompt = task("proverbs@short", kind="prompt", of="proverbs", variant="short", baselines=[])
    probe = task("proverbs@no_query", kind="probe", of="proverbs", variant="no_query", baselines=[])
    assert [row[0] for row in rows(run(task(), prompt, probe))] == [
        *("proverbs", "proverbs@short", "proverbs@no_query (probe)")
    ]


def test_a_floor_has_rows_only_if_probes_were_asked_for_or_its_scores_are_nowhere_else() -> None:
    floor = {"baseline": "no_query", "scores": [score(value=0.2)]}
    about = {"kind": "probe", "of": "proverbs", "variant": "no_query", "is_floor": True, "baselines": []}
    with_floor, probe = task(baselines=[floor]), task("proverbs@no_query", **about)
    assert [row[0] for row in rows(run(with_floor, probe))] == ["proverbs"]
    assert "no_query 0.200" in print_table(run(with_floor, probe))
    for shown in (
        run(with_floor, probe, config={"probes": True}),
        run(task(baselines=[]), probe),
        run(with_floor, probe.model_copy(update={"status": "failed", "scores": []})),
    ):
        assert [row[0] for row in rows(shown)] == ["proverbs", "proverbs@no_query (probe)"]


def test_the_spread_over_prompts_stands_under_the_table() -> None:
    about = {"lowest": 0.2, "lowest_prompt": "short", "highest": 0.35, "highest_prompt": "default"}
    spread = {"task": "proverbs", "metric": "acc", "prompts": 3, "mean": 0.25, "range": 0.15, **about}
    lines = print_table(run(task(), spreads=[spread])).splitlines()
    assert lines[3:] == [
        "",
        "over prompts",
        "task      metric  prompts    mean   range  lowest        highest",
        "proverbs  acc           3  0.2500  0.1500  0.2000 short  0.3500 default",
    ]


# ---- how it is printed ----------------------------------------------------------------------------------------------

PLAIN_TABLE = """\
a-model (encoder)
task      route      metric   value   95 % interval   n  clusters  baselines
proverbs  by_cosine  acc     0.2500  0.100 to 0.500  40        20  chance 0.200 · overlap 0.125
  proverbs: 3 ties, scored by expectation
"""


def test_plain_output_is_aligned_text_however_narrow_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert print_table(run(task(counts={"ties": 3}))) == PLAIN_TABLE


def test_what_the_model_says_of_itself_is_said() -> None:
    described = {"scoring": "plain rows", "fell_back_because": "packed trees: no", "warnings": ["2 opening tokens"]}
    text = print_table(run(task("t"), **model("m", description=described)))
    assert "\n  2 opening tokens\n  log-likelihoods from plain rows (packed trees: no)\n" in text


def test_brackets_are_no_markup_and_colons_no_emoji() -> None:
    about = {"name": "hf:a[/]b", "backend": "[red]x"}
    record = run(task("t:fire:", warnings=["[bold]see[/bold] [/] :x:"]), model=about)
    for console in ({}, {"force_terminal": True, "width": 200, "no_color": True}):
        text = print_table(record, **console)
        assert "hf:a[/]b ([red]x)" in text
        assert "[bold]see[/bold] [/] :x:" in text
        assert "t:fire:" in text


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_nothing_is_cut_on_a_terminal(width: int) -> None:
    text = print_table(run(task("impli_idioms_silver_ent")), force_terminal=True, width=width, color_system=None)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    letters = sorted("".join(text.split()))
    for part in ("impli_idioms_silver_ent", "acc", "0.2500", "0.100 to 0.500", "chance 0.200", "overlap 0.125"):
        for letter in "".join(part.split()):
            letters.remove(letter)
    if width >= 80:
        assert "impli_idioms_silver_ent" in text
        assert "chance 0.200" in text


def test_a_narrow_terminal_has_the_baselines_below_their_scores() -> None:
    lines = print_table(run(task()), force_terminal=True, width=60, color_system=None).splitlines()
    assert lines[1].split() == ["task", "route", "metric", "value", "95", "%", "interval", "n"]
    assert lines[3] == "    baselines: chance 0.200 · overlap 0.125"


def test_many_notes_of_a_run_are_folded_and_their_scores_marked(tmp_path: Path) -> None:
    biased = task("biased", warnings=["picked with the help of minilm", *(f"remark {number}" for number in range(9))])
    record = run(task("plain"), biased, task("silent", counts={"ok": 30, "refusal": 10}))
    out = io.StringIO()
    Run(record, tmp_path / "my run").print_summary(Console(file=out, width=200))
    text = out.getvalue()
    values = {line.split()[0]: line.split()[3] for line in text.splitlines() if "by_cosine" in line}
    assert values == {"plain": "0.2500", "biased": "0.2500!", "silent": "0.2500?"}
    below = text.partition("silent")[2].splitlines()[1:]
    assert below[0].startswith("  ! 10 warnings, such as: biased: picked with the help of minilm")
    assert below[-1] == f"  figeval show '{tmp_path}/my run' prints all {len(notes(record))} notes"
    assert len(below) <= 6
    short = run(task("biased", warnings=["picked with the help of minilm"]))
    out = io.StringIO()
    Run(short, tmp_path).print_summary(Console(file=out))
    assert out.getvalue() == print_table(short)


def test_of_many_scores_the_first_of_each_task_is_printed(tmp_path: Path) -> None:
    scores = [score(metric) for metric in ("acc", "mrr", "recall@5")]
    out = io.StringIO()
    Run(run(*(task(f"t{number}", scores=scores) for number in range(14))), tmp_path).print_summary(
        Console(file=out, width=200)
    )
    text = out.getvalue()
    assert [line.split()[2] for line in text.splitlines() if "by_cosine" in line] == ["acc"] * 14
    assert "mrr" not in text
    assert text.splitlines()[-1] == f"  figeval show {tmp_path} prints 28 further scores"


def test_a_narrow_terminal_does_without_spare_columns_and_breaks_between_parts() -> None:
    grid = Grid(("name", "spare", "parts"), [("a", "x" * 9, "one two · three")], spare=("spare",))

    def on(width: int) -> list[str]:
        out = io.StringIO()
        grid.print(Console(file=out, force_terminal=True, width=width, color_system=None))
        return [line.rstrip() for line in out.getvalue().splitlines()]

    assert on(40) == ["name  spare      parts", "a     xxxxxxxxx  one two · three"]
    assert on(25) == ["name  spare      parts", "a     xxxxxxxxx  one two", "                 three"]
    assert on(15) == ["name  parts", "a     one two", "      three"]


def test_breakdowns_show_the_most_frequent_and_count_the_rest(cli: Cli, tmp_path: Path) -> None:
    lines = [{"id": f"e{n}", "q": "a b", "o": ["a b", "c"], "g": 0, "k": f"idiom {n // 2}"} for n in range(50)]
    write_task(tmp_path, "t", n=50, **{f"row{n}": line for n, line in enumerate(lines)})
    options = ("--include_path", ".", "--no_baselines", "--output_path", "run", "--by", "kind")
    printed = cli("run", "--tasks", "t", "--model", "overlap", *options).out
    head, first, *others = printed.partition("\nt by kind\n")[2].partition("\n\n")[0].splitlines()
    assert head.split() == ["kind", "metric", "value", "95", "%", "interval", "n"]
    assert first.split()[:4] == ["idiom", "0", "acc", "1.0000"] and first.split()[-1] == "2"
    assert others[-1] == "  … and 5 more in run.json"
    every = cli("show", "run", "--by", "kind").out.partition("t by kind\n")[2]
    assert len({line.split()[1] for line in every.splitlines() if line.startswith("idiom")}) == 25


# ---- the legend -----------------------------------------------------------------------------------------------------


def task_by_route(name: str, label: str | None, threshold: float = 0.5) -> Any:
    labels = ["entailment", "non-entailment"]
    (route,) = (route for route in harness().routes.of("pairs") if route.name == "by_cosine_threshold")
    legend, settings = route.explain({"threshold": threshold}, labels), {"labels": labels, "threshold": threshold}
    return task(name, task_type="pairs", route=route.name, only_label=label, settings=settings, legend=legend)


def test_the_legend_says_which_answer_is_right_and_what_the_threshold_was() -> None:
    record = run(
        task_by_route("a", "entailment"),
        task_by_route("b", "non-entailment"),
        task_by_route("c", "entailment"),
        task("d"),
    )
    assert notes(record) == [
        "the right answer is entailment for every example of a, c",
        "the right answer is non-entailment for every example of b",
        "by_cosine_threshold: a pair is labelled entailment if its score is 0.5 or more, otherwise non-entailment",
    ]


def test_thresholds_that_differ_are_told_by_task() -> None:
    first, second = notes(run(task_by_route("a", None), task_by_route("b", None, 0.7)))
    assert first.endswith("0.5 or more, otherwise non-entailment (a)")
    assert second.endswith("0.7 or more, otherwise non-entailment (b)")


@pytest.mark.parametrize("labels", [{}, {"labels": ["a"]}, {"labels": ["open", "closed"]}])
def test_what_a_route_does_not_explain_is_not_guessed(labels: dict[str, list[str]]) -> None:
    settings = {"threshold": 0.05, "margin": 2}
    plugin_route = Route(name="by_closeness", start="a.module:start", settings=settings)
    themes = task(
        "sayings", route=plugin_route.name, settings={**labels, **settings}, legend=plugin_route.explain(settings, ())
    )
    assert notes(run(themes)) == ["by_closeness: threshold 0.05, margin 2"]


@pytest.mark.parametrize("name", ["threshold", "temperature"])
def test_records_of_earlier_versions_have_no_legend_but_settings(name: str) -> None:
    settings = {"labels": ["entailment", "non-entailment"], name: 0.5}
    assert notes(run(task("old", route="by_own", settings=settings))) == [f"by_own: {name} 0.5"]


def test_hidden_golds_are_counted_under_the_table() -> None:
    assert notes(run(task(n=10, available=10, hidden=1))) == [
        "proverbs: 1 of 10 gold answers are hidden and not scored"
    ]
