"""`figeval show`: the table of a run without its model, and what is known of a task."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

import figeval
from tests.cli.conftest import Cli
from tests.finished_runs import finished, row, run, store, task
from tests.runs.conftest import write_task


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("runs") / "mini", "mini")


def test_a_finished_run(cli: Cli, mini: Path) -> None:
    lines = cli("show", mini).out.splitlines()
    assert lines[0] == "overlap (overlap)"
    assert [line.split()[0] for line in lines if line.startswith("mini_")][:4] == [
        *("mini_proverbs", "mini_retrieval", "mini_pairs", "mini_fables")
    ]
    assert cli("show", mini / "run.json").out.splitlines() == lines


def test_a_breakdown_from_the_stored_predictions(cli: Cli, mini: Path) -> None:
    out = cli("show", mini, "--by", "proverb").out
    assert "mini_proverbs by proverb" in out
    assert "more in run.json" not in out, "all of them are wanted"
    shown = json.loads(cli("show", mini, "--by", "figure", "--json").out)
    groups = shown["tasks"][2]["breakdowns"][0]["groups"]
    assert [(group["value"], group["scores"][0]["n"]) for group in groups] == [("idiom", 30), ("metaphor", 30)]


def test_the_record_as_json(cli: Cli, mini: Path) -> None:
    assert json.loads(cli("show", mini, "--json").out) == json.loads((mini / "run.json").read_text())


def test_a_run_that_is_going_on_says_how_far_it_has_come(cli: Cli, tmp_path: Path) -> None:
    record = run(task("first"), task("second", status="running", scores=[]), status="running")
    store(tmp_path / "run", record, {"second": map(row, "012")})
    out = cli("show", "run").out
    assert "running, started 2026-01-31T23:59:59Z; the same command continues where it stopped" in out
    assert "second: 3 of 40 examples answered" in out
    assert "first: " not in out


def test_a_task(cli: Cli) -> None:
    out = cli("show", "epic_retrieval_all").out
    for part in (
        *("Table 4", "ranking", "none stated (epic)", "Ghosh and Shashank Srivastava (2022)", "by_cosine"),
        *("figeval data fetch epic", "README.md for splits and known errors", "Sentence-BERT", "0.1344", "misprint"),
    ):
        assert part in out, part


def test_a_task_as_json(cli: Cli) -> None:
    shown = json.loads(cli("show", "mini_pairs", "--json").out)
    assert shown["name"] == "mini_pairs"
    assert shown["splits"][0] == {"name": "test", "source": "jsonl:pairs.jsonl", "n": 60, "problem": ""}
    assert [split["name"] for split in shown["splits"]] == ["test", "train", "prior"]
    assert shown["routes"][0] == {"name": "by_head", "needs": ["label_pairs"], "owner": "figeval.defaults"}


def test_a_suite(cli: Cli) -> None:
    lines = cli("show", "impli_gold").out.splitlines()
    assert lines[0].startswith("impli_gold: ")
    assert len([line for line in lines if line.startswith("  impli_")]) == 5
    pairs = "impli_idioms_gold_ent impli_idioms_gold_ant impli_idioms_gold_non"
    assert f"contrast idioms_within, within idiom: {pairs}" in lines
    assert json.loads(cli("show", "mini", "--json").out)["tasks"][0] == "mini_proverbs"
    assert json.loads(cli("show", "impli_gold", "--json").out)["contrasts"]["idioms"]["tasks"] == pairs.split()


def test_a_task_in_a_folder(cli: Cli, tmp_path: Path) -> None:
    write_task(tmp_path, "mine")
    assert cli("show", "mine", "--include_path", tmp_path).out.startswith("mine\n")
    listed = cli("ls", "tasks", "mine", "--include_path", tmp_path).out.splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [["mine", "choice"]]


@pytest.mark.wing("training")
def test_a_preset(cli: Cli) -> None:
    lines = cli("show", "released:table7-seen-roberta").out.splitlines()
    assert lines[0].startswith("released:table7-seen-roberta: RoBERTa (roberta-base) in ePiC, released code")
    assert {"  lr 1e-05", "  patience none", "  head_args freeze pooler"} <= {*lines}
    assert "what is not reproduced here" in lines
    assert json.loads(cli("show", "paper:table7-t5", "--json").out)["settings"]["lr"] is None
    assert "did you mean 'paper:table7-t5'" in cli("show", "paper:table7-t55").complaint


def test_a_task_wins_over_a_folder_of_its_name_that_holds_no_run(cli: Cli) -> None:
    Path("mini_fables").mkdir()
    assert "Twenty fables" in cli("show", "mini_fables").out


def test_what_is_neither(cli: Cli) -> None:
    assert "unknown run or task 'mini_pair'; did you mean 'mini_pairs'" in cli("show", "mini_pair").complaint
    Path("empty").mkdir()
    assert "empty/run.json: cannot be read" in cli("show", "empty").complaint
    assert "--by is for a run" in cli("show", "mini_pairs", "--by", "idiom").complaint


def test_what_stands_in_a_task_s_place_is_told(cli: Cli) -> None:
    out = " ".join(cli("show", "epic_alignment").out.split())
    assert "--protocol published runs epic_alignment_published instead" in out
    assert "artefact" in out
    assert "--split authors runs epic_narrative_seen_authors" in " ".join(
        cli("show", "epic_narrative_seen").out.split()
    )


# ---- trainings ------------------------------------------------------------------------------------------------------

TRAINING = {
    "config": {"model": "tiny", "seed": 3, "select_on": "dev"},
    "task": "weather",
    "head": {"name": "biencoder"},
    "evaluations": [
        {"step": 6, "scores": {"acc": 0.5, "mrr": None}},
        {"step": 12, "scores": {"acc": 0.25, "mrr": 0.5}},
    ],
    "best": 6,
    "select_by": ["acc", "mrr"],
    "dev": {"n": 4, "source": "4 of 36 examples of train, held out by within"},
    "train": {"n": 32},
    "steps": 12,
    "why": "all epochs done",
    "seconds": 61.2,
    "tokens": 1054,
    "peak_memory_mb": 437.6,
}


def training(folder: Path, **changes: object) -> Path:
    """A folder as far as `show` reads it."""
    (folder / "training").mkdir()
    (folder / "training" / "record.json").write_text(json.dumps(TRAINING | changes))
    return folder


def test_a_training(cli: Cli, tmp_path: Path) -> None:
    lines = cli("show", training(tmp_path)).out.splitlines()
    assert lines[0] == "tiny on weather with biencoder, seed 3"
    assert [line.split() for line in lines[1:4]] == [
        ["step", "acc", "mrr"],
        ["6", "0.5000", "–", "best"],
        ["12", "0.2500", "0.5000"],
    ]
    assert lines[4:] == [
        "  trained on 32 examples for 12 steps (all epochs done)",
        "  chosen by acc, mrr on 4 of 36 examples of train, held out by within",
        "  0:01:01 and 1,054 tokens, peak memory 438 MB",
    ]


def test_a_training_says_whether_it_helped(cli: Cli, tmp_path: Path) -> None:
    """The model before training is step 0, which is never the best one."""
    shares = {"before": {"acc": 0.5, "mrr": None}, "improved": False}
    lines = cli("show", training(tmp_path, **shares)).out.splitlines()
    assert lines[2].split() == ["0", "0.5000", "–", "before", "training"]
    gained = "  on dev, before training → step 6: acc 0.5000 → 0.5000, mrr – → –"
    assert f"{gained}; no checkpoint was better than the model before training" in lines


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"config": TRAINING["config"] | {"select_on": "test"}}, "   6  0.5000       –  best †"),
        ({"evaluations": []}, "  last checkpoint; no examples were held out"),
    ],
    ids=["chosen on test", "not chosen"],
)
def test_how_a_checkpoint_was_chosen(cli: Cli, tmp_path: Path, changes: dict[str, object], line: str) -> None:
    assert line in cli("show", training(tmp_path, **changes)).out.splitlines()


def test_seeds_and_a_grid(cli: Cli, tmp_path: Path) -> None:
    """A folder with both shows the seeds; the grid is a file beside them."""
    point = {"folder": "grid-lr-1", "values": {"lr": "1"}, "scores": {"acc": 0.5}, "step": 8}
    grid = {"task": "t", "model": "m", "dev": "6 of 60", "metrics": ["acc"], "best": "grid-lr-1", "points": [point]}
    (tmp_path / "grid.json").write_text(json.dumps(grid))
    assert cli("show", tmp_path).out.splitlines()[-1] == "  compared on dev: 6 of 60"
    seeds = {"task": "t", "model": "m", "seeds": [0, 1], "wanted": [0, 1], "runs": {}, "scores": []}
    (tmp_path / "seeds.json").write_text(json.dumps(seeds))
    assert cli("show", tmp_path).out.splitlines()[0] == "m on t, 2 seeds"
    assert cli("show", tmp_path / "grid.json").out.splitlines()[0] == "m on t"
    assert json.loads(cli("show", tmp_path, "--json").out) == seeds


@pytest.mark.parametrize("file", ["seeds.json", "grid.json"])
def test_a_record_that_is_none(cli: Cli, tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text('{"task": 1}')
    assert f"{file}: task must be a string; it was not written by" in cli("show", tmp_path).complaint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"config": {}}, "config.model is missing"),
        ({"evaluations": [{"step": "late", "scores": {}}]}, "evaluations.0.step must be an integer"),
        ({"evaluations": {"0": 1}}, "evaluations must be a list"),
        ({"seconds": 1e300}, "seconds"),
        ({"peak_memory_mb": float("nan")}, "peak_memory_mb"),
        ({"parameters": {"total": 1}}, "parameters.trainable is missing"),
        ({"speed": 1}, "speed"),
    ],
)
def test_a_record_of_a_training_that_is_none(cli: Cli, tmp_path: Path, changes: dict[str, object], words: str) -> None:
    complaint = cli("show", training(tmp_path, **changes)).complaint
    assert words in complaint
    assert complaint.endswith("it was not written by this version of figeval")


# ---- views of runs that plugins offer -------------------------------------------------------------------------------


class Names(figeval.Result):
    """The tasks of a run."""

    def __init__(self, run: figeval.Run) -> None:
        self.names = run.tasks

    @property
    def tables(self) -> Sequence[figeval.Table[str]]:
        """A row per task."""
        return [figeval.Table([figeval.Column("task", value=str)], list(self.names))]

    def to_dict(self) -> dict[str, list[str]]:
        """Return the names."""
        return {"names": list(self.names)}


def offering(*names: str) -> ModuleType:
    """A plugin with one view of runs under several names."""
    plugin = ModuleType("views")

    @figeval.hookimpl
    def register_run_views(register: Callable[..., None]) -> None:
        for name in names:
            register(name, lambda run: Names(run), "its tasks.")

    plugin.register_run_views = register_run_views  # type: ignore[attr-defined]
    return plugin


def test_a_view_may_be_a_function(cli: Cli, mini: Path, install: Callable[..., None]) -> None:
    install(offering("names"))
    assert json.loads(cli("show", mini, "--names", "--task", "mini_pairs", "--json").out) == {"names": ["mini_pairs"]}
    assert "--names" in cli("show", "--help").out


def test_the_tasks_that_a_view_can_show_are_named(cli: Cli, mini: Path) -> None:
    assert "mini_pairs" in cli("show", mini, "--labels", "--task", "mini_fables").complaint


def test_one_view_at_a_time(cli: Cli, mini: Path, install: Callable[..., None]) -> None:
    install(offering("names", "titles"))
    assert "one of these flags" in cli("show", mini, "--names", "--titles").complaint


def test_a_view_whose_name_cannot_be_a_flag_costs_only_itself(
    cli: Cli, mini: Path, install: Callable[..., None]
) -> None:
    bad_names = ("json", "help", "task", "include_path", "my view", "", "names")
    install(offering("names", *bad_names))
    shown = cli("show", mini, "--names", "--json")
    assert json.loads(shown.out)["names"]
    warnings = shown.err.splitlines()
    assert all(any(repr(name) in line for line in warnings) for name in bad_names)


def test_what_is_wrong_with_views_is_listed_with_their_plugin(cli: Cli, install: Callable[..., None]) -> None:
    views = offering("names", "json")
    absent = ModuleType("absent")
    absent.register_run_views = figeval.hookimpl(  # type: ignore[attr-defined]
        lambda register: register("absent", "nowhere_at_all:View", "it cannot be imported.")
    )
    install(views, absent)
    problems = {row["name"]: row["problems"] for row in json.loads(cli("ls", "plugins", "--json").out)}
    assert "'json'" in " ".join(problems["views"]) and len(problems["views"]) == 1
    assert "nowhere_at_all" in " ".join(problems["absent"]) and len(problems["absent"]) == 1


# ---- models ---------------------------------------------------------------------------------------------------------


def test_a_model_whose_factory_is_wrong_is_described_as_far_as_it_is_known(
    cli: Cli, install: Callable[..., None]
) -> None:
    plugin = ModuleType("models")

    @figeval.hookimpl
    def register_backends(register: Callable[..., None]) -> None:
        register("takes_nothing", lambda: None, "no parameter")
        register("has_no_signature", type, "no signature")

    plugin.register_backends = register_backends  # type: ignore[attr-defined]
    install(plugin)
    assert json.loads(cli("show", "takes_nothing", "--json").out)["options"] == []
    unknown = cli("show", "has_no_signature", "--json")
    assert json.loads(unknown.out)["options"] is None
    assert len(unknown.err.splitlines()) == 1
    assert "has_no_signature: no signature" in cli("show", "has_no_signature").out
