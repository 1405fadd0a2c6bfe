"""Long texts as several inputs: each shows a stretch of the text, neighbours share half of it, nothing is cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from figeval.errors import ModelError

from ._tokens import IDS, TYPES, Tokens, padding_of

LEAST = 16  # tokens of a longer text that a window has to show


@dataclass(frozen=True, slots=True)
class Window:
    """One input: `count` tokens of the text `owner` from its token `first` on, at places `at` … of the input."""

    owner: int
    at: int
    first: int
    count: int

    @property
    def shown(self) -> slice:
        """Which tokens of the text it shows."""
        return slice(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True)
class Passages:
    """Texts as inputs of a model: input w is `windows[w]`; `places[i]` are the characters of the tokens of text i."""

    tokens: Tokens
    windows: list[Window]
    places: list[list[tuple[int, int]]]

    def within(self, outputs: Any, rows: Sequence[int]) -> list[Any]:
        """Of the outputs for these inputs, shape (rows, length, k), those for tokens of the text, (count, k) each."""
        windows = [self.windows[row] for row in rows]
        return [output[w.at : w.at + w.count] for w, output in zip(windows, outputs, strict=True)]

    def joined(self, outputs: Sequence[Any]) -> list[Any]:
        """Per text the outputs for all its tokens, shape (tokens, k), from those of its windows.

        What several windows show is taken from the one in which most stands around it on both sides, as in the
        SQuAD code of BERT (Devlin et al. 2019). So every token has one output, and a long text is searched as a whole.
        """
        import numpy as np

        width = outputs[0].shape[1] if outputs else 0
        whole = [np.empty((len(places), width)) for places in self.places]
        context = [np.full(len(places), -1) for places in self.places]
        for window, output in zip(self.windows, outputs, strict=True):
            places = np.arange(window.count)
            around = np.minimum(places, places[::-1])
            better = np.flatnonzero(around > context[window.owner][window.shown])
            whole[window.owner][window.first + better] = output[better]
            context[window.owner][window.first + better] = around[better]
        return whole


def passages(tokenizer: Any, sides: Sequence[Sequence[str]], side: int, limit: int | None) -> Passages:
    """Texts as inputs of at most `limit` tokens: alone, or as side 0 or 1 of pairs of texts.

    `sides` are one list of texts, or two of the same length; those of `sides[side]` are shown in windows where they
    are too long, what stands on the other side is in every window.

    Raises:
        ModelError: what stands on the other side leaves no room.
    """
    names = [name for name in (IDS, TYPES) if name == IDS or (len(sides) > 1 and name in tokenizer.model_input_names)]
    encoded = tokenizer(
        *map(list, sides),
        truncation=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        return_token_type_ids=TYPES in names,
        verbose=False,
    )
    fields: dict[str, list[Sequence[int]]] = {name: [] for name in names}
    windows: list[Window] = []
    places: list[list[tuple[int, int]]] = []
    for owner, offsets in enumerate(encoded["offset_mapping"]):
        own = [place for place, which in enumerate(encoded.sequence_ids(owner)) if which == side]
        places.append([tuple(offsets[place]) for place in own])
        for window in _windows(owner, own, len(offsets) - len(own), limit):
            windows.append(window)
            for name in names:
                fields[name].append(_shown(encoded[name][owner], window, own))
    return Passages(Tokens(fields, padding_of(tokenizer)), windows, places)


def _windows(owner: int, own: Sequence[int], others: int, limit: int | None) -> Iterator[Window]:
    """The windows of one text, whose tokens stand at the places `own` beside `others` of other kinds.

    Neighbours share half: a stretch of up to half a window stands whole in one of them, with something around it.
    """
    n = len(own)
    room = n if limit is None else min(n, limit - others)
    if room < min(n, LEAST):
        raise ModelError(
            f"an input has {others} tokens beside its text, which leaves room for {max(0, room)} of the {n} of the "
            f"text in max_length={limit}; raise that, or take a model that reads more"
        )
    if n:
        for first in (*range(0, n - room, room - room // 2), n - room):
            yield Window(owner, own[0], first, room)


def _shown(row: Sequence[int], window: Window, own: Sequence[int]) -> Sequence[int]:
    """An input with only those tokens of the text that the window shows."""
    text = row[own[0] : own[-1] + 1]
    return [*row[: own[0]], *text[window.shown], *row[own[-1] + 1 :]]
