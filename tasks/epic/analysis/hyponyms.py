"""Counts of nouns that WordNet (Miller 1995) places under *event* or *process*; needs a copy of WordNet.

Verbs are not counted, because WordNet keeps them in hierarchies of their own, none of which lies under these two.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any

from figeval.errors import DataError
from figeval.records.findings import AnalysedNumber

from .corpus import AnalysedTexts
from .language import sentences
from .part import Analysis

ROOTS = ("event.n.01", "process.n.06")  # something that happens; a sustained phenomenon. process.n.01 is an event
ABSENT = "no WordNet: give --wordnet a folder of NLTK data with corpora/wordnet"
NO_VERBS = "Left out: verbs, none of which WordNet places under event or process; Mostafazadeh et al. count them."
NAME = "Hyponyms of event and process"
TAGS = {"NN", "NNS"}  # common nouns


def analyse(corpus: AnalysedTexts, root: Path | None) -> Analysis:
    """Count the tokens under event or process by first sense and by any sense, and the most frequent lemmas."""
    if root is None:
        return Analysis(name=NAME, left_out=ABSENT)
    with wordnet_in(root) as wordnet:
        return look_up_all(corpus, wordnet)


def look_up_all(corpus: AnalysedTexts, wordnet: Any) -> Analysis:
    """Look up every common noun of the narratives."""
    import nltk

    under = names_below_roots(wordnet)
    nouns = {}
    for key, text in corpus.narratives.items():
        tagged = nltk.pos_tag_sents([nltk.word_tokenize(sentence, preserve_line=True) for sentence in sentences(text)])
        nouns[key] = [
            token.lower() for sentence in tagged for token, tag in sentence if tag in TAGS and token.isalpha()
        ]

    @cache
    def look_up(token: str) -> tuple[str, bool, bool]:
        lemma = wordnet.morphy(token, "n") or token
        senses = [sense.name() in under for sense in wordnet.synsets(lemma, "n")]
        return lemma, bool(senses and senses[0]), any(senses)

    first = {key: [look_up(token)[0] for token in tokens if look_up(token)[1]] for key, tokens in nouns.items()}
    counts = Counter(lemma for lemmas in first.values() for lemma in lemmas)
    total = sum(map(len, nouns.values()))
    any_sense = sum(look_up(token)[2] for tokens in nouns.values() for token in tokens)
    method = f"tokens that NLTK's perceptron tags {' or '.join(sorted(TAGS))}, lemma by WordNet's morphy"
    under_what = f"below {' or '.join(ROOTS)}"
    findings = [
        AnalysedNumber(name="common nouns", value=total, definition=method, note=f"WordNet {wordnet.get_version()}"),
        AnalysedNumber(
            name="hyponym tokens",
            value=counts.total(),
            definition=f"first listed sense {under_what}; {method}",
            note=NO_VERBS,
        ),
        AnalysedNumber(
            name="hyponym tokens, any sense", value=any_sense, definition=f"some sense {under_what}; {method}"
        ),
        AnalysedNumber(name="different hyponyms", value=len(counts), definition=f"lemmas, first sense {under_what}"),
        AnalysedNumber(
            name="narratives with a hyponym",
            value=sum(map(bool, first.values())),
            definition=f"at least one token, first sense {under_what}",
        ),
    ]
    details = {"wordnet": wordnet.get_version(), "most_frequent": counts.most_common(50)}
    columns = {"event_process_nouns": {key: len(lemmas) for key, lemmas in first.items()}}
    return Analysis(name=NAME, findings=findings, narratives=columns, details=details)


@contextmanager
def wordnet_in(root: Path) -> Iterator[Any]:
    """Open NLTK's reader on this folder only, adding it to NLTK's search path for the time being.

    Raises:
        DataError: the folder holds no WordNet.
    """
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    nltk.data.path.insert(0, str(root))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The multilingual functions")  # only English is looked up
            reader = WordNetCorpusReader(_find_wordnet(root), None)
        yield reader
    finally:
        nltk.data.path.remove(str(root))


def _find_wordnet(root: Path) -> Any:
    import nltk

    for path in ("corpora/wordnet.zip/wordnet/", "corpora/wordnet/"):
        try:
            return nltk.data.find(path, [str(root)])
        except LookupError:
            continue
    cure = f"run `python -m nltk.downloader -d {quote(str(root))} wordnet`"
    raise DataError(f"--wordnet {root} does not contain corpora/wordnet; {cure}")


def names_below_roots(wordnet: Any) -> frozenset[str]:
    """Return the names of all synsets below the roots, including the roots."""
    roots = [wordnet.synset(name) for name in ROOTS]
    names = {sense.name() for root in roots for sense in root.closure(lambda sense: sense.hyponyms())}
    return frozenset(names | set(ROOTS))
