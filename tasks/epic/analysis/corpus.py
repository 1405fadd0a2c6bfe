"""The data that the analysis reads: narratives, proverbs and aligned spans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from figeval.data import DataContext

from .. import epic_rows
from ..alignment import SpanPair, read_pairs

FILE = "full_dataset.json"


@dataclass(frozen=True, slots=True)
class AnalysedTexts:
    """Texts as epic_rows.py cleans them, in file order; `spans` holds the non-empty pairs as annotated."""

    narratives: Mapping[str, str]  # "Q12N3" → text
    proverbs: Mapping[str, str]  # "Q12" → text
    spans: Mapping[str, tuple[SpanPair, ...]]  # "Q12N3" → its pairs

    def by_proverb(self) -> dict[str, list[str]]:
        """Map each proverb id to the ids of its narratives."""
        narrative_ids: dict[str, list[str]] = defaultdict(list)
        for key in self.narratives:
            narrative_ids[epic_rows.proverb_of(key)].append(key)
        return {key: narrative_ids[key] for key in self.proverbs}


def read(context: DataContext) -> AnalysedTexts:
    """Return the whole dataset. Raises `DataError` if it is not available."""
    texts = epic_rows.read_corpus(context)
    spans = {key: tuple(pairs) for key, pairs in read_pairs(context).items()}
    return AnalysedTexts(texts.narratives, texts.proverbs, spans)
