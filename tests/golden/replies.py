"""Replies of a scripted chat model. They depend only on the text of the question, not on order or timing.

`SCRIPTS` has a script for each way to ask for an answer in words. The replies cover what an extractor must distinguish:
clear and ambiguous answers, reasoning traces, answers outside the options, refusals, empty and truncated replies.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MINI = Path(__file__).resolve().parents[2] / "tasks" / "mini"
LETTERS = "ABCDE"
WORDS = ("Yes", "No", "Maybe")
STORIES = (
    "The {} stood in the yard. Nobody asked for it. In the end everybody wanted a {}.",
    "She sold the {} and bought another {}. The first one had been better, and she knew it at once.",
    "Once there was a {}.",
    "A {} and a {} and a {} and a {} and a {} and a {} and a {} and a {} went home.",
)


@dataclass(frozen=True)
class Said:
    """A reply, why it ended, and what the model thought beside it."""

    text: str
    reason: str = "stop"  # as OpenAI's API has it
    thought: str = ""
    status: int = 200


def digest(question: str) -> int:
    """A number that is the same for the same question everywhere."""
    return zlib.crc32(question.encode("utf-8"))


def letter(question: str) -> Said:
    """The letter of an option, more or less."""
    number = digest(question)
    letter, other = LETTERS[number // 16 % 5], LETTERS[(number // 16 + 2) % 5]
    styles = (
        Said(letter),
        Said(f" {letter}"),
        Said(f"({letter})"),
        Said(f"**Answer:** {letter}."),
        Said(f"The story is about patience, so the answer is {letter}, not {other}."),
        Said(f"<think>It could be {other}. But no.</think>\n{letter}"),
        Said(letter, thought=f"It could be {other}."),
        Said(f"Either {letter} or {other}."),
        Said("F"),
        Said("A purple one, I think."),
        Said("I'm sorry, but I can't help with that."),
        Said("", reason="content_filter"),
        Said(""),
        Said("Let us go through the options one after the other. The first", reason="length"),
        Said(f"{letter}. Because the story says so, and then", reason="length"),
        Said(f"<think>It could be {other}, or it could", reason="length"),
    )
    return styles[number % len(styles)]


def word(question: str) -> Said:
    """A word that expresses a label, more or less."""
    number = digest(question)
    word, other = WORDS[number // 16 % 3], WORDS[(number // 16 + 1) % 3]
    styles = (
        Said(word),
        Said(f" {word.lower()}"),
        Said(f"{word}."),
        Said(f"**{word}**, the claim says the same in other words."),
        Said(f"<think>Perhaps {other.lower()}.</think>{word}"),
        Said(f"The answer is {word.lower()}."),
        Said(f"{word} and {other.lower()}."),
        Said("It depends on the weather."),
        Said("I cannot answer this question."),
        Said("", reason="content_filter"),
        Said(""),
        Said("The sentence speaks of a", reason="length"),
    )
    return styles[number % len(styles)]


def quote(question: str) -> Said:
    """Some words of the story in JSON, more or less."""
    number = digest(question)
    match = re.search(r"Story: (.*)", question)
    words = match[1].split() if match else ["nothing"]
    start = number // 16 % max(1, len(words) - 6)
    words = words[start : start + 3 + number // 4096 % 4]
    text = " ".join(words).replace('"', "'")
    styles = (
        Said(f'{{"quote": "{text}"}}'),
        Said(f'```json\n{{"quote": "{text}"}}\n```'),
        Said(f'<think>Which part?</think>{{"quote": "{text.lower()}"}}'),
        Said(f'Here it is: {{"quote": "{" ".join(words[:2])} … {words[-1]}"}} I hope this helps.'),
        Said(f'{{"quote": "{text.replace("e", "i", 1)}"}}'),
        Said('{"quote": "a dragon of green glass"}'),
        Said('{"quote": ""}'),
        Said('{"quote": null}'),
        Said(f'"{text}"'),
        Said("There is no such part."),
        Said("I'm sorry, but I can't help with that."),
        Said(""),
        Said(f'{{"quote": "{text}', reason="length"),
    )
    return styles[number % len(styles)]


def lines(question: str) -> Said:
    """Some words of the sentence on lines of their own, more or less."""
    number = digest(question)
    match = re.search(r"Sentence: (.*)", question)
    words = match[1].split() if match else ["nothing"]
    start = number // 16 % max(1, len(words) - 3)
    text, other = " ".join(words[start : start + 3]), " ".join(words[-3:-1])
    styles = (
        Said(text),
        Said(f"{text}\n{other}"),
        Said(f'1. "{text}"\n2. "a dragon of green glass"'),
        Said("none"),
        Said(f'["{text}"]'),
        Said("a dragon of green glass"),
        Said("I'm sorry, but I can't help with that."),
        Said(f"{other}\nThe other words of the sentence would", reason="length"),
    )
    return styles[number // 64 % len(styles)]


def story(question: str) -> Said:
    """A short story with some of the keywords, more or less."""
    number = digest(question)
    match = re.search(r"Keywords: (.*)", question)
    keywords = match[1].split(", ") if match else ["kettle"]
    plan = STORIES[number // 16 % len(STORIES)]
    text = plan.format(*(keywords * 8)[: plan.count("{}")])
    styles = (
        Said(text),
        Said(f"Story: {text}"),
        Said(f"<think>Something with a {keywords[0]}.</think>\n\n{text}"),
        Said(text[: len(text) // 2], reason="length"),
        Said("I'm sorry, but I can't write this story."),
        Said("", reason="content_filter"),
        Said(""),
        Said(text.upper()),
    )
    return styles[number % len(styles)]


def failing(question: str) -> Said:
    """A letter, or an error of the server, after which there is no reply."""
    return Said("", status=400) if digest(question) % 3 == 0 else Said(LETTERS[digest(question) % 5])


def plain(question: str) -> Said:
    """A letter and nothing else."""
    return Said(LETTERS[digest(question) % 5])


def rating(question: str) -> Said:
    """A rating of a judge, more or less; attention checks are followed."""
    number = digest(question)
    labels = re.findall(r"nothing else: (.*)\.$", question, re.MULTILINE)[0].split(", ")
    criterion = re.findall(r'by the criterion "(.*?)"', question)[0]
    if check := re.search(rf"Please choose .*?{re.escape(criterion)}: (\w+)", question):
        return Said(check[1])
    label, other = labels[number // 16 % len(labels)], labels[(number // 16 + 1) % len(labels)]
    styles = (
        *(Said(label), Said(f" {label}"), Said(f"Rating: {label}"), Said(f"**{label}**")),
        Said(f"I would rate it {label}."),
        Said(f"<think>Perhaps {other}.</think>{label}"),
        Said("9"),
        Said(f"{label} or {other}"),
        Said("I cannot rate this text."),
        Said(""),
        Said("Let us look at the text in", reason="length"),
    )
    return styles[number % len(styles)]


def recall(question: str) -> Said:
    """The last word of a proverb that the model remembers, more or less."""
    number = digest(question)
    beginning = question.rpartition("\n\n")[2].removesuffix(" …")
    words = next((text.rpartition(" ")[2] for text in sayings() if text.startswith(f"{beginning} ")), "kettle")
    styles = (
        Said(words),
        Said(f"{words}."),
        Said(f"The last word is {words}"),
        Said("kettle"),
        Said("I'm sorry, but I can't help with that."),
        Said(""),
        Said("", reason="content_filter"),
    )
    return styles[number % len(styles)]


@cache
def sayings() -> tuple[str, ...]:
    """The proverbs of the sample."""
    rows = map(json.loads, (MINI / "proverbs.jsonl").read_text("utf-8").splitlines())
    return tuple(row["proverb"] for row in rows)


SCRIPTS: dict[str, Callable[[str], Said]] = {
    "letter": letter,
    "word": word,
    "quote": quote,
    "lines": lines,
    "story": story,
    "failing": failing,
    "plain": plain,
    "rating": rating,
    "recall": recall,
}
