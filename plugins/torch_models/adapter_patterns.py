"""Patterns in an adapter's configuration, replaced by the names of the modules that they match.

peft matches `target_modules` and its like, which may be regular expressions of a stranger, with `re`: on some of them
it would never end, and a faulty one is an exception of its own. Here they are matched within a time limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import regex

from .adapters import ADAPTER_CONFIG

if TYPE_CHECKING:
    from peft import PeftConfig

MAX_SECONDS = 3.0  # for all patterns and modules of an adapter; those of real ones take milliseconds
MAX_CHARS = 100_000
ALL_LINEAR = "all-linear"  # peft's word for all linear modules
NAME_PATTERNS = ("target_modules", "exclude_modules", "feedforward_modules")
VALUES_BY_PATTERN = ("rank_pattern", "alpha_pattern")


def expand_patterns(config: PeftConfig, names: Sequence[str]) -> None:
    """Replace the patterns of a configuration by the names that they match, as peft matches them.

    Args:
        config: peft's configuration of an adapter, which is changed.
        names: names of all modules of the model.

    Raises:
        ValueError: a pattern is no regular expression, or matching takes too long.
    """
    deadline = time.monotonic() + MAX_SECONDS
    for option in NAME_PATTERNS:
        pattern = getattr(config, option, None)
        if isinstance(pattern, str) and pattern.lower() != ALL_LINEAR:
            setattr(config, option, _matching(pattern, names, option, deadline))
    for option in VALUES_BY_PATTERN:
        if values := getattr(config, option, None):
            setattr(config, option, _values_by_name(values, names, option, deadline))
    layers = getattr(config, "layers_pattern", None) or ()
    for name in [layers] if isinstance(layers, str) else layers:
        if not regex.fullmatch(r"[\w.]+", str(name)):
            raise ValueError(f"{ADAPTER_CONFIG}: layers_pattern {name!r:.80} is not the name of a list of layers")


def _values_by_name(values: Mapping[str, Any], names: Sequence[str], option: str, deadline: float) -> dict[str, Any]:
    """Return the value of each module that a pattern matches with the end of its name; the first pattern counts."""
    by_name: dict[str, Any] = {}
    for pattern, value in values.items():
        module_names = _matching(rf"(?:.*\.)?(?:{pattern})", names, option, deadline)
        by_name |= {name: value for name in module_names if name not in by_name}
    return {rf"^{regex.escape(name)}": value for name, value in by_name.items()}


def _matching(pattern: str, names: Sequence[str], option: str, deadline: float) -> list[str]:
    """Return the names that a pattern matches as a whole."""
    if len(pattern) > MAX_CHARS:
        raise ValueError(f"{ADAPTER_CONFIG}: {option} is longer than {MAX_CHARS:,} characters")
    try:
        expression = regex.compile(pattern)
        return [
            name for name in names if expression.fullmatch(name, timeout=max(math.ulp(1), deadline - time.monotonic()))
        ]
    except TimeoutError as error:
        raise ValueError(f"{ADAPTER_CONFIG}: matching {option} takes more than {MAX_SECONDS:.0f} seconds") from error
    except regex.error as error:
        raise ValueError(f"{ADAPTER_CONFIG}: {option} is no regular expression ({error})") from error
