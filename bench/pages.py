"""Update the measured numbers in README, docs and bench/README.md from their records; none is typed by hand.

    python -m bench.pages [--check]

This updates the tables of measured values, the demo's table, and every number in prose that has a marker:

    .433<!-- floor random epic_alignment span_f1 last_sentence -->   a trivial model's score in a run
    .162<!-- run minilm-seen epic_retrieval_seen acc -->             a run's score, or the mean over a training's seeds
    .080<!-- paired minilm-seen minilm epic_retrieval_seen acc -->   the difference between two runs; with `low` or
                                                     `high` appended, an end of the interval of this difference
    .229<!-- paper epic_retrieval_seen acc BERT -->                  a published number from `results/reference`
    5.4<!-- bench loglikelihood 5_choices.ratio -->                  a benchmark's figure; underscores replace blanks
    .345<!-- file results/measured/analysis/epic.json -->            a number that must occur in a file; not updated

`<!-- holds: run A TASK METRIC > run B TASK METRIC -->` marks a claim about two scores. If task and metric are the same,
the runs are compared example by example: the interval of the difference must be above 0, and the sign-flip test must
agree. If they cannot be compared in this way (two tasks, a trivial model, a metric that is not a mean), the intervals,
or the numbers if there are no intervals, must not overlap.

`--check` changes nothing. It lists what would change, claims that do not hold, and decimals without a marker in the
prose of the pages in `MARKED`; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import figeval
from bench import simulated
from bench.extractor import SAMPLES, count_readings
from bench.measure import TRAINED
from bench.stored import MEASURED, ROOT, Value, benched, difference, floors, score_of, short, shown, tasks_of
from figeval.records.reference import published_results
from figeval.records.run_folder import read_record

PAGES = ("README.md", "docs/getting_started.md", "docs/results.md", "docs/llm.md", "bench/README.md")
# Pages whose decimals in prose must all carry a mark.
MARKED = ("README.md", "docs/getting_started.md", "docs/results.md")

NUMBER = r"(?<![\w.,])−?(?:\d[\d,]*)?\.?\d+(?:e-?\d+)?(?: %)?"
MARK = re.compile(rf"(?P<number>{NUMBER})<!-- (?P<kind>run|floor|paired|paper|bench|file) (?P<about>[^>]+?) -->")
CLAIM = re.compile(r"<!-- holds: (?P<more>[^>]+?) > (?P<less>[^>]+?) -->")
DECIMAL = re.compile(r"(?<![\w.])\d*\.\d+(?![\w.]*[a-z(])(?!<!--)|\b\d+ %(?!<!--)")
# Numbers that look measured but are not: places in papers, versions, licences, the level of all intervals.
ELSE = re.compile(
    r"`[^`]*`|\[[^\]]*\]\([^)]*\)|<!--.*?-->|\b(?:sections?|tables?|python|lm-eval|licence|gpt-|squad) ?\d[\d.]*|95 %",
    re.IGNORECASE,
)


QUESTIONLESS = ("no_query", "shuffled_query")  # floors that are the model itself, without the question or with another
PUBLISHED = re.compile(r"(?P<model>[^, ][^,]*) (?P<value>\.\d+)")  # `RoBERTa .282`

# ---- tables ---------------------------------------------------------------------------------------------------------


def result_row(task: str, cells: list[str], models: Sequence[str]) -> list[str]:
    """Return the cells after the task: metric | floors | a score of each model (| published)."""
    metric, published = cells[0], cells[2 + len(models) :]
    runs = [run_with(task, model) for model in models]
    run = next(filter(None, [*runs, run_with(task, "seen_expressions")]), None)
    trivial = floors(tasks_of(run)[task] if run else None, metric, without=QUESTIONLESS)
    scores = [score_cell(run, task, metric) for run in runs]
    return [metric, trivial, *scores, *(published_cell(cell, task, metric) for cell in published)]


def run_with(task: str, model: str) -> str | None:
    """Return the stored run of a model that has a task, or None."""
    names = [f"minilm-{name}" for name in (*TRAINED, "pipelined")]
    if model != "trained":
        names = [model, f"{model}-published", f"{model}-further"]
    return next((name for name in names if task in tasks_of(name)), None)


def score_cell(run: str | None, task: str, metric: str) -> str:
    """Return a score, and in parentheses that of the same model without the question, or with another one."""
    if run is None:
        return "–"
    blind = (score_of(run, task, metric, floor) for floor in QUESTIONLESS)
    score = next((score for score in blind if score is not None and score.value is not None), None)
    return shown(score_of(run, task, metric)) + (f" ({short(score.value)})" if score is not None else "")


def published_cell(cell: str, task: str, metric: str) -> str:
    """Return the cell with the latest published numbers of the models that it names. Raises `KeyError` for others."""
    latest = {number.model: number.value for number in published_results(task) if number.metric == metric}
    return PUBLISHED.sub(lambda match: f"{match['model']} {short(latest[match['model']])}", cell)


def packed_row(name: str, cells: list[str]) -> list[str]:
    """Return the cells after the workload: lm-eval | figeval | speed-up | fewer multiply-adds | largest difference."""
    record = benched("loglikelihood")
    workload = name.rpartition(", ")[0]
    figures = record["figures"].get(workload) if record else None
    return ["–"] * len(cells) if figures is None else comparison_cells(figures)


def real_row(name: str, cells: list[str]) -> list[str]:
    """Return the cells after the workload: those of `packed_row` after the requests, and two more.

    The last two are the speed-up in processor time, and the shares of the bound that lm-eval and figeval reach.
    """
    record = benched("loglikelihood_smollm2")
    figures = record["figures"].get(name) if record else None
    if figures is None:
        return ["–"] * len(cells)
    shares = [figures[side].get("share_of_bound") for side in ("lm_eval", "figeval")]
    bound = "–" if None in shares else ", ".join(f"{share:.0%}" for share in shares)
    return [f"{figures['requests']:,}", *comparison_cells(figures), f"{figures['processor_ratio']:.1f} ×", bound]


def gpu_row(name: str, cells: list[str]) -> list[str]:
    """Return the cells after the workload: requests | lm-eval | figeval | speed-up | fewer tokens | difference."""
    size, _, workload = name.partition(" B, ")
    figures = gpu_figures(f"log_likelihoods_{size}b").get(workload)
    if figures is None:
        return ["–"] * len(cells)
    theirs, ours = (f"{figures['seconds'][side]:.2f} s" for side in ("lm_eval", "figeval"))
    fewer = figures["tokens"]["one_row_per_continuation"] / figures["tokens"]["read"]
    ratios = [f"**{figures['ratio']:.1f} ×**", f"{fewer:.1f} ×"]
    return [f"{figures['requests']:,}", theirs, ours, *ratios, f"{figures['apart_per_token']:.1e}"]


def gpu_part_row(name: str, cells: list[str]) -> list[str]:
    """Return the cells after the part: figeval | the other one | faster by | share of the device's rate."""
    part, ours, theirs, unit, is_time = GPU_PARTS[name]
    figures = gpu_figures(part)
    sides = [value_at(figures, path) for path in (ours, theirs)]
    if None in sides:
        return ["–"] * len(cells)
    share = value_at(figures, f"{ours.rpartition('.')[0]}.share_of_rate")
    ratio = sides[1] / sides[0] if is_time else sides[0] / sides[1]
    shown_sides = [f"{side:.3f} {unit}" if is_time else f"{side:,.0f} {unit}" for side in sides]
    return [*shown_sides, f"**{ratio:.1f} ×**", "–" if share is None else f"{share:.0%}"]


# part of the page → part of the record, figeval's figure and the other one's, their unit, and whether it is a time
GPU_PARTS = {
    "encoding, beside sentence-transformers": (
        "encoding", "throughput.texts_per_second", "sentence_transformers.texts_per_second", "texts/s", False,
    ),
    "fine-tuning, 64 pairs a step, beside a plain loop": (
        "training", "bf16.seconds_per_step", "plain.seconds_per_step", "s", True,
    ),
    "fine-tuning, 256 pairs a step, beside a plain loop": (
        "training", "bf16, 256 pairs.seconds_per_step", "plain, 256 pairs.seconds_per_step", "s", True,
    ),
    "writing, beside the fastest way of transformers": (
        "generation", "figeval.tokens_per_second", "transformers.tokens_per_second", "tokens/s", False,
    ),
}  # fmt: skip


def gpu_figures(part: str) -> dict[str, Any]:
    """Return the figures of a part of the record for GPUs; none if it was not measured."""
    record = benched("gpu")
    return dict(record["figures"].get(part, {})) if record else {}


def value_at(figures: dict[str, Any], path: str) -> Any:
    """Return the figure at a path such as `throughput.share_of_rate`, or None."""
    value: Any = figures
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def comparison_cells(figures: dict[str, Any]) -> list[str]:
    """Return the cells of a comparison with lm-eval."""
    theirs, ours = figures["lm_eval"], figures["figeval"]
    sides = [f"{side['tokens']:,} tokens, {side['seconds']:.1f} s" for side in (theirs, ours)]
    return [*sides, f"**{figures['ratio']:.1f} ×**", f"{figures['multiply_adds']:.1f} ×", f"{figures['apart']:.1e}"]


def generation_row(name: str, cells: list[str]) -> list[str]:
    """Return the cells after the workload: one at a time | best batch | figeval | speed-up | same answers."""
    record = benched("generation")
    figures = record["figures"].get(name.partition(",")[0]) if record else None
    if figures is None:
        return ["–"] * len(cells)
    best = min(side["seconds"] for key, side in figures.items() if key.startswith("batches"))
    seconds = [f"{value:.1f} s" for value in (figures["alone"]["seconds"], best, figures["figeval"]["seconds"])]
    return [*seconds, f"**{figures['ratio']:.1f} ×**", f"{figures['same']} of {figures['prompts']}"]


def training_row(name: str, cells: list[str]) -> list[str]:
    """Return the cell after the loop: examples per CPU second."""
    record = benched("train")
    side = "ours" if name.startswith("`figeval") else "theirs"
    return [f"{record['figures'][f'{side}_per_cpu_second']:.2f}"] if record else ["–"] * len(cells)


def replies_row(name: str, _cells: list[str]) -> list[str]:
    """Return the cells after the sample: replies | read right | answers found | taken for an answer."""
    sample = next(number for number, label in SAMPLES.items() if name == f"{number}, {label}")
    stored = json.loads((ROOT / "bench" / "replies.json").read_text(encoding="utf-8"))["replies"]
    right, total, hits, answers, invented = count_readings([row for row in stored if row["sample"] == sample])
    return [f"{total}", f"{right} ({right / total:.0%})".replace("%", " %"), f"{hits} of {answers}", f"{invented}"]


DEMO_RUNS = (MEASURED / "demo-minilm", MEASURED / "demo-tfidf")


@cache
def demo_differences() -> dict[str, dict[str, float]]:
    """Return the task, or task and language, of the demo's comparison → its difference, interval and p-value."""
    differences = figeval.compare(*DEMO_RUNS).differences.set_index("task")
    return {str(task): row for task, row in differences.to_dict("index").items()}


def demo_row(name: str, cells: list[str]) -> list[str]:
    """Return the cells after the task: question | chance | word overlap | TF-IDF | MiniLM | their difference | p."""
    name = name.replace("`", "")
    task, _, language = name.rstrip(")").partition(" (")
    minilm, tfidf = (
        next((part for part in record.languages if part.language == language), record)
        for record in (tasks_of(run.name)[task] for run in DEMO_RUNS)
    )
    trivial = {floor.baseline: floor.scores[0].value for floor in minilm.baselines}
    change = demo_differences()[name]
    difference, low, high = (f"{change[end]:+.3f}".replace("0.", ".").replace("-", "−") for end in DIFFERENCE)
    p = change["p_adjusted"]
    return [
        cells[0],
        *(short(trivial[baseline]) for baseline in ("chance", "overlap")),
        *(shown(record.scores[0]) for record in (tfidf, minilm)),
        f"{difference} [{low}, {high}]",
        "< .0001" if p < 1e-4 else short(p),
    ]


DIFFERENCE = ("difference", "low", "high")
Row = Callable[[str, list[str]], list[str]]
TABLES: dict[str, dict[str, Row]] = {  # page → beginning of a table's first line → function that makes its rows
    "README.md": {"| task | question | chance |": demo_row},
    "docs/results.md": {
        "| task | metric | floors | TF-IDF | MiniLM | fine-tuned |": partial(
            result_row, models=("tfidf", "minilm", "trained")
        ),
        "| task | metric | floors | MiniLM | fine-tuned |": partial(result_row, models=("minilm", "trained")),
        "| task | metric | floors | TF-IDF | MiniLM |": partial(result_row, models=("tfidf", "minilm")),
    },
    "bench/README.md": {
        "| | lm-eval `hf` | figeval |": packed_row,
        "| real weights | requests |": real_row,
        "| on a GPU | requests |": gpu_row,
        "| on a GPU | figeval |": gpu_part_row,
        "| | one prompt at a time | best batch |": generation_row,
        "| sample of replies |": replies_row,
        "| | examples per CPU second |": training_row,
        "| scores | cells |": simulated.coverage_row,
        "| p = .7, correlation .2 |": simulated.ignored_row,
        "| limit |": simulated.limit_row,
        "| paired tests |": simulated.alarms_row,
        "| skewed differences |": simulated.skewed_row,
        "| trainings | 3 against 1 |": simulated.seeds_row,
        "| model that rates all texts |": simulated.powered_row,
    },
}


def with_tables(page: str, text: str) -> str:
    """Return the page with its measured tables updated; a row without a first cell continues the row above."""
    make: Row | None = None
    first, lines = "", []
    for line in text.split("\n"):
        heading = next((row for begins, row in TABLES.get(page, {}).items() if line.startswith(begins)), None)
        make = heading or (make if line.startswith("|") else None)
        if make is None or heading is not None or line.startswith("|--"):
            lines.append(line)
            continue
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        first = name or first
        lines.append("| " + " | ".join([name, *make(first, cells)]) + " |")
    return "\n".join(lines)


DEMO_WIDTH = 96  # characters; wider blocks are cut on a laptop
DEMO = re.compile(r"(?<=prints this table for MiniLM:\n\n```\n).*?(?=```)", re.DOTALL)


def with_demo(text: str) -> str:
    """Return a page with the table of MiniLM that `make demo` prints."""
    from rich.console import Console

    from figeval.reporting.table import show

    out = io.StringIO()
    console = Console(file=out, width=DEMO_WIDTH, force_terminal=True, color_system=None)
    show(read_record(MEASURED / "demo-minilm" / "run.json"), console)
    printed = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    return DEMO.sub(lambda _: printed, text)


# ---- prose ----------------------------------------------------------------------------------------------------------


def value_of(kind: str, reference: str) -> Value | None:
    """Return the value that a mark refers to, or None if no record has it."""
    words = reference.split()
    if kind == "paper":
        cell = (words[1], " ".join(words[2:]))
        values = [number.value for number in published_results(words[0]) if (number.metric, number.model) == cell]
        return Value(values[0], values[0], values[0]) if values else None
    if kind == "bench":
        figure: Any = (benched(words[0]) or {}).get("figures", {})
        for key in words[1].split("."):
            figure = {name.replace(" ", "_"): inner for name, inner in figure.items()}.get(key, {})
        return Value(figure, figure, figure) if isinstance(figure, int | float) else None
    if kind == "paired":
        run, before, task, metric, *end = words
        change = difference(run, before, task, metric)
        number = getattr(change, end[0]) if change is not None and end else None
        return change if number is None else Value(number, number, number)
    score = score_of(*words)
    if score is None or score.value is None:
        return None
    low, high = (score.value if end is None else end for end in (score.low, score.high))
    return Value(score.value, low, high)


def printed_like(number: str, value: float) -> str:
    """Format a value with as many digits as the number in the text has, as a share or in percent."""
    percent = number.endswith(" %")
    digits = len(number.removesuffix(" %").partition(".")[2])
    if "e" in number:
        return f"{value:.1e}"
    text = f"{abs(value) * 100 if percent else abs(value):,.{digits}f}"
    shorter = text.removeprefix("0") if number.removeprefix("−").startswith(".") else text
    return ("−" if value < 0 else "") + shorter + (" %" if percent else "")


def with_marks(text: str) -> str:
    """Return the page with every marked number updated; a number without a record stays, and `--check` reports it."""

    def update(match: re.Match[str]) -> str:
        number, kind, reference = match["number"], match["kind"], match["about"]
        if kind == "file":
            return match[0]
        value = value_of(kind, reference)
        return match[0] if value is None else f"{printed_like(number, value.value)}<!-- {kind} {reference} -->"

    return MARK.sub(update, text)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) outside of code blocks and tables."""
    code = False
    for number, line in enumerate(text.split("\n"), start=1):
        code ^= line.startswith("```")
        if not code and not line.startswith(("```", "|")):
            yield number, line


def problems(page: str, text: str) -> Iterator[str]:
    """Yield unmarked numbers in prose, marks without a record, numbers missing from their file, and failing claims."""
    for match in MARK.finditer(text):
        if match["kind"] == "file":
            if not stands_in(match["number"], ROOT / match["about"]):
                yield f"{page}: {match['number']} is not in {match['about']}"
        elif value_of(match["kind"], match["about"]) is None:
            yield f"{page}: no record of {match['kind']} {match['about']}"
    for claim in CLAIM.finditer(text):
        if not holds(claim["more"], claim["less"]):
            yield f"{page}: does not hold: {claim['more']} > {claim['less']}"
    if page in MARKED:
        for number, line in prose(text):
            for decimal in DECIMAL.findall(ELSE.sub("", MARK.sub("", line))):
                yield f"{page}, line {number}: {decimal} has no mark that says where it was measured"


def holds(left: str, right: str) -> bool:
    """Return whether the first value is larger than the second: by a paired test if possible, else by intervals."""
    (kind, *first), (other, *second) = left.split(), right.split()
    if (kind, other) == ("run", "run") and first[1:] == second[1:]:
        change = difference(first[0], second[0], first[1], first[2])
        if change is not None:
            return change.low > 0
    larger, smaller = value_of(kind, " ".join(first)), value_of(other, " ".join(second))
    return larger is not None and smaller is not None and larger.low > smaller.high


def stands_in(number: str, file: Path) -> bool:
    """Return whether a file contains this number, at its precision."""
    numbers = map(float, re.findall(r"-?\d*\.?\d+", file.read_text(encoding="utf-8")))
    return any(printed_like(number, stored_number) == number for stored_number in numbers)


def rewrite_page(page: str, text: str) -> str:
    """Return the page with tables and marked numbers updated from the records."""
    return with_marks(with_tables(page, with_demo(text)))


def main() -> int:
    """Rewrite the pages, or list their problems, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="rewrite nothing; list all problems")
    check, all_problems = parser.parse_args().check, []
    for page in PAGES:
        file = ROOT / page
        text = file.read_text(encoding="utf-8")
        new_text = rewrite_page(page, text)
        all_problems += problems(page, new_text)
        if check:
            stood = set(text.split("\n"))
            all_problems += [
                f"{page}: to be {line.strip()[:160]}" for line in new_text.split("\n") if line not in stood
            ]
        elif new_text != text:
            file.write_text(new_text, encoding="utf-8")
            print(f"rewritten: {page}")
    print("\n".join(all_problems))
    return 1 if all_problems else 0


if __name__ == "__main__":
    sys.exit(main())
