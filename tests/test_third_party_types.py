"""Distributions that bring task types of their own: everything that works for a built-in type works for theirs.

No file under `figeval/` knows of them. Each is installed elsewhere and used from the outside, as its user would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.processes import beside, figeval

THIRD_PARTY_FOLDER = Path(__file__).parent / "third_party"
pytestmark = pytest.mark.usefixtures("warm_start")
# A model behind an API, as far as figeval can tell: its replies are in a file, by a part of the question.
SCRIPTED_PLUGIN = """
import json
from figeval import hookimpl

class Scripted:
    deterministic_by_name = True

    def __init__(self, model):
        self.replies = json.load(open(model))

    def generate(self, prompts):
        asked = [prompt.messages[-1].content for prompt in prompts]
        return [next(reply for part, reply in self.replies.items() if part in text) for text in asked]

@hookimpl
def register_backends(register):
    register("scripted", Scripted)
"""


@dataclass(frozen=True)
class Site:
    """A folder into which a distribution is installed, and the folder that its user works in."""

    site: Path
    package: str
    folder: Path

    def __call__(self, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run figeval with the distribution and the scripted model."""
        environment = {"PYTHONPATH": str(self.site), "FIGEVAL_PLUGINS": f"{self.package},scripted"}
        done = figeval(*arguments, cwd=self.folder, code=code, **environment)
        assert "Traceback" not in done.stdout + done.stderr
        assert "warning: plugin" not in done.stderr
        return done

    def record(self, run: str) -> dict[str, Any]:
        """The only task of a run."""
        (task,) = json.loads((self.folder / run / "run.json").read_text())["tasks"]
        assert task["status"] == "done"
        return dict(task)

    def scores(self, run: str) -> dict[str, float]:
        """Metric → value."""
        return {score["metric"]: score["value"] for score in self.record(run)["scores"]}

    def rows(self, run: str) -> dict[str, dict[str, Any]]:
        """Id → row."""
        (file,) = (self.folder / run / "predictions").iterdir()
        return {row["id"]: row for row in map(json.loads, file.read_text().splitlines())}

    def edited(self, file: str, *changes: tuple[str, str]) -> Site:
        """The same with another version of the distribution."""
        site = self.folder / "edited"
        shutil.copytree(self.site, site, ignore=shutil.ignore_patterns("__pycache__"))
        file_in_site = site / self.package / file
        text = file_in_site.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        file_in_site.write_text(text)
        return Site(site, self.package, self.folder)


def install_package(package: str, target: Path) -> Path:
    """The folder into which a distribution of `third_party` is installed, with the scripted model beside it."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]
    arguments = ["--no-deps", "--no-build-isolation", "--target", str(target), str(THIRD_PARTY_FOLDER / package)]
    subprocess.run([*pip, *arguments], check=True)
    (target / "scripted.py").write_text(SCRIPTED_PLUGIN)
    return target


def own_tests_pass(package: str, site: Path) -> None:
    """Its own tests, which use `figeval.testing`."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    variables = {**os.environ, "PYTHONPATH": beside(str(site))}
    done = subprocess.run(
        command, env=variables, cwd=THIRD_PARTY_FOLDER / package, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def new_task_passes(site: Site, kind: str) -> None:
    """What `figeval new task` writes is valid and passes its own test."""
    site("new", "task", "mine", "--type", kind)
    assert "0 errors" in site("validate", "mine/mine.task.yaml").stdout
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    variables = {**os.environ, "PYTHONPATH": beside(str(site.site)), "FIGEVAL_PLUGINS": site.package}
    done = subprocess.run(command, env=variables, cwd=site.folder / "mine", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# ---- token labelling -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokens_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_package("figeval_tokens", tmp_path_factory.mktemp("tokens"))


@pytest.fixture
def tokens(tokens_site: Path, tmp_path: Path) -> Site:
    return Site(tokens_site, "figeval_tokens", tmp_path)


def solved_rows(site: Site) -> list[dict[str, Any]]:
    """The rows of the task's test split."""
    return [json.loads(line) for line in (site.site / "figeval_tokens/test.jsonl").read_text().splitlines()]


def in_pairs(row: dict[str, Any], tags: list[str]) -> str:
    return " ".join(f"{token}/{tag}" for token, tag in zip(row["tokens"], tags, strict=True))


def scripted_replies(site: Site) -> list[dict[str, Any]]:
    """Replies in every form that can be read, and for the last three rows others; the rows."""
    rows = solved_rows(site)
    forms = (
        lambda row: in_pairs(row, row["tags"]),
        lambda row: json.dumps(row["tags"]),
        lambda row: json.dumps({"tags": row["tags"]}),
    )
    replies = {" ".join(row["tokens"]): forms[number % 3](row) for number, row in enumerate(rows)}
    small = in_pairs(rows[-2], [tag.lower() for tag in rows[-2]["tags"]])
    failures = ("I cannot do that.", small, "")
    replies |= {" ".join(row["tokens"]): reply for row, reply in zip(rows[-3:], failures, strict=True)}
    (site.folder / "replies.json").write_text(json.dumps(replies))
    return rows


@pytest.mark.slow
def test_tokens_is_listed_with_all_that_belongs_to_it(tokens: Site, tokens_site: Path) -> None:
    (kind,) = json.loads(tokens("ls", "types", "tokens", "--json").stdout)
    assert (kind["owner"], kind["fields"]) == ("figeval_tokens", ["tokens", "tags"])
    schema = Draft7Validator(json.loads(tokens("schema", "task").stdout))
    task = yaml.safe_load((tokens_site / "figeval_tokens" / "figurative.task.yaml").read_text())
    assert not list(schema.iter_errors(task))
    misspelt = {**task, "fields": {**task["fields"], "tgas": "row.tags"}}
    assert [error.json_path for error in schema.iter_errors(misspelt)] == ["$.fields"]
    routes = [row for row in json.loads(tokens("ls", "routes", "--json").stdout) if row["type"] == "tokens"]
    assert [(row["name"], row["needs"]) for row in routes] == [
        ("by_tagger", ["tag_tokens"]),
        ("by_tags_in_words", ["generate"]),
    ]
    plugins = figeval("ls", "plugins", "tokens", cwd=tokens.folder, PYTHONPATH=str(tokens_site))
    assert "figeval-tokens 0.1.0" in plugins.stdout  # by its entry point
    assert not plugins.stderr


def test_a_tokens_task_is_validated_shown_and_previewed(tokens: Site) -> None:
    assert "gold something ×12" in tokens("validate", "tokens_figurative").stdout
    assert "by_tags_in_words" in tokens("show", "tokens_figurative").stdout
    preview = tokens("preview", "tokens_figurative", "-n", "1").stdout
    assert "by_tagger (tag_tokens, 1 request)" in preview
    assert "Give each of its 8 tokens one of these tags: B-FIG, I-FIG, B-LIT, I-LIT, O." in preview


def test_wrong_tags_are_named_by_row_and_field(tokens: Site) -> None:
    tokens("new", "task", "mine", "--type", "tokens")
    file = tokens.folder / "mine/mine.jsonl"
    file.write_text(file.read_text().replace('"I-FIG", "O"]', '"I-FIC", "O"]', 1))
    done = tokens("validate", "mine/mine.task.yaml", code=2)
    assert "row 1 of 'jsonl:mine.jsonl', field 'tags': 'I-FIC' is not among the labels B-FIG, I-FIG, O" in done.stdout


def test_a_language_model_tags_in_words(tokens: Site) -> None:
    rows = scripted_replies(tokens)
    tokens("run", "--tasks", "tokens_figurative", "--model", "scripted:replies.json", "-o", "out")
    stored = tokens.rows("out")
    assert [stored[row["id"]]["status"] for row in rows] == ["ok"] * 9 + ["unparseable", "unparseable", "empty"]
    assert all(stored[row["id"]]["pred"] == row["tags"] == stored[row["id"]]["gold"] for row in rows[:9])
    assert stored["test1"]["details"] == {"predicted": {"B-FIG": 1, "I-FIG": 2, "O": 5}}
    assert tokens.scores("out") == {"token_acc": 1.0, "entity_f1": 1.0, "sentence_acc": 1.0, "readable": 0.75}
    record = tokens.record("out")
    assert (record["route"], record["extractor"]) == ("by_tags_in_words", "1")
    assert [baseline["baseline"] for baseline in record["baselines"]] == ["tokens_majority"]


@pytest.mark.slow
def test_a_newer_reader_reads_stored_replies_again(tokens: Site) -> None:
    scripted_replies(tokens)
    command = ("run", "--tasks", "tokens_figurative", "--model", "scripted:replies.json", "-o", "out")
    tokens(*command)
    newer = tokens.edited(
        "replies.py", ('VERSION = "1"', 'VERSION = "2"'), ("tag for _, _, tag", "tag.upper() for _, _, tag")
    )
    assert "rescore" in newer(*command, code=2).stderr  # a run goes on only with the same reader
    newer("rescore", "out")
    assert newer.rows("out")["test11"]["status"] == "ok"
    assert newer.scores("out")["readable"] == pytest.approx(10 / 12)
    assert newer.record("out")["extractor"] == "2"
    before = newer.rows("out")
    newer("rescore", "out")
    assert newer.rows("out") == before


def test_solved_examples_come_from_train(tokens: Site) -> None:
    scripted_replies(tokens)
    preview = tokens("preview", "tokens_figurative", "-n", "1", "--num_fewshot", "1").stdout
    assert "/B-" in preview


@pytest.mark.slow
def test_a_tagger_is_trained_run_compared_and_exported(tokens: Site) -> None:
    numbers = ("--lr", "0.05", "--epochs", "20", "--batch_size", "4", "--select_on", "none", "--device", "cpu")
    tokens("train", "--task", "tokens_figurative", "--model", "scratch", "--output", "words", *numbers)
    tokens("run", "--tasks", "tokens_figurative", "--model", "words", "-o", "trained")
    tokens("run", "--tasks", "tokens_figurative", "--model", "tokens_majority", "-o", "trivial")
    assert tokens.record("trained")["route"] == "by_tagger"
    assert tokens.scores("trained")["token_acc"] > tokens.scores("trivial")["token_acc"]
    assert "entity_f1" in tokens("show", "trained").stdout
    compared = tokens("compare", "trained", "trivial", "--metric", "sentence_acc").stdout
    assert "tokens_figurative" in compared
    exported = tokens("export", "trained", "trivial", "--to", "markdown").stdout
    assert "| tokens_figurative | entity_f1 | 12 |" in exported
    figeval_json = json.loads((tokens.folder / "words/figeval.json").read_text())
    assert figeval_json["kind"] == "tokens"


def test_a_tagger_says_what_it_does_not_begin_with(tokens: Site) -> None:
    command = ("train", "--task=tokens_figurative", "--model=minilm", "--batch_size=8", "--output=tagger")
    assert "learns from scratch, not from 'minilm'; write --model scratch" in tokens(*command, code=2).stderr


@pytest.mark.slow
def test_a_new_tokens_task_is_sound(tokens: Site) -> None:
    new_task_passes(tokens, "tokens")


@pytest.mark.slow
def test_the_own_tests_of_tokens_pass(tokens_site: Path) -> None:
    own_tests_pass("figeval_tokens", tokens_site)


# ---- several labels at once ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def themes_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_package("figeval_themes", tmp_path_factory.mktemp("themes"))


@pytest.fixture
def themes(themes_site: Path, tmp_path: Path) -> Site:
    return Site(themes_site, "figeval_themes", tmp_path)


@pytest.mark.slow
def test_a_themes_task_is_validated_and_previewed(themes: Site) -> None:
    assert "0 errors, 0 warnings" in themes("validate", "themes_sayings").stdout
    preview = themes("preview", "themes_sayings", "-n", "1").stdout
    assert "Which of these is it about: patience, greed, pride, friendship?" in preview


def test_thresholds_decide_about_each_label_and_chance_is_an_expectation(themes: Site) -> None:
    themes("run", "--tasks", "themes_sayings", "--model", "tfidf", "-o", "out", "--probes")
    (record, *probes) = json.loads((themes.folder / "out/run.json").read_text())["tasks"]
    assert (record["route"], record["settings"]["threshold"]) == ("by_closeness", 0.1)
    assert [probe["task"] for probe in probes] == ["themes_sayings@no_query", "themes_sayings@shuffled_query"]
    (chance,) = [baseline for baseline in record["baselines"] if baseline["baseline"] == "chance"]
    scores = {score["metric"]: score for score in chance["scores"]}
    gold = 15  # labels are right, of 12 sayings with 4 each: half of all are predicted, and half of the right ones
    assert scores["exact"]["value"] == 1 / 16
    assert scores["micro_f1"]["value"] == pytest.approx(2 * gold / 2 / (12 * 4 / 2 + gold))
    assert scores["exact"]["interval"] == "none: an exact expectation"


def test_a_language_model_lists_labels(themes: Site) -> None:
    replies = {"purse": "Greed, friendship.", "roof": "none", "umbrella": "They are friends.", "": "pride"}
    (themes.folder / "replies.json").write_text(json.dumps(replies))
    themes("run", "--tasks", "themes_sayings", "--model", "scripted:replies.json", "-o", "out")
    stored = themes.rows("out")
    assert (stored["4"]["pred"], stored["4"]["gold"]) == (["friendship", "greed"], ["friendship", "greed"])
    assert (stored["10"]["pred"], stored["10"]["status"]) == ([], "ok")
    assert (stored["5"]["pred"], stored["5"]["status"]) == (None, "unparseable")
    before = stored
    themes("rescore", "out")
    assert themes.rows("out") == before


def test_a_type_without_a_scaffold_says_what_to_do(themes: Site) -> None:
    error = themes("new", "task", "mine", "--type", "themes", code=2).stderr
    assert "the task type 'themes' has no scaffold; copy a task of this type" in error


@pytest.mark.slow
def test_the_own_tests_of_themes_pass(themes_site: Path) -> None:
    own_tests_pass("figeval_themes", themes_site)
