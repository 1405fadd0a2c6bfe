"""Folders that figeval has written, finished and unfinished: `python -m tests.golden.keep`.

They are kept in `kept/`, so that tests can read what an earlier version left. Write them again only to add a folder:
they are worth more the older they are.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import figeval
from tests.golden.actions import annotate, write
from tests.golden.replies import digest
from tests.golden.stage import GOLDEN_FOLDER, Models, Stage

KEPT_FOLDER = GOLDEN_FOLDER / "kept"
STORIES = [f'P{number:02}N1,"The baker sold kettle number {number}, and nobody asked."' for number in range(1, 9)]
COMMANDS = (
    "run --tasks mini_proverbs,mini_pairs --model overlap --output_path finished --limit 8 --by figure",
    "run --tasks mini_pairs --model random --output_path other --limit 8",
    "score --tasks mini_narrative --predictions stories.csv --output_path stories --limit 8 --no_baselines",
    "annotate export stories --criteria fluency=1-5,coherence=yes/no --n 8 --annotators 2 --output items",
    "train --task mini_pairs --model encoder --output trained --head cross --batch_size 8 --max_steps 2 --device cpu",
)


class Writer:
    """A model that replies with a letter, a word or a number, and is interrupted before request number `stop`."""

    deterministic_by_name = True

    def __init__(self, stop: int | None = None) -> None:
        self.stop, self.asked = stop, 0

    def generate(self, requests: Sequence[figeval.Prompt]) -> list[str]:
        """Reply to each request."""
        self.asked += len(requests)
        if self.stop is not None and self.asked > self.stop:
            raise KeyboardInterrupt
        return [self.reply(request.messages[-1].content) for request in requests]

    @staticmethod
    def reply(question: str) -> str:
        """Return a reply that depends on the question only."""
        for answers in (("yes", "no"), ("1", "2", "3", "4", "5")):
            if question.rstrip().endswith("Rating:") and f"nothing else: {', '.join(answers)}." in question:
                return answers[digest(question) % len(answers)]
        return "ABCDE"[digest(question) % 5]


def resumed_run(folder: Path, model: Writer) -> figeval.Run:
    """Run two tasks, or go on with them."""
    tasks = ["mini_fables", "mini_proverbs"]
    return figeval.run(tasks, model, name="kept_writer", limit=48, baselines=False, output_path=folder)


def resumed_judge(folder: Path, model: Writer) -> figeval.JudgedItems:
    """Judge items, or go on with them."""
    return figeval.judge_items(folder, model, name="kept_writer")


def resumed_contamination(folder: Path, model: Writer) -> figeval.Contamination:
    """Measure recall on two tasks, or go on with it."""
    tasks = ["mini_proverbs", "mini_pairs"]
    return figeval.contamination(tasks, model, name="kept_writer", measures=["recall"], limit=12, output_path=folder)


def keep(stage: Stage) -> None:
    """Write all folders below that of a stage."""
    stage.folder.mkdir(parents=True)
    shutil.copytree(stage.models("encoder"), stage.folder / "encoder")
    write(str(stage.folder / "stories.csv"), "id,prediction", *STORIES)
    for command in COMMANDS:
        done = stage.figeval(command.split())
        if done.code:
            raise ValueError(done.err)
    with stage.inside():
        for number, annotator in ((1, "kim"), (2, "lou")):
            annotate("items", f"sheet_{number}.csv", annotator)
        shutil.copytree("items", "half_judged")
        with suppress(KeyboardInterrupt):
            resumed_run(Path("interrupted"), Writer(60))
        with suppress(KeyboardInterrupt):
            resumed_judge(Path("half_judged"), Writer(16))
        with suppress(KeyboardInterrupt):
            resumed_contamination(Path("half_measured"), Writer(12))


def main() -> None:
    """Replace the folders that are kept."""
    with tempfile.TemporaryDirectory(prefix="figeval-keep-") as folder:
        stage = Stage(Path(folder) / "stage", Models(Path(folder) / "models"))
        keep(stage)
        shutil.rmtree(KEPT_FOLDER, ignore_errors=True)
        for name in ("finished", "other", "interrupted", "stories", "items", "half_judged", "half_measured"):
            shutil.copytree(stage.folder / name, KEPT_FOLDER / name, ignore=shutil.ignore_patterns("*.lock"))
        for key in KEPT_FOLDER.glob("*/key.json"):
            key.write_text(key.read_text("utf-8").replace(f"{stage.folder}/", ""), encoding="utf-8")
        trained = stage.folder / "trained"
        shutil.copytree(
            trained / "training",
            KEPT_FOLDER / "trained" / "training",
            ignore=shutil.ignore_patterns("*.lock", "step-*"),
        )  # without weights
        shutil.copyfile(trained / "figeval.json", KEPT_FOLDER / "trained" / "figeval.json")


if __name__ == "__main__":
    main()
