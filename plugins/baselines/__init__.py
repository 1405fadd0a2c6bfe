"""Trivial models: chance and other guesses, word overlap, spans by position.

They are the floor under every other number. Every task declares some of them, and tables print them beside the model.
They are ordinary backends, so that their ties and missing answers are treated like those of any model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register guesses, word overlap and positions, and an oracle that knows the answers."""
    guess, words, positions = (f"{__name__}.{module}" for module in ("guessing", "word_overlap", "positions"))
    summary = "all answers tied; scoring ties by expectation gives chance in closed form"
    register("chance", f"{guess}:Chance", summary)
    register("random", f"{guess}:Random", "seeded guessing that depends only on the texts, not on batches (seed=0)")
    register("majority", f"{guess}:Majority", "the most frequent gold answer")
    register("longest", f"{guess}:Longest", "prefers the text with the most characters")
    register("overlap", f"{words}:Overlap", "word Jaccard, the floor of any lexical method")
    register("echo", f"{words}:Echo", "outputs only the keywords, the floor of any text metric")
    register("last_sentence", f"{positions}:LastSentence", "always answers with the last sentence")
    register("whole_text", f"{positions}:WholeText", "always answers with the whole text")
    register("oracle", f"{positions}:Oracle", "answers with the gold spans: the score of a perfect model")
