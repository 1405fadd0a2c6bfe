"""Encoders of transformers that read rows of different lengths without padding.

Embeddings are computed for padded rows, so that positions and types of tokens are right whatever their rule. Before the
stack of layers, the states of all tokens are laid end to end; attention within each row gets along without padding
(`rows`); after the stack they are padded again, with zeros, so that poolers and heads see what they always see.

Nobody lists the models that can be read so. The first batch on an accelerator decides: a few of its rows are read with
and without padding, and both results, and gradients in training, are compared with those in single precision. A model
that does not come as close without padding as with it, or that fails, goes on being padded. One that fails in a later
batch is padded from there on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from figeval.models.devices import is_exhausted, release_memory
from figeval.models.learner import WITHOUT_PADDING
from figeval.types import JSON

from .precision import computing_in
from .rows import KERNELS, LAYOUT, MASK, NAME, Kernel, Layout, lengths_of, register

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module, Parameter
    from transformers import PreTrainedModel
    from transformers.utils.generic import ModelOutput

SAMPLE_ROWS = 4  # of different lengths
# How far states without padding may be from those in single precision: so many times as far as padded ones, or, as a
# part of their size, as far as kernels differ in single precision.
MAX_ERROR_RATIO, MAX_RELATIVE_ERROR = 3.0, 1e-4
SMALL_WEIGHTS = 65_536  # numbers of a tensor whose gradient is compared: biases, norms, adapters
# Arguments of an encoder that need padded rows: states of every layer, or those of another text.
PADDED_ONLY = ("output_hidden_states", "output_attentions", "encoder_hidden_states")

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
Readings: TypeAlias = "list[Tensor]"  # states (tokens, d), pooled states (rows, d), gradients (n,)
METHOD_MARK = "figeval_way"  # attribute of a mask: how the batch was read last
READER = "figeval_reader"  # attribute of an encoder: its UnpaddedReader, or why it has none


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
        setattr(body, READER, reason if stack is None else UnpaddedReader(body, stack, kernels))
    reader = getattr(body, READER)
    return reader if isinstance(reader, str) else ""


def describe_padding(model: Module) -> JSON:
    """Return whether a model has read rows with padding, for the record; empty if that was never a question."""
    reader = next((getattr(module, READER) for module in model.modules() if hasattr(module, READER)), None)
    reason = reader.reason if isinstance(reader, UnpaddedReader) else reader
    if reason is None:
        return {}
    return {"padding": f"to the longest ({reason})" if reason else "none"}


def stack_of(body: Module) -> Module | None:
    """Return the module that runs all layers of an encoder on the states of its embeddings, if there is one."""
    from torch.nn import ModuleList

    stacks = [child for child in body.children() if any(isinstance(part, ModuleList) for part in child.children())]
    return stacks[0] if len(stacks) == 1 else None


class ReadingMethod(NamedTuple):
    """Reading of a batch: by a kernel, which may have failed, or with padding."""

    kernel: Kernel | None
    fails: bool = False


class Conditions(NamedTuple):
    """Conditions that decide, beside a model, whether a kernel is right."""

    kind: str  # of device
    precision: torch.dtype
    is_trained: bool  # with gradients of its weights
    is_training: bool  # in the mode of training, with dropout


class Turn:
    """A lock that the threads of a model take in turn; a copied or pickled model has one of its own."""

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()


@dataclass(eq=False)
class UnpaddedReader:
    """Work of an encoder before and after its layers so that they read rows end to end.

    Attributes:
        body: the encoder.
        stack: the part of it that runs the layers.
        kernels: kernels by kind of device.
        verdicts: the kernel that is right under given conditions, or why none is.
        undecided: batches that were read under conditions without a verdict, because memory ran out in the trial.
        layout: the rows that the encoder is reading without padding.
        turn: held while a batch is read. A trial changes modes and weights of the encoder for a moment, and whoever
            reads sets the layout, so two threads would disturb one another. They share the device anyway.
        forward: the method of the encoder that this takes the place of. A hook would not do, because
            sentence-transformers calls the method itself.
    """

    body: Module
    stack: Module
    kernels: Mapping[str, Sequence[Kernel]]
    verdicts: dict[Conditions, Kernel | str] = field(default_factory=dict)
    undecided: Counter[Conditions] = field(default_factory=Counter)
    layout: Layout | None = None
    turn: Turn = field(default_factory=Turn)
    forward: Callable[..., ModelOutput] = field(init=False)

    def __post_init__(self) -> None:
        # Without padding the mask is dropped on purpose. The method would warn of that, and wait for the device.
        self.body.warn_if_padding_and_no_attention_mask = do_nothing
        self.forward = self.body.forward
        self.body.forward = update_wrapper(partial(self._read_batch), self.forward)
        self.stack.register_forward_pre_hook(self._lay_end_to_end, with_kwargs=True)
        self.stack.register_forward_hook(self._pad)

    @property
    def reason(self) -> str | None:
        """Why rows are padded: empty if they are not, None if nothing is known yet."""
        reasons = [verdict if isinstance(verdict, str) else "" for verdict in self.verdicts.values()]
        return min(reasons, default="memory ran out in its trial" if self.undecided else None)

    # ---- one batch --------------------------------------------------------------------------------------------------

    def _read_batch(self, *args: Any, **kwargs: Any) -> ModelOutput:
        """Read a batch, without padding if that is possible."""
        import torch

        if torch.compiler.is_compiling() or self.body.device.type not in self.kernels:
            return self.forward(*args, **kwargs)
        with self.turn:
            mask = kwargs.get(MASK)
            # A batch may be too short for a sample of rows of different lengths.
            if mask is None or mask.ndim != 2 or mask.shape[1] < SAMPLE_ROWS or needs_padding(self.body, kwargs):
                return self.forward(*args, **kwargs)
            return self._read_by_verdict(args, kwargs)

    def _read_by_verdict(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelOutput:
        """Read a batch by the kernel for it; with padding if there is none, or if it fails.

        A batch that is computed again in the backward pass takes the same way, whatever the verdict is by then.
        """
        import torch

        mask, conditions = kwargs[MASK], self._conditions()
        is_again = torch._C._current_graph_task_id() != -1  # a backward pass is going on
        earlier_method: ReadingMethod | None = getattr(mask, METHOD_MARK, None) if is_again else None
        method = earlier_method or ReadingMethod(self._kernel(conditions, args, kwargs))
        setattr(mask, METHOD_MARK, method)
        if method.kernel is not None:
            try:
                return self._read_end_to_end(method.kernel, args, kwargs)
            except Exception as error:
                # Checkpoints of torch end what is computed again by an exception.
                if is_exhausted(error) or (is_again and not method.fails):
                    raise
                reason = describe_error(error)
        output = self.forward(*args, **kwargs)
        if method.kernel is not None and not is_again:  # padded rows can be read, so it was the kernel's fault
            setattr(mask, METHOD_MARK, ReadingMethod(method.kernel, fails=True))
            self.verdicts[conditions] = reason
            self._declare(conditions, without_padding=False)
        return output

    def _read_end_to_end(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelOutput:
        """Read a batch without padding; nobody needs its mask."""
        mask = kwargs[MASK]
        lengths = lengths_of(mask)
        if min(lengths) == 0:
            return self.forward(*args, **kwargs)
        if min(lengths) < mask.shape[1]:
            self.layout = Layout.of(mask, lengths, kernel)
        try:
            return self.forward(*args, **{**kwargs, MASK: None})
        finally:
            self.layout = None

    def _lay_end_to_end(self, _stack: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
        if self.layout is None:
            return None
        further = {**kwargs, LAYOUT: self.layout}
        if args:
            return (self.layout.end_to_end(args[0]), *args[1:]), further
        return args, {**further, "hidden_states": self.layout.end_to_end(kwargs["hidden_states"])}

    def _pad(self, _stack: Module, _args: tuple[Any, ...], output: ModelOutput) -> ModelOutput:
        if self.layout is not None:
            output.last_hidden_state = self.layout.pad(output.last_hidden_state)
            self.layout = None
        return output

    # ---- the decision -----------------------------------------------------------------------------------------------

    def _conditions(self) -> Conditions:
        import torch

        kind = self.body.device.type
        precision = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else self.body.dtype
        is_trained = torch.is_grad_enabled() and any(weight.requires_grad for weight in self.body.parameters())
        return Conditions(kind, precision, is_trained, self.body.training or self.stack.training)

    def _kernel(self, conditions: Conditions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kernel | None:
        """Return the kernel for a batch, tried out if it is the first under its conditions; None if it is padded.

        If memory runs out in a trial, that says nothing about the kernel. It is tried again with the first, second,
        fourth, eighth … batch that follows, so that trials that never fit take little time.
        """
        if conditions not in self.verdicts and self.undecided[conditions].bit_count() <= 1:
            try:
                self.verdicts[conditions] = self._choose_kernel(sample_of(args, kwargs), conditions)
            except Exception as error:  # whatever it is, padded rows are right
                if not is_exhausted(error):
                    self.verdicts[conditions] = describe_error(error)
            release_memory()
        if conditions in self.verdicts:
            self.undecided.pop(conditions, None)
        else:
            self.undecided[conditions] += 1
        verdict = self.verdicts.get(conditions, "")
        self._declare(conditions, without_padding=not isinstance(verdict, str))
        return None if isinstance(verdict, str) else verdict

    def _declare(self, conditions: Conditions, *, without_padding: bool) -> None:
        """Let trainings know whether rows are padded, also those of a head on a frozen encoder."""
        import torch

        if conditions.is_training or torch.is_grad_enabled():
            setattr(self.body, WITHOUT_PADDING, without_padding)

    def _choose_kernel(self, sample: Arguments, conditions: Conditions) -> Kernel | str:
        """Return the first kernel that reads a sample right, or why none does."""
        if any(hasattr(weight, "full_tensor") or hasattr(weight, "ds_id") for weight in self.body.parameters()):
            return "its weights are sharded"
        implementation = self.body.config._attn_implementation
        if implementation not in ("sdpa", NAME):
            return "it has an attention of its own"
        register()
        # The gradient of embeddings is left alone: a step may share their lookup among its batches.
        weights = self.stack.parameters() if conditions.is_trained else ()
        trained_weights = [weight for weight in weights if weight.requires_grad and weight.numel() <= SMALL_WEIGHTS]
        read_sample = partial(self._readings, sample, trained_weights)
        with without_traces(self.body) as modes:
            padded = read_sample(None)
            with single_precision(self.body):
                truth = read_sample(None)
            fault = ""
            for kernel in self.kernels[conditions.kind]:
                self.body.eval()
                with self._attention(NAME):
                    fault = self._fault(
                        partial(read_sample, kernel), padded, truth, modes if conditions.is_training else {}
                    )
                if not fault:
                    self.body.config._attn_implementation = NAME  # a layer may be computed again in the backward pass
                    return kernel
            return fault

    def _fault(
        self, read_sample: Callable[[], Readings], padded: Readings, truth: Readings, modes: Mapping[Module, bool]
    ) -> str:
        """Return what is wrong with the readings without padding: empty if nothing is."""
        try:
            readings = read_sample()
            if not all(map(is_close, readings, padded, truth)):
                return "its states differ without padding"
            for module, mode in modes.items():  # dropout and gradient checkpointing have to work, too
                module.training = mode
            if modes:
                read_sample()
        except Exception as error:  # a kernel that lacks something
            if is_exhausted(error):
                raise
            return describe_error(error)
        return ""

    def _readings(self, sample: Arguments, weights: Sequence[Parameter], kernel: Kernel | None) -> Readings:
        """Return what the encoder makes of a sample: states of tokens, pooled states, and gradients of some weights.

        Hooks of others do not see the sample, since they may know the batch that it is from.
        """
        import torch

        mask = sample[1][MASK].bool()
        with torch.set_grad_enabled(bool(weights)):
            output = self.forward(*sample[0], **sample[1]) if kernel is None else self._read_end_to_end(kernel, *sample)
            states, pooled = output.last_hidden_state[mask].float(), getattr(output, "pooler_output", None)
            readings = [states] if pooled is None else [states, pooled.float()]
            return [reading.detach() for reading in readings] + ([gradients(states, weights)] if weights else [])

    @contextmanager
    def _attention(self, implementation: str) -> Iterator[None]:
        """Compute attention in this context by the function of a name."""
        config = self.body.config
        original = config._attn_implementation
        config._attn_implementation = implementation
        try:
            yield
        finally:
            config._attn_implementation = original


def do_nothing(*_: object) -> None:
    """Take the place of a method."""


def describe_error(error: Exception) -> str:
    """Return the class of an error and the beginning of its message, in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"


def itself(tensor: Tensor) -> Tensor:
    return tensor


def needs_padding(body: Module, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a batch has to be read with padding: states of all layers, or of another text, are wanted."""
    return any(kwargs.get(name, getattr(body.config, name, None)) not in (None, False) for name in PADDED_ONLY)


# ---- the trial -------------------------------------------------------------------------------------------------------


def sample_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
    """Return a few rows of a batch, cut to different lengths by their mask."""
    import torch

    mask = kwargs[MASK]
    rows, longest = mask.shape
    indexes = torch.arange(SAMPLE_ROWS, device=mask.device) % rows
    lengths = longest * torch.arange(SAMPLE_ROWS, 0, -1, device=mask.device) // SAMPLE_ROWS
    sample_mask = (torch.arange(longest, device=mask.device) < lengths.unsqueeze(1)).to(mask.dtype)

    def take_rows(value: Any) -> Any:
        is_batched = isinstance(value, torch.Tensor) and value.ndim > 0 and len(value) == rows
        return value.index_select(0, indexes) if is_batched else value

    return tuple(map(take_rows, args)), {
        **{name: take_rows(value) for name, value in kwargs.items()},
        MASK: sample_mask,
    }


def gradients(states: Tensor, weights: Sequence[Parameter]) -> Tensor:
    """Return the gradients of a sum of states with respect to some weights, whose own gradients stay as they are."""
    import torch

    loss = (states * torch.arange(states.numel(), device=states.device).view_as(states).sin()).sum()
    gradients_of_weights = torch.autograd.grad(loss, list(weights), allow_unused=True)
    return torch.cat([gradient.flatten().float() for gradient in gradients_of_weights if gradient is not None])


def is_close(reading: Tensor, padded: Tensor, truth: Tensor) -> bool:
    """Return whether readings are about as close to those in single precision as those of padded rows."""

    def size(values: Tensor) -> Tensor:
        return values.square().mean(-1).sqrt().max()  # of the worst row

    return bool(size(reading - truth) <= MAX_ERROR_RATIO * size(padded - truth) + MAX_RELATIVE_ERROR * size(truth))


@contextmanager
def without_traces(body: Module) -> Iterator[dict[Module, bool]]:
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
