"""The five kinds of pairs: the sentences that each kind is made from, its label and its rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from figeval.language.tagging import Token, reader
from figeval.language.word_forms import open_lemminflect
from figeval.types import JSON

from ..idioms import Lexicon, Occurrence
from .inputs import FIGURATIVE, LITERAL, Glossary, Sense, Sentence
from .phrases import VERB, Rejected, lemma
from .sites import Site, find_site
from .substitution import substitute
from .wrong import Impostors, contradict

ENTAILMENT, NON_ENTAILMENT = "entailment", "non-entailment"
NOWHERE = "the idiom or word does not occur in its sentence"
TWICE = "the idiom or word occurs several times in its sentence; give 'start' and 'end'"
NO_SENSE = "the idiom has no definition"
SENSES = "the idiom has several definitions; name one in 'definition'"
MEANT_LITERALLY = "the word is meant literally"
UNNAMED = "no idiom with a definition occurs in the sentence"
SEVERAL_IDIOMS = "several idioms occur in the sentence; name one in 'idiom'"


@dataclass(frozen=True, slots=True)
class Located:
    """A sentence in which the idiom or the metaphorical word was found."""

    sentence: Sentence
    occurrence: Occurrence

    def find_site(self) -> Site:
        """Return its position in the tagged sentence. Raises `Rejected` if it cannot be replaced there."""
        tokens: list[Token] = [token for tagged in reader().sentences(self.sentence.text) for token in tagged]
        return find_site(self.sentence.text, tokens, self.occurrence)


@dataclass(frozen=True, slots=True)
class Derivation:
    """A hypothesis and its provenance."""

    hypothesis: str
    definition: str
    provenance: JSON


@dataclass(frozen=True)
class Maker:
    """Maker of hypotheses, with one method per rule.

    Attributes:
        glossary: the definitions.
        impostors: chooser of wrong definitions.
        seed: seed for drawing antonyms.
    """

    glossary: Glossary
    impostors: Impostors
    seed: int

    def sense(self, located: Located) -> Sense:
        """Return the meaning of a sentence's idiom. Raises `Rejected` if it is unknown or ambiguous."""
        sentence = located.sentence
        if sentence.definition:
            return Sense(sentence.definition, 0)
        senses = self.glossary.of(located.occurrence.name)
        if len(senses) != 1:
            raise Rejected(SENSES if senses else NO_SENSE)
        return senses[0]

    def definition(self, located: Located) -> Derivation:
        """Replace the idiom by its definition (kinds `ent` and `lit`)."""
        sense = self.sense(located)
        substitution = substitute(located.find_site(), sense.text)
        return Derivation(
            substitution.text, sense.text, {**_of(sense), "rule": "definition", "changes": [*substitution.changes]}
        )

    def adversarial(self, located: Located) -> Derivation:
        """Replace the idiom by the definition of the most similar other idiom (kind `adv`)."""
        right = self.sense(located)
        wrong, substitution = self.impostors.replace_idiom(located.find_site(), right.text)
        rule = {"rule": "definition of another idiom", "of": wrong.idiom, "because": wrong.rule}
        return Derivation(
            substitution.text, wrong.sense.text, {**_of(wrong.sense), **rule, "changes": [*substitution.changes]}
        )

    def antonym(self, located: Located) -> Derivation:
        """Replace the idiom by its definition, with one content word replaced by an antonym (kind `ant`)."""
        sense = self.sense(located)
        substitution = substitute(located.find_site(), sense.text)
        text, word, other = contradict(substitution, f"{self.seed} antonym {located.sentence.id}")
        changes = [*substitution.changes, f"{word} → {other} (antonym)"]
        return Derivation(text, sense.text, {**_of(sense), "rule": "definition with an antonym", "changes": changes})

    def metaphor(self, located: Located) -> Derivation:
        """Replace the metaphorical word by the literal one, in the same form (kind `met`)."""
        sentence = located.sentence
        if sentence.label == LITERAL:
            raise Rejected(MEANT_LITERALLY)
        site = located.find_site()
        substitution = substitute(site, _definition_form(sentence.replacement, site.part))
        rule = {"definition_row": sentence.row, "rule": "literal word", "changes": [*substitution.changes]}
        return Derivation(substitution.text, sentence.replacement, rule)


def _definition_form(replacement: str, part: str) -> str:
    """Return a replacement in the form of a definition: for a verb, the infinitive with "to"."""
    first, blank, rest = replacement.partition(" ")
    if part != VERB or "VERB" not in open_lemminflect().getAllLemmas(first.lower()):
        return replacement
    return f"to {lemma(first, 'VERB')}{blank}{rest}"


def _of(sense: Sense) -> JSON:
    return {"definition_row": sense.row or None}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of pair.

    Attributes:
        task: name of its task after the prefix.
        label: label of all its pairs.
        meant: how the idiom or word is meant in the sentences that it is made from.
        description: description of the task.
        derive: function that returns the hypothesis for a sentence, or raises `Rejected` if there is none.
    """

    task: str
    label: str
    meant: str
    description: str
    derive: Callable[[Maker, Located], Derivation]


KINDS = {
    "ent": Kind("idioms_ent", ENTAILMENT, FIGURATIVE, "an idiom and its definition in its place", Maker.definition),
    "lit": Kind("idioms_lit", NON_ENTAILMENT, LITERAL, "a literally used idiom and its definition", Maker.definition),
    "adv": Kind(
        "idioms_adv", NON_ENTAILMENT, FIGURATIVE, "an idiom and the definition of another one", Maker.adversarial
    ),
    "ant": Kind("idioms_ant", NON_ENTAILMENT, FIGURATIVE, "an idiom and the opposite of its definition", Maker.antonym),
    "met": Kind("metaphors_ent", ENTAILMENT, FIGURATIVE, "a metaphorical word and a literal one", Maker.metaphor),
}
METAPHORS = "met"


def locate(sentence: Sentence, glossary: Glossary, lexicon: Lexicon) -> Located:
    """Find the idiom or the metaphorical word of a sentence.

    Args:
        sentence: the sentence, which may name the idiom or word; its span, if given, selects the occurrence.
        glossary: source of further forms of a named idiom.
        lexicon: all idioms of the glossary, for sentences that name none.

    Raises:
        Rejected: the idiom or word occurs nowhere or several times, or several idioms occur.
    """
    name = sentence.metaphor or sentence.idiom
    candidate_idioms = Lexicon([name if sentence.metaphor else glossary.line(name)]) if name else lexicon
    occurrences = candidate_idioms.occurrences(sentence.text)
    if sentence.span is not None:
        start, end = sentence.span
        occurrences = [occurrence for occurrence in occurrences if occurrence.start < end and occurrence.end > start]
        if not occurrences and name:
            surface = sentence.text[start:end]
            return Located(sentence, Occurrence(name, surface, start, end, ((start, end),), in_order=True))
    if not occurrences:
        raise Rejected(NOWHERE if name else UNNAMED)
    if len({occurrence.name for occurrence in occurrences}) > 1:
        raise Rejected(SEVERAL_IDIOMS)
    if len(occurrences) > 1:
        raise Rejected(TWICE)
    return Located(sentence, occurrences[0])
