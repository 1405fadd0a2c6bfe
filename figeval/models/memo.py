"""Outputs remembered within a process, so that what recurs is computed once: the 250 proverbs that every narrative
is held against, a premise with several hypotheses, the narratives that four tasks share.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from figeval.types import Request


def failed(output: Any) -> bool:
    """Whether an output says that there is none: a reply that ended by `error`. Asked again, there may be one."""
    return getattr(output, "finish", "") == "error"


class Memo:
    """The outputs of the last `limit` different requests; bounded, so memory does not grow with the data."""

    def __init__(self, limit: int = 16_384) -> None:
        self.limit = limit
        self._outputs: OrderedDict[Request, tuple[Any, bool]] = OrderedDict()

    def get(self, request: Request) -> tuple[Any, bool] | None:
        """(output, truncated), or None if the request is not remembered."""
        found = self._outputs.get(request)
        if found is not None:
            self._outputs.move_to_end(request)
        return found

    def update(self, answers: Mapping[Request, tuple[Any, bool]]) -> None:
        """Remember the answers of a batch, forgetting those longest unused.

        A batch that would push out everything else is not kept: of 600,000 pairs none recurs soon enough.
        """
        if len(answers) > self.limit:
            return
        self._outputs.update(answers)
        while len(self._outputs) > self.limit:
            self._outputs.popitem(last=False)

    def clear(self) -> None:
        """Forget everything: a backend that was fitted anew answers differently."""
        self._outputs.clear()
