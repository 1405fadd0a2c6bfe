"""Encoders of transformers that read rows of different lengths without padding.

Embeddings are computed for padded rows, so that positions and types of tokens are right whatever their rule. Before the
stack of layers, the states of all tokens are laid end to end; attention within each row gets along without padding
(`rows`); after the stack they are padded again, with zeros, so that poolers and heads see what they always see.

Nobody lists the models that can be read so. The first batch on an accelerator decides: a few of its rows are read with
and without padding, and both results, and gradients in training, are compared with those in single precision. A model
that does not come as close without padding as with it, or that fails, goes on being padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.training.contract import WITHOUT_PADDING
from figeval.types import JSON

from .batching import release_memory
from .precision import computing_in
from .rows import KERNELS, LAYOUT, MASK, NAME, Kernel, Layout, lengths_of, register

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, Parameter
    from transformers import PreTrainedModel
    from transformers.utils.generic import ModelOutput

SAMPLE_ROWS = 4  # of different lengths
# How far states without padding may be from those in single precision: so many times as far as padded ones, or, as a
# part of their size, as far as kernels differ in single precision.
FACTOR, FLOOR = 3.0, 1e-4
SMALL_WEIGHTS = 65_536  # numbers of a tensor whose gradient is compared: biases, norms, adapters
# Arguments of an encoder that need padded rows: states of every layer, or those of another text.
PADDED_ONLY = ("output_hidden_states", "output_attentions", "encoder_hidden_states")

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
Readings: TypeAlias = "list[Tensor]"  # states (tokens, d), pooled states (rows, d), gradients (n,)
READER = "figeval_reader"  # attribute of an encoder: its RowReader, or why it has none


def read_without_padding(model: PreTrainedModel, kernels: Mapping[str, Sequence[Kernel]] = KERNELS) -> str:
    """Let the encoder of a model read rows without padding where that gives the same states.

    It takes effect on devices that have kernels for it, and once the first batch there has shown that it is right.

    Args:
        model: an encoder, or a head on one.
        kernels: kernels by kind of device, the best first.

    Returns:
        Why this architecture cannot be read so; empty if it may be.
    """
    body = model.base_model
    if not hasattr(body, READER):
        stack = stack_of(body)
        reason = "its layers are not a module of their own"
        setattr(body, READER, reason if stack is None else RowReader(body, stack, kernels))
    reader = getattr(body, READER)
    return reader if isinstance(reader, str) else ""


def describe_padding(model: Module) -> JSON:
    """Return whether a model has read rows with padding, for the record; empty if that was never a question."""
    reader = next((getattr(module, READER) for module in model.modules() if hasattr(module, READER)), None)
    why = reader.reason if isinstance(reader, RowReader) else reader
    if why is None:
        return {}
    return {"padding": f"to the longest ({why})" if why else "none"}


def stack_of(body: Module) -> Module | None:
    """Return the module that runs all layers of an encoder on the states of its embeddings, if there is one."""
    from torch.nn import ModuleList

    stacks = [child for child in body.children() if any(isinstance(part, ModuleList) for part in child.children())]
    return stacks[0] if len(stacks) == 1 else None


@dataclass(eq=False)
class RowReader:
    """What an encoder does before and after its layers so that they read rows end to end.

    Attributes:
        body: the encoder.
        stack: the part of it that runs the layers.
        kernels: kernels by kind of device.
        verdicts: the kernel that is right under given conditions (precision, gradients), or why none is.
        layout: the rows that the encoder is reading without padding.
        trial: during a trial, the kernel that is tried, or None for padded rows.
        forward: the method of the encoder that this takes the place of. A hook would not do, because
            sentence-transformers calls the method itself.
    """

    body: Module
    stack: Module
    kernels: Mapping[str, Sequence[Kernel]]
    verdicts: dict[tuple[object, ...], Kernel | str] = field(default_factory=dict)
    layout: Layout | None = None
    trial: list[Kernel | None] = field(default_factory=list)
    forward: Callable[..., ModelOutput] = field(init=False)

    def __post_init__(self) -> None:
        # Without padding the mask is dropped on purpose. The method would warn of that, and wait for the device.
        self.body.warn_if_padding_and_no_attention_mask = do_nothing
        self.forward = self.body.forward
        self.body.forward = update_wrapper(partial(self._read), self.forward)
        self.stack.register_forward_pre_hook(self._lay_end_to_end, with_kwargs=True)
        self.stack.register_forward_hook(self._pad)

    @property
    def reason(self) -> str | None:
        """Why rows are padded: empty if they are not, None if nothing is known yet."""
        reasons = [verdict if isinstance(verdict, str) else "" for verdict in self.verdicts.values()]
        return min(reasons, default=None)

    # ---- one batch --------------------------------------------------------------------------------------------------

    def _read(self, *args: Any, **kwargs: Any) -> ModelOutput:
        """Read a batch; without padding, nobody needs its mask."""
        self.layout = None
        mask = kwargs.get(MASK)
        if mask is None or mask.ndim != 2 or needs_padding(self.body, kwargs):
            return self.forward(*args, **kwargs)
        kernel = self.trial[-1] if self.trial else self._kernel(args, kwargs)
        lengths = lengths_of(mask) if kernel is not None else [0]
        if kernel is None or min(lengths) == 0:
            return self.forward(*args, **kwargs)
        if min(lengths) < mask.shape[1]:
            self.layout = Layout.of(mask, lengths, kernel)
        return self.forward(*args, **{**kwargs, MASK: None})

    def _lay_end_to_end(self, _stack: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
        if self.layout is None:
            return None
        further = {**kwargs, LAYOUT: self.layout}
        if args:
            return (self.layout.end_to_end(args[0]), *args[1:]), further
        return args, {**further, "hidden_states": self.layout.end_to_end(kwargs["hidden_states"])}

    def _pad(self, _stack: Module, _args: tuple[Any, ...], output: ModelOutput) -> ModelOutput:
        if self.layout is not None:
            output.last_hidden_state = self.layout.padded(output.last_hidden_state)
            self.layout = None
        return output

    # ---- the decision -----------------------------------------------------------------------------------------------

    def _kernel(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kernel | None:
        """Return the kernel for a batch, tried out if it is the first under its conditions; None if it is padded."""
        import torch

        mask = kwargs[MASK]
        kind = mask.device.type
        if kind not in self.kernels or mask.shape[1] < SAMPLE_ROWS:  # too short for rows of different lengths
            return None
        is_trained = torch.is_grad_enabled() and any(each.requires_grad for each in self.body.parameters())
        precision = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else self.body.dtype
        conditions = (kind, precision, is_trained)
        if conditions not in self.verdicts:
            try:
                self.verdicts[conditions] = self._tried(sample_of(args, kwargs), is_trained)
            except Exception as error:  # whatever it is, padded rows are right
                self.verdicts[conditions] = named(error)
            release_memory()
            if is_trained:
                setattr(self.body, WITHOUT_PADDING, not isinstance(self.verdicts[conditions], str))
        verdict = self.verdicts[conditions]
        return None if isinstance(verdict, str) else verdict

    def _tried(self, sample: Arguments, is_trained: bool) -> Kernel | str:
        """Return the first kernel that reads a sample right, or why none does."""
        if any(hasattr(each, "full_tensor") or hasattr(each, "ds_id") for each in self.body.parameters()):
            return "its weights are sharded"
        implementation = self.body.config._attn_implementation
        if implementation not in ("sdpa", NAME):
            return "it has an attention of its own"
        register()
        # The gradient of embeddings is left alone: a step may share their lookup among its batches.
        weights = self.stack.parameters() if is_trained else ()
        trained = [each for each in weights if each.requires_grad and each.numel() <= SMALL_WEIGHTS]
        read = partial(self._readings, sample, trained)
        with undisturbed(self.body) as modes:
            with self._trying(None, implementation):
                padded = read()
                with single_precision(self.body):
                    truth = read()
            why = ""
            for kernel in self.kernels[sample[1][MASK].device.type]:
                self.body.eval()
                with self._trying(kernel, NAME):
                    why = self._fault(read, padded, truth, modes if is_trained else {})
                if not why:
                    self.body.config._attn_implementation = NAME  # a layer may be computed again in the backward pass
                    return kernel
            return why

    def _fault(self, read: partial[Readings], padded: Readings, truth: Readings, modes: Mapping[Module, bool]) -> str:
        """Return what is wrong with the readings without padding: empty if nothing is."""
        try:
            found = read()
            if not all(map(is_close, found, padded, truth)):
                return "its states differ without padding"
            for module, mode in modes.items():  # dropout and gradient checkpointing have to work, too
                module.training = mode
            if modes:
                read()
        except Exception as error:  # a kernel that lacks something
            return named(error)
        return ""

    def _readings(self, sample: Arguments, trained: Sequence[Parameter]) -> Readings:
        """Return what the encoder makes of a sample: states of tokens, pooled states, and gradients of some weights.

        Hooks of others do not see the sample, since they may know the batch that it is from.
        """
        import torch

        mask = sample[1][MASK].bool()
        with torch.set_grad_enabled(bool(trained)):
            output = self._read(*sample[0], **sample[1])
            states, pooled = output.last_hidden_state[mask].float(), getattr(output, "pooler_output", None)
            found = [states] if pooled is None else [states, pooled.float()]
            return [each.detach() for each in found] + ([gradients(states, trained)] if trained else [])

    @contextmanager
    def _trying(self, kernel: Kernel | None, implementation: str) -> Iterator[None]:
        """Read everything in this context with a kernel, or padded."""
        config = self.body.config
        before = config._attn_implementation
        config._attn_implementation = implementation
        self.trial.append(kernel)
        try:
            yield
        finally:
            self.trial.pop()
            self.layout = None  # left by a kernel that failed
            config._attn_implementation = before


def do_nothing(*_: object) -> None:
    """Take the place of a method."""


def named(error: Exception) -> str:
    """Return the class of an error and the beginning of its message, in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"


def itself(tensor: Tensor) -> Tensor:
    """Return the tensor."""
    return tensor


def needs_padding(body: Module, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a batch has to be read with padding: states of all layers are wanted, or the model is compiled."""
    import torch

    wanted = any(kwargs.get(name, getattr(body.config, name, None)) not in (None, False) for name in PADDED_ONLY)
    return wanted or torch.compiler.is_compiling()


# ---- the trial -------------------------------------------------------------------------------------------------------


def sample_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    """Return a few rows of a batch, cut to different lengths by their mask."""
    import torch

    mask = kwargs[MASK]
    rows, longest = mask.shape
    chosen = torch.arange(SAMPLE_ROWS, device=mask.device) % rows
    lengths = longest * torch.arange(SAMPLE_ROWS, 0, -1, device=mask.device) // SAMPLE_ROWS
    cut = (torch.arange(longest, device=mask.device) < lengths.unsqueeze(1)).to(mask.dtype)

    def some(value: Any) -> Any:
        whole = isinstance(value, torch.Tensor) and value.ndim > 0 and len(value) == rows
        return value.index_select(0, chosen) if whole else value

    return tuple(map(some, args)), {**{name: some(value) for name, value in kwargs.items()}, MASK: cut}


def gradients(states: Tensor, weights: Sequence[Parameter]) -> Tensor:
    """Return the gradients of a sum of states with respect to some weights, whose own gradients stay as they are."""
    import torch

    loss = (states * torch.arange(states.numel(), device=states.device).view_as(states).sin()).sum()
    found = torch.autograd.grad(loss, list(weights), allow_unused=True)
    return torch.cat([each.flatten().float() for each in found if each is not None])


def is_close(found: Tensor, padded: Tensor, truth: Tensor) -> bool:
    """Return whether readings are about as close to those in single precision as those of padded rows."""

    def size(values: Tensor) -> Tensor:
        return values.square().mean(-1).sqrt().max()  # of the worst row

    return bool(size(found - truth) <= FACTOR * size(padded - truth) + FLOOR * size(truth))


@contextmanager
def undisturbed(body: Module) -> Iterator[dict[Module, bool]]:
    """Evaluate a model in this context without traces: random numbers, modes; yields the modes of its modules.

    Where a batch is computed again in the backward pass, that is not told of what is saved here for a gradient.
    """
    import torch
    from torch.autograd.graph import saved_tensors_hooks

    modes = {module: module.training for module in body.modules()}
    device = body.device
    random = torch.random.fork_rng([device] if device.type == "cuda" else [])
    with torch.inference_mode(False), random, saved_tensors_hooks(itself, itself):
        body.eval()
        try:
            yield modes
        finally:
            for module, mode in modes.items():
                module.training = mode
            torch.clear_autocast_cache()  # half-precision weights of the trial may be without gradient


@contextmanager
def single_precision(body: Module) -> Iterator[None]:
    """Compute in single precision in this context, whatever the precision of the weights and of the passes."""
    import torch

    with torch.autocast(body.device.type, enabled=False), computing_in(body, torch.float32):
        yield
