"""What is kept of an earlier session: rows are matched by id, and a finished task's are those that were scored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from figeval import FigevalError, RecordError
from figeval.records.run_folder import RunFolder, read_record, read_run
from figeval.records.sweep import run_or_mean
from figeval.runs.stored import with_breakdown
from tests.fakes import FakeGenerator, FakePairScorer
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
def folder(workshop: Workshop) -> RunFolder:
    write_task(workshop.folder, "t")
    workshop.run()
    return RunFolder(workshop.path / "run")


def forge(folder: RunFolder, change: Callable[[Rows], Rows]) -> None:
    file = folder.predictions_file("t")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    file.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in change(rows)), encoding="utf-8")


def unfinish(folder: RunFolder) -> None:
    """As after a kill before the task was scored, or with a record of a figeval before 1.4."""
    record = read_record(folder.run_file)
    record.tasks[0].status, record.tasks[0].predictions_sha256 = "running", None
    folder.write(record)


@pytest.mark.wing("comparison")
@pytest.mark.parametrize("forgery", FORGERIES)
@pytest.mark.wing("comparison")
def test_nobody_reads_a_finished_task_whose_rows_were_changed(
    forgery: str, workshop: Workshop, folder: RunFolder
) -> None:
    from tests.finished_runs import compare_runs

    forge(folder, FORGERIES[forgery])
    readers: list[Callable[[], Any]] = [
        workshop.run,
        lambda: read_run(folder.path),
        lambda: run_or_mean(folder.path),
        lambda: compare_runs(folder.path, folder.path),
        lambda: with_breakdown(folder.path, "kind", workshop.harness().metrics),
    ]
    before = folder.predictions_file("t").read_bytes()
    for read in readers:
        with pytest.raises(RecordError, match=r"t\.jsonl has been changed since t was scored .*; restore it, or move"):
            read()
    assert folder.predictions_file("t").read_bytes() == before


def test_the_cure_works(workshop: Workshop, folder: RunFolder) -> None:
    content = folder.predictions_file("t").read_bytes()
    forge(folder, copied_over_wrong_ones)
    folder.predictions_file("t").rename(folder.path / "moved.jsonl")
    workshop.run()
    assert folder.predictions_file("t").read_bytes() == content


def test_a_record_without_predictions_is_shown(folder: RunFolder) -> None:
    folder.predictions_file("t").unlink()
    assert read_run(folder.path)[0].tasks[0].scores[0].value == 0.75


@pytest.mark.parametrize("forgery", ["one right row for every wrong one", "a row less", "a row twice"])
def test_of_two_rows_of_an_unfinished_task_the_first_is_kept(
    forgery: str, workshop: Workshop, folder: RunFolder
) -> None:
    content = folder.predictions_file("t").read_bytes()
    forge(folder, FORGERIES[forgery])
    unfinish(folder)
    observer = Heard()
    assert workshop.run(observer=observer).tasks[0].scores[0].value == 0.75
    assert folder.predictions_file("t").read_bytes() == content
    assert observer.events[0][0] == "say"


def test_rows_of_nobody_are_dropped_with_a_warning(workshop: Workshop, folder: RunFolder) -> None:
    content = folder.predictions_file("t").read_bytes()
    forge(folder, lambda rows: first(rows, id="nobody\x1b[31m"))
    unfinish(folder)
    (task,) = workshop.run().tasks
    assert task.warnings == ["1 row for examples that the task does not have were dropped (first: 'nobody')"]
    assert folder.predictions_file("t").read_bytes() == content


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
    changes: dict[str, Any], reason: str, workshop: Workshop, folder: RunFolder
) -> None:
    forge(folder, lambda rows: first(rows, **changes))
    unfinish(folder)
    with pytest.raises(RecordError, match=rf"t\.jsonl, line 1, is not a valid prediction \({reason}.*delete that line"):
        workshop.run()


@pytest.mark.wing("comparison")
def test_two_rows_for_one_example_are_not_compared_without_a_digest(folder: RunFolder) -> None:
    from tests.finished_runs import compare_runs

    forge(folder, copied_over_wrong_ones)
    record = read_record(folder.run_file)
    record.tasks[0].predictions_sha256 = None
    folder.write(record)
    with pytest.raises(RecordError, match=r"t\.jsonl has two rows for 't1'"):
        compare_runs(folder.path, folder.path)


def test_a_kill_between_rows_and_record_costs_nothing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples without a reply are asked again: the rows of a finished task change, and its digest with them."""
    replies = iter(["nobody"] * 3)

    class Moody(FakeGenerator):
        def generate(self, prompts: Any) -> Any:
            answers = super().generate(prompts)
            return [self.absent if next(replies, None) else answer for answer in answers]

    from figeval import Reply

    Moody.absent = Reply(text="", finish="error", error="nobody there")  # type: ignore[attr-defined]
    workshop.backend = Moody(function=lambda question: Reply(text="A"))
    write_task(workshop.folder, "t")
    settings = {"routes": {"choice": "by_letter"}}
    assert workshop.run(**settings).tasks[0].counts["error"] == 3
    folder = RunFolder(workshop.path / "run")
    write = RunFolder.write
    for task_number in range(1, 4):  # killed before each of the records that the second session writes
        written: list[int] = []

        def killed(self: RunFolder, record: Any, task_number: int = task_number, written: list[int] = written) -> None:
            written.append(1)
            if len(written) == task_number:
                raise KeyboardInterrupt
            write(self, record)

        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "write", killed)
            try:
                workshop.run(**settings)
            except KeyboardInterrupt:
                read_run(folder.path)
    (task,) = workshop.run(**settings).tasks
    assert (task.status, task.counts["ok"]) == ("done", 20)
    read_run(folder.path)


def test_a_finished_run_has_a_digest_of_each_file(folder: RunFolder) -> None:
    import hashlib

    (task,) = read_record(folder.run_file).tasks
    assert task.predictions_sha256 == hashlib.sha256(folder.predictions_file("t").read_bytes()).hexdigest()


# ---- another run, a new run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        ({"limit": 5}, "limit was not set, is 5"),
        ({"threshold": 0.5}, "threshold was not set, is 0.5"),
        ({"log_samples": True}, "log_samples was false, is true"),
        ({"routes": {"choice": "by_pair_score"}}, "routes.choice was not set, is by_pair_score"),
    ],
)
def test_the_setting_that_differs_is_named(
    settings: dict[str, Any], difference: str, workshop: Workshop, folder: RunFolder
) -> None:
    with pytest.raises(RecordError) as caught:
        workshop.run(**settings)
    assert f"contains another run ({difference}); choose another --output_path, or start over" in str(caught.value)


def test_a_fresh_run_puts_the_earlier_one_aside(workshop: Workshop, folder: RunFolder) -> None:
    before = folder.run_file.read_bytes(), folder.predictions_file("t").read_bytes()
    workshop.backend = FakePairScorer()
    workshop.run(fresh=True)
    assert len(workshop.backend.asked) == 60, "everything is asked anew"
    (earlier,) = (folder.path / "earlier").iterdir()
    assert ((earlier / "run.json").read_bytes(), (earlier / "predictions/t.jsonl").read_bytes()) == before
    read_run(earlier)
    workshop.run(fresh=True, seed=1)
    assert len(list((folder.path / "earlier").iterdir())) == 2


def test_rows_without_a_record_are_nobodys(workshop: Workshop, folder: RunFolder) -> None:
    folder.run_file.unlink()
    with pytest.raises(RecordError, match=r"has predictions of a run whose run\.json is missing"):
        workshop.run()
    workshop.run(fresh=True)
    assert (folder.path / "earlier/unknown/predictions/t.jsonl").is_file()


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
def test_no_task_of_a_record_leads_out_of_its_folder(name: str, folder: RunFolder) -> None:
    content = json.loads(folder.run_file.read_text())
    content["tasks"][0]["task"] = name
    folder.run_file.write_text(json.dumps(content))
    with pytest.raises(RecordError, match="is not a valid task name"):
        read_run(folder.path)
    with pytest.raises(RecordError, match="is not a valid task name"):
        folder.predictions_file(name)
