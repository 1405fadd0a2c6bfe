"""`figeval.report` and `figeval.board`, which do what the commands of these names do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from figeval import Harness, OptionError, RunRecord, check_output
from figeval.api.runs import Runs, run_paths
from figeval.config import Folders, Names
from figeval.io import frontend
from figeval.io.files import cure, replace_text
from figeval.io.plots import require as require_plots
from figeval.io.validation import checked_arguments, names_in, paths_in
from figeval.runs.stored import load_exporters
from figeval.wings.report.board import board_content
from figeval.wings.report.content import ReportContent, content_of, report_content
from figeval.wings.report.example_texts import ExampleTexts
from figeval.wings.report.html import charts
from figeval.wings.report.html.board import board_csv, board_page
from figeval.wings.report.html.page import Pictures, report_page, report_pictures
from figeval.wings.report.written_folder import FIGURES, SITE

DOWNLOADS = {"csv": "csv", "tex": "latex", "json": "json"}  # ending of a file → export format


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
        figures: folder to write the charts to as well, each as SVG and PDF: a new or empty one, or one whose charts an
            earlier call wrote, which are replaced. They need the extra `analysis`.
        include_path: further folders with task files.

    Raises:
        RecordError: there is no run, its predictions have been changed, or a file cannot be written or has been edited.
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
        FIGURES.check(Path(figures))
        require_plots()
    with frontend.python_program(watched=False):
        content = report_content(paths, reader, metrics=metrics, by=keys, seed=seed)
        notices = tuple(dict.fromkeys(content.notices))  # the command does not repeat those of the page
        pictures = _pictures(content, draw=plots or figures is not None)
        page = _page(title, content, pictures if plots else {})
        chart_files = () if figures is None else _write_charts(pictures, Path(figures))  # the page may be in the folder
        with cure(file, "--output"):
            replace_text(file, page)
    return WrittenPage(file, len(content.runs) - len(content.seeds), len(page.encode()), notices, chart_files)


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
    paths, folder = paths_in(folders, "folders"), Path(output)
    if not paths:
        raise OptionError("folders is empty; give at least one folder that contains runs")
    SITE.check(folder)
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
        contents = {name: text.encode() for name, text in files.items()}
        SITE.replace(folder, contents)
    return WrittenPage(folder, len(entries), sum(map(len, contents.values())))


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


def _write_charts(pictures: Pictures, folder: Path) -> tuple[Path, ...]:
    """Write the files of charts to a folder, and return them."""
    files = dict(charts.files(chain.from_iterable(pictures.values())))
    FIGURES.replace(folder, files)
    return tuple(folder / name for name in files)


def _page(title: str, content: ReportContent, pictures: Pictures, back: str = "") -> str:
    return report_page(title, content, dict(_downloads(content.compared)), pictures, back=back)


def _downloads(runs: Sequence[RunRecord]) -> Iterator[tuple[str, str]]:
    """Yield the files with the scores, in the formats that are installed."""
    exporters = load_exporters(Harness().manager)
    for ending, name in DOWNLOADS.items():
        if name in exporters:
            yield f"scores.{ending}", exporters.get(name)(runs)
