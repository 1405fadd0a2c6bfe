"""The command `figeval benchmark curve impli`."""

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
SMALL_CURVE: JSON = {"points": "0,1,3,6,9", "folds": 1, "seeds": 1, "nli": 3000, "pairs": 1000}
SMALL_CURVE |= {"epochs": 1, "lr": 1e-4, "batch_size": 32, "max_length": 128}
# Stowe et al. 2022, sections 4 and 5. PAPER_ROW of impli.presets.yaml has the same settings, and says what is unknown.
PAPER_ROW = "paper:figure4-roberta-base"
PAPER: JSON = {"points": ",".join(map(str, range(FOLDS))), "folds": FOLDS, "seeds": 5, "nli": 0, "pairs": 0}
PAPER |= {"epochs": 3, "lr": 1e-5, "batch_size": 32, "max_length": 128}
PRESETS = {"small": SMALL_CURVE, "paper": PAPER}
ESTIMATE_STEPS = 8  # training steps on which the estimate is based
ANSWER_TO_TRAINING_TIME = 1 / 3  # time to answer a pair / time to train on it


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
def impli(
    model: str, output: Path, preset: str, regimes: str, keep_models: bool, no_plots: bool, **overrides: Any
) -> None:
    """Draw learning curves over folds of idioms.

    A model is trained on literal inference and on idiom pairs from 0 to 9 folds: pairs with both labels, only
    entailment, or only non-entailment. It is tested on a fold that it was not trained on.

    Writes curve.json, curve.csv and the figure as PNG, SVG and HTML. The same command resumes an interrupted run.

    \b
    figeval benchmark curve impli --model minilm --output curves/minilm
    figeval benchmark curve impli --model roberta-base --preset paper --output curves/roberta
    """
    from figeval.io import plots

    if not no_plots:
        plots.require()
    settings = {**PRESETS[preset], **{name: value for name, value in overrides.items() if value is not None}}
    options = {name: settings[name] for name in TRAINED if settings.get(name) is not None}
    folder = CurveFolder(output, model, options, curve_of(settings, regimes), keep_models)
    folder.begin()
    if preset == "paper":
        click.echo(f"--preset paper: `figeval show {PAPER_ROW}` lists what is not printed about the curve")
    click.echo(folder.estimate())
    numbers = folder.complete(lambda line: click.echo(line, err=True))
    show(numbers, model)
    paths = [output / FILE, folder.table(numbers)]
    if not no_plots:
        from . import figure

        paths += plots.save(figure.curves(numbers, model), output, "curve")
    click.echo(f"\n{len(paths)} files in {output}: {', '.join(written_path.name for written_path in paths)}")


def curve_of(settings: Mapping[str, Any], regimes: str) -> Curve:
    """Return the curve that the options ask for. Raises `OptionError` for an invalid option."""
    from figeval.errors import OptionError
    from figeval.io.text import near

    from .points import Curve

    points = [part.strip() for part in str(settings["points"]).split(",")]
    invalid = next((point for point in points if not (point.isdecimal() and int(point) < FOLDS)), None)
    if invalid is not None:
        raise OptionError(f"--points: {invalid!r} is not a number from 0 to {FOLDS - 1}")
    names = [name.strip() for name in regimes.split(",")]
    unknown = next((name for name in names if name not in REGIMES), None)
    if unknown is not None:
        raise OptionError(f"--regimes: there is no {unknown!r}{near(unknown, REGIMES)}; there are {', '.join(REGIMES)}")
    return Curve(
        points=list(map(int, points)),
        regimes=list(dict.fromkeys(names)),
        held_out=range(settings["folds"]),
        seeds=range(settings["seeds"]),
        nli=settings["nli"] or None,
        pairs=settings["pairs"] or None,
    )


@dataclass
class CurveFolder:
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
        from figeval.io.files import cure
        from figeval.io.yaml_files import read_mapping

        stored = self.read_stored()
        if (
            not stored.get("learned") and not (self.output / "models").exists()
        ):  # a refused option, such as a head that does not exist, leaves this
            stored = {}
        changed = [key for key, value in self.config.items() if stored and stored["config"].get(key) != value]
        if changed:
            raise TrainError(f"{self.output} has a curve with a different {changed[0]}; choose another --output")
        if stored and stored["rows"] != self.digest:
            raise TrainError(
                f"{self.output} has a curve of different pairs than IMPLI has now; choose another --output"
            )
        shared_keys = dict(read_mapping(files("figeval.builtin.tasks.impli") / "_impli.yaml", TaskError))
        with cure(self.output, "--output"):
            (self.output / "tasks").mkdir(parents=True, exist_ok=True)
            for training in self.curve.trainings():
                text = yaml.safe_dump(training.task(shared_keys), sort_keys=False, allow_unicode=True)
                (self.output / "tasks" / f"{training.name}.task.yaml").write_text(text, encoding="utf-8")
            if not stored:
                self.save({}, ())

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

    def read_stored(self) -> JSON:
        """Return the content of `curve.json`, which is empty without a file. Raises `RecordError` if it is damaged."""
        from figeval.errors import RecordError
        from figeval.io.json_files import read_json

        file = self.output / FILE
        if not file.exists():
            return {}
        content = read_json(file, RecordError)
        kinds = {"config": dict, "learned": dict, "rows": str}
        if not isinstance(content, dict) or not all(isinstance(content.get(key), kind) for key, kind in kinds.items()):
            raise RecordError(f"{file} is not a learning curve of this version; choose another --output")
        return content

    def save(self, learned: Mapping[str, int], numbers: Sequence[CurveNumber]) -> None:
        """Replace `curve.json`."""
        import json

        from figeval.io.files import replace_text

        from .results import as_json

        content = {"config": self.config, "rows": self.digest, "learned": learned, "numbers": as_json(numbers)}
        replace_text(self.output / FILE, json.dumps(content, indent=1) + "\n")

    def missing(self) -> list[CurveTraining]:
        """Return the trainings without answers, in order."""
        learned = self.read_stored().get("learned", {})
        return [
            training
            for training in self.curve.trainings()
            if training.name not in learned or not self.is_answered(training)
        ]

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

        trainings = self.missing()
        if not trainings:
            return f"all {len(list(self.curve.trainings()))} trainings are done"
        # Folds have about the same size, so one fold represents all.
        representatives = {(training.train, training.regime): training for training in trainings}
        sizes = {key: len(training.point.learned(self.idioms)) for key, training in representatives.items()}
        largest = max(trainings, key=lambda training: sizes[training.train, training.regime])
        held_out = len(largest.point.held_out(self.idioms))
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            record = self.train(largest, Path(folder), max_steps=ESTIMATE_STEPS)
            step = record.seconds / record.steps
            start = max(0.0, time.monotonic() - began - record.seconds)
        config, max_pairs = record.config.model_dump(), record.train.n
        batch, epochs = config["batch_size"], config["epochs"]
        literal = max_pairs - sizes[largest.train, largest.regime]
        total = 0.0
        for training in trainings:
            learned = epochs * (literal + sizes[training.train, training.regime])
            total += start + (learned + held_out * ANSWER_TO_TRAINING_TIME) / batch * step
        duration = timedelta(seconds=round(total / 60) * 60) if total > 90 else timedelta(seconds=round(total))
        return (
            f"{len(trainings)} trainings on up to {max_pairs:,} pairs, each asked about {held_out:,} others: about "
            f"{duration} ({step:.2f} s for a step of {batch} pairs, {start:.0f} s to begin)"
        )

    def train(self, training: CurveTraining, folder: Path, **options: Any) -> TrainingRecord:
        """Train one model and return the record of its training."""
        import figeval

        arguments = {**self.options, **options, "seed": training.seed, "select_on": "none", "evaluate": ()}
        trained = figeval.train(training.name, self.model, folder, include_path=(self.output / "tasks",), **arguments)
        return trained.record

    def complete(self, say: Callable[[str], None]) -> list[CurveNumber]:
        """Run the missing trainings and return all numbers."""
        import shutil

        import figeval
        from figeval.errors import TrainError
        from figeval.io.text import one_line
        from figeval.records.run_folder import RunFolder

        from .results import AnsweredTraining, numbers

        trainings = list(self.curve.trainings())
        unfinished = {training.name for training in self.missing()}
        answered: list[AnsweredTraining] = []
        learned = self.read_stored()["learned"]
        for number, training in enumerate(trainings, start=1):
            runs = self.output / "runs" / training.name
            if training.name in unfinished:
                say(f"{number} of {len(trainings)}: {training.name}")
                folder = self.output / "models" / training.name
                record = self.train(training, folder)
                run = figeval.run(
                    training.name, folder, baselines=False, include_path=(self.output / "tasks",), output_path=runs
                )
                if run.record.status != "complete":
                    failed = next((task.error for task in run.record.tasks if task.error), "some answers are missing")
                    raise TrainError(f"{training.name} was not answered: {one_line(failed.strip().splitlines()[-1])}")
                learned[training.name] = record.train.n
                self.save(learned, ())
                if not self.keep_models:
                    shutil.rmtree(folder)
            answered.append(
                AnsweredTraining(training, learned[training.name], list(RunFolder(runs).rows(training.name)))
            )
        curve_numbers = numbers(answered)
        self.save(learned, curve_numbers)
        return curve_numbers

    def table(self, numbers: Sequence[CurveNumber]) -> Path:
        """Write the numbers as CSV and return the path."""
        import csv
        from dataclasses import asdict

        from figeval.io.files import cure
        from figeval.io.text import csv_cell

        file = self.output / "curve.csv"
        rows = [asdict(number) for number in numbers]
        with cure(self.output, "--output"), file.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(rows[0])
            writer.writerows([csv_cell(value) for value in row.values()] for row in rows)
        return file


def show(numbers: Sequence[CurveNumber], model: str) -> None:
    """Print the table of the numbers."""
    from rich.console import Console

    from figeval.reporting.grid import Grid, say

    head = ("learned from", "folds", "pairs", "part", "value", "sd", "95 % interval", "n", "trainings")
    console = Console()
    Grid(head, list(cells(numbers)), f"learning curves: {model}", (*head[1:3], *head[4:])).print(console)
    say(console, "  pairs: trained on, including literal ones; n: held-out pairs; auc: area under the ROC curve")


def cells(numbers: Sequence[CurveNumber]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table."""
    for number in numbers:
        value, sd = ("–" if statistic is None else f"{statistic:.4f}" for statistic in (number.value, number.sd))
        interval = "–" if number.low is None else f"{number.low:.3f} to {number.high:.3f}"
        counts = (str(number.n), str(number.trainings))
        yield (number.regime, str(number.folds), f"{number.learned:.0f}", number.part, value, sd, interval, *counts)
