"""Table 4, the size of the data, and the outlines of section 3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from figeval.records.findings import AnalysedNumber, Analysis

from .corpus import SENTENCES, WORDS, Stories

KINDS = {"story": "stories", "moral": "morals", "unlabeled": "texts without a moral"}  # prefix of the metrics → words
TABLE_4 = {  # language → examples, words, sentences and vocabulary of each kind, as printed
    "en": {
        "story": ("1779", "302.33", "17.71", "15873"),
        "moral": ("1779", "19.77", "1.45", "3384"),
        "unlabeled": ("819", "614.55", "38.05", "20853"),
    },
    "zh": {
        "story": ("4209", "321.75", "17.62", "63493"),
        "moral": ("4209", "25.09", "1.35", "10522"),
        "unlabeled": ("14988", "487.00", "26.12", "147805"),
    },
}
OUTLINES = {"en": ("6.8", "2.44"), "zh": ("7.5", "2.87")}
NO_UNLABELLED = (
    "The texts without a moral are in no data that figeval can fetch: give a file with one text a line as "
    "--unlabelled {language}=FILE."
)
UNKNOWN_TOOLS = "The paper does not say how sentences are divided and whether words are lower-cased for the vocabulary."


def sizes(stories: Stories) -> Analysis:
    """Return the numbers of Table 4 in one language."""
    sentences, words = f"mean; {SENTENCES[stories.language]}", f"mean; {WORDS[stories.language]}"
    findings = [
        AnalysedNumber(
            name="pairs of a story and a moral",
            value=len(stories.pairs),
            published=TABLE_4[stories.language]["story"][0],
            definition="all splits",
            cell=("labeled_examples", stories.row),
        )
    ]
    morals = [pair.moral for pair in stories.pairs]
    findings += _of_kind(stories, "story", stories.story_words, stories.story_sentences, words, sentences)
    findings += _of_texts(stories, "moral", morals, words, sentences)
    return Analysis(
        name=f"Table 4: size, {stories.title}",
        table="storal_statistics",
        findings=[*findings, *_unlabelled(stories, words, sentences)],
    )


def _of_texts(stories: Stories, kind: str, texts: Iterable[str], words: str, sentences: str) -> list[AnalysedNumber]:
    divided = [(stories.words(text), stories.sentences(text)) for text in texts]
    return _of_kind(stories, kind, [text for text, _ in divided], [text for _, text in divided], words, sentences)


def _of_kind(
    stories: Stories,
    kind: str,
    text_words: Sequence[Sequence[str]],
    text_sentences: Sequence[Sequence[str]],
    words: str,
    sentences: str,
) -> list[AnalysedNumber]:
    """Return words, sentences and vocabulary of one kind of texts; `words` and `sentences` say how they are divided."""
    different = len({word for text in text_words for word in text})
    values = {
        "words": (fmean(map(len, text_words)), words),
        "sents": (fmean(map(len, text_sentences)), sentences),
        "vocab": (different, f"different words; {words.removeprefix('mean; ')}"),
    }
    names = {"words": "words per text", "sents": "sentences per text", "vocab": "vocabulary"}
    printed = TABLE_4[stories.language][kind][1:]
    return [
        AnalysedNumber(
            name=f"{KINDS[kind]}: {names[measure]}",
            value=value,
            published=text,
            definition=definition,
            note=UNKNOWN_TOOLS,
            cell=(f"{kind}_{measure}", stories.row),
        )
        for (measure, (value, definition)), text in zip(values.items(), printed, strict=True)
    ]


def _unlabelled(stories: Stories, words: str, sentences: str) -> list[AnalysedNumber]:
    """Return the numbers of the texts without a moral, which are unknown unless a file was given."""
    kind, texts = "unlabeled", stories.unlabelled
    count = AnalysedNumber(
        name=KINDS[kind],
        value=None if texts is None else len(texts),
        published=TABLE_4[stories.language][kind][0],
        definition="texts",
        note=NO_UNLABELLED.format(language=stories.language) if texts is None else "",
        cell=("unlabeled_examples", stories.row),
    )
    if texts is None:
        return [count]
    return [count, *_of_texts(stories, kind, texts, words, sentences)]


def outlines(stories: Stories) -> Analysis:
    """Return the numbers of phrases, and of their words, in the outlines of mo2st."""
    name = f"Outlines of mo2st, {stories.title}"
    if not stories.outlines:
        return Analysis(name=name, left_out="the copy has no outlines")
    phrases = [phrase for outline in stories.outlines for phrase in outline]
    words = "jieba's words" if stories.language == "zh" else "divided at white space"
    values = {
        "phrases_avg": ("phrases per outline", len(phrases) / len(stories.outlines), "mean over stories"),
        "words_per_phrase_avg": ("words per phrase", fmean(map(stories.length_of, phrases)), f"mean; {words}"),
    }
    findings = [
        AnalysedNumber(
            name=label,
            value=value,
            published=text,
            definition=f"{definition}; outlines: {stories.origin}",
            cell=(metric, stories.row),
        )
        for (metric, (label, value, definition)), text in zip(values.items(), OUTLINES[stories.language], strict=True)
    ]
    return Analysis(name=name, table="storal_outlines", findings=findings)
