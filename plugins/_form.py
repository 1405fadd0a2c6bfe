"""The form in which a model that writes is given its inputs. As it was trained, so it is asked: both use this module.

    encoder-decoder    proverb SEP keyword SEP keyword …, and what its tokenizer puts around every text
    causal             proverb SEP keyword SEP keyword … MARKER, and the text comes after it

It is the form of Ghosh and Srivastava (2022, Table 11) with the tokenizer's own separator. Their code puts "<s>" before
all inputs, which T5 does not know: it read its unknown token there. That is not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from figeval.errors import ModelError
from figeval.types import Input

from ._tokens import IDS, Tokens, padding_of, tokenize

Values = Mapping[str, Input]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """`inputs` are the names of what is read, in order (none: all, as they come); `marker` is for causal models."""

    separator: str
    marker: str = ""
    inputs: tuple[str, ...] = ()

    def text(self, values: Values) -> str:
        """Inputs as one text. Raises `ModelError` for one that the model was trained with and does not get."""
        for name in self.inputs:
            if name not in values:
                raise ModelError(f"the model writes from {', '.join(self.inputs)}, and the task has no {name!r}")
        given = (values[name] for name in self.inputs or values)
        return self.separator.join(text for one in given for text in ((one,) if isinstance(one, str) else one))


def names_of(inputs: str | Sequence[str]) -> tuple[str, ...]:
    """Names of inputs, listed or as a+b."""
    return tuple(inputs.split("+") if isinstance(inputs, str) else inputs)


def form_of(
    tokenizer: Any, separator: str | None, inputs: Sequence[str] | None, *, causal: bool, marker: str | None
) -> Form:
    """The form that was asked for; by default the separator is the tokenizer's own, the marker of a causal model two.

    Raises:
        ModelError: the tokenizer has none, and none was asked for.
    """
    own = separator or tokenizer.sep_token or tokenizer.eos_token
    if own is None:
        raise ModelError("the tokenizer has no token that separates texts; say separator=…")
    after = (2 * own if marker is None else marker) if causal else ""
    return Form(separator=own, marker=after, inputs=tuple(inputs or ()))


def encoder_prompts(tokenizer: Any, form: Form, values: Sequence[Values], limit: int | None) -> Tokens:
    """What an encoder reads; what is too long loses its end."""
    return tokenize(tokenizer, [form.text(one) for one in values], limit)


def causal_prompts(tokenizer: Any, form: Form, values: Sequence[Values], limit: int | None) -> Tokens:
    """What a causal model reads before it writes, up to and with the marker.

    At most half of `limit`, so that there is room for a text; inputs lose their end. Raises `ModelError` for a marker
    that is no token.
    """
    before, after = opening(tokenizer), bare_ids(tokenizer, [form.marker])[0]
    if not after:
        raise ModelError(f"the tokenizer makes no token of marker={form.marker!r}; choose another one")
    room = None if limit is None else limit // 2 - len(before) - len(after)
    bodies = bare_ids(tokenizer, [form.text(one) for one in values])
    cut = frozenset(row for row, ids in enumerate(bodies) if room is not None and len(ids) > room)
    return Tokens({IDS: [[*before, *ids[:room], *after] for ids in bodies]}, padding_of(tokenizer), cut)


def bare_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Texts as token ids, with nothing around them."""
    return list(tokenizer(list(texts), add_special_tokens=False, verbose=False)[IDS])


def opening(tokenizer: Any) -> list[int]:
    """What the tokenizer begins every text with."""
    return [token for token in tokenizer("", verbose=False)[IDS] if token != tokenizer.eos_token_id]


def causal_room(limit: int | None, asked: int) -> int:
    """How many tokens a causal model may write, whatever its prompt."""
    return asked if limit is None else min(asked, limit - limit // 2)
