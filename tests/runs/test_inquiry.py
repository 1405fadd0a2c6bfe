"""`figeval.Inquiry` and `figeval.AnswerFile`: what is answered is kept, and only the rest is asked for."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typing_extensions import TypedDict

import figeval


class Row(TypedDict):
    id: str
    value: float


class Scorer:
    """Gives a text the negative of its length; fails on texts that are named, and counts its requests."""

    deterministic_by_name = True

    def __init__(self) -> None:
        self.contexts: list[str] = []

    def loglikelihood(self, requests: Sequence[figeval.Continuation]) -> list[float]:
        self.contexts += [request.context for request in requests]
        return [-float(len(request.context)) for request in requests]

    @figeval.hookimpl
    def register_backends(self, register: Callable[[str, object], None]) -> None:
        register("scorer", lambda _model: self)


def begin(example: figeval.Example) -> figeval.Dialogue:
    (value,) = yield [figeval.Continuation(example.id, "!")]
    if example.id == "broken":
        raise ValueError("this one cannot be read")
    status: figeval.Status = "error" if example.id == "silent" else "ok"
    return figeval.Prediction(example_id=example.id, value=value, status=status)


def answer(scorer: Scorer, path: Path, *ids: str) -> dict[str, float]:
    """Ask about examples with these ids, and return all that is stored."""
    file = figeval.AnswerFile(path, Row)
    examples = [figeval.Example(id=name) for name in ids]
    harness = figeval.Harness(models={"scorer": scorer})
    with harness.open_model("scorer", {}) as model, file.locked():
        rows = {row["id"]: row for row in file.rows()}
        inquiry = figeval.Inquiry(lambda: examples, begin, rows.keys)
        with file.appending() as append:
            for _ in inquiry.answer(
                model, lambda example, prediction: append({"id": example.id, "value": prediction.value})
            ):
                pass
        return {row["id"]: row["value"] for row in file.rows()}


def test_what_is_answered_is_not_asked_again(tmp_path: Path) -> None:
    scorer = Scorer()
    assert answer(scorer, tmp_path / "a.jsonl", "a", "bb") == {"a": -1.0, "bb": -2.0}
    assert answer(scorer, tmp_path / "a.jsonl", "bb", "ccc") == {"a": -1.0, "bb": -2.0, "ccc": -3.0}
    assert scorer.contexts == ["a", "bb", "ccc"]


def test_a_torn_last_line_is_asked_again_and_a_damaged_one_is_an_error(tmp_path: Path) -> None:
    scorer, file = Scorer(), tmp_path / "a.jsonl"
    answer(scorer, file, "a", "bb")
    content = file.read_bytes()
    file.write_bytes(content[:-3])
    answer(scorer, file, "a", "bb")
    assert file.read_bytes() == content
    assert scorer.contexts == ["a", "bb", "bb"]
    file.write_bytes(content.replace(b'"a"', b"1", 1))
    with pytest.raises(figeval.RecordError, match=r"a\.jsonl:1 is damaged; delete the file to ask again"):
        answer(scorer, file, "a")


def test_a_reply_that_did_not_arrive_is_not_stored(tmp_path: Path) -> None:
    scorer = Scorer()
    for _ in range(2):
        assert answer(scorer, tmp_path / "a.jsonl", "a", "silent") == {"a": -1.0}
    assert scorer.contexts == ["a", "silent", "silent"]


def test_answers_that_came_with_a_broken_one_are_stored_first(tmp_path: Path) -> None:
    scorer = Scorer()
    with pytest.raises(ValueError, match="cannot be read"):
        answer(scorer, tmp_path / "a.jsonl", "a", "broken", "ccc")
    assert answer(scorer, tmp_path / "a.jsonl") == {"a": -1.0, "ccc": -3.0}


def test_links_and_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "target")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(figeval.RecordError, match=r"cannot write .*link\.jsonl"):
        answer(Scorer(), tmp_path / "link.jsonl", "a")
    with pytest.raises(figeval.RecordError, match="is not a regular file"):
        answer(Scorer(), tmp_path / "folder.jsonl", "a")


def _hold(path: Path, connection: multiprocessing.connection.Connection) -> None:
    with figeval.AnswerFile(path, Row).locked():
        connection.send(True)
        connection.recv()


def test_one_process_at_a_time_writes_a_file(tmp_path: Path) -> None:
    parent_end, child_end = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_hold, args=(tmp_path / "a.jsonl", child_end))
    process.start()
    assert parent_end.recv()
    with pytest.raises(figeval.RecordError, match=r"another process writes .*a\.jsonl; wait until it has ended"):
        answer(Scorer(), tmp_path / "a.jsonl", "a")
    parent_end.send(True)
    process.join()
    assert answer(Scorer(), tmp_path / "a.jsonl", "a") == {"a": -1.0}


def test_a_row_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    file = figeval.AnswerFile(tmp_path / "a.jsonl", Row)
    with file.appending() as append:
        append({"id": "a", "value": 1})
        with pytest.raises(figeval.PluginError, match=r"a\.jsonl: value must be a number"):
            append({"id": "b", "value": None})  # type: ignore[typeddict-item]
        append({"id": "c", "value": 2.0})
    assert [row["id"] for row in file.rows()] == ["a", "c"]
