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

from figeval.reporting import progress
from figeval.reporting.progress import Bars, Lines, MeasureProgress, RunProgress, Silent, TrainingProgress, display_on
from tests.finished_runs import task
from tests.processes import figeval

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_the_console_decides() -> None:
    assert isinstance(display_on(None), Silent)
    assert isinstance(display_on(Console(file=io.StringIO())), Lines)
    assert isinstance(display_on(Console(file=io.StringIO(), force_terminal=True)), Bars)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that progress sees, in its only item."""
    seconds = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    return seconds


def test_plain_lines_say_what_is_done_now_and_then(clock: list[float]) -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out))
    shown = RunProgress(lines)
    shown.task_started("proverbs[1]", 400, 100)
    for clock[0] in (4.0, 5.0, 12.0):
        shown.advanced(25)
        shown.advanced(25)
        lines.tick()
    shown.asked(1200, 4000)
    for clock[0] in (14.0, 15.0, 16.0):
        shown.asked(2400, 4000)
        lines.tick()
    shown.scoring("baselines")
    clock[0] = 25.0
    lines.tick()
    shown.task_ended(task("proverbs[1]", seconds=24.0, baseline_seconds=1.5))
    shown.task_ended(task("broken", status="failed"))
    assert out.getvalue().splitlines() == [
        "proverbs[1]: 400 examples, 100 of them kept from before",
        "proverbs[1]: 200 of 400, 20/s, about 0:00:10 left (5 s)",
        "proverbs[1]: 250 of 400, 12/s, about 0:00:12 left, 2,400 of 4,000 requests (15 s)",
        "proverbs[1]: computing baselines (25 s)",
        "proverbs[1]: done in 25.5 s",
        "broken: FAILED in 0.0 s",
    ]


def test_what_precedes_the_first_example_does_not_count_for_the_time_left(clock: list[float]) -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out))
    shown = RunProgress(lines)
    shown.task_started("ranked", 300, 0)
    for clock[0] in (1000.0, 1001.0, 1010.0):
        shown.advanced(10)
    lines.tick()
    for clock[0] in (1100.0, 1200.0):
        shown.advanced(100)
    lines.tick()
    assert out.getvalue().splitlines()[1:] == [
        "ranked: 30 of 300, 2/s, about 0:02:15 left (1010 s)",
        "ranked: 230 of 300, 1/s, about 0:01:10 left (1200 s)",
    ]


def test_reading_is_only_told_if_it_takes_long(clock: list[float]) -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out))
    shown = RunProgress(lines)
    shown.reading("few")
    clock[0] = 4.9
    lines.tick()
    shown.reading("many")
    for clock[0] in (5.0, 14.0, 15.0):
        lines.tick()
    assert out.getvalue().splitlines() == ["reading many …", "reading many … (10 s)"]


def test_one_example_is_no_plural() -> None:
    out = io.StringIO()
    RunProgress(Lines(Console(file=out))).task_started("one", 1, 0)
    assert out.getvalue() == "one: 1 example\n"


def test_what_is_waited_for_is_told_before_the_first_request(clock: list[float]) -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out))
    shown = RunProgress(lines)
    shown.loading("m")
    clock[0] = 3.0
    shown.waiting("asking example.org about batches")
    for clock[0] in (4.9, 5.0):
        lines.tick()
    shown.task_started("proverbs", 60, 0)
    shown.waiting("starting 2 workers")
    clock[0] = 10.0
    lines.tick()
    shown.asked(3, 30)
    clock[0] = 20.0
    lines.tick()
    assert out.getvalue().splitlines() == [
        "loading model m …",
        "asking example.org about batches … (2 s)",
        "proverbs: 60 examples",
        "proverbs: 0 of 60, starting 2 workers (5 s)",
        "proverbs: 0 of 60, 3 of 30 requests (15 s)",
    ]


def test_a_line_is_repeated_while_a_model_says_nothing(clock: list[float]) -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out))
    shown = RunProgress(lines)
    shown.loading("slow")
    for clock[0] in (4.9, 5.0, 14.0):
        lines.tick()  # as the thread of `live` does twice a second
    clock[0] = 20.0
    shown.task_started("proverbs", 60, 0)
    for clock[0] in (24.9, 25.0, 26.0, 35.0, 44.0, 45.0):
        lines.tick()
    shown.task_ended(task("proverbs", seconds=26.0))
    clock[0] = 100.0
    lines.tick()
    assert out.getvalue().splitlines() == [
        "loading model slow …",
        "loading model slow … (5 s)",
        "proverbs: 60 examples",
        "proverbs: 0 of 60 (5 s)",
        "proverbs: 0 of 60 (15 s)",
        "proverbs: 0 of 60 (25 s)",
        "proverbs: done in 26.0 s",
    ]


@pytest.mark.parametrize(("examples", "seconds", "shown"), [(400, 2.0, "200/s"), (3, 60.0, "20.0 s each"), (0, 9, "")])
def test_speed_is_told_in_the_unit_that_can_be_read(examples: int, seconds: float, shown: str) -> None:
    assert progress.speed(examples, seconds) == shown


def test_the_bar_shows_count_rate_and_time_left() -> None:
    out = io.StringIO()
    bar = RunProgress(display_on(Console(file=out, force_terminal=True, width=100, no_color=True)))
    with bar.live() as live:
        bar.task_started("proverbs", 400, 100)
        for _ in range(10):
            time.sleep(0.01)
            bar.advanced(20)
        live.refresh()
        during = ESCAPES.sub("", out.getvalue())
        bar.scoring("baselines")
        live.refresh()
        bar.task_ended(task("proverbs", seconds=2.5))
        bar.task_started("broken", 10, 0)
        bar.task_ended(task("broken", status="failed"))
    after = ESCAPES.sub("", out.getvalue())
    assert re.search(r"proverbs\s+[━╺╸ ]+\s+300/400\s+[\d,]+/s\s+0:00:0\d < 0:00:0\d", during), during
    assert "baselines …" in after
    assert re.search(r"400\s+2\.5 s", after)
    assert re.search(r"broken.*FAILED", after)


def test_measures_are_shown_by_their_requests(clock: list[float]) -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out))
    shown = MeasureProgress(lines)
    shown.asked(1, 2)  # before the first measure
    shown.measure_started("proverbs, recall", 600, 5_300)
    shown.measure_advanced(100)
    shown.asked(50, 256)
    clock[0] = 5.0
    lines.tick()
    shown.measure_advanced(356)
    clock[0] = 15.0
    lines.tick()
    shown.measure_ended()
    assert out.getvalue().splitlines() == [
        "proverbs, recall: 600 requests, about 5,300 tokens at most",
        "proverbs, recall: 150 of 600 requests (5 s)",
        "proverbs, recall: 356 of 600 requests (15 s)",
        "proverbs, recall: done in 15.0 s",
    ]


def test_a_training_is_shown_by_the_same_lines(clock: list[float]) -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out))
    shown = TrainingProgress(lines)
    shown.preparing("loading model m[1]")
    shown.evaluated(0, {"acc": 0.125}, False)
    shown.began(40, 0)
    shown.began(40, 10)
    for step, clock[0] in ((11, 4.0), (12, 5.0)):
        shown.stepped(step, 0.25, 2e-5, 1234.0, 61.0)
        lines.tick()
    shown.evaluated(12, {"acc": 0.5, "loss": None}, True)
    shown.evaluated(14, {"acc": 0.25}, False)
    assert out.getvalue().splitlines() == [
        "loading model m[1] …",
        "step 0: acc 0.1250 (before training)",
        "training: 40 steps",
        "continuing from step 10 of 40",
        "training: 30 steps left",
        "step 12 of 40: loss 0.2500, 1,234 tokens/s, 0:01:01 left (5 s)",
        "step 12: acc 0.5000, loss – (best so far)",
        "step 14: acc 0.2500",
    ]


def test_a_training_on_a_terminal_has_one_bar_with_scores_above_it() -> None:
    out = io.StringIO()
    shown = TrainingProgress(display_on(Console(file=out, force_terminal=True, width=100, no_color=True)))
    with shown.live() as live:
        shown.preparing("loading model m")
        shown.began(40, 10)
        shown.stepped(20, 0.25, 2e-5, 1234.0, 61.0)
        shown.evaluated(20, {"acc": 0.5}, True)
        live.refresh()
    text = ESCAPES.sub("", out.getvalue())
    assert re.search(r"training\s+[━╺╸ ]+\s+20/40\s+loss 0\.2500, 1,234 tokens/s", text), text
    assert "continuing from step 10 of 40" in text
    assert "step 20: acc 0.5000 (best so far)" in text


COMMAND = ("run", "--tasks", "mini_fables", "--model", "overlap")


@pytest.mark.slow
def test_a_run_without_a_terminal_prints_lines_on_stderr_and_the_table_on_stdout(tmp_path: Path) -> None:
    done = figeval(*COMMAND, "--output_path", "run", cwd=tmp_path)
    assert re.fullmatch(r"mini_fables: 20 examples\nmini_fables: done in \d+\.\d s\n", done.stderr)
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
