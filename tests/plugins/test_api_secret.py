"""A key that comes back in some other form reaches no record, and nothing else is taken for it."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from figeval import Message, Prompt
from tests.plugins.servers import Desk, openai_answer, question, says

Open = Callable[..., Any]
MASK = "[key]"
KEY = "sk-very-secret_0123456789"
WAYS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "hyphens in URLs": lambda key: key.replace("-", "%2D"),
    "every character in URLs": lambda key: "".join(f"%{ord(character):02x}" for character in key),
    "URL in a URL": lambda key: urllib.parse.quote("".join(f"%{ord(character):02X}" for character in key)),
    "quoted-printable": lambda key: "".join(f"={ord(character):02X}" for character in key),
    "capitals": str.upper,
    "small letters": str.lower,
    "zero width": "\u200b".join,
    "zero width in JSON": r"\u200b".join,
    "zero width in JSON in JSON": r"\\u2060".join,
    "zero width in JavaScript": r"\u{E0020}".join,
    "half a pair in JSON": r"\uDB40\uDC41".join,
    "zero width in URLs": "%E2%80%8B".join,
    "zero width in HTML": "&#8203;".join,
    "zero width in HTML, hexadecimal": "&#x200B;".join,
    "zero width by name": "&ZeroWidthSpace;".join,
    "soft hyphens by name": "&shy;".join,
    "hyphens by name": lambda key: key.replace("-", "&hyphen;").replace("_", "&lowbar;"),
    "Hangul filler": "\u3164".join,
    "Braille blank": "\u2800".join,
    "marks of music": "\U0001d173".join,
    "Markdown": lambda key: "".join(character if character.isalnum() else f"\\{character}" for character in key),
    "superscripts": lambda key: key.translate(dict(zip(map(ord, "0123456789"), "⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True))),
    "mathematical digits": lambda key: "".join(
        chr(0x1D7CE + int(character)) if character.isdigit() else character for character in key
    ),
    "circled letters": lambda key: "".join(
        chr(0x24D0 + ord(character) - 97) if "a" <= character <= "z" else character for character in key
    ),
    "wide in JSON": lambda key: "".join(f"\\u{ord(character) + 0xFEE0:04x}" for character in key),
    "soft hyphens": "\xad".join,
    "variation selectors": "\ufe0f".join,
    "lines": lambda key: f"{key[:9]}\n{key[9:]}",
    "blanks": " ".join,
    "JSON": lambda key: "".join(f"\\u{ord(character):04x}" for character in key),
    "JSON in JSON": lambda key: "".join(f"\\\\u{ord(character):04X}" for character in key),
    "a line break in JSON": lambda key: rf"{key[:5]}\n{key[5:]}",
    "Python": lambda key: "".join(f"\\x{ord(character):02x}" for character in key),
    "HTML": lambda key: "".join(f"&#{ord(character)};" for character in key),
    "HTML, hexadecimal": lambda key: "".join(f"&#x{ord(character):X};" for character in key),
    "colours": "\x1b[31m".join,
    "wide": lambda key: "".join(chr(ord(character) + 0xFEE0) for character in key),
    "typographic hyphens": lambda key: key.replace("-", "\u2011"),
    "backwards": lambda key: key[::-1],
    "base64": lambda key: base64.b64encode(key.encode()).decode()[: len(key) // 3 * 4],
    "base64 for URLs": lambda key: base64.urlsafe_b64encode(key.encode()).decode()[: len(key) // 3 * 4],
    "hexadecimal": lambda key: key.encode().hex(),
    "hexadecimal in pairs": lambda key: key.encode().hex(" ").upper(),
}
CODES: dict[str, Callable[[str], str]] = {  # of which a mark may stay before and after the key
    "base32": lambda key: base64.b32encode(key.encode()).decode(),
    "base32 in small letters": lambda key: base64.b32encode(key.encode()).decode().lower(),
    "base32 in lines": lambda key: re.sub("(.{8})", r"\1\n", base64.b32encode(key.encode()).decode()),
    "the other base32": lambda key: base64.b32hexencode(key.encode()).decode(),
    "base64 backwards": lambda key: base64.b64encode(key.encode()).decode()[::-1],
    "octal in C": lambda key: "".join(f"\\{ord(character):03o}" for character in key),
    "octal in JSON": lambda key: "".join(f"\\\\0{ord(character):03o}" for character in key),
    "octal in Perl": lambda key: "".join(f"\\o{{{ord(character):o}}}" for character in key),
    "octal numbers": lambda key: " ".join(f"{ord(character):o}" for character in key),
    "punctuation in octal": lambda key: "".join(
        character if character.isalnum() else f"\\{ord(character):03o}" for character in key
    ),
    "decimal numbers": lambda key: str(list(key.encode())),
    "entities of entities": lambda key: "".join(f"&amp;#0{ord(character)};" for character in key),
    "hexadecimal numbers": lambda key: ", ".join(f"0x{ord(character):02x}" for character in key),
    "hexadecimal with colons": lambda key: key.encode().hex(":"),
    "escapes of CSS": lambda key: "".join(f"\\{ord(character):x} " for character in key),
    "binary numbers": lambda key: " ".join(f"{ord(character):08b}" for character in key),
}
LETTERS = string.ascii_letters + string.digits + "-_.+/="


def random_key(dice: random.Random) -> str:
    """Return a key with a digit and several characters."""
    while True:
        key = "".join(dice.choices(LETTERS, k=dice.randint(12, 60)))
        if any(map(str.isdigit, key)) and len(set(key.lower())) > 3:
            return key


@pytest.fixture
def read(desk: Desk, openai: Open, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, list[str]], list[str]]:
    """Return a function that gives the replies of a model whose server writes these texts, given its key."""

    def replies(key: str, texts: list[str]) -> list[str]:
        monkeypatch.setenv("OPENAI_API_KEY", key)
        desk.usual = lambda handler, body: handler.send(200, openai_answer(texts[int(question(body))]))
        prompts = [Prompt((Message("user", str(number)),), (), 16) for number in range(len(texts))]
        return [reply.text for reply in openai("m", base_url=desk.url, memo="off").generate(prompts)]

    return replies


Read = Callable[[str, list[str]], list[str]]
seeds = pytest.mark.parametrize("seed", range(8))


@seeds
def test_no_form_of_a_key_stays(seed: int, read: Read) -> None:
    key = random_key(random.Random(seed))
    for way, masked in zip(WAYS, read(key, [f"<{way(key)}>" for way in WAYS.values()]), strict=True):
        assert masked.lstrip("<\\").startswith(MASK), way  # a backslash before a key that begins with a slash may stay
        assert len(masked) <= len(f"<{MASK}>") + 2, way  # of what a code adds at the end


@seeds
def test_no_code_of_a_key_stays(seed: int, read: Read) -> None:
    key = random_key(random.Random(seed))
    for way, masked in zip(CODES, read(key, [f"<{code(key)}>" for code in CODES.values()]), strict=True):
        assert MASK in masked, way
        # a character that depends on what follows
        assert len(re.sub(r"[\W_xo]|amp", "", masked.replace(MASK, ""))) <= 1, way


@seeds
def test_no_key_with_something_between_its_characters_stays(seed: int, read: Read) -> None:
    key = random_key(random.Random(seed))
    letters = sum(map(str.isalnum, key))
    for masked in read(key, [f"<{between.join(f'alpha0{key}beta9')}>" for between in "-.,/\u0301\u0336'\"|"]):
        assert (MASK in masked) or letters < 12
        assert sum(map(str.isalnum, masked.replace(MASK, ""))) <= 11 + len(key) * (MASK not in masked)


@pytest.mark.parametrize("encode", [base64.b64encode, base64.b32encode])
def test_a_key_in_the_middle_of_a_code(encode: Callable[[bytes], bytes], read: Read) -> None:
    names = ("user:", "Bearer ", "a")
    texts = [encode(f"{name}{KEY}\n".encode()).decode() for name in names]
    for name, masked in zip(names, read(KEY, texts), strict=True):
        assert MASK in masked and len(masked) <= len(MASK) + len(name) * 2 + 8


@seeds
def test_other_texts_stay_as_they_are(seed: int, read: Read) -> None:
    dice = random.Random(seed)
    alphabets = (LETTERS, "4f1c97aa0b6e5d21e388-", "%&#;\\ux0123456789abcdef", "é\u0301\u200b\U0001d7ce東<>\"' \n")
    texts = ["".join(dice.choices(dice.choice(alphabets), k=dice.randrange(200))) for _ in range(40)]
    assert read("4f1c-97aa-0b6e-5d21-e388", texts) == texts


def test_words_are_no_placeholder(read: Read) -> None:
    assert read("notneededhere", ["Not needed here: notneededhere"]) == [f"Not needed here: {MASK}"]
    assert read("none", ["none of them"]) == ["none of them"]


def test_a_key_that_is_quoted_is_in_no_reply_and_no_file(
    desk: Desk, own_home: Path, monkeypatch: pytest.MonkeyPatch, openai: Open
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    all_quoted = {way: quote(KEY) for way, quote in WAYS.items()}
    for quoted in all_quoted.values():
        desk.plan += [
            says(200, openai_answer(f"It is {quoted}!", reasoning_content=f"Hm, {quoted}")),
            says(200, {"choices": [{"message": None, "finish_reason": f"content_filter {quoted}"}]}),
            says(400, {"error": {"message": f"wrong: {quoted}"}}),
        ]
    prompts = [Prompt((Message("user", f"{way} {text}"),), (), 16) for way in all_quoted for text in "abc"]
    replies = openai("m", base_url=desk.url, max_concurrent=1).generate(prompts)
    stored = b"".join(file.read_bytes() for file in own_home.rglob("*") if file.is_file()).decode("latin-1")
    assert stored.count(MASK) >= 3 * len(WAYS)
    for number, (way, quoted) in enumerate(all_quoted.items()):
        of_way = [[reply.text, reply.reasoning, reply.error] for reply in replies[3 * number : 3 * number + 3]]
        written = json.dumps(of_way, ensure_ascii=False)
        assert written.count(MASK) == 4, way
        for text in (written, stored):
            assert quoted[:12] not in text and json.dumps(quoted)[1:13] not in text, way
