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
from pathlib import Path
from typing import TYPE_CHECKING

from figeval.models.capabilities import Outputs
from figeval.types import JSON, ScoredSpan, SpanQuery

from .batching import run_batches
from .encoder import Encoder, EncoderSettings, raw_network
from .extra_layers import ExtraLayers
from .loading import ModelSetup
from .settings import Configured, one_of, positive
from .span_finder import RULE, found_spans
from .tokens import Floats, passages

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import ModuleDict

    from .encoder import EncoderNetwork

FILE = "joint.safetensors"
LAYERS = ExtraLayers("joint", "a joint model", FILE)
ACTIVATIONS = ("none", "tanh")


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


# ---- the span branch -------------------------------------------------------------------------------------------------


def span_branch(width: int) -> ModuleDict:
    """Three linear layers on an encoder's states (Ghosh and Srivastava 2022, appendix E).

    For states of `width` numbers: `joint` (2 width → width), `start` and `end` (width → 1). In the authors' code
    nothing stands between the layers; a tanh is declared and not used. Then the given span adds the same number to the
    logits of all tokens, a softmax over the tokens does not see it, and all spans of a text come out alike. With
    `tanh` they need not.
    """
    from torch.nn import Linear, ModuleDict

    return ModuleDict({"joint": Linear(2 * width, width), "start": Linear(width, 1), "end": Linear(width, 1)})


def branch_logits(branch: ModuleDict, states: Tensor, vectors: Tensor, activation: str = "none") -> Tensor:
    """Start and end logits, shape (rows, length, 2); `activation` stands behind the first layer.

    `states` (rows, length, width) are the text's, `vectors` (rows, width) stand for the given spans; a token's state
    comes first, the vector second.
    """
    import torch

    beside = vectors.unsqueeze(1).expand_as(states)
    mixed = branch["joint"](torch.cat((states, beside), dim=-1))
    mixed = mixed.tanh() if activation == "tanh" else mixed
    return torch.cat((branch["start"](mixed), branch["end"](mixed)), dim=-1)


def load_branch(folder: Path, model: str, width: int) -> ModuleDict:
    """Return the branch of a checkpoint, in evaluation mode. Raises `ModelError` for other weights than those above."""
    return LAYERS.loaded(span_branch(width), folder, model, f"span branch of width {width}").eval()


# ---- the backend -----------------------------------------------------------------------------------------------------


class JointEncoder(Encoder):
    """Embeds texts, and finds in a text the stretch that corresponds to a given one."""

    def __init__(self, setup: ModelSetup[EncoderSettings], max_span: int | None, activation: str) -> None:
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

        def forward(rows: list[int]) -> list[Floats]:
            vectors = given[[found.windows[row].owner for row in rows]].to(self.setup.device)
            with torch.inference_mode():
                batch = found.tokens.tensors(rows, self.setup.device)
                states = network.model(**batch, return_dict=True).last_hidden_state
                logits = branch_logits(self.branch, states, vectors.to(states.dtype), self.activation)
            return found.within(logits.float().cpu().numpy(), rows)

        logits = run_batches(found.tokens.lengths, forward, self.budget)
        return Outputs(found_spans(found, logits, texts, self.max_span), pooled.truncated)

    @cached_property
    def branch(self) -> ModuleDict:
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


def open_joint(settings: JointSettings) -> JointEncoder:
    """A joint model from a folder or hub id.

    Raises:
        ModelError: no such model, none of this kind, no span branch, no pooling, or what `prepare` refuses.
    """
    settings, setup = LAYERS.prepared(settings)
    return JointEncoder(setup, settings.max_span, settings.activation or ACTIVATIONS[0])


joint = Configured(JointSettings, open_joint)
