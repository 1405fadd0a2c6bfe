"""Answers on disk: together with their price or not at all, whoever else writes, whenever it is killed."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from figeval import Message, Prompt, RecordError
from tests import processes
from tests.plugins.servers import Desk

pytestmark = pytest.mark.usefixtures("no_keys")
TOKENS_PER_ANSWER = 15
WRITER = """
import sys
from figeval import Harness, Message, Prompt
url, name, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
prompts = [Prompt((Message("user", f"{name}{number}"),)) for number in range(n)]
with Harness().open_model("openai:m", {"base_url": url}, {"account": "run"}) as model:
    model.backend.generate(prompts)
"""


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt((Message("user", text),)) for text in texts]


@pytest.fixture
def archived(desk: Desk, openai: Callable[..., Any]) -> Callable[..., tuple[int, int]]:
    """Return a function that gives the number of these questions with an answer, and the tokens that were spent."""

    def count(*texts: str) -> tuple[int, int]:
        estimate = openai("m", base_url=desk.url, account="run").estimate(prompts(*texts)).replace(",", "")
        answers = re.search(r"(\d+) answers? already cached", estimate)
        tokens = re.search(r"spent so far: (\d+) tokens", estimate)
        return int(answers[1]) if answers else 0, int(tokens[1]) if tokens else 0

    return count


def test_only_the_user_may_read_what_is_kept(desk: Desk, openai: Callable[..., Any], own_home: Path) -> None:
    openai("m", base_url=desk.url).generate(prompts("a"))
    (file,) = own_home.rglob("answers.sqlite3")
    assert file.parent.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_more_questions_than_one_query_takes(
    desk: Desk, openai: Callable[..., Any], archived: Callable[..., tuple[int, int]]
) -> None:
    texts = [f"question {number}" for number in range(510)]
    replies = openai("m", base_url=desk.url, account="run").generate(prompts(*texts))
    assert archived(*texts, "another") == (510, TOKENS_PER_ANSWER * 510)
    assert openai("m", base_url=desk.url).generate(prompts(*texts)) == replies
    assert len(desk.requests) == 510


@pytest.mark.usefixtures("warm_start")
def test_several_processes_write_side_by_side(desk: Desk, archived: Callable[..., tuple[int, int]]) -> None:
    commands = [[processes.starting["python"], "-c", WRITER, desk.url, name, "15"] for name in "abc"]
    writers = [subprocess.Popen(command) for command in commands]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    assert archived(*(f"{name}{number}" for name in "abc" for number in range(15))) == (45, TOKENS_PER_ANSWER * 45)


@pytest.mark.slow
def test_a_kill_loses_neither_answers_nor_prices(desk: Desk, archived: Callable[..., tuple[int, int]]) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, desk.url, "x", "100000"])
    while not desk.requests:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    answers, tokens = archived(*(f"x{number}" for number in range(len(desk.requests) + 100)))
    assert answers
    assert tokens == TOKENS_PER_ANSWER * answers


def test_an_answer_that_cannot_be_written_leaves_the_account_alone(
    desk: Desk, openai: Callable[..., Any], archived: Callable[..., tuple[int, int]], own_home: Path
) -> None:
    assert archived("a") == (0, 0)
    (file,) = own_home.rglob("answers.sqlite3")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON spending BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    with pytest.raises(RecordError, match=r"cannot use the reply cache .* \(disk full\); free some space"):
        openai("m", base_url=desk.url, account="run").generate(prompts("a"))
    assert archived("a") == (0, 0)
