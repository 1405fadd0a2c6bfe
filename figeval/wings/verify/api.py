"""`figeval.verify`, and the `Verification` that it returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from figeval import Column, Harness, Result, Run, Table
from figeval.config import Folders
from figeval.io import frontend
from figeval.io.text import clean, one_line, pluralize
from figeval.io.validation import checked_arguments, paths_in
from figeval.wings.verify.checks import Check, check_run
from figeval.wings.verify.other_run import compare_runs

COLUMNS: tuple[Column[Check], ...] = (
    Column("part", head="part"),
    Column("name", head="check"),
    Column("state", head="state"),
    Column("detail", head=""),
)


@checked_arguments
def verify(
    run: Run | str | Path,
    *,
    data: bool = True,
    against: Run | str | Path | None = None,
    include_path: Folders = (),
    progress: bool = False,
) -> Verification:
    """Compute a run again from its predictions and the tasks' data, and compare everything and the files' checksums.

    Nothing is written, and no model is loaded but the baselines. Only the checksums protect what cannot be computed,
    such as times and versions; they find damage and careless edits there, but no forger.

    Args:
        run: a run, or its folder.
        data: False to leave out what needs the tasks' data: rows and baselines are not recomputed then.
        against: another run that should be equal, apart from times and machines.
        include_path: further folders with task files.
        progress: show on a terminal which task is being checked.

    Raises:
        OptionError: an argument has another type.
        RecordError: a record cannot be read, or was written by a later version of figeval.

    Example:
        ```python
        assert figeval.verify("results/runs/minilm").ok
        ```
    """
    from rich.console import Console
    from rich.text import Text

    path = run.path if isinstance(run, Run) else Path(run)
    console = Console(stderr=True, quiet=not progress)
    with frontend.python_program(watched=progress), console.status("verifying") as status:  # on terminals only
        harness = Harness(include=paths_in(include_path))

        def update(task: str) -> None:
            status.update(Text(f"verifying {one_line(task, 80)}"))

        checks = check_run(path, harness, data=data, progress=update)
    if against is not None:
        checks += compare_runs(path, against.path if isinstance(against, Run) else Path(against))
    return Verification(tuple(checks))


@dataclass(frozen=True, slots=True)
class Verification(Result):
    """Results of the checks of a run, as `figeval.verify` returns them.

    `print` prints the lines that `figeval verify` prints.

    Attributes:
        checks: the checks in order; each has a `part`, a `name`, a `state` (`ok`, `problem`, `note` or `not checked`)
            and a `detail`.
    """

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """True if no check found a problem; some may not have been possible."""
        return not self.problems

    @property
    def problems(self) -> tuple[Check, ...]:
        """Checks that found something that does not agree."""
        return tuple(check for check in self.checks if check.state == "problem")

    @property
    def tables(self) -> list[Table[Check]]:
        """One row per check: `part`, `name`, `state`, `detail`."""
        return [Table(COLUMNS, self.checks)]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the checks as `figeval verify --json` prints them."""
        return [asdict(check) for check in self.checks]

    def _lines(self) -> Iterator[str]:
        """Yield a line for what is well about each part of the run, one for every other check, and their numbers."""
        for part in dict.fromkeys(check.part for check in self.checks):
            checks = [check for check in self.checks if check.part == part]
            if details := [check.detail for check in checks if check.state == "ok"]:
                yield f"{'ok':<11}  {part}: {'; '.join(details)}"
            for check in checks:
                if check.state != "ok":
                    yield f"{check.state:<11}  {part}: {check.name}: {check.detail}"
        yield self._summary()

    def _summary(self) -> str:
        states = Counter(check.state for check in self.checks)
        checks, problems = pluralize(len(self.checks), "check"), pluralize(states["problem"], "problem")
        return f"{checks}, {problems}, {states['not checked']} not checked"

    def notes(self) -> list[str]:
        return [self._summary()]

    def __str__(self) -> str:
        return clean("\n".join(self._lines()))

    def __repr__(self) -> str:
        return f"<figeval.Verification: {self._summary()}>"
