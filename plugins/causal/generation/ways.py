"""The ways in which a model's rows can be written on an accelerator, each faster than the others for some models.

| way | rows | before the first text |
|---|---|---|
| `own` | come and go (`decoder`) | nothing |
| `generate` | whole batches of transformers, with a cache that grows | nothing |
| `continuous` | come and go, in transformers' continuous batching | seconds: pages, and CUDA graphs |
| `static` | whole batches of one shape, with a pass that transformers compiles | tens of seconds: the compiler |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from figeval.types import JSON

from ...torch_models.batching import TokenBudget
from ..engine.bodies import arguments_of
from ..strategies import OTHER_WAYS
from .continuous import Continuous
from .decoder import Decoder
from .row import Row
from .trials import tolerance
from .whole_batches import FixedShape, WholeBatches

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

MEASURING_SECONDS = 10.0  # of writing that are at stake before another way, which may be slower, is tried
COMPILING_SECONDS = 60.0  # the same before a pass is compiled: 20 to 30 s pay if texts then take half the time
COMPILING_DEVICES = ("cuda", "xpu")  # transformers compiles on these
CHECKED_TOKENS = 256  # of a text that is compared with the model: the scores of more need much memory
MAX_BATCHES = 2  # of a fixed shape that is smaller than memory allows
COLUMN_MULTIPLE = 128  # a fixed shape has a multiple of so many columns, so that texts a little longer fit as well


class Writer(Protocol):
    """Writes texts."""

    def write(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Continue rows up to their ends, and yield each when it has ended."""

    def describe(self) -> JSON:
        """Return what the record says about how rows are written."""


W = TypeVar("W", bound=Writer)


@dataclass(slots=True)
class WritingWay(Generic[W]):
    """One way of writing rows.

    Attributes:
        name: "own" or one of `OTHER_WAYS`.
        writer: what writes.
        patience: seconds of writing that must be at stake before it is tried.
        prepares: whether it needs time before the first text, which its speed does not count.
    """

    name: str
    writer: W
    patience: float = 0.0
    prepares: bool = False

    def takes(self, _row: Row) -> bool:
        return True

    def suits(self, rows: Sequence[Row]) -> bool:
        """Return whether it is worth a try on these rows: it takes half of them or more."""
        return 2 * sum(map(self.takes, rows)) >= len(rows)

    def write(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Continue rows that it takes up to their ends, and yield each when it has ended."""
        return self.writer.write(rows)

    def pause(self) -> None:
        """Release what the next call can make again in little time."""

    def close(self) -> None:
        """Release everything: the way is not used any more."""


class StaticWay(WritingWay[WholeBatches]):
    """Batches of one shape, that of the first ones."""

    def suits(self, rows: Sequence[Row]) -> bool:
        """Return whether it takes half of the rows or more, without many batches where memory allows one."""
        shape, budget = self.writer.fixed, self.writer.writing
        batches = 1 if shape is None else len(rows) / shape.rows
        fills = shape is not None and budget.tokens // (shape.read + shape.written) <= shape.rows
        return (batches <= MAX_BATCHES or fills) and WritingWay.suits(self, rows)

    def takes(self, row: Row) -> bool:
        """Return whether a row is about as short as the first ones."""
        return self.writer.fixed is None or self.writer.fixed.fits(row)

    def write(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Continue rows like `WritingWay.write`; the first call chooses the shape."""
        if self.writer.fixed is None:
            self.writer.fixed = shape = shape_for(rows, self.writer.writing)
            self.writer.writing = TokenBudget(self.writer.writing.tokens, shape.rows)
        return self.writer.write(rows)

    def close(self) -> None:
        """Release the cache."""
        self.writer.fixed = None


class ContinuousWay(WritingWay[Continuous]):
    """Continuous batching, which can neither hold rows to formats nor draw their tokens."""

    def takes(self, row: Row) -> bool:
        return row.format is None and row.draws is None

    def pause(self) -> None:
        """Release the pages."""
        self.writer.close()

    def close(self) -> None:
        """Release the pages."""
        self.writer.close()


def way_of(name: str, decoder: Decoder, padding: int) -> WritingWay[Any]:
    """Return a way by its name, for a model whose rows may come and go."""
    if name == "continuous":
        return ContinuousWay(
            name, Continuous(decoder.model, replace(decoder.writing)), MEASURING_SECONDS, prepares=True
        )
    batches = WholeBatches(
        decoder.model, replace(decoder.writing), padding, f"writing={name}", decoder.autocast, decoder.grouped
    )
    if name == "static":
        return StaticWay(name, batches, COMPILING_SECONDS, prepares=True)
    return WritingWay(name, batches, MEASURING_SECONDS)


def shape_for(rows: Sequence[Row], budget: TokenBudget) -> FixedShape:
    """Return the shape of a batch with all of these rows, or with as many as a budget allows."""
    prompt_tokens, text_tokens = max(len(row.prompt) for row in rows), max(row.max_tokens for row in rows)
    prompt_tokens += -(prompt_tokens + text_tokens) % COLUMN_MULTIPLE
    return FixedShape(
        budget.rows or min(budget.fitting(prompt_tokens + text_tokens), next_power(len(rows))),
        prompt_tokens,
        text_tokens,
    )


def next_power(number: int) -> int:
    """Return the smallest power of 2 that is no less than a positive number."""
    return 1 << (number - 1).bit_length()


def refusal(name: str, decoder: Decoder) -> str:
    """Return why a model cannot be written for in a way, or "" if it can."""
    if name == "continuous" and decoder.processors:
        return "the generation config changes scores"
    if name == "continuous" and decoder.autocast is not None:
        return "mixed_precision_dtype"
    if name != "generate" and is_distributed(decoder.model):
        return "several devices"
    return ""


def disagreement(decoder: Decoder, rows: Sequence[Row]) -> str:
    """Return how far the texts of rows are from those of the model, or "" if that is rounding: two tokens may be equal.

    Args:
        decoder: own decoding of the model.
        rows: rows that have ended and have no formats.
    """
    import torch

    if decoder.processors:  # which transformers' loop applies itself
        return ""
    gap = torch.cat([_gaps(decoder, row) for row in rows]).mean().item()
    return "" if gap <= tolerance(decoder) else f"its tokens are {gap:.2g} nats below those of the model"


def _gaps(decoder: Decoder, row: Row) -> Tensor:
    """Return how far the tokens of a row are behind the likeliest ones, or those to be drawn, in a plain pass."""
    import torch

    model, text_ids = decoder.model, row.written[:CHECKED_TOKENS]
    ids = torch.tensor([[*row.prompt, *text_ids]], device=model.device)
    keep = {"logits_to_keep": len(text_ids) + 1} if "logits_to_keep" in arguments_of(type(model).forward) else {}
    autocast = torch.autocast(ids.device.type, decoder.autocast, enabled=decoder.autocast is not None)
    with torch.inference_mode(), autocast:
        scores = model(input_ids=ids, **keep).logits[0, -len(text_ids) - 1 : -1].float()
    if row.draws is not None:
        return row.draws.lag(scores, text_ids)
    return scores.max(-1).values - scores.gather(-1, ids[0, len(row.prompt) :, None])[:, 0]


def worth_trying(decoder: Decoder) -> list[str]:
    """Return the names of the ways that are tried on a model: none on a CPU, where own decoding is faster."""
    device = decoder.model.device.type
    if device == "cpu":
        return []
    names = OTHER_WAYS if device in COMPILING_DEVICES else ("generate",)
    return [name for name in names if not refusal(name, decoder)]


def is_distributed(model: PreTrainedModel) -> bool:
    """Return whether a model's layers are on several devices."""
    return len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1
