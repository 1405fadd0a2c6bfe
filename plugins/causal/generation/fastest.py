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
from figeval.models.devices import release_memory
from figeval.models.progress import within
from figeval.types import JSON

from ...torch_models.loading import one_line
from .decoder import Decoder
from .row import Row
from .ways import Way, Writer, disagreement, refusal, way_of, worth_trying

CHECKED_ROWS = 4  # of the first batch of a way, whose texts are compared with the model
REASON = 200  # characters of an error in the record
BATCHES = 3  # rows of so many batches are more than a measurement needs
VLLM = "vLLM is installed: --model vllm:NAME writes with it"


def fastest(own: Writer, padding: int, name: str = "auto") -> Writer:
    """Return a writer that writes as own decoding does, in the way of a name, or in the fastest one ("auto").

    Args:
        own: writer of a model; if its rows cannot come and go, it is the only one.
        padding: id of a token that fills rows up.
        name: "own", one of `OTHER_WAYS`, or "auto".

    Raises:
        ModelError: the model's rows cannot come and go, and `name` is another way than "generate".
    """
    if not isinstance(own, Decoder):
        if name not in ("auto", "generate"):
            raise ModelError(f"writing={name}: texts of this model are written by generate alone; leave out writing")
        return own
    if name == "own":
        return own
    names = worth_trying(own) if name == "auto" else [name]
    if not names:
        return own
    others = [way_of(each, own, padding) for each in names]
    found = Fastest(Way("own", own), others, partial(disagreement, own), "" if name == "auto" else name)
    for each in names:
        found.tried[each].dropped = refusal(each, own)
    return found


@dataclass(slots=True)
class Speed:
    """The texts that were last written in a way."""

    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the texts per second."""
        return self.tokens / max(self.seconds, 1e-9)


@dataclass(slots=True)
class Tried:
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
        rates = {f"{1 << size - 1} rows or more": round(one.tokens_per_second) for size, one in self.speeds.items()}
        found: JSON = {"tokens": self.tokens, "tokens_per_second": rates}
        if prepares and self.first is not None:
            found["first_batch_seconds"] = round(self.first.seconds, 1)
        return found | ({"dropped": self.dropped} if self.dropped else {})


@dataclass(slots=True)
class Fastest:
    """A writer of texts that chooses among several ways.

    Attributes:
        own: own decoding, which writes what no other way can.
        others: other ways, in the order in which they are tried.
        chosen: the way that the user has chosen, which is one of `others`; "" for the fastest.
        disagreement: function of some rows that returns how far their texts are from the model's, or "".
        clock: time in seconds.
    """

    own: Way[Decoder]
    others: Sequence[Way[Any]]
    disagreement: Callable[[Sequence[Row]], str]
    chosen: str = ""
    clock: Callable[[], float] = time.perf_counter
    tried: dict[str, Tried] = field(default_factory=lambda: defaultdict(Tried))
    seconds: float = 0.0  # spent on writing so far
    texts: int = 0
    last: str = ""

    def write(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Continue rows up to their ends, and yield each when it has ended.

        Raises:
            ModelError: memory runs out and the batch cannot be halved.
        """
        left = list(rows)
        try:
            while left:
                way, number = self.choice(left)
                batch, left = left[:number], left[number:]
                yield from self._written(way, batch)
        finally:
            for way in self.others:
                way.pause()

    # ---- the choice --------------------------------------------------------------------------------------------------

    def choice(self, rows: Sequence[Row]) -> tuple[Way[Any], int]:
        """Return in which way the next rows are written, and how many of them."""
        usable = [way for way in (self.own, *self.others) if not self.tried[way.name].dropped]
        if self.chosen:
            return usable[-1], len(rows)
        batch = self.own.writer.writing.fitting(max(len(row.prompt) + row.most for row in rows))
        number = batch if len(rows) >= BATCHES * batch else len(rows)
        size = number.bit_length()
        at_stake = self._at_stake(rows)
        usable = [way for way in usable if way.suits(rows[:number])]
        for way in usable:
            if size not in self.tried[way.name].speeds and at_stake >= way.patience:
                return way, number
        return max(usable, key=lambda way: self._rate(way, size)), len(rows)

    def _rate(self, way: Way[Any], size: int) -> float:
        """Return the tokens per second of a way for so many rows, as far as they are known; 0 otherwise."""
        speed = self.tried[way.name].speeds.get(size)
        return 0.0 if speed is None else speed.tokens_per_second

    def _at_stake(self, rows: Sequence[Row]) -> float:
        """Return the seconds that are worth saving: those that these rows will take, or those spent so far."""
        if not self.texts:
            return 0.0
        return max(self.seconds, self.seconds / self.texts * len(rows))

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _written(self, way: Way[Any], rows: Sequence[Row]) -> Iterator[Row]:
        """Write rows in a way, and those that it does not take, or fails on, by own decoding."""
        size = len(rows).bit_length()
        if way is self.own:
            yield from self._measured(way, rows, size)
            return
        left = {id(row): row for row in rows}
        try:
            texts = self._measured(way, [row for row in rows if way.takes(row)], size)
            for row in texts if self.tried[way.name].tokens else self._checked(way, list(texts)):
                del left[id(row)]
                yield row
        except Exception as error:  # whatever transformers, a compiler or a kernel raises
            name, reason = type(error).__name__, one_line(error)[:REASON]
            self._drop(way, reason if reason.startswith(name) else f"{name}: {reason}")
        if left:
            way.pause()
        for row in left.values():
            row.restart()
        yield from self._measured(self.own, list(left.values()))

    def _measured(self, way: Way[Any], rows: Sequence[Row], size: int | None = None) -> Iterator[Row]:
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

    def _note(self, way: Way[Any], speed: Speed, size: int | None) -> None:
        tried = self.tried[way.name]
        tried.tokens += speed.tokens
        self.seconds += speed.seconds
        self.last = way.name
        if way.prepares and tried.first is None:
            tried.first = speed
        elif size is not None:
            tried.speeds[size] = speed

    def _checked(self, way: Way[Any], rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows of a way's first batch, or none of them if their texts are not the model's."""
        way.pause()  # while a thread uses the model, it must not be used here
        free = [row for row in rows if row.format is None]
        difference = self.disagreement(free[:CHECKED_ROWS]) if free else ""
        if not difference:
            return rows
        self._drop(way, difference)
        self.tried[way.name].tokens = 0
        return []

    def _drop(self, way: Way[Any], reason: str) -> None:
        self.tried[way.name].dropped = reason
        way.close()
        release_memory()

    def describe(self) -> JSON:
        """Return the budget, in which way the last texts were written, and what is known of each."""
        prepares = {way.name for way in self.others if way.prepares}
        tried = {name: one for name, one in self.tried.items() if one.tokens or one.dropped}
        ways = {name: one.describe(prepares=name in prepares) for name, one in tried.items()}
        found: JSON = {
            "way": self.last,
            "chosen": "by --model_args writing" if self.chosen else "by measurement",
            "ways": ways,
        }
        if self.last and self.chosen not in ("", self.last):
            found["because"] = self.tried[self.chosen].dropped or f"{self.chosen} cannot hold these texts to a format"
        hint = {"vllm": VLLM} if find_spec("vllm") is not None else {}
        return {**self.own.writer.writing.describe(), **found, **hint}
