"""`figeval run --samples`: several samples of an answer, stored, resumed, read again and paid for one by one."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import OutputStream, Part, Prompt, Reply
from tests.cli.conftest import Cli
from tests.plugins.servers import Desk, desk_open, openai_answer

PAIRS = ("mini_pairs", ("Yes", "No", "No", "Maybe"))
PROVERBS = ("mini_proverbs", tuple("ABCDE?"))
STORIES = ("mini_narrative", ("the crow found water", "the crow drank", "water in a jar"))


class Drawing:
    """Draws a reply for each conversation and sample, and counts its requests; it stops or fails where it is told."""

    deterministic_by_name = True
    do_sample = True

    def __init__(self, replies: Sequence[str], stop_after: int | None = None, fail_at: int = 0) -> None:
        self.replies, self.stop_after, self.fail_at = replies, stop_after, fail_at
        self.requests: list[Prompt] = []

    def generate(self, requests: Sequence[Prompt]) -> OutputStream[Reply]:
        return OutputStream(len(requests), self.replied(requests))

    def replied(self, requests: Sequence[Prompt]) -> Iterator[Part[Reply]]:
        for index in sorted(range(len(requests)), key=lambda index: requests[index].sample):
            if len(self.requests) == self.stop_after:
                raise KeyboardInterrupt
            self.requests.append(requests[index])
            number = int.from_bytes(hashlib.sha256(repr(requests[index]).encode()).digest()[:4])
            failed = bool(self.fail_at) and len(self.requests) % self.fail_at == 0
            reply = (
                Reply(text="", finish="error", error="gone")
                if failed
                else Reply(text=self.replies[number % len(self.replies)])
            )
            yield Part([index], [reply], frozenset())


def run(task: str, model: Drawing, folder: Path, k: int = 3, **options: Any) -> figeval.Run:
    return figeval.run(task, model=model, output_path=folder, samples=k, limit=8, **options)


def row_bytes(folder: Path, task: str) -> bytes:
    return (folder / f"predictions/{task}.jsonl").read_bytes()


def values(of: figeval.Run) -> dict[str, float | None]:
    return {score.metric: score.value for score in of.record.tasks[0].scores}


@pytest.mark.parametrize(
    ("task", "replies"),
    [PAIRS, pytest.param(*PROVERBS, marks=pytest.mark.slow), pytest.param(*STORIES, marks=pytest.mark.slow)],
)
def test_scores_are_means_over_samples_and_computed_again_from_rows(
    task: str, replies: Sequence[str], tmp_path: Path, cli: Cli
) -> None:
    model = Drawing(replies)
    done = run(task, model, tmp_path / "a")
    rows = list(done.rows(task))
    assert len(model.requests) == 24
    assert {request.sample for request in model.requests} == {0, 1, 2}
    metric = "rouge_l" if task == "mini_narrative" else "acc"
    for row in rows:
        of_samples = [sample["metrics"][metric] for sample in row["samples"] if metric in sample["metrics"]]
        assert row["metrics"].get(metric) == (pytest.approx(sum(of_samples) / len(of_samples)) if of_samples else None)
    assert (
        sum(
            done.record.tasks[0].counts[status]
            for status in ("ok", "unparseable")
            if status in done.record.tasks[0].counts
        )
        == 24
    )
    (variance,) = (record for record in done.record.variances if record.metric == metric)
    assert (variance.samples, variance.prompts) == (3, 1)
    before, record = row_bytes(tmp_path / "a", task), json.loads((tmp_path / "a/run.json").read_text())
    cli("rescore", tmp_path / "a")
    after = json.loads((tmp_path / "a/run.json").read_text())
    assert row_bytes(tmp_path / "a", task) == before
    assert (after["tasks"], after["variances"]) == (record["tasks"], record["variances"])
    cli("verify", tmp_path / "a")


def test_the_first_sample_is_the_answer_without_samples(tmp_path: Path) -> None:
    task, replies = PROVERBS
    single = figeval.run(task, model=Drawing(replies), output_path=tmp_path / "one", limit=8)
    sampled = run(task, Drawing(replies), tmp_path / "three")
    first = [row["samples"][0] for row in sampled.rows(task)]
    assert [(row["status"], row["pred"], row.get("raw")) for row in single.rows(task)] == [
        (sample["status"], sample["pred"], sample.get("raw")) for sample in first
    ]


def test_a_run_that_was_stopped_asks_only_for_the_missing_samples(tmp_path: Path) -> None:
    task, replies = PROVERBS
    uninterrupted = run(task, Drawing(replies), tmp_path / "whole")
    stopped = Drawing(replies, stop_after=13)
    with pytest.raises(KeyboardInterrupt):
        run(task, stopped, tmp_path / "cut")
    rest = Drawing(replies)
    resumed = run(task, rest, tmp_path / "cut")
    assert len(rest.requests) == 24 - 13
    assert not set(rest.requests) & set(stopped.requests)
    assert row_bytes(tmp_path / "cut", task) == row_bytes(tmp_path / "whole", task)
    assert values(resumed) == values(uninterrupted)
    assert not (tmp_path / "cut/replies").exists()


def test_more_samples_in_the_same_folder_keep_those_that_are_there(tmp_path: Path) -> None:
    task, replies = PROVERBS
    for k, n_asked in ((1, 8), (3, 16), (5, 16)):
        model = Drawing(replies)
        run(task, model, tmp_path / "a", k)
        assert len(model.requests) == n_asked
    run(task, Drawing(replies), tmp_path / "b", 5)
    assert row_bytes(tmp_path / "a", task) == row_bytes(tmp_path / "b", task)
    assert len(list((tmp_path / "a/earlier").glob("*/run.json"))) == 2
    with pytest.raises(figeval.RecordError, match="samples was 5, is 3"):
        run(task, Drawing(replies), tmp_path / "a", 3)


def test_only_a_sample_that_failed_is_asked_for_again(tmp_path: Path, cli: Cli) -> None:
    task, replies = PROVERBS
    first = run(task, Drawing(replies, fail_at=10), tmp_path / "a")
    assert (first.record.status, first.record.tasks[0].counts["error"]) == ("incomplete", 2)
    assert "2 questions without a reply" in cli("show", tmp_path / "a").out
    again = Drawing(replies)
    assert run(task, again, tmp_path / "a").complete
    assert len(again.requests) == 2
    run(task, Drawing(replies), tmp_path / "b")
    assert row_bytes(tmp_path / "a", task) == row_bytes(tmp_path / "b", task)


def test_orders_and_prompts_are_sampled_too(tmp_path: Path) -> None:
    task, replies = PROVERBS
    model = Drawing(replies)
    done = run(task, model, tmp_path / "a", orders="2", prompts=["short"])
    assert len(model.requests) == 8 * 2 * 3 * 2
    assert [len(row["samples"][2]["answers"]) for row in done.rows(task)] == [2] * 8
    (variance,) = (record for record in done.record.variances if record.metric == "acc")
    assert variance.prompts == 2
    assert variance.between_prompts is not None
    assert variance.interval.low is None or variance.interval.low <= variance.mean


def test_the_variance_of_several_languages_is_about_the_mean_of_all_examples(tmp_path: Path) -> None:
    """The score is the mean over languages, whose interval is about another number."""
    gold = [("de", "yes")] * 3 + [("en", "no")] * 21
    rows = [{"id": str(n), "lang": lang, "text": f"Text {n}.", "label": label} for n, (lang, label) in enumerate(gold)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "irony.task.yaml").write_text(
        "name: irony\ntype: classification\nlabels: ['yes', 'no']\nlanguage: [de, en]\n"
        "data: {test: 'jsonl:rows.jsonl'}\nmetrics: [acc]\n"
        "fields: {id: row.id, text: row.text, label: row.label, language: row.lang}\n"
    )
    model = Drawing(("yes", "no", "no"))
    done = figeval.run("irony", model=model, include_path=tmp_path, output_path=tmp_path / "out", samples=3)
    (variance,) = (record for record in done.record.variances if record.metric == "acc")
    by_language = {each.language: each.scores[0] for each in done.record.tasks[0].languages}
    counts = {"de": 3, "en": 21}
    mean = sum(counts[name] * (score.value or 0) for name, score in by_language.items()) / 24
    assert variance.mean == pytest.approx(mean)
    assert variance.mean != pytest.approx(done.record.tasks[0].scores[0].value)
    assert variance.interval.method != done.record.tasks[0].scores[0].interval.method == "over languages"


def test_tasks_without_texts_are_asked_once_and_runs_without_any_are_refused(tmp_path: Path) -> None:
    class Both(Drawing):
        def loglikelihood(self, requests: Sequence[figeval.Continuation]) -> list[float]:
            return [-float(len(request.continuation)) for request in requests]

    with pytest.warns(figeval.FigevalWarning, match="asked once"):
        mixed = figeval.run(
            ["mini_proverbs", "mini_narrative"], model=Both(STORIES[1]), output_path=tmp_path / "a", samples=2, limit=3
        )
    choice, story = mixed.record.tasks
    assert "samples" not in choice.settings
    assert any("asked once" in warning for warning in choice.warnings)
    assert story.settings["samples"] == 2
    refused: list[tuple[Any, str]] = [
        (Both(STORIES[1]), "--route choice=by_letter"),
        ("overlap", "write nothing"),
    ]
    for model, cure in refused:
        with pytest.raises(figeval.CapabilityError, match=cure):
            figeval.run("mini_proverbs", model=model, output_path=tmp_path / "b", samples=2)


@pytest.mark.parametrize(("do_sample", "cure"), [(False, "temperature"), (None, "not known to sample")])
def test_a_model_that_always_writes_the_same_is_refused(do_sample: bool | None, cure: str, tmp_path: Path) -> None:
    class Same:
        deterministic_by_name = True

        def generate(self, requests: Sequence[Prompt]) -> list[str]:
            raise AssertionError("nothing may be asked")

    model = Same()
    if do_sample is not None:
        model.do_sample = do_sample  # type: ignore[attr-defined]
    with pytest.raises(figeval.CapabilityError, match=cure):
        run("mini_proverbs", model, tmp_path / "a")  # type: ignore[arg-type]


def test_a_metric_of_samples_needs_samples(tmp_path: Path) -> None:
    task, replies = PROVERBS
    with pytest.raises(figeval.TaskError, match="give --samples"):
        figeval.run(task, model=Drawing(replies), output_path=tmp_path / "a", metrics="pass@2")
    done = run(task, Drawing(replies), tmp_path / "a", k=4, metrics="pass@3")
    assert {"pass@2", "pass@3", "pass@4", "maj@4"} <= values(done).keys()


def test_other_tools_get_every_sample(tmp_path: Path, cli: Cli) -> None:
    task, replies = PROVERBS
    run(task, Drawing(replies), tmp_path / "a")
    cli("export", tmp_path / "a", "--to", "inspect", "--output", tmp_path / "inspect")
    (file,) = (tmp_path / "inspect").rglob("*.json")
    log = json.loads(file.read_text())
    assert log["eval"]["config"]["epochs"] == 3
    assert [sample["epoch"] for sample in log["samples"]] == [1, 2, 3] * 8
    cli("export", tmp_path / "a", "--to", "lm_eval", "--output", tmp_path / "lm_eval")
    (file,) = (tmp_path / "lm_eval").rglob("samples_*.jsonl")
    assert {len(json.loads(line)["resps"][0]) for line in file.read_text().splitlines()} == {3}
    table = cli("export", tmp_path / "a", "--to", "csv").out
    assert "variance (sampling)" in table


def test_a_metric_of_samples_is_not_proposed_for_a_run_without_them(tmp_path: Path, cli: Cli) -> None:
    task, replies = PAIRS
    for name, k in (("single", 1), ("sampled", 3)):
        run(task, Drawing(replies), tmp_path / name, k)
    for pair in (("single", "sampled"), ("sampled", "single")):
        refused = cli("compare", *(tmp_path / name for name in pair), "--metric", "maj@3")
        assert refused.code == 2
        assert "acc" in refused.complaint
        assert "pass@3" not in refused.complaint


def test_people_judge_the_first_sample(tmp_path: Path, cli: Cli) -> None:
    task, replies = STORIES
    done = run(task, Drawing([*replies, ""]), tmp_path / "a")
    first = {row["id"]: row["samples"][0]["pred"] for row in done.rows(task)}
    cli("annotate", "export", tmp_path / "a", "--criteria", "fluency=1-5", "--checks", "0", "--output", tmp_path / "b")
    items = json.loads((tmp_path / "b/key.json").read_text())["items"]
    with (tmp_path / "b/sheet_1.csv").open(encoding="utf-8-sig", newline="") as sheet:
        texts = {items[row["item"]]["example"]: row["text"] for row in csv.DictReader(sheet)}
    assert texts == {name: text for name, text in first.items() if text}


# ---- models behind an API --------------------------------------------------------------------------------------------


@pytest.fixture
def desk() -> Iterator[Desk]:
    with desk_open() as desk:
        desk.usual = lambda handler, body: handler.send(200, openai_answer("ABCDE"[json.loads(body)["seed"] % 5]))
        yield desk


@pytest.fixture
def command(desk: Desk, tmp_path: Path) -> Callable[..., list[str]]:
    def build(output: str, k: int, *flags: str, temperature: float = 0.7) -> list[str]:
        options = f"base_url={desk.url},temperature={temperature:g}"
        fixed = ["run", "--tasks", "mini_proverbs", "--limit", "4", "--model", "openai:m", "--model_args", options]
        return [*fixed, "--no_baselines", "--output_path", str(tmp_path / output), "--samples", str(k), *flags]

    return build


@pytest.mark.slow
def test_samples_are_different_requests_and_none_is_paid_for_twice(
    desk: Desk, command: Callable[..., list[str]], cli: Cli, tmp_path: Path
) -> None:
    cli(*command("a", 3))
    seeds = [request["seed"] for request in desk.requests]
    assert (len(seeds), len(set(seeds))) == (12, 3)
    cli(*command("b", 3))
    assert len(desk.requests) == 12
    cli(*command("c", 5))
    assert len(desk.requests) == 20, "three of the five samples are in the archive"
    of_three, of_five = (list(figeval.load(tmp_path / name).rows("mini_proverbs")) for name in "ac")
    assert [row["samples"] for row in of_three] == [row["samples"][:3] for row in of_five]


@pytest.mark.slow
def test_every_sample_counts_against_the_budget(
    desk: Desk, command: Callable[..., list[str]], cli: Cli, tmp_path: Path
) -> None:
    once = cli(*command("a", 2, "--max_tokens", "100000000"))
    used = figeval.load(tmp_path / "a").record.model.description
    assert used["answered"] == 8
    assert "8 requests" in once.err
    stopped = cli(*command("b", 40, "--max_tokens", "2500"))
    assert stopped.code == 2
    assert len(desk.requests) < 4 * 40


def test_a_greedy_api_is_refused_before_anything_is_sent(
    desk: Desk, command: Callable[..., list[str]], cli: Cli
) -> None:
    refused = cli(*command("a", 2, temperature=0))
    assert "temperature=0.7" in refused.complaint
    assert not desk.requests
