r"""The check of captions that authors write in LaTeX: one that TeX cannot read breaks the document of its table."""

from __future__ import annotations

import re

from figeval.errors import OptionError
from figeval.io.text import UNSAFE

# A command with its optional arguments and the brace of the next one, another escape, or a special character.
TOKEN = re.compile(r"\\(?P<command>[a-zA-Z]+)\*?(?:\s*\[[^]{}$]*\])*(?:\s*(?P<brace>\{))?|\\.|[{}$&#_^]", re.DOTALL)
OF_NAMES = re.compile(r"[A-Za-z]*(?:ref|cite)[A-Za-z]*|label|url|href|path")  # commands whose argument is no text
OF_MATHS = re.compile(r"ensuremath")
OF_TEXT = re.compile(r"text[a-z]*|mbox|intertext")  # within mathematics
SCRIPTS = {"_": "\\_", "^": "\\^{}"}
BRACES = r"the braces of the caption are not in pairs; write \{ or \} for a brace in the text"
FORMULA = r"the dollar signs (or \( and \)) of the caption are not in pairs; write \$ for the sign"
BROKEN = {
    "the caption ends with a backslash; write \\textbackslash{} for the sign": re.compile(r"(?<!\\)(?:\\\\)*\\\Z"),
    "the caption has a % that would hide its end; write \\% for the sign": re.compile(r"(?<!\\)(?:\\\\)*%"),
    "the caption has a blank line; write \\\\ to begin a new one": re.compile(r"\n\s*\n"),
}


def check_caption(caption: str) -> None:
    """Check that a caption can stand in braces, with a full stop or `(continued).` behind it.

    Raises:
        OptionError: braces or dollar signs are not in pairs; a special character is in the text; it would end with a
            backslash, has a blank line, or characters that cannot be seen.
    """
    if hidden := UNSAFE.search(caption):
        raise OptionError(f"the caption has U+{ord(hidden[0]):04X}, which cannot be seen; remove it")
    for problem, pattern in BROKEN.items():
        if pattern.search(caption):
            raise OptionError(problem)
    _check_groups(f"{{{caption}}}")


def _check_groups(text: str) -> None:
    """Check a text in braces. Raises `OptionError` if it, or a formula in it, does not end where the text does."""
    mode, outer = "text", list[tuple[str, str]]()  # of each open brace: the modes before and in it
    for token in TOKEN.finditer(text):
        sign = token[0]
        if token["brace"] or sign == "{":
            outer.append((mode, _mode_within(token["command"] or "", mode)))
            mode = outer[-1][1]
        elif sign == "}":
            before, within = outer.pop()
            if not outer and token.end() < len(text):
                raise OptionError(BRACES)
            if mode != within:
                raise OptionError(FORMULA)
            mode = before
        elif sign in ("$", "\\(", "\\)"):
            mode = _mode_after(sign, mode)
        else:
            _check_sign(sign, mode)
    if outer:
        raise OptionError(BRACES)


def _mode_within(command: str, mode: str) -> str:
    """Return the mode within the braces behind a command, or behind none."""
    kinds = (("names", OF_NAMES), ("maths", OF_MATHS), ("text", OF_TEXT))
    return next((kind for kind, commands in kinds if commands.fullmatch(command)), mode)


def _mode_after(sign: str, mode: str) -> str:
    """Return the mode behind a sign that begins or ends a formula. Raises `OptionError` if it can do neither."""
    closing = {"maths": "$", "\\(": "\\)"}.get(mode)
    if sign == closing:
        return "text"
    if closing is None and sign != "\\)":
        return "maths" if sign == "$" else sign
    raise OptionError(FORMULA)


def _check_sign(sign: str, mode: str) -> None:
    if sign == "#" or (sign == "&" and mode != "names"):
        raise OptionError(f"the caption has a {sign}; write \\{sign} for the sign")
    if sign in SCRIPTS and mode == "text":
        raise OptionError(f"the caption has a {sign} outside of mathematics; write {SCRIPTS[sign]} for the sign")
