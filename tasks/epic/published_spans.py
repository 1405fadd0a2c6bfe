"""Task type that scores spans as the code of Ghosh and Srivastava (2022) does: against the gold span of another row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from figeval import OptionalTextField, SpanExample
from figeval.task_types.spans import Spans


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSpanExample(SpanExample):
    """A spans example that is scored against `reference`; `gold` stays the right stretch of its own text."""

    reference: Annotated[
        str | None, OptionalTextField("The text that an answered span is compared with; null to use the gold span.")
    ] = None

    @property
    def answer(self) -> str | None:
        """The reference, or the text of the gold span if there is none."""
        if self.reference is not None or self.gold is None:
            return self.reference
        return self.text[self.gold.start : self.gold.end]


class PublishedSpans(Spans):
    """Find a stretch of a text as `spans` does, and be scored against another row's gold span, as in ePiC's code."""

    name = "epic_published_spans"
    Example = PublishedSpanExample
    template = f"_default/{Spans.name}.jinja"  # the questions are the same
