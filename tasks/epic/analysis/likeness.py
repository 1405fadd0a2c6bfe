"""Comparison of proverbs that share words with the lists of near-duplicates that were made by reading."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from figeval.records.findings import AnalysedNumber

from .. import duplicates
from .corpus import AnalysedTexts
from .language import content_stems
from .part import Analysis

MIN_JACCARD = 1 / 3
METHOD = "Jaccard of the Porter stems of content words (without NLTK's stop words)"


def analyse(corpus: AnalysedTexts) -> Analysis:
    """Count the pairs of proverbs above the threshold, and how many of them are on each list."""
    candidates = candidate_pairs(corpus)
    strict, generous = (
        {frozenset((proverb, partner)) for proverb, partners in relation.items() for partner in partners}
        for relation in (duplicates.near_duplicates(), duplicates.defensible())
    )
    pairs = {frozenset(candidate["proverbs"]) for candidate in candidates}
    above = f"{METHOD} of at least {MIN_JACCARD:.2f}"
    findings = [
        AnalysedNumber(name="candidate pairs", value=len(pairs), definition=above),
        AnalysedNumber(name="of them listed as paraphrases", value=len(pairs & strict), definition=above),
        AnalysedNumber(name="of them listed as defensible", value=len(pairs & generous), definition=above),
        AnalysedNumber(
            name="pairs listed as paraphrases", value=len(strict), definition="the same lesson; compiled by hand"
        ),
        AnalysedNumber(
            name="pairs listed as defensible",
            value=len(generous),
            definition="doubtful pairs included; compiled by hand",
        ),
    ]
    details = {"candidates": candidates, "paraphrases": duplicates.read_lists()["paraphrases"]["groups"]}
    return Analysis(name="Near-duplicate proverbs", findings=findings, details=details)


def candidate_pairs(corpus: AnalysedTexts) -> list[dict[str, Any]]:
    """Return the pairs above the threshold, most similar first."""
    stems = dict(zip(corpus.proverbs, content_stems(corpus.proverbs.values()), strict=True))
    pairs = []
    for first, second in combinations(corpus.proverbs, 2):
        union = stems[first] | stems[second]
        jaccard = len(stems[first] & stems[second]) / len(union) if union else 0.0
        if jaccard >= MIN_JACCARD:
            paraphrase = second in duplicates.near_duplicates().get(first, ())
            is_defensible = second in duplicates.defensible().get(first, ())
            pair = {"proverbs": [first, second], "jaccard": round(jaccard, 4)}
            pairs.append({**pair, "paraphrase": paraphrase, "defensible": is_defensible})
    return sorted(pairs, key=lambda pair: -pair["jaccard"])
