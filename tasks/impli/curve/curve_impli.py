"""The command `figeval curve impli`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from figeval.types import JSON

from ..folds import FOLDS, REGIMES

if TYPE_CHECKING:
    from figeval.data import Row
    from figeval.records.training import TrainingRecord

    from .points import Curve, CurveTraining
    from .results import CurveNumber

FILE = "curve.json"
TRAINED = ("epochs", "lr", "batch_size", "max_length", "head", "device")
SMALL: JSON = {"points": "0,1,3,6,9", "folds": 1, "seeds": 1, "nli": 3000, "pairs": 1000}
SMALL |= {"epochs": 1, "lr": 1e-4, "batch_size": 32, "max_length": 128}
# Stowe et al. 2022, sections 4 and 5; impli.presets.yaml lists what they leave open.
PAPER: JSON = {"points": ",".join(map(str, range(FOLDS))), "folds": FOLDS, "seeds": 5, "nli": 0, "pairs": 0}
PAPER |= {"epochs": 3, "lr": 1e-5, "batch_size": 32, "max_length": 128}
PRESETS = {"small": SMALL, "paper": PAPER}
STEPS = 8  # training steps on which the estimate is based
ASKED = 1 / 3  # time to answer a pair / time to train on it


@click.command("impli")
@click.option("--model", required=True, help="Model to start from: a folder, a hub id or minilm.")
@click.option(
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder to write to; the same command resumes there.",
)
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    default="small",
    show_default=True,
    help="Set of default values for the options below.",
)
@click.option("--points", help="Numbers of training folds, from 0 to 9, e.g. 0,3,9.")
@click.option("--regimes", default=",".join(REGIMES), show_default=True, help="Labels of the idiom pairs to train on.")
@click.option("--folds", type=click.IntRange(1, FOLDS), help="Hold out N folds, one at a time.")
@click.option("--seeds", type=click.IntRange(1), help="Train with N seeds.")
@click.option("--nli", type=click.IntRange(0), help="Number of literal pairs in every training; 0: all.")
@click.option("--pairs", type=click.IntRange(0), help="Number of figurative pairs in all nine folds together; 0: all.")
@click.option("--head", help="Head to train; see `figeval ls heads`.")
@click.option("--epochs", type=click.IntRange(1), help="Number of passes over the examples.")
@click.option("--lr", type=float, help="Peak learning rate.")
@click.option("--batch_size", type=click.IntRange(1), help="Examples per step.")
@click.option("--max_length", type=click.IntRange(1), help="Maximum length of an input in tokens.")
@click.option("--device", help="cpu, cuda or mps.")
@click.option("--keep_models", is_flag=True, help="Keep the trained models as well as their answers.")
@click.option("--no_plots", is_flag=True, help="Write numbers only, without figures; needs no optional packages.")
def impli(model: str, output: Path, preset: str, regimes: str, keep_models: bool, no_plots: bool, **given: Any) -> None:
    """Draw learning curves over folds of idioms.

    A model is trained on literal inference and on idiom pairs from 0 to 9 folds: pairs with both labels, only
    entailment, or only non-entailment. It is tested on a fold that it was not trained on.

    Writes curve.json, curve.csv and the figure as PNG, SVG and HTML. The same command resumes an interrupted run.

    \b
    figeval curve impli --model minilm --output curves/minilm
    figeval curve impli --model roberta-base --preset paper --output curves/roberta
    """
    from figeval.io import plots

    if not no_plots:
        plots.require()
    asked = {**PRESETS[preset], **{name: value for name, value in given.items() if value is not None}}
    options = {name: asked[name] for name in TRAINED if asked.get(name) is not None}
    work = Work(output, model, options, curve_of(asked, regimes), keep_models)
    work.begin()
    click.echo(work.estimate())
    found = work.done(lambda line: click.echo(line, err=True))
    show(found, model)
    written = [output / FILE, work.table(found)]
    if not no_plots:
        from . import figure

        written += plots.save(figure.curves(found, model), output, "curve")
    click.echo(f"\n{len(written)} files in {output}: {', '.join(path.name for path in written)}")


def curve_of(asked: Mapping[str, Any], regimes: str) -> Curve:
    """Return the curve that the options ask for. Raises `OptionError` for an invalid option."""
    from figeval.errors import OptionError, near

    from .points import Curve

    points = [part.strip() for part in str(asked["points"]).split(",")]
    wrong = next((point for point in points if not (point.isdecimal() and int(point) < FOLDS)), None)
    if wrong is not None:
        raise OptionError(f"--points: {wrong!r} is not a number from 0 to {FOLDS - 1}")
    names = [name.strip() for name in regimes.split(",")]
    strange = next((name for name in names if name not in REGIMES), None)
    if strange is not None:
        raise OptionError(f"--regimes: there is no {strange!r}{near(strange, REGIMES)}; there are {', '.join(REGIMES)}")
    return Curve(
        points=list(map(int, points)),
        regimes=list(dict.fromkeys(names)),
        held_out=range(asked["folds"]),
        seeds=range(asked["seeds"]),
        nli=asked["nli"] or None,
        pairs=asked["pairs"] or None,
    )


@dataclass
class Work:
    """The trainings of a curve in a folder, with tasks in `tasks`, answers in `runs` and models in `models`.

    `curve.json` records the options of the folder (`config`), a digest of the pairs it is based on (`rows`), how many
    pairs each finished training learned from (`learned`), and finally the numbers.
    """

    output: Path
    model: str
    options: JSON
    curve: Curve
    keep_models: bool

    def begin(self) -> None:
        """Write the task files and the first `curve.json`. Raises `TrainError` if the folder has another curve."""
        from importlib.resources import files

        import yaml

        from figeval.errors import TaskError, TrainError
        from figeval.io.storage import cure
        from figeval.io.yaml_files import read_mapping

        before = self.stored()
        if (
            not before.get("learned") and not (self.output / "models").exists()
        ):  # a refused option, such as a head that does not exist, leaves this
            before = {}
        changed = [key for key, value in self.config.items() if before and before["config"].get(key) != value]
        if changed:
            raise TrainError(f"{self.output} has a curve with a different {changed[0]}; choose another --output")
        if before and before["rows"] != self.digest:
            raise TrainError(
                f"{self.output} has a curve of different pairs than IMPLI has now; choose another --output"
            )
        shared = dict(read_mapping(files("figeval.builtin.tasks.impli") / "_impli.yaml", TaskError))
        with cure(self.output, "--output"):
            (self.output / "tasks").mkdir(parents=True, exist_ok=True)
            for training in self.curve.trainings():
                text = yaml.safe_dump(training.task(shared), sort_keys=False, allow_unicode=True)
                (self.output / "tasks" / f"{training.name}.task.yaml").write_text(text, encoding="utf-8")
            if not before:
                self.keep({}, ())

    @cached_property
    def idioms(self) -> list[Row]:
        """Pairs that the folds are made from."""
        from importlib.resources import files

        from figeval.data import DataContext
        from figeval.data.cache import fetch

        from ..impli_rows import idiom_rows

        return list(idiom_rows(DataContext(files("figeval.builtin.tasks.impli"), fetch)))

    @cached_property
    def digest(self) -> str:
        """Digest of the pairs in `idioms`."""
        from hashlib import blake2b

        keys = ("id", "premise", "hypothesis", "label", "idiom")
        text = "\n".join(repr([row[key] for key in keys]) for row in self.idioms)
        return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()

    @property
    def config(self) -> JSON:
        """Options that must stay the same in a folder."""
        options = dict.fromkeys(TRAINED) | self.options
        return {"model": self.model, "nli": self.curve.nli, "pairs": self.curve.pairs, **options}

    def stored(self) -> JSON:
        """Return the content of `curve.json`, which is empty without a file. Raises `RecordError` if it is damaged."""
        from figeval.errors import RecordError
        from figeval.io.json_files import read_json

        file = self.output / FILE
        if not file.exists():
            return {}
        found = read_json(file, RecordError)
        kinds = {"config": dict, "learned": dict, "rows": str}
        if not isinstance(found, dict) or not all(isinstance(found.get(key), kind) for key, kind in kinds.items()):
            raise RecordError(f"{file} is not a learning curve of this version; choose another --output")
        return found

    def keep(self, learned: Mapping[str, int], numbers: Sequence[CurveNumber]) -> None:
        """Replace `curve.json`."""
        import json

        from figeval.io.storage import replace_text

        from .results import as_json

        content = {"config": self.config, "rows": self.digest, "learned": learned, "numbers": as_json(numbers)}
        replace_text(self.output / FILE, json.dumps(content, indent=1) + "\n")

    def missing(self) -> list[CurveTraining]:
        """Return the trainings without answers, in order."""
        learned = self.stored().get("learned", {})
        return [one for one in self.curve.trainings() if one.name not in learned or not self.is_answered(one)]

    def is_answered(self, training: CurveTraining) -> bool:
        """Return whether the answers of a training are complete."""
        from figeval.records.run_folder import read_record

        file = self.output / "runs" / training.name / "run.json"
        return file.is_file() and read_record(file).status == "complete"

    def estimate(self) -> str:
        """Return an estimate of the time for the missing trainings, from a few steps of the one with the most pairs."""
        import tempfile
        import time
        from datetime import timedelta

        left = self.missing()
        if not left:
            return f"all {len(list(self.curve.trainings()))} trainings are done"
        # Folds have about the same size, so one fold represents all.
        alike = {(one.train, one.regime): one for one in left}
        sizes = {key: len(one.point.learned(self.idioms)) for key, one in alike.items()}
        longest = max(left, key=lambda one: sizes[one.train, one.regime])
        held_out = len(longest.point.held_out(self.idioms))
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            record = self.train(longest, Path(folder), max_steps=STEPS)
            step = record.seconds / record.steps
            start = max(0.0, time.monotonic() - began - record.seconds)
        config, most = record.config.model_dump(), record.train.n
        batch, epochs = config["batch_size"], config["epochs"]
        literal = most - sizes[longest.train, longest.regime]
        total = 0.0
        for one in left:
            learned = epochs * (literal + sizes[one.train, one.regime])
            total += start + (learned + held_out * ASKED) / batch * step
        about = timedelta(seconds=round(total / 60) * 60) if total > 90 else timedelta(seconds=round(total))
        return (
            f"{len(left)} trainings on up to {most:,} pairs, each asked about {held_out:,} others: about {about} "
            f"({step:.2f} s for a step of {batch} pairs, {start:.0f} s to begin)"
        )

    def train(self, training: CurveTraining, folder: Path, **more: Any) -> TrainingRecord:
        """Train one model and return the record of its training."""
        import figeval

        own = {**self.options, **more, "seed": training.seed, "select_on": "none", "evaluate": ()}
        trained = figeval.train(training.name, self.model, folder, include_path=(self.output / "tasks",), **own)
        return trained.record

    def done(self, say: Callable[[str], None]) -> list[CurveNumber]:
        """Run the missing trainings and return all numbers."""
        import shutil

        import figeval
        from figeval.errors import TrainError
        from figeval.io.text import one_line
        from figeval.records.run_folder import RunFolder

        from .results import AnsweredTraining, numbers

        trainings = list(self.curve.trainings())
        left = {one.name for one in self.missing()}
        found: list[AnsweredTraining] = []
        learned = self.stored()["learned"]
        for place, training in enumerate(trainings, start=1):
            runs = self.output / "runs" / training.name
            if training.name in left:
                say(f"{place} of {len(trainings)}: {training.name}")
                folder = self.output / "models" / training.name
                record = self.train(training, folder)
                run = figeval.run(
                    training.name, folder, baselines=False, include_path=(self.output / "tasks",), output_path=runs
                )
                if run.record.status != "complete":
                    failed = next((task.error for task in run.record.tasks if task.error), "some answers are missing")
                    raise TrainError(f"{training.name} was not answered: {one_line(failed.strip().splitlines()[-1])}")
                learned[training.name] = record.train.n
                self.keep(learned, ())
                if not self.keep_models:
                    shutil.rmtree(folder)
            found.append(AnsweredTraining(training, learned[training.name], list(RunFolder(runs).rows(training.name))))
        made = numbers(found)
        self.keep(learned, made)
        return made

    def table(self, found: Sequence[CurveNumber]) -> Path:
        """Write the numbers as CSV and return the path."""
        import csv
        from dataclasses import asdict

        from figeval.io.storage import cure
        from figeval.io.text import csv_cell

        file = self.output / "curve.csv"
        rows = [asdict(one) for one in found]
        with cure(self.output, "--output"), file.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(rows[0])
            writer.writerows([csv_cell(value) for value in row.values()] for row in rows)
        return file


def show(found: Sequence[CurveNumber], model: str) -> None:
    """Print the table of the numbers."""
    from rich.console import Console

    from figeval.reporting.grid import Grid, say

    head = ("learned from", "folds", "pairs", "part", "value", "sd", "95 % interval", "n", "trainings")
    console = Console()
    Grid(head, list(cells(found)), f"learning curves: {model}", (*head[1:3], *head[4:])).print(console)
    say(console, "  pairs: trained on, including literal ones; n: held-out pairs; auc: area under the ROC curve")


def cells(found: Sequence[CurveNumber]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table."""
    for one in found:
        value, sd = ("–" if number is None else f"{number:.4f}" for number in (one.value, one.sd))
        interval = "–" if one.low is None else f"{one.low:.3f} to {one.high:.3f}"
        counts = (str(one.n), str(one.trainings))
        yield (one.regime, str(one.folds), f"{one.learned:.0f}", one.part, value, sd, interval, *counts)
