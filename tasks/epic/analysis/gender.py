"""Counts of gendered words in narratives, by word list, not coreference: "Susan" counts only if a "she" follows."""

from __future__ import annotations

import re
from collections.abc import Mapping

from figeval.records.findings import AnalysedNumber

from .corpus import AnalysedTexts
from .part import Analysis

METHOD = "word-list based, not coreference"
NO_COREFERENCE = (
    "Left out: coreference. A name does not count here, and its pronouns count one by one, so the majority within a "
    "narrative is not the paper's."
)
PRONOUNS: Mapping[str, frozenset[str]] = {
    "male": frozenset({"he", "him", "his", "himself"}),
    "female": frozenset({"she", "her", "hers", "herself"}),
}
MALE = """
man men boy boys guy guys male males gentleman gentlemen lad lads father fathers dad dads daddy papa grandfather
grandfathers grandpa granddad stepfather godfather son sons grandson grandsons stepson brother brothers stepbrother
uncle uncles nephew nephews husband husbands boyfriend boyfriends fiancé groom bridegroom widower bachelor king kings
prince princes duke emperor lord lords monk priest mr mister sir actor actors waiter waiters businessman businessmen
salesman salesmen policeman policemen fireman firemen handyman fisherman hero
"""
FEMALE = """
woman women girl girls gal gals female females lady ladies lass mother mothers mom moms mum mummy mommy mama grandmother
grandmothers grandma granny stepmother godmother daughter daughters granddaughter granddaughters stepdaughter sister
sisters stepsister aunt aunts auntie niece nieces wife wives girlfriend girlfriends fiancée bride widow bachelorette
queen queens princess princesses duchess empress nun nuns mrs ms miss madam actress actresses waitress waitresses
businesswoman businesswomen saleswoman policewoman housewife heroine
"""
NOUNS: Mapping[str, frozenset[str]] = {"male": frozenset(MALE.split()), "female": frozenset(FEMALE.split())}
LETTERS = re.compile(r"[^\W\d_]+")


def analyse(corpus: AnalysedTexts) -> Analysis:
    """Return the shares of mentions, and of narratives by the gender that they mention more often."""
    word_lists = {gender: PRONOUNS[gender] | NOUNS[gender] for gender in PRONOUNS}
    mentions = {key: count(text, word_lists) for key, text in corpus.narratives.items()}
    pronouns = [count(text, PRONOUNS) for text in corpus.narratives.values()]
    totals = {gender: sum(counts[gender] for counts in mentions.values()) for gender in word_lists}
    pronoun_totals = {gender: sum(counts[gender] for counts in pronouns) for gender in word_lists}
    kinds = {"male": 0, "female": 0, "equal": 0, "none": 0}
    for counts in mentions.values():
        male, female = counts["male"], counts["female"]
        kinds["male" if male > female else "female" if female > male else "equal" if male else "none"] += 1
    rule = "pronouns and gendered nouns"
    share = f"{METHOD}; {rule}; percent of all gendered mentions"
    narratives = f"{METHOD}; {rule}; percent of all narratives, more mentions of this gender than of the other"
    findings = [
        AnalysedNumber(name="male mentions, %", value=percent(totals, "male"), published="61", definition=share),
        AnalysedNumber(name="female mentions, %", value=percent(totals, "female"), published="39", definition=share),
        AnalysedNumber(
            name="male among pronouns alone, %",
            value=percent(pronoun_totals, "male"),
            definition=f"{METHOD}; percent of these",
        ),
        AnalysedNumber(
            name="predominantly male narratives, %",
            value=percent(kinds, "male"),
            published="48",
            definition=narratives,
            note=NO_COREFERENCE,
        ),
        AnalysedNumber(
            name="predominantly female narratives, %",
            value=percent(kinds, "female"),
            published="26",
            definition=narratives,
        ),
        AnalysedNumber(
            name="narratives with equally many of both, %",
            value=percent(kinds, "equal"),
            definition=f"{METHOD}; equally many mentions of both",
        ),
        AnalysedNumber(
            name="narratives with none, %", value=percent(kinds, "none"), definition=f"{METHOD}; no gendered mention"
        ),
    ]
    columns = {f"{gender}_mentions": {key: counts[gender] for key, counts in mentions.items()} for gender in word_lists}
    details = {
        "mentions": totals,
        "narratives": kinds,
        "words": {key: sorted(words) for key, words in word_lists.items()},
    }
    return Analysis(name=f"Gender ({METHOD})", findings=findings, narratives=columns, details=details)


def count(text: str, lists: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """Count the tokens in each gender's list, ignoring case; tokens are runs of letters ("he's" gives "he")."""
    tokens = LETTERS.findall(text.lower())
    return {gender: sum(token in words for token in tokens) for gender, words in lists.items()}


def percent(counts: Mapping[str, int], key: str) -> float | None:
    """Return the percentage of one count, or None if the counts add up to 0."""
    total = sum(counts.values())
    return 100 * counts[key] / total if total else None
