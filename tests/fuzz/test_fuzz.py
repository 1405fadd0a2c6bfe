"""Whatever a file, a template, a record or a server holds: success, or an error of one line, within five seconds.

`make test` tries 400 cases that are the same every time, continuous integration 600, and `make fuzz` 100,000 new ones
(`FIGEVAL_FUZZ`).
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2.defaults import DEFAULT_FILTERS

from figeval import FigevalError, Harness, Message, Prompt
from figeval.cli.main import main
from figeval.io.text import clean as clean_text
from figeval.testing import harness, load_template
from tests.finished_runs import finished
from tests.fuzz.hostile import NUMBERS, TEXTS, as_json, as_yaml, damaged_values, scalars, torn
from tests.typed import examples_of

CASES = int(os.environ.get("FIGEVAL_FUZZ", 10 * settings().max_examples))
SECONDS = 5


def cases(share: float) -> settings:
    """So many of all cases; the usual ones are the same every time, so that `make test` is."""
    return settings(
        max_examples=round(CASES * share),
        derandomize="FIGEVAL_FUZZ" not in os.environ,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@contextlib.contextmanager
def soon() -> Iterator[None]:
    """Processor time is bounded, whatever else the machine does."""
    began = time.process_time()
    yield
    assert time.process_time() - began < SECONDS


# What a library says to programmers, where a user should be told what to change.
JARGON = ("Traceback", "Input should be", "Field required", "dict object", "line contains invalid json", ".; ")


def readable(message: str, *locations: str) -> None:
    """A message is one line that a terminal can show, begins with what it is about, and is in the user's words."""
    assert message == clean_text(message) and "\n" not in message, ascii(message)
    assert message[:1].isalnum() or message[:1] in "-/'", message
    assert not [words for words in JARGON if words in message.removesuffix(")")], message
    assert not locations or any(location in message for location in locations), message


@contextlib.contextmanager
def clean(*locations: str) -> Iterator[None]:
    """Nothing but an error that a user can mend, in one line that is short enough to be read and names the place."""
    with soon():
        try:
            yield
        except FigevalError as error:
            readable(str(error), *locations)


# ---- task files and rows ---------------------------------------------------------------------------------------------

COMMON = {"name": "t", "version": 1, "data": {"test": "jsonl:t.jsonl"}, "metrics": ["acc"]}
TASKS: tuple[dict[str, Any], ...] = (
    {
        **COMMON,
        "type": "choice",
        "fields": {"id": "row.id", "query": "row.q", "options": "row.o", "gold": "row.g", "meta": {"kind": "row.k"}},
        "cluster": "kind",
        "group": "row.k",
        "prompts": {"short": "short.jinja"},
    },
    {
        **COMMON,
        "type": "pairs",
        "labels": ["yes_", "no_"],
        "verbalizer": {"yes_": "Yes", "no_": ["No", "Maybe"]},
        "settings": {"threshold": 0.5},
        "fields": {"id": "row.id", "left": "row.q", "right": "row.o[0]", "label": "'yes_' if row.g else 'no_'"},
    },
    {
        **COMMON,
        "type": "spans",
        "fields": {"id": "row.id", "text": "row.q", "given": "row.o[0]", "known": "row.k", "gold": "row.s"},
    },
    {
        **COMMON,
        "type": "joint",
        "fields": {"id": "row.id", "query": "row.q", "candidates": "row.o", "relevant": "row.g", "parts": "row.p"},
    },
    {
        **COMMON,
        "type": "generation",
        "fields": {"id": "row.id", "inputs": {"q": "row.q", "k": "row.o"}, "references": "row.o"},
    },
    {
        **COMMON,
        "type": "ranking",
        "fields": {"id": "row.id", "query": "row.q", "candidates": "row.o", "relevant": "[row.g]", "near": "[]"},
    },
)
ROW = {
    "id": "a",
    "q": "a word in the text",
    "o": ["a", "b", "c"],
    "g": 1,
    "k": "kind",
    "s": [2, 6],
    "p": [{"id": "a1", "given": "a", "known": "b", "gold": "word"}],
}


def read_task(file: Path, keys: bytes) -> None:
    """Read the rows of a task file as `figeval run` does."""
    file.write_bytes(keys)
    user = harness(include=[file.parent])
    for message in user.catalogue.broken.values():
        readable(message)
    for task in user.catalogue.tasks:
        deque(user.examples(task.load()), maxlen=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    empty_folder = tmp_path_factory.mktemp("fuzz")
    (empty_folder / "t.jsonl").write_bytes(as_json(ROW) + b"\n")
    return empty_folder


sound_tasks = st.sampled_from(TASKS)


@cases(0.25)
@given(data=st.data())
def test_task_files(data: st.DataObject, folder: Path) -> None:
    task = data.draw(sound_tasks.flatmap(damaged_values))
    keys = data.draw(torn(as_yaml(task))) if data.draw(st.booleans()) else as_yaml(task)
    with clean():
        read_task(folder / "t.task.yaml", keys)


@cases(0.2)
@given(data=st.data())
def test_rows(data: st.DataObject, folder: Path) -> None:
    task = data.draw(sound_tasks)
    rows = [data.draw(damaged_values(ROW)), ROW]
    lines = b"".join(as_json(row) + b"\n" for row in rows)
    scheme = data.draw(st.sampled_from(["jsonl", "json", "csv", "tsv"]))
    content = {"jsonl": lines, "json": as_json(rows)}.get(scheme, b"id,q,o,g,k\n" + lines)
    (folder / f"rows.{scheme}").write_bytes(data.draw(torn(content)))
    with clean("rows."):
        read_task(folder / "t.task.yaml", as_yaml({**task, "data": {"test": f"{scheme}:rows.{scheme}"}}))


# ---- expressions and templates ---------------------------------------------------------------------------------------

atoms = st.sampled_from(
    [
        *("row", "row.q", "row.o", "row.g", "row.x", "q", "o", "loop", "self", "range(99999)", "range(9)", "1e999"),
        *("[]", "{}", "(1,)", "''", "none", "true", "namespace(x=1)", "cycler(1, 2)", "dict(a=1)", "lipsum()", "f"),
        *(json.dumps(text) for text in TEXTS if text.isascii() and len(text) < 400),
        *(str(number) for number in NUMBERS),
    ]
)
FILTERS = sorted(DEFAULT_FILTERS)
METHODS = ["append", "count", "encode", "format", "get", "index", "items", "join", "ljust", "replace", "split"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", "in", "and", "or", "is", "if"]


def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions of expressions."""
    return (
        st.tuples(inner, st.sampled_from(OPERATORS), inner).map(lambda parts: f"({' '.join(parts)})")
        | st.tuples(inner, st.sampled_from(FILTERS)).map("|".join)
        | st.tuples(inner, st.sampled_from(FILTERS), inner).map(lambda parts: f"{parts[0]}|{parts[1]}({parts[2]})")
        | st.tuples(inner, st.sampled_from(FILTERS)).map(lambda parts: f"{parts[0]}|map('{parts[1]}')|list")
        | st.tuples(inner, st.sampled_from(METHODS), inner).map(lambda parts: f"{parts[0]}.{parts[1]}({parts[2]})")
        | st.tuples(inner, inner).map(lambda parts: f"{parts[0]}[{parts[1]}]")
        | st.tuples(inner, inner).map(lambda parts: f"[{parts[0]}, {parts[1]}] * 999")
    )


expressions = st.recursive(atoms, deeper, max_leaves=5)


@cases(0.2)
@given(source=expressions, sound=sound_tasks)
def test_expressions(source: str, sound: dict[str, Any]) -> None:
    name = [*sound["fields"]][len(source) % len(sound["fields"])]
    with clean("field "):
        task = {**sound, "fields": {**sound["fields"], name: source}}
        deque(examples_of([ROW], **{**task, "data": {"test": "rows:test"}}), maxlen=0)


def around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Templates around templates."""
    return (
        st.tuples(expressions, inner).map(lambda parts: f"{{% for x in {parts[0]} %}}{parts[1]}{{% endfor %}}")
        | st.tuples(expressions, inner).map(lambda parts: f"{{% if {parts[0]} %}}{parts[1]}{{% endif %}}")
        | st.tuples(expressions, inner).map(lambda parts: f"{{% set ns = {parts[0]} %}}{parts[1]}")
        | inner.map(lambda part: f"{{% macro f(n) %}}{part}{{{{ f(n) }}}}{{% endmacro %}}{{{{ f(1) }}}}")
        | inner.map(lambda part: f"{{% set q %}}{part}{part}{{% endset %}}{{{{ q }}}}")
        | st.tuples(inner, inner).map("".join)
    )


templates = st.recursive(
    expressions.map(lambda source: f"{{{{ {source} }}}}")
    | st.sampled_from(["{% include 't.jinja' %}", "{% include q %}", "{% extends q %}", "{%", "{{ self.context() }}"])
    | st.sampled_from(TEXTS),
    around,
    max_leaves=4,
)


@cases(0.1)
@given(source=templates, data=st.data())
def test_templates(source: str, data: st.DataObject, folder: Path) -> None:
    text = f"{{% block context %}}{source}{{% endblock %}}".encode("utf-8", "surrogatepass")
    (folder / "t.jinja").write_bytes(data.draw(torn(text)))
    with clean("t.jinja"):
        load_template("t.jinja", folder).render("context", {"q": "a word", "o": ["a", "b"], "row": ROW})


# ---- records and replies ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run to be damaged and another one."""
    run_folder = tmp_path_factory.mktemp("runs")
    finished(run_folder / "sound", "mini_pairs", limit=8)
    shutil.copytree(run_folder / "sound", run_folder / "run")
    return run_folder


def figeval(*arguments: str | Path) -> None:
    """A command in this process: exit code 0 or 1, or 2 and one line on stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code in (0, 1, 2), err.getvalue()
    if ended.value.code == 2:
        assert err.getvalue().startswith("figeval: ")
        assert "No such option" not in err.getvalue()
        readable(err.getvalue().removesuffix("\n"), str(arguments[1]))


@cases(0.15)
@given(data=st.data())
def test_records(data: st.DataObject, runs: Path) -> None:
    record = json.loads((runs / "sound" / "run.json").read_text(encoding="utf-8"))
    (predictions,) = (runs / "sound" / "predictions").iterdir()
    lines = [json.loads(line) for line in predictions.read_text(encoding="utf-8").splitlines()]
    if data.draw(st.booleans()):
        record = data.draw(damaged_values(record))
    else:
        lines[0] = data.draw(damaged_values(lines[0]))
        record["tasks"][0]["predictions_sha256"] = None  # what was counted on is not there
    text = as_json(record)
    (runs / "run" / "run.json").write_bytes(data.draw(torn(text)) if data.draw(st.booleans()) else text)
    stored = b"".join(as_json(line) + b"\n" for line in lines)
    (runs / "run" / "predictions" / predictions.name).write_bytes(stored)
    command = data.draw(
        st.sampled_from(
            [
                ("show", runs / "run"),
                ("show", runs / "run", "--json"),
                ("export", runs / "run", "--to", "csv"),
                ("export", runs / "run", "--to", "markdown"),
                ("compare", runs / "run", runs / "sound"),
                ("rescore", runs / "run"),
            ]
        )
    )
    with soon():
        figeval(*command)


OPENAI = {
    "model": "m",
    "choices": [{"message": {"content": "B", "refusal": None, "reasoning": "because"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "cost": 0.1},
}
ANTHROPIC = {
    "model": "m",
    "content": [{"type": "text", "text": "B"}, {"type": "thinking", "thinking": "because"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
ERROR = {"error": {"message": "no", "code": "x", "type": "y", "innererror": {"code": "z"}, "metadata": {"reasons": []}}}
STATUS = [200, 200, 200, 200, 400, 401, 403, 404, 408, 429, 500, 302]


@cases(0.1)
@given(
    sound=st.sampled_from([OPENAI, ANTHROPIC, ERROR]),
    status=st.sampled_from(STATUS),
    header=st.sampled_from(["retry-after", "content-type", "content-encoding"]),
    given_value=scalars,
    data=st.data(),
)
def test_replies(
    sound: Any, status: int, header: str, given_value: Any, data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = data.draw(torn(as_json(data.draw(damaged_values(sound)))))
    text = str(given_value)[:200].encode("ascii", "ignore").decode()
    headers = {header: "".join(character for character in text if character.isprintable())}

    async def respond(*_: object) -> httpx.Response:
        return httpx.Response(status, headers=headers, stream=Stream(body))

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", respond)
    model = "anthropic:m" if sound is ANTHROPIC else "openai:m"
    options = {"base_url": "http://127.0.0.1:1", "max_retries": 0}
    question = Prompt((Message("user", f"question {next(NUMBERS_OF_QUESTIONS)}"),), (), 16)
    with clean(), Harness().open_model(model, options) as opened:
        (reply,) = opened.backend.generate([question])
        error = reply.error or ""
        assert error == clean_text(error) and "\n" not in error, ascii(error)


NUMBERS_OF_QUESTIONS = itertools.count()  # what has been answered is not asked again


class Stream(httpx.AsyncByteStream):
    """A body as it comes over the wire, whatever its headers say."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __aiter__(self) -> Any:
        yield self.body
