"""Read data sets of the Hugging Face Hub, `hub:OWNER/NAME@REVISION#CONFIG/SPLIT`, with the library `datasets`.

A copy in the folder of `--data OWNER/NAME=FOLDER` or of a mirror is read instead of the hub. Otherwise the split comes
from the hub's own cache, and only if that lacks a file of it, its files are downloaded into the cache. The rows are
those of `datasets.load_dataset`, with values as in `columnar`. The record of a run has the commit, and the sha256 of
every file that was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import TemporaryDirectory

from figeval.data.columnar import BATCH_ROWS, check_columnar, plain_row
from figeval.data.hub_cache import COMMIT, HUB, HubAddress, HubSplit, cached_split, parse_address, reading
from figeval.data.readers import DataContext, Row
from figeval.data.text_files import check_packed, max_row_bytes
from figeval.errors import DataError
from figeval.io.files import digest_of_file


def open_hub(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of a split. Raises `DataError` as `numbered_hub` does."""
    return (row for _, row in numbered_hub(path, context))


def numbered_hub(path: str, context: DataContext) -> Iterator[tuple[str, Row]]:
    """Yield (place, row) of a split, and note what was read.

    Raises:
        MissingData: it is neither on this machine nor can it be downloaded.
        DataError: there is no such data set, configuration or split, files are missing or damaged, or it has a format
            that is no table.
    """
    address = parse_address(path)
    with TemporaryDirectory() as scratch:
        split = _find_split(address, context, scratch)
        files = {path: digest_of_file(file).hex() for path, file in split.files.items()}
        commit = {"revision": split.folder.name} if COMMIT.fullmatch(split.folder.name) else {}
        context.notes["hub"] = {"dataset": address.name, **commit, **split.names, "files": files}
        yield from _rows(split, address)


def _find_split(address: HubAddress, context: DataContext, scratch: str) -> HubSplit:
    """Return a split from the first place that has it; a copy that the user has given is the only place."""
    problems = []
    for folder in (copies := context.copies(address.name)):
        try:
            return HubSplit.in_folder(folder, address, scratch)
        except DataError as error:
            problems.append(error)
    if copies:
        raise problems[0]
    if split := cached_split(address, scratch):
        return split
    return HubSplit.in_folder(context.fetch(HUB, str(address).partition(":")[2]), address, scratch)


def _rows(split: HubSplit, address: HubAddress) -> Iterator[tuple[str, Row]]:
    limit, number = max_row_bytes(), 0
    with reading(address):  # within the limits of figeval's own readers, as those of `datasets` have none
        for file in split.files.values():
            if split.kind in ("parquet", "arrow"):
                check_columnar(file, split.kind)
            else:
                check_packed(file)
    for number, row in enumerate(split.read(address, BATCH_ROWS), 1):
        yield f"{address}: row {number}", plain_row(row, f"{address}: row {number}", limit)
    if split.n is not None and split.n != number:
        raise DataError(f"{address} has {number:,} rows, but should have {split.n:,}; copy or download it again")
