"""Golden runs: commands and their expected outcomes.

Each file of `runs/` contains related cases. A case has a `name`, a sentence `why`, the `commands` in order, the script
of a `server` if it needs one, and one of the `outcomes` for each command. With `files`, an outcome also has all that
the command printed on stderr and every file that it wrote; such a case may have actions between its commands
(`tests.golden.actions`). `python -m tests.golden.freeze` writes the
outcomes; `tests/test_golden_runs.py` compares them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

from figeval import FigevalError
from tests.golden.actions import ACTIONS
from tests.golden.stage import GOLDEN_FOLDER, Models, Stage, serving
from tests.golden.written import digests, written

Tree: TypeAlias = Any  # what JSON can hold

RUNS = GOLDEN_FOLDER / "runs"
NAMES = RUNS / "names.json"
DIGITS = 9
TOLERANCE = 2e-5  # float32 differs by up to 1e-5 between makes of processors, once it is standardised
# What differs from time to time and from machine to machine.
VARYING = {
    *("seconds", "baseline_seconds", "peak_memory_mb", "provenance", "identity", "started", "finished", "command"),
    *("config", "digests", "schema_version", "predictions", "predictions_sha256", "fingerprint", "weights_sha256"),
}
VARYING_IN_FILES = VARYING - {"config", "predictions", "command"} | {
    *("checksum", "packages", "total_evaluation_time_seconds"),
    *("git_hash", "revision"),  # of the checkout
}
VARYING_TEXTS = (
    (re.compile(r"\d+(\.\d+)? (s|min|h)\b"), "{time}"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "{date}"),
    (re.compile(r"^[0-9a-f]{8}(?=,|$)"), "{identity}"),
    (re.compile(r"@[0-9a-f]{12}\b"), "@{fingerprint}"),
    (re.compile(r"(?<=\bbytes=)\d+"), "{bytes}"),  # of a page, which holds durations
    (re.compile(r"(?<=:)\d+\.\d+\.\d+\b"), "{version}"),  # of a library, in the signature of a metric
)
VARYING_TEXTS_IN_FILES = (
    *VARYING_TEXTS,
    # Ids that exporters make of a time: Inspect's, and those of Every Eval Ever.
    (re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{22}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-f])"), "{id}"),
    (re.compile(r"(?<!\d)1[789]\d{8}(?!\d)"), "{date}"),  # in seconds
    # Its commit, and a class that long cells do not have.
    (re.compile(r'(?: class="whole")?>\{figeval\} (?:[0-9a-f]{12})?(?: \(changed\))?(?=</td>)'), ">{figeval}"),
    (re.compile(r"\b\d+:\d\d:\d\d\b"), "{time}"),
    (re.compile(r"(?<=peak memory )[\d.,]+ \w+"), "{memory}"),
    (re.compile(r"(?<=hardware: )[^;]*"), "{hardware}"),
    (re.compile(r"\bPython 3\.\d.*"), "{versions}"),
    (
        re.compile(r"(?<!\d)20\d\d-\d\d-\d\d(?:[T ]\d\d[:-]\d\d(?:[:-]\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d[:-]\d\d)?)?"),
        "{date}",
    ),
)
EPOCHS = (1.7e9, 4e9)  # seconds from 1970 to a day after this was written
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


@dataclass(frozen=True)
class Case:
    """One case of a file."""

    file: Path
    name: str
    why: str
    commands: list[list[str]]
    server: str = ""
    files: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    outcomes: list[Tree] = field(default_factory=list)


def files() -> list[Path]:
    """The files with cases."""
    return sorted(file for file in RUNS.glob("*.json") if file != NAMES)


def cases() -> list[Case]:
    """All cases of all files."""
    return [Case(file=file, **case) for file in files() for case in json.loads(file.read_text("utf-8"))["cases"]]


# ---- running ---------------------------------------------------------------------------------------------------------


def outcomes(case: Case, folder: Path, models: Models) -> list[Tree]:
    """Run the commands of a case and return what came out of each."""
    with serving(case.server) as address:
        stage = Stage(folder, models, address, case.environment)
        step = step_outcome if case.files else outcome
        return [step(command, stage) for command in case.commands]


def outcome(command: list[str], stage: Stage) -> Tree:
    """Run a command: its exit code, and the run or the training that it left behind, or else what it printed."""
    done = stage.figeval(command)
    tree: dict[str, Tree] = {"code": done.code}
    if done.code == 130:
        return tree  # how far it came is a matter of luck
    if done.code not in (0, 1):
        tree |= {"complaint": lines_of(done.err)[-1:], "printed": read_output(done.out)}
    elif command[0] == "run":
        tree |= run_in(Path(stage.filled(command[command.index("--output_path") + 1])))
    elif command[0] == "train":
        tree |= training_in(Path(stage.filled(command[command.index("--output") + 1])))
    else:
        tree["printed"] = read_output(done.out)
        if command[0] == "rescore":
            tree |= run_in(Path(stage.filled(command[1])))
    return steady(tree, stage)


def step_outcome(command: list[str], stage: Stage) -> Tree:
    """Take a step of a case with files: what it printed and wrote, or the value of an action."""
    before = digests(stage.folder)
    if command[0] in ACTIONS:
        tree = acted(command, stage)
        if command[0] == "evaluate" and (files := written(stage.folder, before)):
            tree["files"] = files
        return steady_step(tree, stage)
    done = stage.figeval(command[1:] if command[0] == "prepare" else command)
    tree = {"code": done.code}
    if command[0] == "prepare":
        if done.code != 0:
            raise ValueError(f"figeval {' '.join(command[1:])}: {done.err}")
        return tree
    if done.code == 130:
        return tree  # how far it came is a matter of luck
    tree |= {"printed": read_output(done.out), "told": lines_of(done.err)}
    if command[0] == "train":
        folder = Path(stage.filled(command[command.index("--output") + 1]))
        tree |= {**training_in(folder), "names": sorted(digests(folder))}
        tree["told"] = tree["told"][-1:] if done.code else []  # lines with losses and seconds
    elif files := written(stage.folder, before):
        tree["files"] = files
    return steady_step(tree, stage)


def acted(command: list[str], stage: Stage) -> Tree:
    """Do something beside figeval's commands; an error of figeval is told as the command line tells it."""
    name, *arguments = command
    with stage.inside():
        try:
            value = ACTIONS[name](*map(stage.filled, arguments))
        except FigevalError as error:
            return {"code": 2, "complaint": lines_of(str(error))}
    return {"code": 0} if value is None else {"code": 0, "value": value}


def read_output(text: str) -> Tree:
    """What a command printed: the value where it is JSON, else its lines."""
    try:
        return json.loads(text)
    except ValueError:
        return lines_of(text)


def lines_of(text: str) -> list[str]:
    """The lines of a text without the blanks at their ends."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def undated(text: str, patterns: Sequence[tuple[re.Pattern[str], str]] = VARYING_TEXTS) -> str:
    """A text without times, dates, versions, and a run's identity at its beginning."""
    for pattern, name in patterns:
        text = pattern.sub(name, text)
    return text


def run_in(folder: Path) -> dict[str, Tree]:
    """The record of a run and its predictions, as they are in its folder."""
    record = json.loads((folder / "run.json").read_text("utf-8"))
    for task in record["tasks"]:
        task["rows"] = list(map(json.loads, (folder / task["predictions"]).read_text("utf-8").splitlines()))
        task["error"] = task["error"] and task["error"].strip().splitlines()[-1]
    model_fields = ("name", "backend", "capabilities", "lineage")
    record["model"] = {name: record["model"][name] for name in model_fields}
    return {"run": record}


def training_in(folder: Path) -> dict[str, Tree]:
    """The record of a training, and the runs that it ended with, without their rows."""
    file = folder / "training" / "record.json"
    record = json.loads(file.read_text("utf-8")) if file.is_file() else None  # several seeds have one each, below
    runs = {}
    for file in sorted((folder / "runs").glob("*/run.json")):
        tasks = json.loads(file.read_text("utf-8"))["tasks"]
        runs[file.parent.name] = [{name: task[name] for name in ("route", "n", "scores", "overlap")} for task in tasks]
    declared = folder / "figeval.json"
    says = json.loads(declared.read_text("utf-8")) if declared.is_file() else None
    return {"training": record, "runs": runs, "declared": says}


def steady(tree: Tree, stage: Stage) -> Tree:
    """What is the same whenever and wherever it is run, with floats of nine digits."""
    if isinstance(tree, Mapping):
        return {stage.emptied(key): steady(value, stage) for key, value in tree.items() if key not in VARYING}
    if isinstance(tree, list):
        return [steady(value, stage) for value in tree]
    if isinstance(tree, float) and math.isfinite(tree):
        return float(f"{tree:.{DIGITS}g}")
    return undated(stage.emptied(tree)) if isinstance(tree, str) else tree


def steady_step(tree: Tree, stage: Stage) -> Tree:
    """The same of a case with files, which keeps more of them."""
    identities = stage.identities()
    identity = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, identities))})(?![\w]|\.\d)")

    def text(value: str) -> str:
        value = identity.sub(lambda match: identities[match.group()], value)
        return undated(stage.emptied(value), VARYING_TEXTS_IN_FILES)

    def part(value: Tree) -> Tree:
        if isinstance(value, Mapping):
            return {text(key): part(inner) for key, inner in value.items() if key not in VARYING_IN_FILES}
        if isinstance(value, list):
            return [part(inner) for inner in value]
        if isinstance(value, str):
            return text(value)
        if isinstance(value, float) and EPOCHS[0] < value < EPOCHS[1]:
            return "{date}"
        return float(f"{value:.{DIGITS}g}") if isinstance(value, float) and math.isfinite(value) else value

    return part(tree)


# ---- comparing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """What has another name since the behaviour was frozen. `names.json` says what each of the three means."""

    keys: Mapping[str, str | None]
    values: Mapping[str, str]
    texts: Mapping[str, str]

    def renamed(self, tree: Tree) -> Tree:
        """A golden outcome in new names."""
        if isinstance(tree, str):
            return self.values[tree] if tree in self.values else self.reworded(tree)
        if isinstance(tree, dict):
            new = {key: self.keys.get(key, key) for key in tree}
            return {name: self.renamed(tree[key]) for key, name in new.items() if name is not None}
        return [self.renamed(value) for value in tree] if isinstance(tree, list) else tree

    def reworded(self, text: str) -> str:
        """A text, or an argument of a command, with whole words in new names."""
        if not self.texts:
            return text
        return self._old_words.sub(lambda match: self.texts[match.group()], text)

    @cached_property
    def _old_words(self) -> re.Pattern[str]:
        old = "|".join(map(re.escape, sorted(self.texts, key=len, reverse=True)))  # the longest first
        return re.compile(rf"(?<!\w)(?:{old})(?!\w)")

    def rename_command(self, command: list[str]) -> list[str]:
        """A command in new names."""
        return [self.reworded(argument) for argument in command]


@cache
def names(*, files: bool = False) -> Names:
    """The committed map from old names to new ones; cases with files were frozen later and have one of their own."""
    replacements = json.loads(NAMES.read_text("utf-8"))
    replacements = replacements["files"] if files else replacements
    return Names(replacements["keys"], replacements["values"], replacements["texts"])


def differences(golden: Tree, current: Tree, location: str = "") -> Iterator[str]:
    """The places where two outcomes differ, each with what stands there: `run.tasks[0].scores[1].value: 1 → 2`."""
    if isinstance(golden, Mapping) and isinstance(current, Mapping):
        yield from (f"{location}.{key}: is gone, it was {golden[key]!r:.80}" for key in golden if key not in current)
        yield from (f"{location}.{key}: is new, {current[key]!r:.80}" for key in current if key not in golden)
        for key in golden:
            if key in current:
                yield from differences(golden[key], current[key], f"{location}.{key}" if location else key)
    elif isinstance(golden, list) and isinstance(current, list):
        if len(golden) != len(current):
            yield f"{location}: {len(golden)} entries → {len(current)}"
        for number, (part, other) in enumerate(zip(golden, current, strict=False)):
            yield from differences(part, other, f"{location}[{number}]")
    elif not same(golden, current):
        yield f"{location}: {golden!r:.300} → {current!r:.300}"


def same(golden: Tree, current: Tree) -> bool:
    """Whether two leaves are equal: numbers nearly, in texts as well, and these whatever the width of their columns."""
    if isinstance(golden, bool) or isinstance(current, bool):
        return golden is current
    if isinstance(golden, int | float) and isinstance(current, int | float):
        both_nan = math.isnan(golden) and math.isnan(current)
        return both_nan or math.isclose(golden, current, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(golden, str) and isinstance(current, str):
        return golden == current or nearly(golden, current)
    return bool(golden == current)


def nearly(golden: str, current: str) -> bool:
    """Whether two texts differ in nothing but blanks and the last digits of fractions."""
    (text_form, numbers), (other, other_numbers) = (
        (NUMBER.sub("#", text), NUMBER.findall(text)) for text in (golden, current)
    )
    return text_form.split() == other.split() and all(
        same(float(a), float(b)) for a, b in zip(numbers, other_numbers, strict=False)
    )


# ---- writing ---------------------------------------------------------------------------------------------------------


def laid_out(value: Tree, depth: int = 0, width: int = 160) -> str:
    """JSON in which everything that is short stands on one line, so that a difference is the line of a row."""
    line = json.dumps(value, ensure_ascii=False)
    if depth and (len(line) + depth <= width or not isinstance(value, dict | list) or depth > 8):
        return line
    inner, outer = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {laid_out(part, depth + 1)}" for key, part in value.items()]
        return "{" + inner + f",{inner}".join(parts) + outer + "}"
    return "[" + inner + f",{inner}".join(laid_out(part, depth + 1) for part in value) + outer + "]"
