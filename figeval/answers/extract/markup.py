"""Markup off, words left: Markdown, LaTeX, HTML, chat marks and the many spellings of a quotation mark."""

from __future__ import annotations

import re
import unicodedata

_ROLE = re.compile(r"<\|(?:start_header_id|im_start|start)\|>\s*assistant\s*(?:<\|(?:end_header_id|message)\|>)?")
_TURN = re.compile(r"<\|[^|<>]{1,40}\|>|</?s>|<(?:eos|bos|pad|end_of_turn)>|<start_of_turn>(?:model)?|\[/?INST\]")
_EMPHASIS = re.compile(r"\*\*(.+?)\*\*|__(.+?)__", re.DOTALL)
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe0e\ufe0f\ufeff\U000f0000-\U000fffff]")

_PLAIN = str.maketrans(dict.fromkeys("“”„‟«»「」『』", '"') | dict.fromkeys("‘’‚‛ʼ´", "'") | {"🅰": "A", "🅱": "B"})

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
    """The first turn in which something was written: end marks and what a model wrote after them go."""
    turns = _TURN.split(_ROLE.sub("", text))
    return next((turn for turn in turns if turn.strip()), "")


def plain(text: str) -> str:
    """Text without markup; full-width and circled letters are ordinary ones, quotes straight, lines kept."""
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text.translate(_PLAIN))).translate(_PLAIN)
    for pattern, new in _MARKUP:
        text = pattern.sub(new, text)
    return text.strip()


def emphasised(text: str) -> list[str]:
    """The stretches set in bold, without markup."""
    return [plain(bold or underlined) for bold, underlined in _EMPHASIS.findall(text)]
