"""One training process started by the launcher: `python -m figeval.wings.training.worker CONFIG`.

Its stdout carries messages to the launcher. Everything that libraries print goes to stderr, which is the log.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from figeval import FigevalError, Harness, Observer, TrainError
from figeval.io.frontend import end_quickly, ignore_terminal
from figeval.io.json_files import read_model
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.task_training import train_in_process


class MessageWriter(Observer):
    """An observer that writes each event as a line of JSON: the name of the observer's method and its arguments."""

    def __init__(self, descriptor: int, process: int) -> None:
        self.descriptor = descriptor
        self.process = process
        self.has_announced = False

    def send(self, event: str, *values: object, **options: object) -> None:
        """Write a line at once; if the reader is gone, `_end_with_stdin` notices it."""
        with suppress(BrokenPipeError):
            os.write(self.descriptor, json.dumps({event: [values, options]}).encode() + b"\n")

    def start(self, stage: str, total: int, done: int = 0, *, unit: str = "example", note: str = "") -> None:
        self._send_from_main("start", stage, total, done, unit=unit, note=note)

    def reach(self, done: int, figures: Mapping[str, float] = MappingProxyType({})) -> None:
        self._send_from_main("reach", done, dict(figures))

    def wait(self, activity: str, *, later: bool = False) -> None:
        """Pass on what is done before the first step, except that the model is loaded, which the launcher has said."""
        if self.has_announced:
            self._send_from_main("wait", activity, later=later)
        self.has_announced = True

    def end(self, outcome: str = "") -> None:
        self._send_from_main("end", outcome)

    def say(self, text: str) -> None:
        self._send_from_main("say", text)

    def warn(self, text: str) -> None:
        self._send_from_main("warn", text)

    def _send_from_main(self, event: str, *values: object, **options: object) -> None:
        """Write the event in process 0 only, since all processes see the same events."""
        if self.process == 0:
            self.send(event, *values, **options)


def _end_with_stdin() -> None:
    """Exit at once when stdin ends, because the launcher is gone or stops the processes."""
    while os.read(0, 4096):
        pass
    os._exit(130)


def main() -> None:
    """Train; report an error to the launcher and end at once, so that the other processes do not wait."""
    end_quickly()
    writer = MessageWriter(os.dup(sys.stdout.fileno()), int(os.environ["RANK"]))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    ignore_terminal()
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        config = read_model(Path(sys.argv[1]), TrainConfig, TrainError)
        train_in_process(config, Harness(include=config.include_path), writer)
    except FigevalError as error:
        writer.send("report_error", str(error))
        os._exit(2)
    except BaseException:
        text = traceback.format_exc()
        print(text, file=sys.stderr, flush=True)
        writer.send("report_crash", writer.process, text)
        os._exit(1)


if __name__ == "__main__":
    main()
