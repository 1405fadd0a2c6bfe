"""One encoder for proverbs and spans (Ghosh and Srivastava 2022, section 5.3). Capabilities: embed (dot), find_spans.

A checkpoint is a folder with

* the encoder and its tokenizer as transformers saves them,
* `joint.safetensors`, the span branch, h being the encoder's width: `joint.weight` (h, 2h), `joint.bias` (h),
  `start.weight` and `end.weight` (1, h), `start.bias` and `end.bias` (1),
* `figeval.json`: `{"kind": "joint", "pooling": "cls", "similarity": "dot"}`. Pooling is cls, mean, pooler or last; the
  similarity by which texts are ranked is dot or cosine (the default); `activation` (tanh, or none as in the authors'
  code, where the given span then makes no difference), `max_span` and `max_length` may be there.

Start and end logits of a token of the text: its state and the pooled vector of the given span, side by side (2h), go
through `joint`, then through `start` and `end`. The text is read alone, the given span too,
and the whole proverb (`known`) is not looked at. The best span is searched as for the backend `spans`, unlike in the
authors' code, which takes start and end separately, loses pairs that are inverted and cuts the last token off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from figeval.hooks import hookimpl
from figeval.models.capabilities import Outputs
from figeval.types import JSON, ScoredSpan, SpanQuery

from ._batching import run_batches
from ._checkpoint import locate, require
from ._declared import with_declared
from ._networks import EncoderSettings, raw_network
from ._neural import Setup, prepare
from ._passages import passages
from ._settings import Configured, one_of, positive
from ._span_branch import ACTIVATIONS, branch_file, branch_logits, load_branch
from ._span_search import RULE, found_spans
from .encoder import Encoder, check_pooling

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar

    from ._networks import EncoderNetwork


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """One name."""
    target = "figeval.builtin.plugins.joint:joint"
    register("joint", target, "one encoder that ranks by its vectors and finds spans by its own branch")


@dataclass(frozen=True, slots=True, kw_only=True)
class JointSettings(EncoderSettings):
    """`max_span` is the longest span in tokens (None: any), `activation` that of the span branch (None: "none")."""

    max_span: int | None = None
    activation: str | None = None

    def __post_init__(self) -> None:
        EncoderSettings.__post_init__(self)
        if self.activation is not None:
            one_of("activation", self.activation, ACTIVATIONS)
        if self.max_span is not None:
            object.__setattr__(self, "max_span", positive("max_span", self.max_span))


class Joint(Encoder):
    """Embeds texts, and finds in a text the stretch that corresponds to a given one."""

    def __init__(self, setup: Setup[EncoderSettings], max_span: int | None, activation: str) -> None:
        super().__init__(setup)
        self.max_span = max_span
        self.activation = activation

    def find_spans(self, requests: Sequence[SpanQuery]) -> Outputs[list[ScoredSpan]]:
        """Per request the best span, by the rule of `best_span`; none in a text without a token.

        A given span that is longer than the model is cut, and reported; texts are read in windows.
        """
        import torch

        network, texts = self.network, [request.text for request in requests]
        found = passages(network.tokenizer, [texts], 0, network.limit)
        pooled = self.pooled([request.given for request in requests])
        given = torch.from_numpy(pooled.values)

        def forward(rows: list[int]) -> Any:
            vectors = given[[found.windows[row].owner for row in rows]].to(self.setup.device)
            with torch.inference_mode():
                batch = found.tokens.tensors(rows, self.setup.device)
                states = network.model(**batch, return_dict=True).last_hidden_state
                logits = branch_logits(self.branch, states, vectors.to(states.dtype), self.activation)
            return found.within(logits.float().cpu().numpy(), rows)

        logits = run_batches(found.tokens.lengths, forward, self.budget)
        return Outputs(found_spans(found, logits, texts, self.max_span), pooled.truncated)

    @cached_property
    def branch(self) -> Any:
        """The span branch, in the encoder's precision and on its device."""
        import torch

        setup, model = self.setup, self.network.model
        branch = load_branch(setup.checkpoint.folder_here(), setup.checkpoint.model, model.config.hidden_size)
        return branch.to(setup.device, getattr(torch, setup.dtype))

    def load(self) -> EncoderNetwork:
        """The encoder with the declared pooling."""
        return raw_network(self.setup)

    def details(self, network: EncoderNetwork) -> JSON:
        """What an encoder says, and how a span is chosen."""
        chosen: JSON = {"activation": self.activation, "max_span": self.max_span, "span": RULE}
        return super().details(network) | chosen

    def close(self) -> None:
        """Forget the weights of both."""
        vars(self).pop("branch", None)
        super().close()


def open_joint(settings: JointSettings) -> Joint:
    """A joint model from a folder or hub id.

    Raises:
        ModelError: no such model, none of this kind, no span branch, no pooling, or what `prepare` refuses.
    """
    checkpoint = locate(settings.model, settings.revision)
    require(checkpoint, "joint")
    settings = with_declared(settings, checkpoint)
    check_pooling(settings, checkpoint)
    if checkpoint.folder is not None:
        branch_file(checkpoint.folder, checkpoint.model)  # before anything heavy is loaded
    setup: Setup[EncoderSettings] = prepare(settings, checkpoint)
    return Joint(setup, settings.max_span, settings.activation or ACTIVATIONS[0])


joint = Configured(JointSettings, open_joint)
