"""`figeval.report` and `figeval.board`, which do what the commands of these names do."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from figeval import frontend, plugins
from figeval.api.runs import Folders, Names, Runs, names_in, paths_in, run_paths
from figeval.errors import OptionError, RecordError
from figeval.io.json_files import read_json
from figeval.io.storage import cure, replace_text
from figeval.io.validation import checked_arguments
from figeval.records.run_folder import own_folder
from figeval.records.schema import RunRecord
from figeval.reporting.exporters import load_exporters
from figeval.runs.harness import Harness
from figeval.runs.outputs import check_output
from figeval.types import JSON
from figeval.wings.comparison.api import Comparison
from figeval.wings.comparison.comparisons import RunComparisons
from figeval.wings.report.board import board_content
from figeval.wings.report.html.board import board_csv, board_page
from figeval.wings.report.html.page import Panels, page
from figeval.wings.report.report_comparisons import ComparedRuns, explanations
from figeval.wings.report.report_content import ReportContent, content_of, report_content
from figeval.wings.report.report_texts import ExampleTexts

DOWNLOADS = {"csv": "csv", "tex": "latex", "json": "json"}  # ending of a file → export format
MANIFEST = "figeval-board.json"  # the files of a site that `board` has written, with their sha256
OWN_NAME = re.compile(r"(?:runs/)?[0-9A-Za-z][0-9A-Za-z-]*\.(?:html|csv|json)")  # of such a file


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page that was written.

    Attributes:
        path: the file, or the folder of a site.
        runs: number of runs that it shows; a report also counts each of several seeds.
        bytes: size of the file, or of all files of the site.
        notices: sentences about what is missing from the page, and about licences.
    """

    path: Path
    runs: int
    bytes: int
    notices: tuple[str, ...] = ()


@checked_arguments
def report(  # noqa: PLR0913 - one argument per option of the command
    runs: Runs,
    *,
    output: str | Path = "report.html",
    title: str = "Evaluation report",
    metric: Names = "acc",
    by: Names = (),
    seed: int = 0,
    texts: bool = True,
    allow_noncommercial: bool = False,
    plots: bool = True,
    include_path: Folders = (),
) -> WrittenPage:
    """Write one HTML page about one or several runs, with a sample explorer.

    Args:
        runs: runs, or folders of runs, trainings or several seeds; the first is compared with each of the others. A
            folder of several seeds counts as one run.
        output: file to write.
        title: heading of the page.
        metric: metrics of the paired comparisons, e.g. "acc,span_f1"; the first that a task has judges its samples.
        by: columns of the examples for breakdowns, e.g. "idiom".
        seed: random seed of the sign-flip tests.
        texts: include the texts of the examples, which are read from the data on this machine.
        allow_noncommercial: include texts whose licence excludes commercial use.
        plots: draw charts; without the extra `analysis`, the page has tables only.
        include_path: further folders with task files.

    Raises:
        RecordError: there is no run, its predictions have been changed, or the file cannot be written.
        OptionError: an argument has an invalid value.

    Example:
        ```python
        figeval.report(["results/runs/minilm", "results/runs/tfidf"], output="report.html", by="proverb")
        ```
    """
    if not (places := run_paths(runs)):
        raise OptionError("runs is empty; give at least one run or its folder")
    manager = plugins.plugin_manager()
    reader = ExampleTexts(manager, paths_in(include_path), allow_noncommercial=allow_noncommercial) if texts else None
    metrics, keys = (names_in(one) if isinstance(one, str) else one for one in (metric, by))
    check_output(Path(output), places)
    with frontend.python_program(watched=False):
        found = report_content(places, reader, metrics=metrics, by=keys, seed=seed)
        made = _report_page(title, found, manager, draw=plots)
        file = Path(output)
        with cure(file, "--output"):
            replace_text(file, made)
    return WrittenPage(
        file, len(found.runs) - len(found.seeds), len(made.encode()), tuple(dict.fromkeys(found.notices))
    )


@checked_arguments
def board(
    folders: str | Path | Sequence[str | Path],
    *,
    output: str | Path = "site",
    title: str = "Leaderboard",
    reports: bool = False,
    seed: int = 0,
    include_path: Folders = (),
) -> WrittenPage:
    """Write a static site with leaderboards of all runs below some folders.

    Damaged runs are skipped with a warning. Only files that an earlier call wrote are replaced or removed.

    Args:
        folders: folders that contain runs at any depth.
        output: folder of the site.
        title: heading of the site.
        reports: give each run the page of `figeval report`, without texts of benchmarks, instead of a short one.
        seed: random seed of the sign-flip tests.
        include_path: further folders with task files.

    Raises:
        RecordError: there is no readable run, or the site cannot be written.
        OptionError: an argument has an invalid value.

    Example:
        ```python
        figeval.board("results/runs", output="site", reports=True)
        ```
    """
    given = paths_in(folders, "folders")
    if not given:
        raise OptionError("folders is empty; give at least one folder that contains runs")
    manager = plugins.plugin_manager()
    with frontend.python_program(watched=False):
        record, entries = board_content(given, Harness(manager, paths_in(include_path)), seed)
        files = {
            "index.html": board_page(title, record),
            "board.csv": board_csv(record.leaderboards),
            "board.json": record.model_dump_json(indent=1) + "\n",
        }
        for entry in entries:
            content = report_content([entry.place], None) if reports else content_of([entry.side])[0]
            draw = reports
            files[entry.page] = _report_page(entry.label, content, manager, draw=draw, back="../index.html")
        folder = Path(output)
        with cure(folder, "--output"):
            _replace_site(folder, files)
    return WrittenPage(folder, len(entries), sum(len(text.encode()) for text in files.values()))


def _report_page(
    title: str, found: ReportContent, manager: plugins.PluginManager, *, draw: bool, back: str = ""
) -> str:
    panels = Panels(
        seeds=found.seeds,
        comparisons=[_compared(one) for one in found.comparisons],
        tests=list(explanations(found.comparisons)),
        calibration=found.calibration,
        positions=found.positions,
        samples=found.samples,
        trainings=found.trainings,
        downloads=dict(_downloads(found.compared, manager)),
        notices=found.notices,
    )
    return page(title, found.runs, panels, draw=draw, back=back)


def _compared(pair: ComparedRuns) -> JSON:
    """Return what the page shows of a comparison: the table and the notes of `figeval compare`, and what differs."""
    result = pair.result
    shown = Comparison(
        RunComparisons(
            metric=result.metric,
            runs=(result.a, result.b),
            pairs={(0, 1): result},
            correction="holm",
            family=result.family,
        )
    )
    return {
        "a": pair.a,
        "b": pair.b,
        "metric": result.metric,
        "grid": shown.grids[0],
        "notes": list(shown.notes()),
        "changes": list(map(asdict, pair.changes)),
    }


def _downloads(runs: Sequence[RunRecord], manager: plugins.PluginManager) -> Iterator[tuple[str, str]]:
    exporters = load_exporters(manager)
    for ending, form in DOWNLOADS.items():
        yield f"scores.{ending}", exporters.get(form)(runs)


# ---- the files of a site ---------------------------------------------------------------------------------------------


def _replace_site(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a site, and remove those of an earlier one that it no longer has.

    Raises:
        RecordError: a file of this name was not written by this function, or has been changed since.
        OSError: a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages = own_folder(folder / "runs")
    pages.mkdir(exist_ok=True)
    earlier = _manifest(folder)
    for name in files:
        if (folder / name).exists() and not _is_unchanged(folder / name, earlier.get(name)):
            raise RecordError(
                f"{folder / name} was not written by `figeval board`, or has been changed since; move it away, or "
                "choose another folder with --output"
            )
    written = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    # Both lists are stored first: a call that is killed leaves no file that the next call would not recognise.
    both = {name: list(digests) for name, digests in earlier.items()}
    for name, digest in written.items():
        both.setdefault(name, []).append(digest)
    _write_manifest(folder, both)
    for name, text in files.items():
        replace_text(folder / name, text)
    for name, digests in earlier.items():
        if name not in files and _is_unchanged(folder / name, digests):
            (folder / name).unlink()
    _write_manifest(folder, {name: [digest] for name, digest in written.items()})


def _write_manifest(folder: Path, files: Mapping[str, Sequence[str]]) -> None:
    import json

    about = "Files that `figeval board` wrote, with their sha256. It replaces and removes no others."
    replace_text(folder / MANIFEST, json.dumps({"about": about, "files": files}, indent=1, sort_keys=True) + "\n")


def _manifest(folder: Path) -> dict[str, list[str]]:
    """Return the files of the earlier site with their sha256; other names in the manifest are ignored."""
    file = folder / MANIFEST
    if not file.is_file():
        return {}
    content = read_json(file, RecordError, cure=f"delete it with the site in {folder}")
    files = content.get("files") if isinstance(content, Mapping) else None
    found = files.items() if isinstance(files, Mapping) else ()
    return {name: list(map(str, own)) for name, own in found if OWN_NAME.fullmatch(name) and isinstance(own, list)}


def _is_unchanged(file: Path, digests: Sequence[str] | None) -> bool:
    is_own = file.is_file() and not file.is_symlink()
    return is_own and digests is not None and hashlib.sha256(file.read_bytes()).hexdigest() in digests
