"""What a model can do. A capability is a method of the backend **object** (roberta-large without an NLI head has no
`label_pairs`), taking a list of requests of one class and returning as many outputs in the same order.

| method | request | output |
|---|---|---|
| `embed` | `Text` | vector, shape (d,); all of one call as an array (n, d) |
| `score_pairs` | `TextPair` | float, higher is closer |
| `label_pairs` | `PairLabel` | {label: probability}, summing to 1; a tuple where several classes mean the label |
| `loglikelihood` | `Continuation` | float, Σ log P(token), natural logarithm |
| `fill` | `Cloze` | tuple of floats, log P(word in the gap), parallel to `words` |
| `generate` | `Prompt` | `Reply`, or a plain str |
| `find_spans` | `SpanQuery` | `ScoredSpan`s, best first; none where nothing was found |
| `write` | `Inputs` | a text from named inputs without a prompt: `Reply`, or a plain str |

Optional methods: `fit(examples)` is called once per task before its first request, with every example of the task's
`prior` split (its train or test split where there is none; an attribute `fit_splits` names others);
`fingerprint()` returns a string that changes with the weights; `describe()` returns a JSON object for the record
(device, dtype, maximum length …); `close()` frees memory. `chat(messages)` returns a conversation as text with the
header of the answer, and is there only while a chat template is switched on; an attribute `converses` says whether
prompts are answered as conversations where that cannot be guessed (see `Model.converses`). `estimate(prompts)` returns
a line that is shown before the first of them is asked; an attribute `at_once` says how many examples the model can
well be asked about together, however slow it is. `source()` returns the folder with the weights where the name of the
model does not say it; `parts`, of a model made of several, maps their roles to them (`Model`). An attribute
`similarity = "dot"` says that the vectors of `embed` are to be compared by their dot product, as they were in training;
it counts as a capability, `dot`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from figeval.types import Cloze, Continuation, Inputs, PairLabel, Prompt, Request, SpanQuery, Text, TextPair

CAPABILITIES: dict[type, str] = {
    Text: "embed",
    TextPair: "score_pairs",
    PairLabel: "label_pairs",
    Continuation: "loglikelihood",
    Cloze: "fill",
    Prompt: "generate",
    SpanQuery: "find_spans",
    Inputs: "write",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outputs(Generic[T]):
    """Outputs of one call that want to say more: `truncated` holds the indexes whose input did not fit the model.

    A capability may return this or any plain sequence.
    """

    values: Sequence[T]
    truncated: frozenset[int] = field(default_factory=frozenset)


def capabilities(backend: Any) -> frozenset[str]:
    """The capabilities that a backend object offers."""
    offered = frozenset(name for name in CAPABILITIES.values() if callable(getattr(backend, name, None)))
    return offered | {"dot"} if "embed" in offered and getattr(backend, "similarity", "") == "dot" else offered


def ask(backend: Any, requests: Sequence[Request]) -> Outputs[Any]:
    """Send requests of one class to the method that serves them; the answer has one value per request.

    Raises:
        RuntimeError: the backend answered with another number of outputs than it was asked for.
    """
    name = CAPABILITIES[type(requests[0])]
    answer = getattr(backend, name)(requests)
    outputs = answer if isinstance(answer, Outputs) else Outputs(answer)
    if len(outputs.values) != len(requests):
        raise RuntimeError(
            f"{type(backend).__name__}.{name} returned {len(outputs.values)} outputs for {len(requests)} requests"
        )
    return outputs
