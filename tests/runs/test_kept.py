"""What is kept of an earlier session: rows are matched by id, and a finished task's are those that were scored."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import FigevalError, RecordError, Reply
from figeval.testing.fakes import FakeGenerator, FakePairScorer
from tests.runs.conftest import Heard, Workshop, write_task

Rows = list[dict[str, Any]]


def copied_over_wrong_ones(rows: Rows) -> Rows:
    right = next(row for row in rows if row["metrics"]["acc"] == 1)
    return [row if row["metrics"]["acc"] == 1 else right for row in rows]


def first(rows: Rows, **changes: Any) -> Rows:
    return [{**rows[0], **changes}, *rows[1:]]


FORGERIES: dict[str, Callable[[Rows], Rows]] = {
    "one right row for every wrong one": copied_over_wrong_ones,
    "another metric value": lambda rows: first(rows, metrics={"acc": 1 - rows[0]["metrics"]["acc"]}),
    "an impossible value": lambda rows: first(rows, metrics={"acc": 2.0}),
    "a foreign id": lambda rows: first(rows, id="nobody"),
    "a row less": lambda rows: rows[1:],
    "a row twice": lambda rows: [*rows, rows[0]],
    "another prediction": lambda rows: first(rows, pred=2),
}


@pytest.fixture
def folder(workshop: Workshop) -> Path:
    write_task(workshop.folder, "t")
    workshop.run()
    return workshop.output


def forge(workshop: Workshop, change: Callable[[Rows], Rows]) -> None:
    lines = (json.dumps(row, separators=(",", ":")) + "\n" for row in change(workshop.rows()))
    workshop.predictions().write_text("".join(lines), encoding="utf-8")


def unfinish(workshop: Workshop) -> None:
    """As after a kill before the task was scored, or with a record of a figeval before 1.4."""
    workshop.edit_record(lambda record: record["tasks"][0].update(status="running", predictions_sha256=None))


@pytest.mark.parametrize("forgery", FORGERIES)
@pytest.mark.wing("comparison")
def test_nobody_reads_a_finished_task_whose_rows_were_changed(forgery: str, workshop: Workshop, folder: Path) -> None:
    loaded = figeval.load(folder)
    forge(workshop, FORGERIES[forgery])
    readers: list[Callable[[], Any]] = [
        workshop.run,
        workshop.load,
        lambda: figeval.compare(folder, folder),
        lambda: loaded.by("kind"),
    ]
    before = workshop.predictions().read_bytes()
    for read in readers:
        with pytest.raises(RecordError, match=r"t\.jsonl has been changed since t was scored .*; restore it, or move"):
            read()
    assert workshop.predictions().read_bytes() == before


def test_the_cure_works(workshop: Workshop, folder: Path) -> None:
    content = workshop.predictions().read_bytes()
    forge(workshop, copied_over_wrong_ones)
    workshop.predictions().rename(folder / "moved.jsonl")
    workshop.run()
    assert workshop.predictions().read_bytes() == content


def test_a_record_without_predictions_is_shown(workshop: Workshop, folder: Path) -> None:
    workshop.predictions().unlink()
    assert workshop.load().record.tasks[0].scores[0].value == 0.75


@pytest.mark.parametrize("forgery", ["one right row for every wrong one", "a row less", "a row twice"])
def test_of_two_rows_of_an_unfinished_task_the_first_is_kept(forgery: str, workshop: Workshop, folder: Path) -> None:
    content = workshop.predictions().read_bytes()
    forge(workshop, FORGERIES[forgery])
    unfinish(workshop)
    observer = Heard()
    assert workshop.run(observer=observer).tasks[0].scores[0].value == 0.75
    assert workshop.predictions().read_bytes() == content
    assert observer.events[0][0] == "say"


def test_rows_of_nobody_are_dropped_with_a_warning(workshop: Workshop, folder: Path) -> None:
    content = workshop.predictions().read_bytes()
    forge(workshop, lambda rows: first(rows, id="nobody\x1b[31m"))
    unfinish(workshop)
    (task,) = workshop.run().tasks
    assert task.warnings == ["1 row for examples that the task does not have were dropped (first: 'nobody')"]
    assert workshop.predictions().read_bytes() == content


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metrics": {"acc": "1"}}, "metrics.acc"),
        ({"metrics": {"acc": None}}, "metrics.acc"),
        ({"metrics": 3}, "metrics"),
        ({"metrics": {"acc": 2.0}}, "metrics: acc is 2.0"),
        ({"scores": [float("inf")]}, "scores.0"),
        ({"status": "fine"}, "status"),
        ({"id": 7}, "id"),
        ({"id": None}, "id"),
        ({"cluster": 7}, "cluster"),
        ({"meta": {"kind": ["k"]}}, "meta.kind"),
        ({"pred": 1.5}, "pred"),
        ({"unheard_of": 1}, "unknown key 'unheard_of'"),
        ({"truncated": "no"}, "truncated"),
    ],
)
def test_a_row_that_is_none_is_named_with_its_field(
    changes: dict[str, Any], reason: str, workshop: Workshop, folder: Path
) -> None:
    forge(workshop, lambda rows: first(rows, **changes))
    unfinish(workshop)
    with pytest.raises(RecordError, match=rf"t\.jsonl, line 1, is not a valid prediction \({reason}.*delete that line"):
        workshop.run()


@pytest.mark.wing("comparison")
def test_two_rows_for_one_example_are_not_compared_without_a_digest(workshop: Workshop, folder: Path) -> None:
    forge(workshop, copied_over_wrong_ones)
    workshop.edit_record(lambda record: record["tasks"][0].update(predictions_sha256=None))
    with pytest.raises(RecordError, match=r"t\.jsonl has two rows for 't1'"):
        figeval.compare(folder, folder)


def test_a_kill_between_rows_and_record_costs_nothing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples without a reply are asked again: the rows of a finished task change, and its digest with them."""
    replies = iter(["nobody"] * 3)

    class Moody(FakeGenerator):
        def generate(self, prompts: Any) -> Any:
            answers = super().generate(prompts)
            return [self.absent if next(replies, None) else answer for answer in answers]

    Moody.absent = Reply(text="", finish="error", error="nobody there")  # type: ignore[attr-defined]
    workshop.backend = Moody(function=lambda question: Reply(text="A"))
    write_task(workshop.folder, "t")
    settings = {"routes": {"choice": "by_letter"}}
    assert workshop.run(**settings).tasks[0].counts["error"] == 3
    replace = Path.replace
    for write_number in (1, 2):  # killed before each of the records that the second session writes
        written: list[Path] = []

        def killed(self: Path, target: Path, write_number: int = write_number, written: list[Path] = written) -> Path:
            written += [target] if target.name == "run.json" else []
            if len(written) == write_number:
                raise KeyboardInterrupt
            return replace(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                workshop.run(**settings)
        workshop.load()
    (task,) = workshop.run(**settings).tasks
    assert (task.status, task.counts["ok"]) == ("done", 20)
    workshop.load()


def test_a_finished_run_has_a_digest_of_each_file(workshop: Workshop, folder: Path) -> None:
    (task,) = workshop.load().record.tasks
    assert task.predictions_sha256 == sha256(workshop.predictions().read_bytes()).hexdigest()


# ---- another run, a new run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        ({"limit": 5}, "limit was not set, is 5"),
        ({"log_samples": True}, "log_samples was false, is true"),
        ({"routes": {"choice": "by_pair_score"}}, "routes.choice was not set, is by_pair_score"),
    ],
)
def test_the_setting_that_differs_is_named(
    settings: dict[str, Any], difference: str, workshop: Workshop, folder: Path
) -> None:
    with pytest.raises(RecordError) as caught:
        workshop.run(**settings)
    assert f"contains another run ({difference}); choose another --output_path, or start over" in str(caught.value)


def test_a_fresh_run_puts_the_earlier_one_aside(workshop: Workshop, folder: Path) -> None:
    before = (folder / "run.json").read_bytes(), workshop.predictions().read_bytes()
    workshop.backend = FakePairScorer()
    workshop.run(fresh=True)
    assert len(workshop.backend.asked) == 60, "everything is asked anew"
    (earlier,) = (folder / "earlier").iterdir()
    assert ((earlier / "run.json").read_bytes(), (earlier / "predictions/t.jsonl").read_bytes()) == before
    figeval.load(earlier)
    workshop.run(fresh=True, seed=1)
    assert len(list((folder / "earlier").iterdir())) == 2


def test_rows_without_a_record_are_nobodys(workshop: Workshop, folder: Path) -> None:
    (folder / "run.json").unlink()
    with pytest.raises(RecordError, match=r"has predictions of a run whose run\.json is missing"):
        workshop.run()
    workshop.run(fresh=True)
    assert (folder / "earlier/unknown/predictions/t.jsonl").is_file()


# ---- links ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.json.part", ".lock", "predictions", "predictions/t.jsonl", "shards", "earlier"])
def test_links_in_a_foreign_folder_are_not_followed(name: str, workshop: Workshop, tmp_path: Path) -> None:
    write_task(workshop.folder, "t")
    workshop.run()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("precious\n")
    target = tmp_path / "run" / name
    if target.exists():
        target.rename(tmp_path / "moved")
    target.symlink_to(outside / "x" if "." in name else outside)
    try:
        workshop.run(fresh=name == "earlier")
    except FigevalError as error:
        assert "symbolic link" in str(error)
    else:
        assert name == "run.json.part"
    assert (outside / "x").read_text() == "precious\n"
    assert [file.name for file in outside.iterdir()] == ["x"]


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "a/b", "", ".hidden", "x" * 300])
def test_no_task_of_a_record_leads_out_of_its_folder(name: str, workshop: Workshop, folder: Path) -> None:
    workshop.edit_record(lambda record: record["tasks"][0].update(task=name))
    with pytest.raises(RecordError, match="is not a valid task name"):
        workshop.load()
