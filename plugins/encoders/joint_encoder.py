"""One encoder for proverbs and spans (Ghosh and Srivastava 2022, section 5.3). Capabilities: embed (dot), find_spans.

A checkpoint is a folder with

* the encoder and its tokenizer as transformers saves them,
* `joint.safetensors`, the span branch, where h is the encoder's width: `joint.weight` (h, 2h), `joint.bias` (h),
  `start.weight` and `end.weight` (1, h), `start.bias` and `end.bias` (1),
* `figeval.json`: `{"kind": "joint", "pooling": "cls", "similarity": "dot"}`. Pooling is any that `encoder` has; the
  similarity that ranks texts is dot or cosine (the default). Optional keys are `activation` (tanh, or none as in the
  authors' code, where the given span then makes no difference), `max_span` and `max_length`.

For each token of the text, its state and the pooled vector of the given span are concatenated (2h) and go through
`joint`, then through `start` and `end`. The text and the given span are encoded separately, and the whole proverb
(`known`) is not used. The best span is found as in the backend `spans`. The authors' code differs: it picks start and
end separately, loses inverted pairs and cuts off the last token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from figeval.models.capabilities import Outputs
from figeval.types import JSON, ScoredSpan, SpanQuery

from ..torch_models.loading import ModelSetup
from ..torch_models.overlapping import Copy, fetched_rows
from ..torch_models.settings import Configured, one_of, positive
from ..torch_models.tokens import Floats, passages
from .encoder import Encoder, EncoderSettings, raw_network
from .extra_layers import ExtraLayers
from .span_finder import RULE, find_best_spans

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import ModuleDict

    from .encoder import EncoderNetwork

GIVEN_VECTORS = "given"  # an entry of a batch that is not the model's: vectors of the given spans
FILE = "joint.safetensors"
LAYERS = ExtraLayers("joint", "a joint model", FILE)
ACTIVATIONS = ("none", "tanh")


@dataclass(frozen=True, slots=True, kw_only=True)
class JointSettings(EncoderSettings):
    """Settings of joint encoders.

    Attributes:
        max_span: longest span in tokens; None for any length.
        activation: activation of the span branch; None means "none".
    """

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
    """Return the three linear layers of the span branch (Ghosh and Srivastava 2022, appendix E).

    For states of `width` numbers: `joint` (2 width → width), `start` and `end` (width → 1). The authors' code has
    nothing between the layers; it declares a tanh and does not use it. Without a tanh, the given span adds the same
    number to the logits of all tokens, which a softmax over the tokens cancels, so all spans of a text come out alike.
    With `tanh` they need not.
    """
    from torch.nn import Linear, ModuleDict

    return ModuleDict({"joint": Linear(2 * width, width), "start": Linear(width, 1), "end": Linear(width, 1)})


def branch_logits(branch: ModuleDict, states: Tensor, vectors: Tensor, activation: str = "none") -> Tensor:
    """Return start and end logits, shape (rows, length, 2); `activation` follows the first layer.

    `states` (rows, length, width) are those of the text, `vectors` (rows, width) those of the given spans; the state
    comes first in the concatenation.
    """
    import torch

    expanded = vectors.unsqueeze(1).expand_as(states)
    hidden = branch["joint"](torch.cat((states, expanded), dim=-1))
    hidden = hidden.tanh() if activation == "tanh" else hidden
    return torch.cat((branch["start"](hidden), branch["end"](hidden)), dim=-1)


def load_branch(folder: Path, model: str, width: int) -> ModuleDict:
    """Return the branch of a checkpoint in evaluation mode. Raises `ModelError` if its weights do not fit."""
    return LAYERS.load_into(span_branch(width), folder, model, f"span branch of width {width}").eval()


# ---- the backend -----------------------------------------------------------------------------------------------------


class JointEncoder(Encoder):
    """A joint model: embeds texts, and finds the span of a text that corresponds to a given one."""

    def __init__(self, setup: ModelSetup[EncoderSettings], max_span: int | None, activation: str) -> None:
        super().__init__(setup)
        self.max_span = max_span
        self.activation = activation

    def find_spans(self, requests: Sequence[SpanQuery]) -> Outputs[list[ScoredSpan]]:
        """Return the best span per request by the rule of `best_span`; no span for a text without tokens.

        A given span that exceeds the model's limit is truncated and reported; texts are read in windows.
        """
        import torch

        network, texts = self.network, [request.text for request in requests]
        windows = passages(network.tokenizer, [texts], 0, network.limit)
        given_outputs = self.pool_texts([request.given for request in requests])
        given_vectors = torch.from_numpy(given_outputs.values)

        def prepare(rows: list[int]) -> dict[str, Tensor]:
            return {
                **windows.tokens.on_host(rows),
                GIVEN_VECTORS: given_vectors[[windows.windows[row].owner for row in rows]],
            }

        def start(batch: dict[str, Tensor], _rows: list[int]) -> Copy:
            vectors = batch.pop(GIVEN_VECTORS)
            with torch.inference_mode():
                states = network.model(**batch, return_dict=True).last_hidden_state
                logits = branch_logits(self.branch, states, vectors.to(states.dtype), self.activation)
                return Copy(logits.float())

        def fetch(logits: Copy, rows: list[int]) -> list[Floats]:
            return windows.crop(fetched_rows(logits, rows), rows)

        logits = self.read_batches(windows.tokens.lengths, prepare, start, fetch)
        return Outputs(find_best_spans(windows, logits, texts, self.max_span), given_outputs.truncated)

    @cached_property
    def branch(self) -> ModuleDict:
        """The span branch, in the encoder's precision and on its device."""
        import torch

        setup, model = self.setup, self.network.model
        branch = load_branch(setup.checkpoint.folder_here(), setup.checkpoint.model, model.config.hidden_size)
        return branch.to(setup.device, getattr(torch, setup.dtype))

    def load(self) -> EncoderNetwork:
        """Load the encoder with the declared pooling."""
        return raw_network(self.setup)

    def details(self, network: EncoderNetwork) -> JSON:
        """Return the details of the encoder, and the settings that select a span."""
        span_settings: JSON = {"activation": self.activation, "max_span": self.max_span, "span": RULE}
        return super().details(network) | span_settings

    def close(self) -> None:
        """Release the weights of encoder and branch."""
        vars(self).pop("branch", None)
        super().close()


def open_joint(settings: JointSettings) -> JointEncoder:
    """Open a joint model from a folder or hub id.

    Raises:
        ModelError: no such model, one of another kind, no span branch, no pooling, or a setting that `prepare` rejects.
    """
    settings, setup = LAYERS.prepare(settings)
    return JointEncoder(setup, settings.max_span, settings.activation or ACTIVATIONS[0])


joint = Configured(JointSettings, open_joint)
