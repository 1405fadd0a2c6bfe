"""Command `figeval data`, which lists, fetches and verifies the upstream files."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

import click

from figeval.cli.shared import echo, echo_json

if TYPE_CHECKING:
    from figeval.data.cache import Status
    from figeval.types import JSON

benchmarks_argument = click.argument("benchmarks", metavar="[BENCH]...", nargs=-1)


@click.group()
def data() -> None:
    """List, fetch and verify benchmark data.

    A file is looked for in the cache (FIGEVAL_HOME), then in the mirrors (FIGEVAL_DATA_MIRROR: folders or addresses
    laid out <benchmark>/<file>), then upstream; its sha256 is checked wherever it comes from.
    """


@data.command("ls")
@benchmarks_argument
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_files(benchmarks: tuple[str, ...], as_json: bool) -> None:
    """Print the state of every file: cached, mirror, missing or corrupt. Does not use the network."""
    rows = statuses(benchmarks)
    if as_json:
        echo_json([status_json(status) for status in rows])
        return
    for benchmark, group in groupby(rows, key=lambda status: status.file.benchmark):
        print_benchmark(benchmark, list(group))


@data.command()
@benchmarks_argument
@click.option("--force", is_flag=True, help="Also replace files that are already cached.")
def fetch(benchmarks: tuple[str, ...], force: bool) -> None:
    """Copy files into the cache from a mirror or from upstream; without BENCH, all files.

    Afterwards neither the network nor FIGEVAL_DATA_MIRROR is needed. hub:OWNER/NAME#CONFIG/SPLIT is the split of a data
    set of the Hugging Face Hub, which goes into the hub's cache; --force asks for the newest commit of its revision.
    """
    from figeval.data import hub_cache
    from figeval.data.cache import store
    from figeval.data.sources import data_files

    listed = [name for name in benchmarks if not name.startswith(f"{hub_cache.HUB}:")]
    files = data_files(listed) if listed or not benchmarks else []
    for address in (name for name in benchmarks if name not in listed):
        echo(f"{address}  {hub_cache.store(address.partition(':')[2], force=force)}")
    for file in files:
        echo(f"{file.name}  {store(file, force=force)}")


@data.command()
@benchmarks_argument
def verify(benchmarks: tuple[str, ...]) -> None:
    """Verify the checksum of every file.

    Exits with code 2 if a file is corrupt, or missing from a benchmark that was named.
    """
    from figeval.errors import DataError

    rows = statuses(benchmarks)
    for status in rows:
        echo(f"{status.state:<8}{status.file.name}")
    counts = Counter(status.state for status in rows)
    echo(", ".join(f"{count} {state}" for state, count in counts.items()))
    wrong = [status for status in rows if status.state == "corrupt" or (benchmarks and status.state == "missing")]
    if wrong:
        names = ", ".join(sorted({status.file.benchmark for status in wrong}))
        raise DataError(
            f"{len(wrong)} of {len(rows)} files are corrupt or missing, first {wrong[0].path or wrong[0].file.name}; "
            f"run `figeval data fetch --force {names.replace(', ', ' ')}`, or replace it if it is in a mirror"
        )


@data.command()
@click.argument("benchmark", metavar="BENCH")
@click.argument("file", required=False)
def path(benchmark: str, file: str | None) -> None:
    """Print the paths of the files on this machine, one per line. Downloads nothing."""
    from figeval.data.cache import local_path
    from figeval.data.sources import data_file, data_files

    for data_source in [data_file(benchmark, file)] if file else data_files([benchmark]):
        echo(local_path(data_source))


def statuses(benchmarks: tuple[str, ...]) -> list[Status]:
    """Return the state of every file of these benchmarks, or of all benchmarks if none is given."""
    from figeval.data.cache import status
    from figeval.data.sources import data_files

    return [status(file) for file in data_files(benchmarks)]


def status_json(status: Status) -> JSON:
    """Return one file for `--json`; `origin` and `fetched` of a cached file are null if the ledger lacks them."""
    from figeval.data.cache import entry_of
    from figeval.data.sources import catalogue

    source = status.file.source
    entry = entry_of(status.file) if status.state == "cached" else None
    return {
        "benchmark": status.file.benchmark,
        "path": source.path,
        "state": status.state,
        "location": str(status.path) if status.path else None,
        "bytes": source.bytes,
        "sha256": source.sha256,
        "url": source.url,
        "licence": catalogue().get(status.file.benchmark).licence,
        "origin": entry["origin"] if entry else None,
        "fetched": entry["fetched"] if entry else None,
    }


def print_benchmark(benchmark: str, rows: list[Status]) -> None:
    """Print a heading with size, licence and homepage, and a line for each file."""
    from figeval.data.sources import catalogue

    sources = catalogue().get(benchmark)
    size = sum(status.file.source.bytes for status in rows) / 1e6
    count = f"{len(rows)} file{'s' * (len(rows) > 1)}"
    echo(f"{benchmark}: {count}, {size:.1f} MB, licence {sources.licence}, {sources.homepage}")
    for status in rows:
        echo(f"  {status.state:<8}{status.file.source.bytes:>10,}  {status.file.source.path}")
