"""`figeval.report` and `figeval.board`, which do what the commands of these names do."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from figeval import Harness, OptionError, RecordError, RunRecord, check_output
from figeval.api.runs import Runs, run_paths
from figeval.config import Folders, Names
from figeval.io import frontend
from figeval.io.files import cure, digest_of_file, replace_text
from figeval.io.json_files import read_json
from figeval.io.plots import require as require_plots
from figeval.io.validation import checked_arguments, names_in, paths_in
from figeval.records.run_folder import own_folder
from figeval.runs.stored import load_exporters
from figeval.wings.report.board import board_content
from figeval.wings.report.content import ReportContent, content_of, report_content
from figeval.wings.report.example_texts import ExampleTexts
from figeval.wings.report.html import charts
from figeval.wings.report.html.board import board_csv, board_page
from figeval.wings.report.html.page import Pictures, report_page, report_pictures

DOWNLOADS = {"csv": "csv", "tex": "latex", "json": "json"}  # ending of a file → export format
MANIFEST = "figeval-board.json"  # the files of a site that `board` has written, with their sha256
SITE_FILE = re.compile(r"(?:runs/)?[0-9A-Za-z][0-9A-Za-z-]*\.(?:html|csv|json)")  # of such a file


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page that was written.

    Attributes:
        path: the file, or the folder of a site.
        runs: number of runs that it shows; a report also counts each of several seeds.
        bytes: size of the file, or of all files of the site.
        notices: sentences about what is missing from the page, and about licences.
        figures: files of charts, each as SVG and PDF.
    """

    path: Path
    runs: int
    bytes: int
    notices: tuple[str, ...] = ()
    figures: tuple[Path, ...] = ()


@checked_arguments
def report(  # noqa: PLR0913 - one argument per option of the command
    runs: Runs,
    *,
    output: str | Path = "report.html",
    title: str = "Evaluation report",
    metric: Names = (),
    by: Names = (),
    seed: int = 0,
    texts: bool = True,
    allow_noncommercial: bool = False,
    plots: bool = True,
    figures: str | Path | None = None,
    include_path: Folders = (),
) -> WrittenPage:
    """Write one HTML page about one or several runs, with a sample explorer.

    Args:
        runs: runs, or folders of runs, trainings or several seeds; the first is compared with each of the others. A
            folder of several seeds counts as one run.
        output: file to write.
        title: heading of the page.
        metric: metrics of the paired comparisons, by default that of `figeval.compare`; the first judges the samples.
        by: columns of the examples for breakdowns, e.g. "idiom".
        seed: random seed of the sign-flip tests.
        texts: include the texts of the examples, which are read from the data on this machine.
        allow_noncommercial: include texts whose licence excludes commercial use.
        plots: draw charts; without the extra `analysis`, the page has tables only.
        figures: folder to write the charts to as well, each as SVG and PDF. They need the extra `analysis`.
        include_path: further folders with task files.

    Raises:
        RecordError: there is no run, its predictions have been changed, or a file cannot be written.
        OptionError: an argument has an invalid value.
        FigevalError: `figures` are wanted, but the extra `analysis` is not installed.

    Example:
        ```python
        figeval.report(["results/runs/minilm", "results/runs/tfidf"], output="report.html", by="proverb")
        ```
    """
    if not (paths := run_paths(runs)):
        raise OptionError("runs is empty; give at least one run or its folder")
    reader = ExampleTexts(paths_in(include_path), allow_noncommercial=allow_noncommercial) if texts else None
    metrics, keys = (names_in(names) if isinstance(names, str) else names for names in (metric, by))
    file = Path(output)
    check_output(file, paths)
    if figures is not None:
        require_plots()
    with frontend.python_program(watched=False):
        content = report_content(paths, reader, metrics=metrics, by=keys, seed=seed)
        notices = tuple(dict.fromkeys(content.notices))  # the command does not repeat those of the page
        pictures = _pictures(content, draw=plots or figures is not None)
        page = _page(title, content, pictures if plots else {})
        with cure(file, "--output"):
            replace_text(file, page)
        files: tuple[Path, ...] = ()
        if figures is not None:
            with cure(Path(figures), "--figures"):
                files = tuple(charts.write_files(chain.from_iterable(pictures.values()), Path(figures)))
    return WrittenPage(file, len(content.runs) - len(content.seeds), len(page.encode()), notices, files)


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
    paths = paths_in(folders, "folders")
    if not paths:
        raise OptionError("folders is empty; give at least one folder that contains runs")
    with frontend.python_program(watched=False):
        record, entries = board_content(paths, Harness(include=paths_in(include_path)), seed)
        files = {
            "index.html": board_page(title, record),
            "board.csv": board_csv(record.leaderboards),
            "board.json": record.model_dump_json(indent=1) + "\n",
        }
        for entry in entries:
            content = report_content([entry.path], None) if reports else content_of([(entry.record, entry.runs)])[0]
            files[entry.page] = _page(entry.label, content, _pictures(content, draw=reports), back="../index.html")
        folder = Path(output)
        with cure(folder, "--output"):
            _replace_site(folder, files)
    return WrittenPage(folder, len(entries), sum(len(text.encode()) for text in files.values()))


def _pictures(content: ReportContent, *, draw: bool) -> Pictures:
    """Return the charts of a page; without the extra that draws them there are none, and a notice says so."""
    if not draw:
        return {}
    try:
        require_plots(purpose="a chart")
    except ImportError as error:
        content.notices.append(f"Charts are left out: {error}.")
        return {}
    return report_pictures(content)


def _page(title: str, content: ReportContent, pictures: Pictures, back: str = "") -> str:
    return report_page(title, content, dict(_downloads(content.compared)), pictures, back=back)


def _downloads(runs: Sequence[RunRecord]) -> Iterator[tuple[str, str]]:
    """Yield the files with the scores, in the formats that are installed."""
    exporters = load_exporters(Harness().manager)
    for ending, name in DOWNLOADS.items():
        if name in exporters:
            yield f"scores.{ending}", exporters.get(name)(runs)


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
    old_and_new = {name: list(digests) for name, digests in earlier.items()}
    for name, digest in written.items():
        old_and_new.setdefault(name, []).append(digest)
    _write_manifest(folder, old_and_new)
    for name, text in files.items():
        replace_text(folder / name, text)
    for name, digests in earlier.items():
        if name not in files and _is_unchanged(folder / name, digests):
            (folder / name).unlink()
    _write_manifest(folder, {name: [digest] for name, digest in written.items()})


def _write_manifest(folder: Path, files: Mapping[str, Sequence[str]]) -> None:
    note = "Files that `figeval board` wrote, with their sha256. It replaces and removes no others."
    replace_text(folder / MANIFEST, json.dumps({"about": note, "files": files}, indent=1, sort_keys=True) + "\n")


def _manifest(folder: Path) -> dict[str, list[str]]:
    """Return the files of the earlier site with their sha256; other names in the manifest are ignored."""
    file = folder / MANIFEST
    if not file.is_file():
        return {}
    content = read_json(file, RecordError, cure=f"delete it with the site in {folder}")
    files = content.get("files") if isinstance(content, Mapping) else None
    entries = files.items() if isinstance(files, Mapping) else ()
    return {
        name: list(map(str, digests))
        for name, digests in entries
        if SITE_FILE.fullmatch(name) and isinstance(digests, list)
    }


def _is_unchanged(file: Path, digests: Sequence[str] | None) -> bool:
    is_regular = file.is_file() and not file.is_symlink()
    return is_regular and digests is not None and digest_of_file(file).hex() in digests
