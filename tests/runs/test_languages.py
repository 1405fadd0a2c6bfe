"""Tasks with rows in several languages: a line for each, their mean, and everything else as before."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

import figeval
from figeval import ChoiceExample, DataError, FigevalError, Harness, PredictionRow, RecordError, RunRecord
from figeval import task as make_task
from figeval.testing.fakes import FakeGenerator
from tests import processes
from tests.finished_runs import compare_runs, write_trained_model
from tests.runs.conftest import Heard, Workshop, write_task

Cli = Callable[..., Any]
TASK = """
name: t
type: choice
language: [en, zh]
data: {test: "jsonl:t.jsonl"}
fields:
  {id: row.id, query: row.q, options: row.o, gold: row.g, language: row.lang, meta: {story: row.story, kind: row.k}}
group: row.pair
metrics: [acc]
baselines: [chance, overlap]
"""
STORIES = (
    ("The fox called the grapes sour.", "狐狸说葡萄是酸的。"),
    ("The tortoise beat the sleeping hare.", "乌龟赢了睡着的兔子。"),
    ("The ant stored grain for winter.", "蚂蚁为冬天存粮。"),
)


def rows(n: int = 24) -> list[dict[str, Any]]:
    """Twice as many rows in English as in Chinese; two English rows of a story make a minimal pair."""
    task_rows = []
    for index in range(n):
        lang = "zh" if index % 3 == 2 else "en"
        story = STORIES[index % 3][lang == "zh"]
        options = [story.split()[-1], "other", "third"]
        about = {"story": f"s{index // 3}", "k": f"k{index % 2}", "pair": f"{lang}{index // 3}", "lang": lang}
        task_rows.append({"id": f"r{index}", "q": f"{story} {index}", "o": options, "g": int(index % 5 == 0), **about})
    return task_rows


def write(folder: Path, content: list[dict[str, Any]], text: str = TASK) -> None:
    (folder / "t.task.yaml").write_text(text, "utf-8")
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in content)
    (folder / "t.jsonl").write_text("".join(lines), "utf-8")


def scores(record: RunRecord, metric: str = "acc") -> dict[str, float | None]:
    (task,) = record.tasks
    scores_of_language = {each.language: each.scores for each in task.languages}
    scores_of_language["mean"] = task.scores
    return {
        name: next(score.value for score in scores if score.metric == metric)
        for name, scores in scores_of_language.items()
    }


def test_each_language_is_what_a_task_of_its_own_would_be(workshop: Workshop) -> None:
    """Scores, n, clusters, intervals and baselines, also of minimal pairs."""
    clustered = f"{TASK}cluster: story\n"
    write(workshop.folder, rows(), clustered.replace("cluster", "version: 2\ncluster"))
    over_all = workshop.run()
    languages = {language_record.language: language_record for language_record in over_all.tasks[0].languages}
    assert list(languages) == ["en", "zh"]
    for language in ("en", "zh"):
        single = clustered.replace("[en, zh]", language)
        write(workshop.folder, [row for row in rows() if row["lang"] == language], single)
        alone = workshop.run(fresh=True).tasks[0]
        assert languages[language].scores == alone.scores
        assert languages[language].baselines == alone.baselines
        assert alone.languages == []
    means = {score.metric: score.value for score in over_all.tasks[0].scores}
    for score in over_all.tasks[0].scores:
        values = [
            next(s.value for s in language_record.scores if s.metric == score.metric)
            for language_record in languages.values()
        ]
        assert means[score.metric] == pytest.approx(sum(map(float, filter(None, values))) / 2)
    assert {score.metric for score in over_all.tasks[0].scores} == {"acc", "acc_strict"}
    trivial = {baseline.baseline: baseline.scores[0].value for baseline in over_all.tasks[0].baselines}
    assert trivial["chance"] == pytest.approx(1 / 3)


def test_rows_keep_their_language_and_scores_follow_from_them(workshop: Workshop) -> None:
    write(workshop.folder, rows())
    record = workshop.run(by=("kind",))
    assert [row["language"] for row in workshop.rows()] == [row["lang"] for row in rows()]
    for row in workshop.rows():
        TypeAdapter(PredictionRow).validate_python(row)
    (task,) = record.tasks
    assert task.settings["languages"] == ["en", "zh"]
    assert task.scores[0].interval.method == "over languages"
    assert [group.value for group in task.breakdowns[0].groups] == ["k0", "k1"]
    again = workshop.load().by("story").record.tasks[0]
    assert (again.languages, again.scores) == (task.languages, task.scores)
    assert len(again.breakdowns[0].groups) == 8
    run = workshop.load()
    shown = run.scores[run.scores["metric"] == "acc"].set_index("examples")["value"].to_dict()
    assert shown == {"all": task.scores[0].value, **{each.language: each.scores[0].value for each in task.languages}}
    assert run.predictions("t")["language"].to_list() == [row["lang"] for row in rows()]


def test_a_run_cut_short_ends_the_same(workshop: Workshop) -> None:
    write(workshop.folder, rows())
    with pytest.raises(KeyboardInterrupt):
        workshop.run(observer=Heard(stop_after=1))
    resumed, uninterrupted = workshop.run(), workshop.run(fresh=True)
    assert resumed.tasks[0].languages == uninterrupted.tasks[0].languages != []
    assert resumed.tasks[0].scores == uninterrupted.tasks[0].scores


def test_answers_read_again_keep_the_baselines_of_each_language(workshop: Workshop) -> None:
    write(workshop.folder, rows())
    workshop.backend = FakeGenerator(function=lambda question: "B" if "grapes" in question else "A")
    before = workshop.run().tasks[0]
    assert all(language_record.baselines for language_record in before.languages)
    workshop.rescore()
    after = workshop.load().record.tasks[0]
    assert (after.languages, after.scores) == (before.languages, before.scores)


PAIRS = """
name: t
type: pairs
labels: [same, other]
language: [en, zh]
data: {test: "jsonl:t.jsonl"}
fields: {id: row.id, left: row.q, right: "row.o[0]", label: row.l, language: row.lang, meta: {story: row.story}}
settings: {threshold: 0.2}
cluster: story
metrics: [acc, macro_f1]
baselines: [chance]
"""


def test_bootstrapped_statistics(workshop: Workshop) -> None:
    """macro-F1: one of each language, and of the mean by drawing clusters with all of their rows."""
    content = [
        {**row, "o": [row["q"] if index % 7 else "x"], "l": "same" if index % 5 else "other", "story": str(index // 2)}
        for index, row in enumerate(rows(360))
    ]
    write(workshop.folder, content, PAIRS)
    (task,) = workshop.run().tasks
    assert task.error is None
    scores = {score.metric: score for score in task.scores}
    assert scores["macro_f1"].interval.method == "cluster bootstrap over languages"
    parts = [score for each in task.languages for score in each.scores if score.metric == "macro_f1"]
    assert [score.interval.method for score in parts] == ["cluster bootstrap", "bootstrap"]
    assert scores["macro_f1"].value == pytest.approx(sum(score.value or 0 for score in parts) / 2)


def test_a_limit_that_leaves_no_row_of_a_language(workshop: Workshop) -> None:
    write(workshop.folder, rows())
    (task,) = workshop.run(limit=2).tasks
    assert [each.scores[0].n for each in task.languages] == [2, 0]
    assert (task.scores[0].value, task.scores[0].interval.reason) == (None, "in zh, no examples")


def test_the_table(workshop: Workshop) -> None:
    write(workshop.folder, rows())
    workshop.run()
    shown = str(workshop.load())
    lines = [line.split()[:5] for line in shown.splitlines()]
    heads = [
        line[0] if line[0] != "t" else " ".join(line[:4]) for line in lines if line and line[0] in ("t", "zh", "mean")
    ]
    assert heads == ["t en by_pair_score acc", "zh", "mean", "zh", "mean"]
    assert "mean: unweighted mean over languages" in shown


@pytest.mark.wing("comparison")
def test_two_runs_are_compared_by_language_and_over_them(workshop: Workshop) -> None:
    write(workshop.folder, rows(), f"{TASK}cluster: story\n")
    first = workshop.run()
    workshop.output.rename(workshop.path / "first")
    workshop.backend = FakeGenerator(function=lambda question: "A")
    second = workshop.run()
    comparison = compare_runs(workshop.path / "first", workshop.output)
    assert [task.task for task in comparison.tasks] == ["t (en)", "t (zh)", "t"]
    for task, name in zip(comparison.tasks, ("en", "zh", "mean"), strict=True):
        difference = (scores(first)[name] or 0) - (scores(second)[name] or 0)
        assert task.comparison.difference == pytest.approx(difference)
    assert [task.comparison.n for task in comparison.tasks] == [16, 8, 24]
    assert comparison.family == 3


BY_LANGUAGE = TASK.replace("kind: row.k", "kind: row.k, lang: row.lang").replace("group: row.pair\n", "")


@pytest.mark.wing("comparison")
def test_a_language_that_is_one_cluster_has_no_interval_in_a_run_nor_in_a_comparison(workshop: Workshop) -> None:
    write(workshop.folder, rows(), f"{BY_LANGUAGE}cluster: lang\n")
    workshop.backend = FakeGenerator(function=lambda prompt: "A" if "1" in prompt else "B")
    (task,) = workshop.run().tasks
    means = [score for scored in (*task.languages, task) for score in scored.scores if score.metric == "acc"]
    assert [(score.clusters, score.low, score.interval.reason) for score in means] == [
        (1, None, "one cluster"),
        (1, None, "one cluster"),
        (2, None, "one cluster"),
    ]
    workshop.backend = FakeGenerator(function=lambda prompt: "B" if "2" in prompt else "A")
    workshop.output.rename(workshop.path / "first")
    workshop.run()
    compared = compare_runs(workshop.path / "first", workshop.output).tasks
    assert [(each.comparison.clusters, each.comparison.low) for each in compared] == [(1, None), (1, None), (2, None)]


def test_a_cluster_that_is_named_like_a_language_is_still_a_cluster(workshop: Workshop) -> None:
    content = rows()
    for row in content:
        row["story"] = row["lang"] if row["story"] in ("s0", "s1", "s2") else row["story"]
    write(workshop.folder, content, f"{BY_LANGUAGE}cluster: story\n")
    (task,) = workshop.run().tasks
    assert [language.scores[0].clusters for language in task.languages] == [6, 6]  # five stories, and that of nine rows


def test_by_the_cluster_column_rows_are_independent_and_by_a_finer_one_they_are_not(workshop: Workshop) -> None:
    content = rows()
    for row in content:
        row["k"] = "s0" if row["story"] == "s0" else f"{row['story']} {row['k']}"
    write(workshop.folder, content, f"{BY_LANGUAGE}cluster: story\n")
    (task,) = workshop.run(by=("story", "kind")).tasks
    by_story, by_kind = ({group.value: group.scores[0] for group in part.groups} for part in task.breakdowns)
    assert {score.clusters for score in by_story.values()} == {3}
    assert by_kind["s0"].interval.reason == "one cluster"  # named like its cluster, which other rows are not


@pytest.mark.wing("comparison")
def test_a_record_that_lists_other_languages_than_the_rows_have(workshop: Workshop) -> None:
    write(workshop.folder, rows())
    workshop.run()
    workshop.edit_record(lambda record: record["tasks"][0]["settings"].update(languages=["en", "de"]))
    with pytest.raises(RecordError, match=r"example 'r2' of t is in 'zh', and `languages` in run.json lists en, de;"):
        compare_runs(workshop.output, workshop.output)


def test_the_mean_of_a_suite_is_over_the_means(workshop: Workshop) -> None:
    write(workshop.folder, rows())
    write_task(workshop.folder, "u")
    (workshop.folder / "s.suite.yaml").write_text("name: s\ntasks: [t, u]\n", "utf-8")
    record = workshop.run("s")
    values = {task.task: next(score.value for score in task.scores if score.metric == "acc") for task in record.tasks}
    macro = next(score for score in record.macro if score.metric == "acc")
    assert macro.value == pytest.approx(sum(value or 0 for value in values.values()) / 2)
    languages = [language_record.scores[0].value or 0 for language_record in record.tasks[0].languages]
    assert values["t"] == pytest.approx(sum(languages) / 2)


def test_a_template_knows_the_language_and_solved_examples_are_in_it(workshop: Workshop) -> None:
    templates = workshop.folder / "templates"
    templates.mkdir()
    letter = "{% block letter %}[{{ language }}] {{ query }}\nAnswer:{% endblock %}"
    (templates / "by_language.jinja").write_text(letter, "utf-8")
    train = TASK.replace("test:", 'train: "jsonl:t.jsonl", test:')
    write(workshop.folder, rows(), f"{train}template: by_language.jinja\n")
    workshop.backend = FakeGenerator(function=lambda _: "A")
    workshop.run(num_fewshot=2)
    languages_asked = [re.findall(r"^\[(\w+)\]", prompt.plain, re.MULTILINE) for prompt in workshop.backend.asked]
    assert {tuple(languages) for languages in languages_asked} == {("en",) * 3, ("zh",) * 3}


@pytest.mark.slow
def test_two_processes_answer_the_same(workshop: Workshop, warm_start: None) -> None:
    """Real processes: the rows of each language and the kinds that were chosen come together again."""
    kinds = "option_meta: [{kind: \"'story'\"}, {kind: \"'other'\"}, {kind: \"'third'\"}], "
    write(workshop.folder, rows(), TASK.replace("language: row.lang", f"{kinds}language: row.lang"))
    records = []
    for number in ("1", "2"):
        folder = workshop.path / f"run{number}"
        command = ("run", "--include_path", workshop.folder, "--tasks", "t", "--model", "overlap")
        processes.figeval(*command, "--output_path", folder, "--processes", number, cwd=workshop.path)
        (task,) = figeval.load(folder).record.tasks
        records.append((task.scores, task.languages, task.choices, (folder / "predictions" / "t.jsonl").read_bytes()))
    assert records[0] == records[1]
    assert records[0][2][0].answered == 24


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" language: row.lang,", "", "t.task.yaml: a task in several languages needs the field language"),
        ("[en, zh]", "[en, en]", "'en' is listed twice"),
        ("[en, zh]", "[en, no]", "False is not a string"),
        (
            "[en, zh]",
            "[en, klingon]",
            "'klingon' is not a language tag (BCP 47); write a code such as en, yo or zh-Hant",
        ),
        ("[en, zh]", "xx", "'xx' is not a language tag"),
        (" [en, zh]", "", "it has no value; write a code such as en, or leave the key out"),
        ("[en, zh]", "[eng, zh]", "write 'en' instead of 'eng'"),
        ("[en, zh]", "[en, zh_hant]", "write 'zh-Hant' instead of 'zh_hant'"),
    ],
)
def test_definitions_that_are_refused(workshop: Workshop, cli: Cli, old: str, new: str, message: str) -> None:
    """A run knows no such task, and `validate` says why."""
    write(workshop.folder, rows(), TASK.replace(old, new))
    with pytest.raises(FigevalError):
        workshop.run()
    (problem,) = [line for line in cli("validate", workshop.folder).out.splitlines() if line.startswith("error: ")]
    assert message in problem


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        ("[en, zh, de]", "t: `language` lists 'de', but no row is in that language; remove it, or add rows"),
        ("[en, de]", "row 3 of 'jsonl:t.jsonl', field 'language': 'zh' is not among the task's languages; add it"),
    ],
)
def test_rows_that_are_refused(workshop: Workshop, cli: Cli, languages: str, message: str) -> None:
    write(workshop.folder, rows(), TASK.replace("[en, zh]", languages))
    with pytest.raises(DataError) as refused:
        workshop.run()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    problem = message.removeprefix("row 3 of 'jsonl:t.jsonl'")  # the same problem of several rows is one finding
    assert problem in cli("validate", workshop.folder).out


def test_a_row_without_a_language(workshop: Workshop) -> None:
    content = rows()
    content[4]["lang"] = None
    write(workshop.folder, content)
    with pytest.raises(DataError, match=r"row 5 .*'language': no language is given, .* several \(en, zh\)"):
        workshop.run()


def test_validate_counts_them(workshop: Workshop, cli: Cli) -> None:
    write(workshop.folder, rows())
    outcome = cli("validate", workshop.folder)
    assert outcome.code == 0
    assert "24 examples, 16 minimal groups; languages en ×16, zh ×8; gold" in outcome.out


def test_a_list_of_one_language_is_that_language() -> None:
    @make_task(name="mine", type="choice", language=["de"], baselines=())
    def mine():
        yield ChoiceExample(id="1", query="q", options=("a", "b"), gold=0)

    assert (mine.language, mine.languages) == ("de", ("de",))


def test_examples_in_python_say_their_language() -> None:
    @make_task(name="mine", type="choice", language=["en", "zh"], baselines=())
    def mine():
        yield ChoiceExample(id="1", query="q", options=("a", "b"), gold=0, language="en")
        yield ChoiceExample(id="2", query="q", options=("a", "b"), gold=0)

    harness = Harness()
    examples = harness.examples(mine.bound(harness.task_types))
    assert next(examples).language == "en"
    with pytest.raises(DataError, match="mine: example 2, id '2': no language is given"):
        next(examples)


def test_seen_examples_cost_their_language_and_the_mean_their_intervals(workshop: Workshop, tmp_path: Path) -> None:
    """The other language keeps its interval; the score on the remaining examples is a mean over languages."""
    write(workshop.folder, rows())
    trained = [
        ChoiceExample(id="", query=row["q"], options=tuple(row["o"]), gold=row["g"])
        for row in [row for row in rows() if row["lang"] == "en"][:6]
    ]
    folder = write_trained_model(tmp_path / "model", trained)
    workshop.backend.source = lambda: folder
    (task,) = workshop.run().tasks
    en, zh = (each.scores[0] for each in task.languages)
    assert (en.low, en.seen, zh.seen) == (None, "trained", None)
    assert zh.low is not None
    assert (task.scores[0].low, task.scores[0].seen) == (None, "trained")
    assert task.scores[0].interval.reason.startswith("trained on")
    assert task.overlap is not None
    rest = [row for row in workshop.rows() if "seen" not in row]
    assert len(rest) == 18
    means = [np.mean([row["metrics"]["acc"] for row in rest if row["language"] == name]) for name in ("en", "zh")]
    assert task.overlap.scores[0].value == pytest.approx(sum(means) / 2)
    assert task.overlap.scores[0].interval.method == "over languages"


def score_seeds(workshop: Workshop, *without: tuple[int, str]) -> dict[str, Any]:
    """Score three seeds of a system, without these answers; return the lines of `acc` in seeds.json by language."""
    predictions = [
        {"id": row["id"], "seed": seed, "prediction": zlib.crc32(f"{row['id']}{seed}".encode()) % 3}
        for seed in range(3)
        for row in rows(60)
        if (seed, row["id"]) not in without
    ]
    output = {"output_path": workshop.output, "include_path": workshop.folder, "fresh": True}
    figeval.score("t", predictions, name="m", **output)
    lines = json.loads((workshop.output / "seeds.json").read_text("utf-8"))["scores"]
    return {line.get("language", ""): line for line in lines if line["metric"] == "acc"}


def test_means_over_seeds_have_a_line_for_each_language_and_an_interval(workshop: Workshop, cli: Cli) -> None:
    """The values of each language are looked up in the rows."""
    write(workshop.folder, rows(60), f"{TASK}cluster: story\n")
    line_of = score_seeds(workshop)
    assert list(line_of) == ["en", "zh", ""]
    for language in ("en", "zh"):
        means = []
        for seed in range(3):
            stored = figeval.load(workshop.output / f"seed-{seed}").rows("t")
            answers = [row["metrics"]["acc"] for row in stored if row["language"] == language]
            means.append(np.mean(answers))
        line = line_of[language]
        assert (line["mean"], line["sd"]) == (pytest.approx(np.mean(means)), pytest.approx(np.std(means, ddof=1)))
        assert line["low"] < line["mean"] < line["high"]
        assert line["n"] == len(answers)
    mean = line_of[""]
    assert mean["mean"] == pytest.approx(np.mean([line_of["en"]["mean"], line_of["zh"]["mean"]]))
    assert mean["low"] < mean["mean"] < mean["high"]
    assert mean["high"] - mean["low"] < max(line["high"] - line["low"] for line in line_of.values())
    (task,) = workshop.load().record.tasks
    assert [(each.language, each.scores[0].value, each.scores[0].low) for each in task.languages] == [
        (language, line_of[language]["mean"], line_of[language]["low"]) for language in ("en", "zh")
    ]
    (first,) = figeval.load(workshop.output / "seed-0").record.tasks
    assert task.languages[0].baselines == first.languages[0].baselines
    shown = cli("show", workshop.output / "seeds.json").out
    heads = [line.split()[:3] for line in shown.splitlines() if line.strip().startswith("t ")]
    assert [head for head in heads if head[2] == "acc"] == [
        ["t", "en", "acc"],
        ["t", "zh", "acc"],
        ["t", "mean", "acc"],
    ]


def test_a_seed_without_an_answer_costs_its_language_and_the_mean_their_intervals(workshop: Workshop) -> None:
    write(workshop.folder, rows(60), f"{TASK}cluster: story\n")
    line_of = score_seeds(workshop, (0, "r59"))  # which is Chinese
    for language in ("zh", ""):
        assert "not the same examples answered" in line_of[language]["interval"]
    assert line_of["en"]["low"] is not None
