"""How a reply relates two texts in words other than those it was asked to use.

Asked whether a claim follows, models also write "It does not follow", "Not necessarily" or "entailment". If only the
requested words were read, which replies are missing would depend on the label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from figeval.answers.extract.words import phrases, pieces

YES, NO, MAYBE = "yes", "no", "maybe"
NAMES = {
    **dict.fromkeys(("yes", "true", "entailment", "entails"), (YES,)),
    **dict.fromkeys(("no", "false", "contradiction", "contradicts"), (NO,)),
    **dict.fromkeys(("maybe", "neutral"), (MAYBE,)),
    **dict.fromkeys(("non entailment", "not entailment", "nonentailment"), (NO, MAYBE)),
}
"""Words of labels, and the answers to "does it follow?" that they stand for."""

_CLAIM = r"(?:\bthe (?:claim|hypothesis|conclusion|second statement)|\A[\s\"'*]*(?:it|this|that|statement))"
_NOT = r"(?:\s+not|n't)"
_HOW = r"(?:\s+(?:also|\w+ly))?"
_HELD = (
    r"(?:true|correct|valid|supported|entailed|implied|warranted|"
    r"(?:an? )?(?:logical |direct |necessary |valid )?(?:consequence|conclusion))\b"
)
_UNDECIDED = phrases(r"""
    en not_necessarily not_always possibly perhaps neutral uncertain undetermined unclear
    en not_enough_information can(?:not|'t|_not)_(?:tell|say|know|be_(?:determined|inferred|known))
    de nicht_unbedingt vielleicht möglicherweise
    fr pas_nécessairement peut-être
    es no_necesariamente quizás? tal_vez
""")
_SAID = {  # the first that is found in a sentence counts
    MAYBE: (rf"{_CLAIM}[^.!?\n]{{0,40}}?{_UNDECIDED}", r"\b(?:is|does|do)(?:\s+not|n't)\s+necessarily\b"),
    NO: (
        rf"\b(?:does|do|did){_NOT}{_HOW}\s+(?:follow|hold|entail|have to be true)\b",
        rf"{_CLAIM}\s+(?:is|was){_HOW}\s+(?:false|incorrect|wrong|untrue|a contradiction|contradict\w+)\b",
        rf"{_CLAIM}\s+(?:is|was|can){_NOT}(?:\s+be)?{_HOW}\s+{_HELD}",
        rf"{_CLAIM}\s+contradicts\b",
    ),
    YES: (
        rf"{_CLAIM}{_HOW}\s+(?:follows|holds)\b",
        rf"{_CLAIM}\s+(?:is|was|must be|has to be){_HOW}\s+{_HELD}",
    ),
}
_OPENING = {
    MAYBE: _UNDECIDED,
    NO: r"(?:false|incorrect|untrue|not (?:true|correct|really|at all)|contradict\w+|"
    r"non?[- ]?entailment|not entail\w+)",
    YES: r"(?:true|correct|entailment|entailed|definitely|certainly|absolutely|indeed)",
}
_FOUND = {
    answer: (
        re.compile(rf"[\s\"'(*]*{_OPENING[answer]}[\s\"')*]*(?:[.,:;!\n]|\Z)", re.IGNORECASE),
        re.compile("|".join(_SAID[answer]), re.IGNORECASE),
    )
    for answer in (MAYBE, NO, YES)
}
_DOUBTED = re.compile(r"\b(?:not|never|no|unless|if|whether|only)\b|n't\b", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?\n]*")


def relation(content: str, words: Sequence[Sequence[str]]) -> set[int]:
    """The labels that the sentences of a reply amount to; `words[i]` express label i.

    Empty where nothing is said, or where the labels are not answers to "does it follow?".
    """
    stands_for: dict[str, set[int]] = {}
    for index, label in enumerate(words):
        for word in label:
            for answer in NAMES.get(" ".join(pieces(word)), ()):
                stands_for.setdefault(answer, set()).add(index)
    if not {YES, NO} <= set(stands_for):
        return set()
    return {index for answer in _answers(content) for index in stands_for.get(answer, ())}


def _answers(content: str) -> Iterator[str]:
    for place, found in enumerate(_SENTENCE.finditer(content)):
        sentence = found[0]
        for answer, (opening, said) in _FOUND.items():
            if (place == 0 and opening.match(sentence)) or (said.search(sentence) and not _doubted(answer, sentence)):
                yield answer
                break


def _doubted(answer: str, sentence: str) -> bool:
    return answer == YES and bool(_DOUBTED.search(sentence))
