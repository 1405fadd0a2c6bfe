"""Comparison of proverbs that share words with the lists of near-duplicates that were made by reading."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from .. import duplicates
from .corpus import AnalysedTexts
from .language import content_stems
from .part import AnalysedNumber, Analysis

ENOUGH = 1 / 3
METHOD = "Jaccard of the Porter stems of content words (without NLTK's stop words)"


def analyse(corpus: AnalysedTexts) -> Analysis:
    """Count the pairs of proverbs above the threshold, and how many of them are on each list."""
    candidates = candidate_pairs(corpus)
    strict, generous = (
        {frozenset((one, other)) for one, others in relation.items() for other in others}
        for relation in (duplicates.near_duplicates(), duplicates.defensible())
    )
    found = {frozenset(one["proverbs"]) for one in candidates}
    above = f"{METHOD} of at least {ENOUGH:.2f}"
    findings = [
        AnalysedNumber(name="candidate pairs", value=len(found), definition=above),
        AnalysedNumber(name="of them listed as paraphrases", value=len(found & strict), definition=above),
        AnalysedNumber(name="of them listed as defensible", value=len(found & generous), definition=above),
        AnalysedNumber(
            name="pairs listed as paraphrases", value=len(strict), definition="the same lesson; compiled by hand"
        ),
        AnalysedNumber(
            name="pairs listed as defensible",
            value=len(generous),
            definition="doubtful pairs included; compiled by hand",
        ),
    ]
    details = {"candidates": candidates, "paraphrases": duplicates.listed()["paraphrases"]["groups"]}
    return Analysis(name="Near-duplicate proverbs", findings=findings, details=details)


def candidate_pairs(corpus: AnalysedTexts) -> list[dict[str, Any]]:
    """Return the pairs above the threshold, most similar first."""
    stems = dict(zip(corpus.proverbs, content_stems(corpus.proverbs.values()), strict=True))
    found = []
    for one, other in combinations(corpus.proverbs, 2):
        union = stems[one] | stems[other]
        jaccard = len(stems[one] & stems[other]) / len(union) if union else 0.0
        if jaccard >= ENOUGH:
            paraphrase = other in duplicates.near_duplicates().get(one, ())
            listed = other in duplicates.defensible().get(one, ())
            pair = {"proverbs": [one, other], "jaccard": round(jaccard, 4)}
            found.append({**pair, "paraphrase": paraphrase, "defensible": listed})
    return sorted(found, key=lambda pair: -pair["jaccard"])
