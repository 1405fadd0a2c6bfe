"""The modules of a sentence-transformers checkpoint: whether the classes that its files name are code of others.

A checkpoint may name classes in Python files that lie beside its weights. sentence-transformers before 6.0 runs them
without asking if the checkpoint is a folder, as a downloaded one is, too. So the names are checked before the library
sees the files: code that comes with a checkpoint only runs with `trust_remote_code=true`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from figeval.errors import ModelError
from figeval.io.json_files import read_json
from figeval.io.text import clean

from ..torch_models.checkpoint import CONFIG, MODULES, Checkpoint

LIBRARY = "sentence_transformers."
# Classes of PyLate that the library reads as its own.
ALIASES = frozenset({"pylate.models.Dense.Dense"})
ROUTERS = ("Router", "Asym")
ROUTES = ("router_config.json", CONFIG)  # files that may name the classes of a router's routes


def check_modules(checkpoint: Checkpoint, *, trusted: bool) -> None:
    """Check that a checkpoint needs no code of its own; nothing is checked if its code is trusted.

    Raises:
        ModelError: it does, or a file is damaged.
    """
    foreign = None if trusted else next(_foreign_code(checkpoint), None)
    if foreign is not None:
        raise ModelError(
            f"{checkpoint.model!r} needs code that comes with it ({clean(foreign)!r:.80}), which is not run; use a "
            "checkpoint of classes that sentence-transformers and transformers have"
        )


def _foreign_code(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the names of classes that are in neither library."""
    modules = _read(checkpoint, MODULES)
    modules = [] if modules is None else modules
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise ModelError(f"{MODULES} of {checkpoint.model!r} is no list of modules; save or download the model again")
    yield from _foreign_architecture(checkpoint.config)
    for module in modules:
        yield from _foreign_module(checkpoint, str(module.get("type", "")), str(module.get("path") or ""))


def _foreign_module(checkpoint: Checkpoint, name: str, folder: str) -> Iterator[str]:
    """Yield the names of classes that are in neither library, of a module and the modules to which it routes texts."""
    if not _is_of_library(name):
        yield name
    if folder.startswith(("/", "\\")) or ".." in folder:
        yield folder
        return
    prefix = f"{folder}/" if folder else ""
    is_router = name.endswith(ROUTERS)
    for config in (_read(checkpoint, prefix + file) for file in (ROUTES if is_router else (CONFIG,))):
        if not isinstance(config, dict):
            continue
        yield from _foreign_architecture(config)
        types = config.get("types") if is_router else None
        for route, kind in types.items() if isinstance(types, dict) else ():
            if route.strip("./"):
                yield from _foreign_module(checkpoint, str(kind), prefix + route)
            else:  # the folder of the router itself
                yield str(kind)


def _is_of_library(name: str) -> bool:
    """Return whether a class is one of sentence-transformers."""
    return name.startswith(LIBRARY) or name in ALIASES


def _foreign_architecture(config: dict[str, Any]) -> Iterator[str]:
    """Yield the class of a config for which transformers has none of its own."""
    auto_map = config.get("auto_map")
    if not isinstance(auto_map, dict) or not auto_map:
        return
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if config.get("model_type") not in CONFIG_MAPPING_NAMES:
        yield str(next(iter(auto_map.values())))


def _read(checkpoint: Checkpoint, name: str) -> Any:
    """Return the content of a JSON file of a checkpoint; None if there is no such file."""
    path = checkpoint.path(name)
    if path is None or not path.is_file():
        return None
    return read_json(path, ModelError, cure="save or download the model again")
