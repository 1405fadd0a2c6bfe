"""Writing in the fastest of several ways, found out while the texts are written that are asked for.

Own decoding writes first, and its speed is measured. If enough is at stake, the next batches are written in other
ways, and then the fastest goes on. Nothing is written for the measurement alone. Speeds are compared for batches of
about the same number of rows, since more rows are more tokens per second in any way.

What is at stake is the time that the rest of a call takes, or the time that was spent on writing so far: of how much is
still to come after a call, nobody tells a model, and as much again is a good guess.

A way that fails, or whose texts are not those of the model, is not used again, and own decoding writes its rows.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

from figeval.errors import ModelError
from figeval.io.observer import within
from figeval.models.devices import release_memory
from figeval.types import JSON

from ...torch_models.faults import one_line
from .decoder import Decoder
from .row import Row
from .ways import Writer, WritingWay, disagreement, refusal, way_of, worth_trying

CHECKED_ROWS = 4  # of the first batch of a way, whose texts are compared with the model
MAX_REASON_CHARS = 200  # characters of an error in the record
MEASURED_BATCHES = 3  # rows of so many batches are more than a measurement needs
VLLM_HINT = "vLLM is installed: --model vllm:NAME writes with it"


def fastest_writer(writer: Writer, padding: int, name: str = "auto") -> Writer:
    """Return a writer that writes as own decoding does, in the way of a name, or in the fastest one ("auto").

    Args:
        writer: writer of a model; if its rows cannot come and go, it is the only one.
        padding: id of a token that fills rows up.
        name: "own", one of `OTHER_WAYS`, or "auto".

    Raises:
        ModelError: the model's rows cannot come and go, and `name` is another way than "generate".
    """
    if not isinstance(writer, Decoder):
        if name not in ("auto", "generate"):
            raise ModelError(f"writing={name}: texts of this model are written by generate alone; leave out writing")
        return writer
    if name == "own":
        return writer
    names = worth_trying(writer) if name == "auto" else [name]
    if not names:
        return writer
    alternatives = [way_of(way_name, writer, padding) for way_name in names]
    chooser = FastestWriter(
        WritingWay("own", writer), alternatives, partial(disagreement, writer), "" if name == "auto" else name
    )
    for way_name in names:
        chooser.records[way_name].dropped = refusal(way_name, writer)
    return chooser


@dataclass(slots=True)
class Speed:
    """The texts that were last written in a way."""

    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / max(self.seconds, 1e-9)


@dataclass(slots=True)
class WayRecord:
    """Speeds and failures of a way.

    Attributes:
        speeds: by the magnitude of the number of rows.
        tokens: number of tokens written in all.
        first: the first batch, with the time that the way needs before the first text.
        dropped: why it is not used any more, or "".
    """

    speeds: dict[int, Speed] = field(default_factory=dict)
    tokens: int = 0
    first: Speed | None = None
    dropped: str = ""

    def describe(self, *, prepares: bool) -> JSON:
        """Return what the record says."""
        rates = {f"{1 << size - 1} rows or more": round(speed.tokens_per_second) for size, speed in self.speeds.items()}
        description: JSON = {"tokens": self.tokens, "tokens_per_second": rates}
        if prepares and self.first is not None:
            description["first_batch_seconds"] = round(self.first.seconds, 1)
        return description | ({"dropped": self.dropped} if self.dropped else {})


@dataclass(slots=True)
class FastestWriter:
    """A writer of texts that chooses among several ways.

    Attributes:
        decoding: own decoding, which writes what no other way can.
        alternatives: other ways, in the order in which they are tried.
        chosen: the way that the user has chosen, which is one of `alternatives`; "" for the fastest.
        disagreement: function of some rows that returns how far their texts are from the model's, or "".
        clock: time in seconds.
    """

    decoding: WritingWay[Decoder]
    alternatives: Sequence[WritingWay[Any]]
    disagreement: Callable[[Sequence[Row]], str]
    chosen: str = ""
    clock: Callable[[], float] = time.perf_counter
    records: dict[str, WayRecord] = field(default_factory=lambda: defaultdict(WayRecord))
    seconds: float = 0.0  # spent on writing so far
    texts: int = 0
    last: str = ""

    def write(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Continue rows up to their ends, and yield each when it has ended.

        Raises:
            ModelError: memory runs out and the batch cannot be halved.
        """
        remaining = list(rows)
        try:
            while remaining:
                way, number = self.choice(remaining)
                batch, remaining = remaining[:number], remaining[number:]
                yield from self._write_batch(way, batch)
        finally:
            for way in self.alternatives:
                way.pause()

    # ---- the choice --------------------------------------------------------------------------------------------------

    def choice(self, rows: Sequence[Row]) -> tuple[WritingWay[Any], int]:
        """Return in which way the next rows are written, and how many of them."""
        usable = [way for way in (self.decoding, *self.alternatives) if not self.records[way.name].dropped]
        if self.chosen:
            return usable[-1], len(rows)
        batch = self.decoding.writer.writing.fitting(max(len(row.prompt) + row.max_tokens for row in rows))
        number = batch if len(rows) >= MEASURED_BATCHES * batch else len(rows)
        size = number.bit_length()
        at_stake = self._at_stake(rows)
        usable = [way for way in usable if way.suits(rows[:number])]
        for way in usable:
            if size not in self.records[way.name].speeds and at_stake >= way.patience:
                return way, number
        return max(usable, key=lambda way: self._rate(way, size)), len(rows)

    def _rate(self, way: WritingWay[Any], size: int) -> float:
        """Return the tokens per second of a way for so many rows, as far as they are known; 0 otherwise."""
        speed = self.records[way.name].speeds.get(size)
        return 0.0 if speed is None else speed.tokens_per_second

    def _at_stake(self, rows: Sequence[Row]) -> float:
        """Return the seconds that are worth saving: those that these rows will take, or those spent so far."""
        if not self.texts:
            return 0.0
        return max(self.seconds, self.seconds / self.texts * len(rows))

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _write_batch(self, way: WritingWay[Any], rows: Sequence[Row]) -> Iterator[Row]:
        """Write rows in a way, and those that it does not take, or fails on, by own decoding."""
        size = len(rows).bit_length()
        if way is self.decoding:
            yield from self._measure(way, rows, size)
            return
        remaining = {id(row): row for row in rows}
        try:
            texts = self._measure(way, [row for row in rows if way.takes(row)], size)
            for row in texts if self.records[way.name].tokens else self._check_texts(way, list(texts)):
                del remaining[id(row)]
                yield row
        except Exception as error:  # whatever transformers, a compiler or a kernel raises
            name, reason = type(error).__name__, one_line(error)[:MAX_REASON_CHARS]
            self._drop(way, reason if reason.startswith(name) else f"{name}: {reason}")
        if remaining:
            way.pause()
        for row in remaining.values():
            row.restart()
        yield from self._measure(self.decoding, list(remaining.values()))

    def _measure(self, way: WritingWay[Any], rows: Sequence[Row], size: int | None = None) -> Iterator[Row]:
        """Write rows in a way, and take note of its speed if the magnitude of their number is given."""
        if not rows:
            return
        texts, tokens, seconds = way.write(rows), 0, 0.0
        while True:
            began = self.clock()
            with within(None):  # a row counts as answered when it has ended
                row = next(texts, None)
            seconds += self.clock() - began
            if row is None:
                break
            tokens += len(row.written)
            yield row
        self.texts += len(rows)
        self._note(way, Speed(tokens, seconds), size)

    def _note(self, way: WritingWay[Any], speed: Speed, size: int | None) -> None:
        record = self.records[way.name]
        record.tokens += speed.tokens
        self.seconds += speed.seconds
        self.last = way.name
        if way.prepares and record.first is None:
            record.first = speed
        elif size is not None:
            record.speeds[size] = speed

    def _check_texts(self, way: WritingWay[Any], rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows of a way's first batch, or none of them if their texts are not the model's."""
        way.pause()  # while a thread uses the model, it must not be used here
        free = [row for row in rows if row.format is None]
        difference = self.disagreement(free[:CHECKED_ROWS]) if free else ""
        if not difference:
            return rows
        self._drop(way, difference)
        self.records[way.name].tokens = 0
        return []

    def _drop(self, way: WritingWay[Any], reason: str) -> None:
        self.records[way.name].dropped = reason
        way.close()
        release_memory()

    def describe(self) -> JSON:
        """Return the budget, in which way the last texts were written, and what is known of each."""
        prepares = {way.name for way in self.alternatives if way.prepares}
        records = {name: record for name, record in self.records.items() if record.tokens or record.dropped}
        ways = {name: record.describe(prepares=name in prepares) for name, record in records.items()}
        description: JSON = {
            "way": self.last,
            "chosen": "by --model_args writing" if self.chosen else "by measurement",
            "ways": ways,
        }
        if self.last and self.chosen not in ("", self.last):
            description["because"] = (
                self.records[self.chosen].dropped or f"{self.chosen} cannot hold these texts to a format"
            )
        hint = {"vllm": VLLM_HINT} if find_spec("vllm") is not None else {}
        return {**self.decoding.writer.writing.describe(), **description, **hint}
