"""Progress: a bar with rate and time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from figeval import Observer, open_display
from figeval.reporting import progress
from figeval.reporting.progress import Display, Lines
from tests.processes import figeval

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_the_console_decides() -> None:
    assert type(open_display(progress=False)) is Observer
    assert Display(Console(file=io.StringIO())).lines is not None
    assert Display(Console(file=io.StringIO(), force_terminal=True)).lines is None


def in_lines(out: io.StringIO) -> tuple[Display, Lines]:
    """A display that is no terminal, and the lines whose clock a test moves."""
    shown = Display(Console(file=out))
    assert shown.lines is not None
    return shown, shown.lines


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that progress sees, in its only item."""
    seconds = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    return seconds


def test_plain_lines_say_what_is_done_now_and_then(clock: list[float]) -> None:
    out = io.StringIO()
    shown, lines = in_lines(out)
    shown.start("proverbs[1]", 400, 100)
    for clock[0], done in ((4.0, 150), (5.0, 200), (12.0, 250)):
        shown.reach(done - 25)
        shown.reach(done)
        lines.tick()
    shown.count_requests(1200, 4000)
    for clock[0] in (14.0, 15.0, 16.0):
        shown.count_requests(2400, 4000)
        lines.tick()
    shown.wait("computing baselines", later=True)
    clock[0] = 25.0
    lines.tick()
    shown.end("done in 25.5 s")
    shown.end("without a stage")
    assert out.getvalue().splitlines() == [
        "proverbs[1]: 200 of 400, 75/s, about 0:00:03 left (5 s)",
        "proverbs[1]: 250 of 400, 16/s, about 0:00:10 left, 2,400 of 4,000 requests (15 s)",
        "proverbs[1]: 250 of 400, 16/s, about 0:00:10 left, computing baselines (25 s)",
        "proverbs[1]: 400 examples, 100 of them kept from before, done in 25.5 s",
    ]


def test_what_precedes_the_first_example_does_not_count_for_the_time_left(clock: list[float]) -> None:
    out = io.StringIO()
    shown, lines = in_lines(out)
    shown.start("ranked", 300)
    for clock[0], done in ((1000.0, 10), (1001.0, 20), (1010.0, 30)):
        shown.reach(done)
    lines.tick()
    for clock[0], done in ((1100.0, 130), (1200.0, 230)):
        shown.reach(done)
    lines.tick()
    assert out.getvalue().splitlines() == [
        "ranked: 30 of 300, 2/s, about 0:02:15 left (1010 s)",
        "ranked: 230 of 300, 1/s, about 0:01:04 left (1200 s)",
    ]


def test_reading_is_only_told_if_it_takes_long(clock: list[float]) -> None:
    out = io.StringIO()
    shown, lines = in_lines(out)
    shown.wait("reading few", later=True)
    clock[0] = 4.9
    lines.tick()
    shown.wait("reading many", later=True)
    for clock[0] in (5.0, 14.0, 15.0):
        lines.tick()
    assert out.getvalue().splitlines() == ["reading many …", "reading many … (10 s)"]


def test_one_example_is_no_plural() -> None:
    out = io.StringIO()
    shown, _ = in_lines(out)
    shown.start("one", 1)
    shown.end("done")
    assert out.getvalue() == "one: 1 example, done\n"


def test_what_is_waited_for_is_told_before_the_first_request(clock: list[float]) -> None:
    out = io.StringIO()
    shown, lines = in_lines(out)
    shown.wait("loading model m")
    clock[0] = 3.0
    shown.wait("asking example.org about batches", later=True)
    for clock[0] in (4.9, 5.0):
        lines.tick()
    shown.start("proverbs", 60)
    shown.wait("starting 2 workers", later=True)
    clock[0] = 10.0
    lines.tick()
    shown.wait("loading model judge")
    shown.count_requests(3, 30)
    clock[0] = 20.0
    lines.tick()
    assert out.getvalue().splitlines() == [
        "loading model m …",
        "asking example.org about batches … (2 s)",
        "proverbs: 0 of 60, starting 2 workers (5 s)",
        "loading model judge …",
        "proverbs: 0 of 60, 3 of 30 requests (15 s)",
    ]


def test_a_line_is_repeated_while_a_model_says_nothing(clock: list[float]) -> None:
    out = io.StringIO()
    shown, lines = in_lines(out)
    shown.wait("loading model slow")
    for clock[0] in (4.9, 5.0, 14.0):
        lines.tick()  # as the thread of `live` does twice a second
    clock[0] = 20.0
    shown.start("proverbs", 60)
    for clock[0] in (24.9, 25.0, 26.0, 35.0, 44.0, 45.0):
        lines.tick()
    shown.end()
    clock[0] = 100.0
    lines.tick()
    assert out.getvalue().splitlines() == [
        "loading model slow …",
        "loading model slow … (5 s)",
        "proverbs: 0 of 60 (5 s)",
        "proverbs: 0 of 60 (15 s)",
        "proverbs: 0 of 60 (25 s)",
        "proverbs: 60 examples, done in 25.0 s",
    ]


@pytest.mark.parametrize(("examples", "seconds", "shown"), [(400, 2.0, "200/s"), (3, 60.0, "20.0 s each"), (0, 9, "")])
def test_speed_is_told_in_the_unit_that_can_be_read(examples: int, seconds: float, shown: str) -> None:
    assert progress.format_rate(examples / seconds) == shown


def test_the_bar_shows_count_rate_and_time_left() -> None:
    out = io.StringIO()
    bar = Display(Console(file=out, force_terminal=True, width=100, no_color=True))
    with bar.live() as live:
        bar.start("proverbs", 400, 100)
        for done in range(120, 301, 20):
            time.sleep(0.01)
            bar.reach(done)
        live.refresh()
        during = ESCAPES.sub("", out.getvalue())
        bar.wait("computing baselines", later=True)
        live.refresh()
        bar.end("done in 2.5 s")
        bar.start("broken", 10)
        bar.end("FAILED in 0.1 s")
    after = ESCAPES.sub("", out.getvalue())
    assert re.search(r"proverbs\s+[━╺╸ ]+\s+300/400\s+[\d,]+/s\s+0:00:0\d < 0:00:0\d", during), during
    assert "computing baselines" in after
    assert re.search(r"400\s+done in 2\.5 s", after)
    assert re.search(r"broken.*FAILED", after)


def test_measures_are_shown_by_their_requests(clock: list[float]) -> None:
    out = io.StringIO()
    shown, lines = in_lines(out)
    shown.count_requests(1, 2)  # before the first measure
    shown.start("proverbs, recall", 600, unit="request", note="about 5,300 tokens at most")
    clock[0] = 2.0
    shown.reach(100)
    shown.count_requests(0, 256)
    clock[0] = 5.0
    shown.count_requests(50, 256)
    lines.tick()
    shown.reach(356)
    clock[0] = 15.0
    lines.tick()
    shown.end()
    assert out.getvalue().splitlines() == [
        "proverbs, recall: 600 requests, about 5,300 tokens at most",
        "proverbs, recall: 150 of 600, 17/s, about 0:00:27 left (5 s)",
        "proverbs, recall: 356 of 600, 85/s, about 0:00:03 left (15 s)",
        "proverbs, recall: done in 15.0 s",
    ]


def test_a_request_that_is_answered_and_then_stored_counts_once() -> None:
    """A model that answers part by part goes on with a call when the first answers are stored."""
    shown, lines = in_lines(io.StringIO())
    shown.start("proverbs, recall", 20, unit="request")
    counts = []
    for stored in (0, 8):
        shown.count_requests(0, 8)
        for answered in range(2, 9, 2):
            shown.count_requests(answered, 8)
            shown.reach(stored + answered)
            counts.append(lines.state.split(",")[1].split(": ")[1])
            shown.count_requests(answered, 8)
            assert f" {stored + answered} of 20" in lines.state
    assert counts == [f"{done} of 20" for done in range(2, 17, 2)]


def test_a_training_is_shown_by_the_same_lines(clock: list[float]) -> None:
    out = io.StringIO()
    shown, lines = in_lines(out)
    shown.wait("loading model m[1]")
    shown.start("training", 40, 10, unit="step")
    for step, clock[0] in ((11, 4.0), (12, 5.0)):
        shown.reach(step, {"loss": 0.25, "tokens/s": 1234.0})
        lines.tick()
    shown.say("step 12: acc 0.5000")
    clock[0] = 15.0
    lines.tick()
    assert out.getvalue().splitlines() == [
        "loading model m[1] …",
        "training: 12 of 40, 1/s, about 0:00:28 left, loss 0.2500, tokens/s 1,234 (5 s)",
        "step 12: acc 0.5000",
        "training: 12 of 40, 1/s, about 0:00:28 left, loss 0.2500, tokens/s 1,234 (15 s)",
    ]


def test_a_training_on_a_terminal_has_one_bar_with_scores_above_it() -> None:
    out = io.StringIO()
    shown = Display(Console(file=out, force_terminal=True, width=100, no_color=True))
    with shown.live() as live:
        shown.wait("loading model m")
        shown.start("training", 40, 10, unit="step")
        shown.reach(20, {"loss": 0.25, "tokens/s": 1234.0})
        shown.say("step 20: acc 0.5000 (best so far)")
        live.refresh()
    text = ESCAPES.sub("", out.getvalue())
    assert re.search(r"training\s+[━╺╸ ]+\s+20/40\s+[\d,]+/s, loss 0\.2500, tokens/s", text), text
    assert "step 20: acc 0.5000 (best so far)" in text


COMMAND = ("run", "--tasks", "mini_fables", "--model", "overlap")


@pytest.mark.slow
def test_a_run_without_a_terminal_prints_lines_on_stderr_and_the_table_on_stdout(tmp_path: Path) -> None:
    done = figeval(*COMMAND, "--output_path", "run", cwd=tmp_path)
    assert re.search(r"^mini_fables: 20 examples, done in \d+\.\d s$", done.stderr, re.MULTILINE)
    assert done.stdout.startswith("overlap (overlap)\ntask ")
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_run_on_a_terminal_shows_a_bar(tmp_path: Path) -> None:
    import pty

    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "figeval", *COMMAND, "--output_path", "run"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        seen = b""
        while piece := read_terminal(ours):
            seen += piece
        assert process.wait() == 0
    os.close(ours)
    text = ESCAPES.sub("", seen.decode())
    assert re.search(r"mini_fables\s+━+\s+20/20", text), text
    assert "mini_fables: 20 examples" not in text


def read_terminal(descriptor: int) -> bytes:
    """What the other end of a pseudo-terminal wrote, nothing once it is closed (Linux raises then)."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
