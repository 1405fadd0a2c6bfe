"""Reduce a reply to the text that is read, without reasoning traces, markup and later turns."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from figeval.answers.phrases import Nouns
from figeval.language.words import unify_spelling
from figeval.types import Reply, Status

BEGINNING, END = 4_000, 12_000
"""Characters of a long reply that are read: models answer at once, or after everything else has been said."""


# ---- reasoning traces ------------------------------------------------------------------------------------------------

_SPLIT_END = re.compile(r"(?<=\s)\S{1,40}\Z")
_SPLIT_START = re.compile(r"\A\S{1,40}(?=\s)")
_TAG = r"(?:think|thinking|thought|reasoning|reason|analysis|scratchpad|reflection|seed:think)"
TRACES = tuple(
    (re.compile(opening, re.IGNORECASE), re.compile(closing, re.IGNORECASE))
    for opening, closing in (
        (rf"<{_TAG}>", rf"</{_TAG}>"),
        (r"◁think▷", r"◁/think▷"),
        (r"\[think\]", r"\[/think\]"),
        (r"<\|start_thinking\|>", r"<\|end_thinking\|>"),
        (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
        (r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)", r"<\|channel\|>final[^<]*<\|message\|>"),
        (r"\A\s*(?-i:analysis(?=[A-Z]))", r"(?-i:assistantfinal)"),  # the same, its marks lost in decoding
    )
)
"""Opening and closing marks of reasoning traces, by model family."""


def answering_part(text: str) -> str:
    """Return the text without reasoning traces; without its middle, too, if it is longer than `BEGINNING + END`.

    The text is cut between words if possible; a blank line replaces the middle.
    """
    rest = strip_reasoning(text)
    if len(rest) <= BEGINNING + END:
        return rest
    first, last = rest[:BEGINNING], rest[-END:]
    return f"{_SPLIT_END.sub('', first)}\n\n{_SPLIT_START.sub('', last)}"


def strip_reasoning(text: str) -> str:
    """Return the text without reasoning traces.

    A trace whose opening mark was part of the prompt starts where the text does; one that is never closed extends to
    the end.
    """
    return split_reasoning(text)[1]


def split_reasoning(text: str) -> tuple[str, str]:
    """Return the reasoning traces of a text, without their marks, and the text without them, as `strip_reasoning`."""
    traces: list[str] = []
    for opening, closing in TRACES:
        split_off, text = _split(text, opening, closing)
        traces += split_off
    return "\n\n".join(trace.strip() for trace in traces if trace.strip()), text


def _split(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> tuple[list[str], str]:
    traces, answer_parts, position = [], [], 0
    while start := opening.search(text, position):
        end = closing.search(text, start.end())
        answer_parts.append(text[position : start.start()])
        traces.append(text[start.end() : end.start() if end else len(text)])
        position = end.end() if end else len(text)
    rest = "".join(answer_parts) + text[position:]
    closed = list(closing.finditer(rest))
    if not closed:
        return traces, rest
    return [rest[: closed[-1].start()], *traces], rest[closed[-1].end() :]


# ---- markup ----------------------------------------------------------------------------------------------------------

_ROLE = re.compile(r"<\|(?:start_header_id|im_start|start)\|>\s*assistant\s*(?:<\|(?:end_header_id|message)\|>)?")
_TURN = re.compile(r"<\|[^|<>]{1,40}\|>|</?s>|<(?:eos|bos|pad|end_of_turn)>|<start_of_turn>(?:model)?|\[/?INST\]")
_EMPHASIS = re.compile(r"\*\*(.+?)\*\*|__(.+?)__", re.DOTALL)
_JOINER = "\u200c\u200d"  # between other letters than ASCII's, they are a part of a word, or of an emoji
_INVISIBLE = re.compile(
    "[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufe0e\ufe0f\ufeff\U000f0000-\U000fffff]"
    rf"|(?<![^\x00-\x7f])[{_JOINER}]|[{_JOINER}](?![^\x00-\x7f])"
)

_PLAIN = str.maketrans(
    dict.fromkeys("“”„‟«»‹›「」『』《》〈〉", '"') | dict.fromkeys("‘’‚‛ʼ´", "'") | {"🅰": "A", "🅱": "B"}
)
# The punctuation of other scripts; a reply is read as if it had the Latin one.
_STOPS = str.maketrans(
    dict.fromkeys("\u0964\u0965\u06d4\u0589\u1362\u1368\u104b\u17d4\u17d5\u0f0d\u0f0e\u3002\ua9c9\u1803", ". ")
    | dict.fromkeys("\u060c\u3001\u1363\u104a\u1802", ", ")
    | {"\u061b": "; ", "\u1364": "; ", "\u1361": " ", "\u061f": "?", "\u1367": "?", "\u17d6": ":", "\u066b": "."}
    | {"\u3010": "[", "\u3011": "]", "\u3014": "[", "\u3015": "]"}
)

_MARKUP = tuple(
    (re.compile(pattern, re.IGNORECASE | re.MULTILINE), new)
    for pattern, new in (
        (r"```[\w+-]*[ \t]*$|```|`", ""),
        (r"\\(?:text|math)[a-z]{0,6}\s*\{([^{}]*)\}", r"\1"),
        (r"\\(?:text|math)[a-z]{0,6}\s*\{([^{}]*)\}", r"\1"),  # nested once
        (r"\\f?boxed?\s*\{([^{}]*)\}", r"\nAnswer: \1\n"),
        (r"\\[\[\]()]|\\[,;!]|\\q?quad\b|\$", " "),
        (r"<(?:answer|final_answer|final|choice|option|solution|output|result|label)>", "\nAnswer: "),
        (r"</?[a-z][^<>\n]{0,60}>", "\n"),
        (r"\*|~~", ""),
        (r"_|\\", " "),
        (r"\|", "\n"),
        (r"^[ \t]*(?:[-•–>]|#+)[ \t]+", ""),
        (r"^[-=:\s]+$", ""),
        (r"[^\S\n]+", " "),
        (r" ?\n ?", "\n"),
    )
)


def one_turn(text: str) -> str:
    """Return the first turn that is not blank, without end marks and without what the model wrote after them."""
    turns = _TURN.split(_ROLE.sub("", text))
    return next((turn for turn in turns if turn.strip()), "")


def plain(text: str) -> str:
    """Return the text without markup, with plain letters for full-width and circled ones.

    Quotation marks are straight, and the punctuation of other scripts is replaced by ASCII's. Line breaks are kept.
    """
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", unify_spelling(text.translate(_PLAIN)))).translate(_PLAIN)
    text = text if text.isascii() else text.translate(_STOPS)
    for pattern, new in _MARKUP:
        text = pattern.sub(new, text)
    return text.strip()


def find_bold(text: str) -> list[str]:
    """Return the stretches set in bold, without markup."""
    return [plain(bold or underlined) for bold, underlined in _EMPHASIS.findall(text)]


# ---- replies without an answer ---------------------------------------------------------------------------------------


def not_written(reply: Reply, text: str) -> tuple[Status, str] | None:
    """Return (status, rule) of a reply that did not arrive or has only reasoning, or None if there is text to read.

    `text` is the reply without its reasoning.
    """
    if reply.finish in ("refusal", "error"):
        return reply.finish, "finish"
    if text.strip():
        return None
    return ("truncated" if reply.finish == "length" else "empty"), "no_text"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


REFUSAL = _any(
    r"\bI(?:'m| am)? (?:can(?:no|')?t|can not|will not|won't|unable to|not able to|(?:would )?prefer not)"
    r"(?: to| in good conscience|,)* ?(?:\w+ ){0,2}?(?:help|assist|answer|provide|comply|choose|pick|select|engage|"
    r"fulfil|do|continue|discuss|participate|support|judge|create|respond|with)",
    r"\bI (?:must|have to|'ll have to) decline|\bI refuse|\bI don't feel comfortable|\bI(?:'m| am) not comfortable",
    r"\bas an? (?:\w+ )?(?:AI|artificial|language model|LLM)|\bagainst my (?:guidelines|policy|principles|programming)",
    r"\bals (?:KI|künstliche)|\ben tant qu['e ]*(?:IA|modèle|intelligence)|\bcomo (?:una? )?(?:IA|modelo de)",
    r"kann (?:ich )?(?:\w+ ){0,5}nicht (?:helfen|beantworten|behilflich)|ik kan (?:\w+ ){0,4}niet helpen",
    r"je (?:ne )?(?:peux|suis) pas (?:\w+ ){0,4}(?:aider|répondre|mesure|fournir)",
    r"\bno puedo (?:ayudar|responder|ofrecer|cumplir|proporcionar)|\bnon posso (?:aiutar|rispond|fornire)",
    r"não posso (?:ajudar|responder|fornecer)|nie mogę (?:pomóc|odpowiedzieć|w tym)",
    r"yardımcı olamam|cevap veremem|не могу (?:помочь|ответить|выполнить|с этим)|كذكاء|لا (?:أستطيع|يمكنني)",
    r"(?:我|抱歉|对不起).{0,6}(?:无法|不能|没办法)|作为(?:一个)?(?:人工智能|AI)",
    r"お答え(?:することは)?でき|お手伝いでき|申し訳|(?:도와|답변|대답).{0,8}(?:없습니다|수 없)|죄송",
    r"(?:मदद|सहायता|उत्तर) नहीं (?:कर|दे)|माफ़ कर",
)
"""Pattern of the words with which a model declines to answer."""


@cache
def none_or_all(nouns: Nouns) -> re.Pattern[str]:
    """Return a pattern of statements that none or all of the options fit."""
    called = "|".join(["option", "answer", *map(re.escape, nouns.option[:1]), "choice"])
    return _any(
        r"\b(?:none|all) of (?:the|these|them)\b(?! (?:other|remaining|rest))|\bneither (?:of|option)|\ball of them\b",
        rf"\bno (?:{called})s? (?:\w+ ){{0,2}}(?:fit|match|appl|is correct)",
        r"\b(?:keine|alle) (?:der|davon)|\baucune? d|\btoutes? les|\bninguna de|\btodas las",
        r"\bnessuna delle|\bnenhuma das",
        r"\bżadn[ae]|\bhiçbiri|ни один|以上(?:都|皆|全)|都不|どれも|모두|इनमें से कोई नहीं",
    )
