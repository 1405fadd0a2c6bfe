"""Value preference: versions of a moral, win rates and their sign test, and the command on real runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import ChoiceExample, Prediction
from figeval.testing import check_metric
from figeval.testing.fakes import FakePairScorer
from tests.aggregated import statistic
from tests.cli.conftest import Cli
from tests.finished_runs import finished
from tests.processes import figeval as run_figeval
from tests.sources import read_rows

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "tasks" / "storal_preference.json").read_text("utf-8"))
NAMES = ("win_antonym", "win_synonym", "win_difference", "win_synonym_antonym")
KINDS = ("moral", "synonym", "antonym")
SIZES = {"train": 656, "valid": 243, "test": 223}
SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=3, max_size=3)


def example(kinds: Sequence[str | None]) -> ChoiceExample:
    """A question whose options are of these kinds."""
    columns = tuple({} if kind is None else {"version": kind} for kind in kinds)
    options = tuple(f"option {number}" for number in range(len(kinds)))
    return ChoiceExample(id="1", query="a story", options=options, gold=0, option_meta=columns)


def answer(scores: Sequence[float], **fields: Any) -> Prediction:
    """The answer that these scores amount to."""
    value = max(range(len(scores)), key=scores.__getitem__, default=0) if scores else 0
    return Prediction(**{"example_id": "1", "value": value, "scores": tuple(scores), **fields})


def value(name: str, example: ChoiceExample, prediction: Prediction) -> float | None:
    features = statistic(name, "choice").features(example, prediction)
    return None if features is None else features[0]


@pytest.mark.slow
def test_without_the_tagger_a_build_says_in_one_line_what_to_install(real_data: str, tmp_path: Path) -> None:
    for package in ("lemminflect", "RAKE"):
        pytest.importorskip(package)
    (tmp_path / "pairs.jsonl").write_text('{"story": "A goat met a fox.", "moral": "Friends help."}\n', "utf-8")
    environment = {"NLTK_DATA": f"{real_data}/oewn/nltk_root", "HOME": str(tmp_path)}
    arguments = ("benchmark", "build", "storal", "--pairs", "pairs.jsonl", "--output", "out", "--tasks", "preference")
    (line,) = run_figeval(*arguments, cwd=tmp_path, code=2, **environment).stderr.splitlines()
    assert "run `python -m nltk.downloader punkt_tab averaged_perceptron_tagger_eng`, or set NLTK_DATA" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("split", SIZES)
def test_the_frozen_versions_replace_the_same_word(split: str, real_data: str) -> None:
    rows = read_rows(f"storal:preference_en_{split}")
    assert len(rows) == SIZES[split]
    for row in rows:
        kinds = [columns["version"] for columns in row["versions"]]
        assert sorted(kinds) == sorted(KINDS)
        texts = dict(zip(kinds, row["options"], strict=True))
        assert row["options"][row["gold"]] == texts["moral"]
        assert len({text.lower() for text in texts.values()}) == 3
        assert len({len(text.split()) for text in texts.values()}) == 1
        words = [text.split() for text in (texts["moral"], texts["synonym"], texts["antonym"])]
        changed_indices = [
            {index for index, pair in enumerate(zip(words[0], other, strict=True)) if pair[0] != pair[1]}
            for other in words[1:]
        ]
        assert changed_indices[0] & changed_indices[1]  # beside the word, an article may differ
        assert all(max(indices) - min(indices) <= 1 for indices in changed_indices)
    changed_indices = Counter(row["gold"] for row in rows)
    assert max(changed_indices.values()) - min(changed_indices.values()) <= 2


# ---- win rates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["metrics"], ids=lambda case: case["why"])
def test_win_rates(case: dict[str, Any]) -> None:
    fields = {"status": case["status"], "value": None} if "status" in case else {}
    prediction = answer([float(score) for score in case["scores"]], **fields)
    for name, expected in case["expected"].items():
        assert value(name, example(case["kinds"]), prediction) == expected, name


@given(SCORES, st.permutations(KINDS))
def test_win_rates_are_what_they_are_in_any_order(scores: list[float], order: list[str]) -> None:
    question, of = example(order), dict(zip(order, scores, strict=True))
    wins = {
        kind: 1.0 if of["moral"] > of[kind] else 0.5 if of["moral"] == of[kind] else 0.0
        for kind in ("antonym", "synonym")
    }
    rates = [value(name, question, answer(scores)) for name in NAMES]
    versions = (of["synonym"] > of["antonym"]) + (of["synonym"] == of["antonym"]) / 2
    assert rates == [wins["antonym"], wins["synonym"], wins["antonym"] - wins["synonym"], versions]


def test_of_several_orders_those_with_scores_count() -> None:
    answers = (
        answer([0.9, 0.1, 0.2], order=(0, 1, 2)),
        answer([0.1, 0.5, 0.2], order=(1, 0, 2)),
        answer([], value=None, status="refusal", order=(2, 1, 0)),
    )
    folded = Prediction(example_id="1", value=0, scores=(0.5, 0.5, 0.0), answers=answers)
    assert value("win_synonym", example(KINDS), folded) == 0.5
    letters = Prediction(example_id="1", value=0, scores=(1.0, 0.0, 0.0), answers=(answer([]), answer([])))
    assert value("win_synonym", example(KINDS), letters) is None  # the scores are shares of letters


def test_metrics_keep_to_the_contract() -> None:
    cases = [(example(KINDS), answer(scores)) for scores in ([0.9, 0.1, 0.2], [0.2, 0.2, 0.2], [])]
    for name in NAMES:
        check_metric(statistic(name, "choice"), cases)


# ---- stored runs -----------------------------------------------------------------------------------------------------

TASK = """
name: {name}
type: choice
data: {{test: "jsonl:rows.jsonl"}}
fields:
  id: row.id
  query: row.story
  options: row.options
  gold: row.gold
  option_meta: "[{{'version': 'moral'}}, {{'version': 'synonym'}}, {{'version': 'antonym'}}]"
  meta: {{moral: row.moral}}
cluster: moral
metrics: [win_antonym, win_synonym, win_synonym_antonym, win_difference, acc]
baselines: []
floor: no_query
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task of eight questions, of which word overlap finds the moral closer than the antonym in six."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": str(number),
            "story": "An amber fox." if number < 6 else "A brown goat.",
            "options": ["amber fox", "amber vixen", "brown goat"],
            "gold": 0,
            "moral": f"moral {number // 2}",
        }
        for number in range(8)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (tmp_path / "own.task.yaml").write_text(TASK.format(name="own_versions"), "utf-8")
    return tmp_path


def run_of(folder: Path, **settings: Any) -> Path:
    return figeval.run("own_versions", "overlap", include_path=folder, output_path=folder / "run", **settings).path


@pytest.fixture
def preferences(cli: Cli) -> Callable[[Path], list[dict[str, Any]]]:
    """`preferences(run)`: the lines that `figeval benchmark analyze preference` computes."""

    def lines(run: Path) -> list[dict[str, Any]]:
        outcome = cli("benchmark", "analyze", "preference", run, "--format", "json")
        assert outcome.code == 0, outcome.err
        computed: list[dict[str, Any]] = json.loads(outcome.out)
        return computed

    return lines


def test_a_run_of_any_task_with_versions_is_tested(folder: Path, preferences: Any, cli: Cli) -> None:
    run = run_of(folder)
    preferences_of_task = {(line["task"], line["metric"]): line for line in preferences(run)}
    assert preferences_of_task["own_versions", "win_antonym"]["test"] == {"wins": 3, "ties": 0, "losses": 1, "p": 0.625}
    assert preferences_of_task["own_versions", "win_antonym"]["score"]["value"] == 0.75
    assert preferences_of_task["own_versions", "win_synonym"]["test"] == {"wins": 3, "ties": 1, "losses": 0, "p": 0.25}
    assert preferences_of_task["own_versions@no_query", "win_antonym"]["test"]["p"] is None
    shown = cli("benchmark", "analyze", "preference", run).out
    assert "no p if every cluster ties" in shown
    line = next(line for line in shown.splitlines() if "own_versions " in line and "win_antonym" in line)
    assert line.split()[-4:] == ["3", "0", "1", "0.625"]


@pytest.mark.parametrize("seen", [4, 8])
def test_questions_that_a_model_has_seen_are_left_out(folder: Path, seen: int, preferences: Any) -> None:
    run = run_of(folder)
    file = run / "predictions" / "own_versions.jsonl"
    rows_ = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    rows_ = [row | {"seen": "trained" if index < seen else None} for index, row in enumerate(rows_)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows_), "utf-8")
    record = json.loads((run / "run.json").read_text("utf-8"))
    task = record["tasks"][0]
    task["predictions_sha256"] = None
    rest = [score | {"n": 8 - seen} for score in task["scores"]] if seen < 8 else []
    task["overlap"] = {"trained": seen, "chosen": 0, "rest": 8 - seen, "scores": rest}
    (run / "run.json").write_text(json.dumps(record), "utf-8")
    antonym, *_, beyond = preferences(run)[:5]
    assert [(line["seen"], line["unknown"]) for line in (antonym, beyond)] == [(seen, 0)] * 2
    if seen == 8:
        assert (antonym["test"], "no valid test exists" in antonym["why"]) == (None, True)
        assert (beyond["test"], beyond["score"]["value"], beyond["why"]) == (None, None, antonym["why"])
    else:
        assert (antonym["test"]["wins"], antonym["test"]["losses"], antonym["score"]["n"]) == (1, 1, 4)
        assert antonym["why"] == ""
        assert (beyond["test"]["ties"], beyond["test"]["losses"]) == (1, 1)
        assert (beyond["score"]["n"], beyond["score"]["value"]) == (4, -0.25)


WITHOUT_STORY = {"amber fox": 1.0, "amber vixen": 2.0, "brown goat": 0.0}


def closeness(story: str, option: str) -> float:
    """Words in common; without a story the synonym is liked best, and the antonym least."""
    return float(len({*story.lower().strip(".").split()} & {*option.split()})) if story else WITHOUT_STORY[option]


def test_the_difference_is_held_against_the_one_without_the_story(folder: Path, preferences: Any, cli: Cli) -> None:
    """With the story it is 0 in six questions and −1/2 in two, without it 1 in all eight."""
    figeval.run(
        "own_versions",
        FakePairScorer(function=closeness),
        name="close",
        include_path=(folder,),
        output_path=folder / "run",
    )
    (beyond,) = [line for line in preferences(folder / "run") if line["minus"]]
    assert (beyond["task"], beyond["metric"], beyond["minus"]) == ("own_versions", "win_difference", "no_query")
    assert beyond["test"] == {"wins": 0, "ties": 0, "losses": 4, "p": 0.125}
    # Four morals of two questions with means of −1, −1, −1 and −1.5: t with three degrees of freedom is 3.182.
    score = beyond["score"]
    assert (score["value"], score["stderr"], score["n"], score["clusters"]) == (-1.125, pytest.approx(0.125), 8, 4)
    assert (score["low"], score["high"]) == pytest.approx((-1.125 - 3.1824 * 0.125, -1.125 + 3.1824 * 0.125), abs=1e-4)
    assert (score["interval"], beyond["unknown"], beyond["seen"], beyond["why"]) == ("clustered t", 0, 0, "")
    assert "too few clusters (4)" in beyond["note"]
    lines = cli("benchmark", "analyze", "preference", folder / "run").out.splitlines()
    (line,) = [line for line in lines if "win_difference − no_query  " in line]
    assert line.split()[:4] == ["close", "own_versions", "win_difference", "−"]
    assert line.split()[-4:] == ["0", "0", "4", "0.125"]
    assert any("close, own_versions, win_difference − no_query: too few clusters" in line for line in lines)


def test_without_the_floor_a_note_says_so(folder: Path, preferences: Any, cli: Cli) -> None:
    run = run_of(folder, baselines=False)
    shown = cli("benchmark", "analyze", "preference", run).out
    reason = "no test, the run has no answers without the story; run it without --no_baselines, or with --probes"
    assert f"overlap, own_versions, win_difference − no_query: {reason}" in shown
    beyond = preferences(run)[-1]
    assert (beyond["minus"], beyond["score"]["value"], beyond["score"]["n"]) == ("no_query", None, 0)
    assert beyond["test"] is None


def test_each_task_is_held_against_its_floor_once(folder: Path, preferences: Any) -> None:
    """Neither the floor itself nor another probe is."""
    lines = preferences(run_of(folder, probes=True))
    assert [(line["task"], line["minus"]) for line in lines if line["minus"]] == [("own_versions", "shuffled_query")]
    assert {line["task"] for line in lines} == {
        "own_versions",
        "own_versions@no_query",
        "own_versions@shuffled_query",
    }


def test_a_run_without_win_rates_is_refused_in_one_line(tmp_path: Path, cli: Cli) -> None:
    run = finished(tmp_path / "run", "mini_fables")
    complaint = cli("benchmark", "analyze", "preference", run).complaint
    assert "has no win rates: it has mini_fables; run storal_preference_en" in complaint


def test_table_18_has_the_win_rates_of_runs_and_their_p(folder: Path, cli: Cli) -> None:
    run = run_of(folder)
    assert cli("benchmark", "analyze", "preference", run, "--output", folder / "measured").code == 0
    numbers = json.loads((folder / "measured" / "measured.json").read_text("utf-8"))["numbers"]
    values = {(number["model"], number["metric"]): number["value"] for number in numbers}
    assert {number["part"] for number in numbers} == {"own_versions"}
    assert (values["overlap", "win_true_vs_ant"], values["overlap", "p_true_vs_ant"]) == (0.75, 0.625)
    assert (values["overlap", "win_true_vs_syn"], values["overlap", "p_true_vs_syn"]) == (0.875, 0.25)
    assert (values["overlap", "win_syn_vs_ant"], values["overlap", "p_syn_vs_ant"]) == (0.75, 0.625)
    assert values["overlap, no_query", "win_true_vs_ant"] == 0.5
    assert ("overlap, no_query", "p_true_vs_ant") not in values  # all clusters tie
    assert (
        "leave one out"
        in cli("benchmark", "analyze", "preference", run, run, "--output", folder / "measured").complaint
    )
    for number in numbers:
        number["part"] = "storal_rewritten_zh"
    (folder / "measured.json").write_text(json.dumps({"source": "ours", "numbers": numbers}), "utf-8")
    table = cli("export", "--to", "latex", "--layout", "storal_table_18", "--measured", folder / "measured.json").out
    assert r"overlap & 88 & 0.25 & 75 & 0.62 & 75 & 0.62 \\" in table
    assert r"RA-RoBERTa & 64 & 0.06 & 34 & 0.03 & 40 & 0.20 \\" in table


# ---- rewritten morals ------------------------------------------------------------------------------------------------


@pytest.fixture
def rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """`rewritten(rows, language, copy)`: the rows of a user's file, and of a copy of the archive."""

    def read(rows: list[dict[str, str]], language: str = "zh", copy: Path | None = None) -> list[dict[str, Any]]:
        (tmp_path / f"rewritten_{language}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        folders = [tmp_path, *([copy] if copy else [])]
        monkeypatch.setenv("FIGEVAL_DATA_COPIES", ",".join(f"storal={folder}" for folder in folders))
        return read_rows(f"storal:rewritten_{language}")

    return read


VERSIONS = {"synonym": "Vanity fails.", "antonym": "Pride wins."}
STORY = {"story": "Once there was a crow.", "moral": "Pride falls.", **VERSIONS}


def texts_by_kind(row: dict[str, Any]) -> dict[str, str]:
    kinds = [columns["version"] for columns in row["versions"]]
    return dict(zip(kinds, row["options"], strict=True))


def test_rewritten_morals_of_own_stories_are_balanced_and_stable(rewritten: Any) -> None:
    rows = [STORY | {"moral": f"Pride falls {number} times."} for number in range(12)]
    first, second = rewritten(rows), rewritten(rows)
    assert first == second
    orders = Counter(tuple(columns["version"] for columns in row["versions"]) for row in first)
    assert sorted(orders.values()) == [2] * 6
    for number, row in enumerate(first):
        expected = {"moral": f"Pride falls {number} times.", **VERSIONS}
        assert (row["id"], row["story"], texts_by_kind(row)) == (str(number + 1), STORY["story"], expected)
        assert row["options"][row["gold"]] == expected["moral"]


def test_rewritten_morals_of_published_stories_are_found_by_their_id(rewritten: Any, tmp_path: Path) -> None:
    copy = tmp_path / "archive" / "st2mo_data_zh"
    copy.mkdir(parents=True)
    for ending, text in (("source", "Story"), ("target", "Moral")):
        (copy / f"test.{ending}").write_text("".join(f"{text} {row}.\n" for row in range(421)), "utf-8")
    (row,) = rewritten([{"id": "test-7", "synonym": "Same.", "antonym": "Opposite."}], copy=tmp_path / "archive")
    assert (row["story"], texts_by_kind(row)["moral"], row["language"]) == ("Story 7.", "Moral 7.", "zh")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has no rows"),
        ([STORY | {"antonym": "pride FALLS"}], "'antonym' has the words of the moral"),
        ([STORY | {"synonym": ""}], "'synonym' is empty"),
        ([STORY | {"id": "a"}, STORY | {"id": "a"}], ":2: 'id' a has been used by a row above"),
        ([{"synonym": "a", "antonym": "b"}], ":1: neither an id nor a story"),
        ([{"id": "test-1"}], "the published st2mo rows in 'zh' were not found"),
        ([{key: value for key, value in STORY.items() if key != "moral"}], "no field 'moral'"),
    ],
)
def test_a_broken_file_of_rewritten_morals_is_refused_in_one_line(rows: Any, message: str, rewritten: Any) -> None:
    with pytest.raises(figeval.DataError) as raised:
        rewritten(rows)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "--columns" not in str(raised.value)  # which no command has for these files


def test_english_rewritings_belong_to_a_story_of_the_test_split(
    real_data: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rewritten_en.csv").write_text("id,synonym,antonym\ntest-3,Same sense,Opposite sense\n", "utf-8")
    monkeypatch.setenv("FIGEVAL_DATA_COPIES", f"storal={tmp_path}")
    (story,) = (row["story"] for row in read_rows("storal:st2mo_en_test") if row["id"] == "test-3")
    assert [row["story"] for row in read_rows("storal:rewritten_en")] == [story]
    (tmp_path / "rewritten_en.csv").write_text("id,synonym,antonym\ntrain-3,Same sense,Opposite sense\n", "utf-8")
    outcome = cli("run", "--tasks", "storal_rewritten_en", "--model", "overlap", "--output_path", tmp_path / "run")
    assert "'id' train-3 is no story of the test split" in outcome.complaint
