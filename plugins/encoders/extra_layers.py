"""Layers on an encoder that transformers does not save, kept in a separate file of the model's folder.

`figeval.json` declares the kind of such a model and its pooling; the file holds the weights of the layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from figeval.errors import ModelError

from ..torch_models.checkpoint import locate, require, with_declared
from ..torch_models.faults import load_errors, one_line
from ..torch_models.loading import ModelSetup, prepare
from .encoder import EncoderSettings, check_pooling

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    M = TypeVar("M", bound=Module)

S = TypeVar("S", bound=EncoderSettings)


@dataclass(frozen=True, slots=True)
class ExtraLayers:
    """The extra layers of one kind of model.

    Attributes:
        kind: the kind as `figeval.json` declares it.
        title: name of the kind in messages, e.g. "a joint model".
        file: name of the file.
    """

    kind: str
    title: str
    file: str

    def path(self, folder: Path, model: str) -> Path:
        """Return the path of the weights. Raises `ModelError` if there is no such file."""
        path = folder / self.file
        if not path.is_file():
            raise ModelError(
                f"{model!r} is declared as {self.title}, but has no {self.file}; save it again, or use 'encoder'"
            )
        return path

    def load_into(self, layers: M, folder: Path, model: str, description: str) -> M:
        """Return the given fresh layers with the weights of a checkpoint loaded.

        Raises:
            ModelError: the weights do not fit the layers, which the message calls `description`.
        """
        from safetensors.torch import load_file

        try:
            layers.load_state_dict(load_file(self.path(folder, model)))
        except load_errors() as error:
            raise ModelError(f"{self.file} of {model!r} is not a {description}: {one_line(error)}") from error
        return layers

    def save(self, weights: Mapping[str, Tensor], folder: Path) -> None:
        """Write the weights under the layers' own names."""
        from safetensors.torch import save_file

        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / self.file)

    def prepare(self, settings: S) -> tuple[S, ModelSetup[EncoderSettings]]:
        """Return the settings, completed by what the checkpoint declares, and the setup of its backend.

        Raises:
            ModelError: no such model, one of another kind, no layers, no pooling, or a setting that `prepare` rejects.
        """
        checkpoint = locate(settings.model, settings.revision, settings.base)
        require(checkpoint, self.kind)
        settings = with_declared(settings, checkpoint)
        check_pooling(settings, checkpoint)
        if checkpoint.folder is not None:
            self.path(checkpoint.folder, checkpoint.model)  # before anything heavy is loaded
        setup: ModelSetup[EncoderSettings] = prepare(settings, checkpoint)
        return settings, setup
