"""Repeat the runs that README and docs quote, and store them with their predictions in `results/measured`.

    python -m bench.measure [NAME ...] [--tasks TASKS] [--models DIR] [--dry_run]

Without NAME, every run that needs no training: the trivial and small models on all tasks, in the published and the
authors' setting, and the runs of `make demo`. With `--models DIR`, also the trained models in DIR (those of `seen`,
`unseen`, `spans`, `joint` and `nli` that exist), on the tasks that they were evaluated on: they are scored again by the
same `figeval train` command, which skips the completed training. With `--tasks`, only these tasks of the stored runs
are measured again, as after a new version of one of them; all else stays as it was. Afterwards, `python -m bench.pages`
updates the pages.

Each run is made in `results/runs/measured/NAME` and resumed there after an interruption. Only its record and the
compressed rows are kept, without scores of options, texts and replies (`KEPT_FIELDS`); `compare` and `show --by` need
no more.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from figeval.io.files import replacing
from figeval.records.rows_file import packed_path
from figeval.records.run_folder import RunFolder, read_record
from figeval.types import JSON

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "results" / "measured"
SCRATCH = Path("results") / "runs" / "measured"
MAX_BYTES = 10_000_000  # limit for all of results/measured
KEPT_FIELDS = ("id", "status", "pred", "gold", "tied", "truncated", "metrics", "cluster", "group", "language", "meta")
MAX_META_CHARS = 80  # characters; a longer value would be a text of the benchmark

SETTINGS = {
    "": ("--tasks", "epic,epic_generation,impli"),
    "-published": ("--tasks", "epic_alignment", "--protocol", "published"),
    "-authors": ("--tasks", "epic_generation", "--split", "authors"),
}
FURTHER = "-further"  # ends the names of runs on the other benchmarks, of which only the record is kept
FURTHER_TASKS = (
    "figurative,masalbench,clue,analobench,metaphor_paraphrase_all,isarcasm,storal_mocpt_en,storal_mopref_en,"
    "mabl_all,g_idiomalign_all,impli_seen_unseen,danish_metaphors,mmfld,mmfld_hyperbole_en"
)
RUNS: dict[str, tuple[str, ...]] = {
    **{
        f"{model}{ending}": (*arguments, "--model", model)
        for model in ("random", "tfidf", "glove", "minilm")
        for ending, arguments in SETTINGS.items()
    },
    **{f"{model}{FURTHER}": ("--tasks", FURTHER_TASKS, "--model", model) for model in ("tfidf", "minilm")},
    f"seen_expressions{FURTHER}": ("--tasks", "id10m,meta4xnli,epie", "--model", "seen_expressions"),
    **{f"demo-{model}": ("--tasks", "clue_concept,storal_mocpt_en", "--model", model) for model in ("tfidf", "minilm")},
}

SEEN_TASKS = "epic_retrieval_seen,epic_motif,epic_motif_direct"
FAST = ("--lr", "1e-4", "--epochs")
TRAINED: dict[str, tuple[str, ...]] = {  # by the name below --models; docs/results.md has the same commands
    "seen": (
        "epic_retrieval_seen",
        "minilm",
        "--batch_size",
        "64",
        *FAST,
        "5",
        "--evaluate",
        SEEN_TASKS,
        "--seeds",
        "3",
    ),
    "unseen": ("epic_retrieval_unseen", "minilm", "--batch_size", "64", *FAST, "5", "--seeds", "3"),
    "spans": ("epic_alignment", "minilm", "--batch_size", "32", *FAST, "2"),
    "joint": ("epic_joint", "{models}/seen/seed-0", "--batch_size", "32", *FAST, "2"),
    "nli": ("nli_train", "minilm", "--batch_size", "32", *FAST, "1", "--evaluate_every", "0.25", "--evaluate", "impli"),
}


def figeval(arguments: Sequence[str], folder: Path, *, dry: bool) -> None:
    """Run a command of this checkout in a folder, with its progress on this terminal."""
    print(f"$ figeval {' '.join(arguments)}", flush=True)
    if not dry:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "figeval", *arguments]
        subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=True)


def measure(name: str, arguments: Sequence[str], *, dry: bool) -> None:
    """Make one run that needs no training."""
    figeval(["run", *arguments, "--output_path", str(SCRATCH / name)], ROOT, dry=dry)
    if not dry:
        keep(ROOT / SCRATCH / name, MEASURED / name)


def measure_tasks(name: str, arguments: Sequence[str], tasks: str, *, dry: bool) -> None:
    """Measure some tasks of a stored run again, and put them in the place of those that it has."""
    part, position = SCRATCH / f"{name}-{tasks}", arguments.index("--tasks") + 1
    command = ["run", *arguments[:position], tasks, *arguments[position + 1 :]]
    figeval([*command, "--output_path", str(part)], ROOT, dry=dry)
    if dry:
        return
    keep(ROOT / part, ROOT / SCRATCH / "parts" / name)
    stored, measured = RunFolder(MEASURED / name), RunFolder(ROOT / SCRATCH / "parts" / name)
    record = read_record(MEASURED / name / "run.json")
    new = {task.task: task for task in read_record(measured.path / "run.json").tasks}
    for task in new:
        archive = packed_path(measured.predictions_file(task))
        shutil.copyfile(archive, packed_path(stored.predictions_file(task)))
    record.tasks = [new.get(task.task, task) for task in record.tasks]
    stored.write(record)


def score_anew(name: str, models: Path, *, dry: bool) -> None:
    """Score a trained model on its tasks again; earlier runs are moved aside, not continued."""
    task, model, *options = TRAINED[name]
    begins = model.format(models=models.name)
    folder = models / name
    for runs in () if dry else sorted(folder.glob("**/runs")):
        shutil.rmtree(runs.with_name("runs.before"), ignore_errors=True)
        runs.rename(runs.with_name("runs.before"))
    arguments = ["--task", task, "--model", begins, *options, "--output", f"{models.name}/{name}"]
    figeval(["train", *arguments], models.parent, dry=dry)
    if name == "nli":
        literal = ["--tasks", "nli", "--model", f"{models.name}/nli", "--output_path", f"{models.name}/nli/runs/nli"]
        figeval(["run", *literal], models.parent, dry=dry)
    if not dry:
        keep_trained(folder, MEASURED / f"minilm-{name}")


def pipelined(models: Path, *, dry: bool) -> None:
    """Make the run of two trained models in a pipeline."""
    parts = f"ranker={models.name}/seen/seed-0,spans={models.name}/spans"
    arguments = ["--tasks", "epic_pipelined", "--model", "pipeline", "--model_args", parts]
    figeval(["run", *arguments, "--output_path", f"{models.name}/pipelined"], models.parent, dry=dry)
    if not dry:
        keep(models / "pipelined", MEASURED / "minilm-pipelined")


def keep_trained(folder: Path, target: Path) -> None:
    """Keep the records and runs of a training, or of one training per seed; `runs.before` is left out."""
    shutil.rmtree(target, ignore_errors=True)
    for file in (*sorted(folder.rglob("seeds.json")), *sorted(folder.rglob("training/record.json"))):
        copy = target / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    for file in sorted(folder.rglob("runs/*/run.json")):
        keep(file.parent, target / file.parent.relative_to(folder))


def keep(run: Path, target: Path) -> None:
    """Keep the record and predictions of a run. Raises `SystemExit` if it is not complete."""
    record = read_record(run / "run.json")
    if record.status != "complete":
        sys.exit(f"{run} is {record.status}; look at it, then give the same command again")
    shutil.rmtree(target, ignore_errors=True)
    source, target_run = RunFolder(run), RunFolder(target)
    target.mkdir(parents=True)
    for task in () if target.name.endswith(FURTHER) else record.tasks:
        (target / "predictions").mkdir(exist_ok=True)
        target_run.replace(task.task, map(slim, source.rows(task.task)))
        target_run.seal(task)
        file = target_run.predictions_file(task.task)
        # Without a name and a time in the archive, equal rows give equal bytes.
        with replacing(packed_path(file)) as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as archive:
            archive.write(file.read_bytes())
        file.unlink()
    target_run.write(record)


def slim(row: JSON) -> JSON:
    """Return a row without scores and generated texts. Raises `SystemExit` if its meta holds long texts."""
    for name, value in row["meta"].items():
        if len(value) > MAX_META_CHARS:
            sys.exit(f"{row['id']}: meta column {name!r} has {len(value)} characters; a text is not to be published")
    if isinstance(row["pred"], str) and len(row["pred"]) > MAX_META_CHARS:
        row = {**row, "pred": None}  # a generated text
    return {name: row[name] for name in KEPT_FIELDS if name in row}


def main() -> int:
    """Measure what is asked for, print the size of the results and return 1 if it exceeds the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join((*RUNS, *TRAINED, 'pipelined'))}")
    parser.add_argument("--tasks", help="measure only these tasks of the runs again")
    parser.add_argument("--models", type=Path, help="folder with trained models")
    parser.add_argument("--dry_run", action="store_true", help="only say what would be run")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in {*RUNS, *TRAINED, "pipelined"}]:
        parser.error(f"unknown: {', '.join(unknown)}")
    models, dry = options.models and options.models.resolve(), options.dry_run
    for name, arguments in RUNS.items():
        if (not options.names or name in options.names) and options.tasks:
            measure_tasks(name, arguments, options.tasks, dry=dry)
        elif not options.names or name in options.names:
            measure(name, arguments, dry=dry)
    for name in TRAINED if models else ():
        if (not options.names or name in options.names) and (models / name).is_dir():
            score_anew(name, models, dry=dry)
    if models and (not options.names or "pipelined" in options.names) and (models / "spans").is_dir():
        pipelined(models, dry=dry)
    size = sum(file.stat().st_size for file in MEASURED.rglob("*") if file.is_file())
    print(f"{MEASURED}: {size / 1e6:.1f} MB, at most {MAX_BYTES / 1e6:.0f}")
    return 0 if size <= MAX_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
