"""`figeval …` in this process, where no process of its own is what is tested: a hundred calls in a few seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from figeval.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line on stderr; there must be no other."""
        assert self.code == 2, f"exit code {self.code}\n{self.out}\n{self.err}"
        (line,) = self.err.splitlines()
        assert line.startswith("figeval: ")
        return line


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """`cli("ls", "tasks")` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, *capsys.readouterr())

    return call
