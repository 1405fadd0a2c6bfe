"""Two runs on the same examples: joined by id, tested in pairs, corrected over tasks, and nothing dropped unsaid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import figeval
from figeval import RecordError
from tests.finished_runs import compare_runs, row, run, score, store, task

Answers = dict[str, float | list[float] | None]


def write_run(
    folder: Path,
    answers: dict[str, Answers],
    clusters: dict[str, str] | None = None,
    metric: str = "acc",
    **changes: Any,
) -> Path:
    """A run folder whose tasks have these values of a metric by example id."""
    record = run(*(task(name, **{"n": len(values), **changes}) for name, values in answers.items()))
    rows = {
        name: [
            row(identity, metrics={} if value is None else {metric: value}, cluster=(clusters or {}).get(identity))
            for identity, value in values.items()
        ]
        for name, values in answers.items()
    }
    return store(folder, record, rows)


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change the record of a run."""
    content = json.loads((folder / "run.json").read_text("utf-8"))
    change(content)
    (folder / "run.json").write_text(json.dumps(content), "utf-8")
    return folder


def acc(text: str) -> Answers:
    """`1101-` → answers of the examples e0, e1 …; a dash is no valid answer, a dot no row at all."""
    values = {"1": 1.0, "0": 0.0, "-": None}
    return {f"e{index}": values[letter] for index, letter in enumerate(text) if letter != "."}


def compare_written(tmp_path: Path, a: dict[str, Answers], b: dict[str, Answers], **options: Any) -> Any:
    return compare_runs(write_run(tmp_path / "a", a), write_run(tmp_path / "b", b), **options)


def test_examples_are_joined_by_id_and_tested_in_pairs(tmp_path: Path) -> None:
    a, b = acc("1111111100"), acc("1100000011")
    shuffled = {key: b[key] for key in sorted(b, reverse=True)}
    (task,) = compare_written(tmp_path, {"t": a}, {"t": shuffled}).tasks
    comparison = task.comparison
    assert (comparison.n, comparison.value_a, comparison.value_b, comparison.difference) == (
        10,
        0.8,
        0.4,
        pytest.approx(0.4),
    )
    assert (comparison.a_only, comparison.b_only) == (6, 2)
    assert comparison.test == "exact McNemar"
    assert comparison.p == pytest.approx(stats.binomtest(2, 8).pvalue)
    assert (task.unmatched_a, task.unmatched_b, task.unanswered) == (0, 0, 0)


def test_what_only_one_run_has_is_counted_and_left_out(tmp_path: Path) -> None:
    (task,) = compare_written(tmp_path, {"t": acc("11001-1...")}, {"t": acc("1010-011.1")}).tasks
    assert (task.unmatched_a, task.unmatched_b, task.unanswered) == (0, 2, 2)
    assert task.comparison.n == 5


def test_clusters_count_instead_of_rows(tmp_path: Path) -> None:
    clusters = {f"e{i}": f"c{i // 5}" for i in range(20)}
    a = write_run(tmp_path / "a", {"t": acc("1" * 10 + "0" * 10)}, clusters)
    b = write_run(tmp_path / "b", {"t": acc("0" * 10 + "0" * 10)}, clusters)
    (task,) = compare_runs(a, b).tasks
    assert (task.comparison.n, task.comparison.clusters) == (20, 4)
    assert task.comparison.test == "sign flip"
    alone = compare_runs(
        write_run(tmp_path / "c", {"t": acc("1" * 10 + "0" * 10)}), write_run(tmp_path / "d", {"t": acc("0" * 20)})
    )
    assert task.comparison.p > alone.tasks[0].comparison.p, "four proverbs prove less than twenty narratives"


def test_p_values_are_corrected_over_the_tasks_that_were_tested(tmp_path: Path) -> None:
    tasks_a = {"one": acc("1" * 12), "two": acc("1" * 8 + "0" * 4), "empty": acc("----")}
    tasks_b = {"one": acc("0" * 12), "two": acc("0" * 8 + "0" * 4), "empty": acc("1111")}
    result = compare_written(tmp_path, tasks_a, tasks_b)
    low, high = sorted(task.comparison.p for task in result.tasks)
    assert [task.task for task in result.tasks] == ["one", "two"]
    assert result.family == 2
    assert [task.p_adjusted for task in result.tasks] == [2 * low, high], "Holm's correction"
    assert result.left_out == {"empty": "no acc stored"}


def test_tasks_of_one_run_only_are_named(tmp_path: Path) -> None:
    result = compare_written(tmp_path, {"both": acc("10"), "mine": acc("1")}, {"both": acc("01"), "yours": acc("1")})
    assert [task.task for task in result.tasks] == ["both"]
    assert result.left_out == {"mine": "only in A", "yours": "only in B"}


def test_values_outside_0_and_1_are_not_clipped_as_shares(tmp_path: Path) -> None:
    values = {"e0": -3.0, "e1": 4.0, "e2": 9.0}
    other_values = {"e0": 0.0, "e1": 0.5, "e2": 1.0}
    a, b = (
        write_run(tmp_path / name, {"t": rows}, metric="length") for name, rows in (("a", values), ("b", other_values))
    )
    (task,) = compare_runs(a, b, metric="length").tasks
    assert task.comparison.high > 1


def test_run_json_itself_may_be_given(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", {"t": acc("10")}), write_run(tmp_path / "b", {"t": acc("01")})
    assert compare_runs(a / "run.json", b) == compare_runs(a, b / "run.json")


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_other_examples_behind_one_name_are_refused(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"t": acc("10")})
    b = write_run(tmp_path / "b", {"t": acc("10")}, examples_sha256="f" * 64)
    with pytest.raises(RecordError, match="t: the two runs were made on different examples"):
        compare_runs(a, b)


def test_another_version_of_the_task_is_refused(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"t": acc("10")})
    b = write_run(tmp_path / "b", {"t": acc("10")}, version=2)
    with pytest.raises(RecordError, match=r"t: A is a run of version 1 of the task, B of version 2, .* not comparable"):
        compare_runs(a, b)


def test_a_run_without_predictions_is_refused(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", {"t": acc("10")}), write_run(tmp_path / "b", {"t": acc("10")})
    (b / "predictions" / "t.jsonl").unlink()
    for pair in ((a, b), (b, a)):
        with pytest.raises(RecordError, match=r"b has no predictions \(predictions/\*.jsonl next to run.json\)"):
            compare_runs(*pair)


def test_no_task_in_common(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no task in common: A has mine; B has yours"):
        compare_written(tmp_path, {"mine": acc("1")}, {"yours": acc("1")})


def test_a_score_that_is_no_mean_is_tested_by_permutation(tmp_path: Path) -> None:
    """`balanced_acc` adds, for each of two labels, right answers, answers and examples."""
    right, wrong = ([1.0, 0.0, 1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    other_right, other_wrong = ([0.0, 1.0, 0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    answers_a: Answers = {f"e{index}": right if index % 2 else other_right for index in range(12)}
    answers_b: Answers = {f"e{index}": right if index % 2 else other_wrong for index in range(12)}
    answers_b["e1"] = wrong
    settings = {"labels": ["x", "y"]}
    a, b = (
        write_run(tmp_path / name, {"t": answers}, metric="balanced_acc", task_type="pairs", settings=settings)
        for name, answers in (("a", answers_a), ("b", answers_b))
    )
    (task,) = compare_runs(a, b, metric="balanced_acc").tasks
    assert (task.comparison.value_a, task.comparison.value_b) == (1.0, pytest.approx((5 / 6) / 2))
    assert (task.comparison.test, task.comparison.p) == ("permutation", 2 / 2**7)
    assert task.comparison.note.startswith(
        "no interval: fewer than 40 effective examples; 28% of samples of 12 examples"
    )


def test_a_score_that_is_no_mean_is_compared_within_languages(tmp_path: Path) -> None:
    """As in the run's table, the score is the mean over the languages, whose own comparisons are listed, too."""
    right, other_wrong, other_right = [1.0, 0, 1, 0, 1, 0], [0.0, 0, 1, 0, 0, 1], [0.0, 1, 0, 1, 0, 1]
    settings = {"labels": ["x", "y"], "languages": ["de", "en"]}
    sides = []
    for name, good in (("a", {"de"}), ("b", {"en"})):
        rows = []
        for number in range(18):
            language = "de" if number < 6 else "en"
            answer = right if number % 2 else (other_right if language in good else other_wrong)
            rows.append(row(f"e{number}", metrics={"balanced_acc": answer}, language=language))
        sides.append(store(tmp_path / name, run(task("t", task_type="pairs", settings=settings)), {"t": rows}))
    comparisons = {task.task: task.comparison for task in compare_runs(*sides, metric="balanced_acc").tasks}
    assert {name: comparison.difference for name, comparison in comparisons.items()} == {
        "t (de)": 0.5,
        "t (en)": -0.5,
        "t": 0.0,
    }
    assert (comparisons["t"].n, comparisons["t"].value_a, comparisons["t"].p) == (18, 0.75, 1.0)


def test_an_unknown_metric_has_near_names(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"no task has 'ac'.*did you mean 'acc'"):
        compare_written(tmp_path, {"t": acc("10")}, {"t": acc("01")}, metric="ac")


def test_a_place_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="give a run folder"):
        compare_runs(write_run(tmp_path / "a", {"t": acc("1")}), tmp_path / "nowhere")


def test_two_prompts_of_one_run_are_compared_in_pairs(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", {"t": acc("1111111100"), "t@loud": acc("1100000011"), "t@no_query": acc("0" * 10)})

    def vary(content: dict[str, Any]) -> None:
        for variant, kind in zip(content["tasks"][1:], ("prompt", "probe"), strict=True):
            variant |= {"kind": kind, "of": "t", "variant": variant["task"].partition("@")[2]}

    edit(path, vary)
    comparison = compare_runs(path, path, prompts=("default", "loud"))
    (task,) = comparison.tasks
    assert (task.task, task.comparison.value_a, task.comparison.value_b) == ("t", 0.8, 0.4)
    assert comparison.prompts == ("default", "loud")
    with pytest.raises(RecordError, match=r"--prompts lound: .* did you mean 'loud'.*; it has default, loud$"):
        compare_runs(path, path, prompts=("default", "lound"))


def test_a_floor_is_compared_only_where_probes_were_asked_for(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", {"t": acc("1100"), "t@no_query": acc("0001")})
    edit(path, lambda content: content["tasks"][1].update(kind="probe", of="t", variant="no_query"))
    comparison = compare_runs(path, path)
    assert ([task.task for task in comparison.tasks], comparison.family) == (["t"], 1)
    edit(path, lambda content: content["config"].update(probes=True))
    assert [task.task for task in compare_runs(path, path).tasks] == ["t", "t@no_query"]


def test_ranks_are_of_the_examples_that_all_runs_answered(tmp_path: Path) -> None:
    """Each pair has its own examples, so the order of the runs would decide whose accuracy is ranked."""
    answers = {"x": "10" * 10 + "-" * 20, "y": "0" * 20 + "1" * 20, "z": "1" * 20 + "0" * 20}
    folders = {name: write_run(tmp_path / name, {"t": acc(text)}) for name, text in answers.items()}
    for order in ("xyz", "zyx", "yxz"):
        comparison = figeval.compare([folders[name] for name in order]).result
        ranks = {order[rank.run]: (rank.value, rank.rank, rank.n) for rank in comparison.ranks}
        assert ranks == {"z": (1.0, 1, 20), "x": (0.5, 2, 20), "y": (0.0, 3, 20)}
        (pair,) = comparison.pairs[tuple(sorted((order.index("y"), order.index("z"))))].tasks
        assert pair.comparison.n == 40, "the pairs' own comparisons keep their examples"


@pytest.mark.slow
def test_a_large_family_of_tests_can_find_differences(tmp_path: Path) -> None:
    """Of 24 runs, 12 are always wrong but for two examples, and 12 always right; there are 276 pairs and two tasks.

    If p could not fall below 1 / 10,001, none of 552 tests could be significant after Holm's correction.
    """
    clusters = {f"e{index}": f"c{index // 2}" for index in range(60)}
    folders = []
    for number in range(24):
        text = "".join("10"[(number < 12) == (index not in {number, number + 24})] for index in range(60))
        folders.append(write_run(tmp_path / str(number), {"t": acc(text), "u": acc(text)}, clusters))
    ranks = figeval.compare(folders).result.ranks
    assert {(rank.best, rank.worst) for rank in ranks} == {(1, 12), (13, 24)}


def test_a_run_is_ranked_once(tmp_path: Path) -> None:
    a, b = (write_run(tmp_path / name, {"t": acc("10")}) for name in "ab")
    with pytest.raises(RecordError, match="a was given more than once"):
        figeval.compare(a, b, a / "run.json")


def test_a_single_training_says_what_p_is_about(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, {"t": acc("1010110010")}) for name in "ab"]
    ancestor = {"model": "m", "about": {"task": "t", "seed": 1}}
    lineage = {"ancestors": [ancestor], "trained": 1, "chosen": 0}
    for folder in folders:
        edit(folder, lambda content: content["model"].update(lineage=lineage))
        start = "A is a single training" if folder == folders[0] else "A and B are single trainings"
        (caveat,) = compare_runs(*folders).caveats
        assert caveat.startswith(f"{start}: p does not cover other seeds")


def test_a_task_without_the_metric_is_not_said_to_have_no_mean_over_seeds(tmp_path: Path) -> None:
    for name in "ab":
        for seed in "012":
            answers = {"t": acc("10"), "u": {"e0": 1.0}}
            write_run(tmp_path / name / seed, answers)
            edit(tmp_path / name / seed, lambda content: content["tasks"][1].update(scores=[]))
            file = tmp_path / name / seed / "predictions" / "u.jsonl"
            file.write_text(file.read_text().replace('"acc"', '"bleu"'))
        seeds = {"task": "t", "model": "m", "seeds": [0, 1, 2], "wanted": [0, 1, 2], "runs": {n: n for n in "012"}}
        (tmp_path / name / "seeds.json").write_text(json.dumps({**seeds, "scores": []}))
    assert compare_runs(tmp_path / "a", tmp_path / "b").left_out == {"u": "no acc stored"}


def test_a_metric_that_one_run_lacks_was_not_computed_with_other_words(tmp_path: Path) -> None:
    for name in "ab":
        write_run(tmp_path / name, {"t": acc("10"), "u": acc("10")})
    signed = {"signatures": {"acc": "words:uax29"}}
    edit(tmp_path / "a", lambda content: content["tasks"][1]["settings"].update(signed))
    edit(tmp_path / "b", lambda content: content["tasks"][1].update(scores=[]))
    assert compare_runs(tmp_path / "a", tmp_path / "b").left_out == {"u": "no acc stored"}


def test_a_comparison_says_if_lower_is_better(tmp_path: Path) -> None:
    scores = [score("mae", higher_is_better=False)]
    run, other = (write_run(tmp_path / name, {"t": acc("1010")}, metric="mae", scores=scores) for name in "ab")
    assert "mae: lower is better, so that A is better where A − B is negative" in [
        *figeval.compare(run, other, metric="mae").notes()
    ]
    both = (write_run(tmp_path / name, {"t": acc("1010")}) for name in "cd")
    assert not any("lower is better" in note for note in figeval.compare(*both).notes())


def test_another_prompt_or_route_of_a_task_is_said(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"t": acc("10"), "u": acc("10")}, template_sha256="1" * 64)
    b = write_run(tmp_path / "b", {"t": acc("01"), "u": acc("01")}, template_sha256="2" * 64, route="by_head")
    assert compare_runs(a, b).caveats == (
        "the runs asked with different prompts: t, u",
        "the runs have different routes: t, u: by_cosine and by_head",
    )
    assert compare_runs(a, a).caveats == ()


def test_missing_predictions_of_a_task_are_named(tmp_path: Path) -> None:
    a, b = (write_run(tmp_path / name, {"t": acc("10"), "u": acc("10")}) for name in "ab")
    (b / "predictions" / "u.jsonl").unlink()
    comparison = compare_runs(a, b)
    assert ([task.task for task in comparison.tasks], comparison.left_out) == (
        ["t"],
        {"u": "B lacks predictions of it"},
    )


def test_without_an_answer_is_wrong_for_runs_in_words_and_in_scores(tmp_path: Path) -> None:
    """A answered in words and stored `acc_of_all`; B has only `acc`, and one of its scores is NaN."""
    a = write_run(tmp_path / "a", {"t": acc("11100")}, metric="acc_of_all")
    b = write_run(tmp_path / "b", {"t": acc("1100")}, n=5)
    with (b / "predictions" / "t.jsonl").open("a") as file:
        file.write(json.dumps(row("e4", status="nan", metrics={})) + "\n")
    (task,) = compare_runs(a, b, metric="acc_of_all").tasks
    assert (task.comparison.n, task.comparison.value_a, task.comparison.value_b) == (5, 0.6, 0.4)


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [12, 40])
def test_rank_sets_of_equal_models_rarely_exclude_a_true_rank(tmp_path: Path, clusters: int) -> None:
    """All five models are equally good, so every true rank is 1; each is better on some clusters than on others."""
    generator, wrong, repeats = np.random.default_rng(clusters), 0, 100
    for repeat in range(repeats):
        index = np.repeat(np.arange(clusters), generator.integers(1, 6, size=clusters))
        names = {f"e{index}": f"c{cluster}" for index, cluster in enumerate(index)}
        easy = generator.normal(0, 1, clusters)
        paths = []
        for model in range(5):
            skill = (easy + generator.normal(0, 0.7, clusters))[index] + generator.normal(0, 1, len(index))
            answers: Answers = {name: float(ability > 0) for name, ability in zip(names, skill, strict=True)}
            paths.append(write_run(tmp_path / f"{repeat}-{model}", {"t": answers}, names))
        wrong += any(rank.best != 1 for rank in figeval.compare(paths).result.ranks)
    print(f"{clusters} clusters: {wrong / repeats:.3f}")
    assert wrong / repeats < 0.115  # .05 and three standard errors
