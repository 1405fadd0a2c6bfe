"""Run `figeval …` within the test process, which is much faster than a subprocess for each call."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from figeval.cli.main import main
from tests.wings_here import require_command


@dataclass(frozen=True)
class Outcome:
    """Result of a command."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The only line on stderr. Fails if there are others."""
        assert self.code == 2, f"exit code {self.code}\n{self.out}\n{self.err}"
        (line,) = self.err.splitlines()
        assert line.startswith("figeval: ")
        return line


Cli = Callable[..., Outcome]


def exit_code(*arguments: str | Path) -> int:
    """Run a command; what it prints is not captured."""
    require_command(arguments)
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def listed_commands(text: str) -> list[str]:
    """Return the commands that a `--help` lists."""
    return re.findall(r"^  (\w[\w-]*)  ", text.partition("Options:\n")[2], flags=re.MULTILINE)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Return a function that runs a command in an empty folder: `cli("ls", "tasks")`."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> Outcome:
        require_command(arguments)
        capsys.readouterr()
        return Outcome(exit_code(*arguments), *capsys.readouterr())

    return call
