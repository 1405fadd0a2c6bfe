"""What the models of this package are asked: figeval hands such requests to the method that `capability` names."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class TagTokens:
    """One of `tags` for each of `tokens`: `model.tag_tokens(requests)` returns a list of tags per request."""

    capability: ClassVar[str] = "tag_tokens"
    tokens: tuple[str, ...]
    tags: tuple[str, ...]
