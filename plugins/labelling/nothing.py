"""What a reply writes that finds nothing: "none", as it is asked for, and the same in other words.

The questions are in English, the sentences may be German, Italian or Spanish, and models answer in either language.
"""

from __future__ import annotations

import re

MOST = 200  # characters of a line that is looked at
EXCEPTION = (
    r"(?:but|except|excepting|besides|beyond|other|apart|outside|"
    r"außer|sondern|aber|excepto|salvo|sino|pero|tranne|ma)"
)
WORD = (
    r"(?:none|no|nothing|nil|null|empty|n\s*/\s*a|not (?:applicable|found)|"
    r"kein(?:e[rs]?)?|nichts|ningun[oa]s?|nada|nessun[oa]?|niente)"
)
NOUN = (
    r"(?:expressions?|idioms?|metaphors?|phrases?|words?|uses?|idiomatic|metaphorical|figurative|language|"
    r"ausdr[uü]ck\w*|redewendung\w*|redensart\w*|idiome?|metaphern?|"
    r"expresi[oó]n\w*|modismos?|locuci[oó]n\w*|met[aá]foras?|palabras?|"
    r"espression[ei]|locuzion[ei]|metafor[ae]|modi|parol[ae])"
)
SUBJECT = rf"(?:(?!{EXCEPTION}\b)[\w'’-]+ ){{0,6}}?"  # "the sentence does"
DENIED = (
    r"(?:no|(?:(?:can)?not|\w+n[’']t)(?: have| contain| use| include| see| find)?(?: any| an?)?|"
    r"kein(?:e[nrs]?)?|ningun[oa]?|ningún|nessun[oa]?|no (?:hay|contiene|existen?)|non (?:ci sono|c[’']è|contiene))"
)
REST = rf"(?:,? (?!{EXCEPTION}\b)[\w'’-]+){{0,10}}"  # words without anything that is quoted or excepted
SAID = (
    rf"{WORD}(?: (?:of|in|found|here|present|detected|identified|exists?|applies|apply)\b{REST})?",
    rf"{SUBJECT}{DENIED} (?!{EXCEPTION}\b)(?:\w+ ){{0,3}}?{NOUN}{REST}",
    rf"(?:all|every|each)(?: of)?(?: the| its)? (?:words?|expressions?) (?:\w+ ){{0,5}}?literal(?:ly)?{REST}",
)
HEADING = r"(?:(?:the |my )?(?:\w+ )?(?:answers?|expressions?|idioms?|metaphors?)(?: is| are)?\s*[:=]\s*)?"
NOTHING = re.compile(rf"\W*{HEADING}\W*(?:{'|'.join(SAID)})\W*", re.IGNORECASE)
CLAUSE = re.compile(r"(?<=\w)[\"'”’*_`)\]]*(?:[.!;:,](?=\s)|\s+[-–—]\s|\s+\()")  # where one ends
EXCEPTED = re.compile(rf"\W*{EXCEPTION}\b", re.IGNORECASE)


def behind_nothing(line: str) -> str | None:
    """Return what follows where a line, or its first clause, says that there is nothing to be quoted: empty where all
    of the line says so, None where it does not.
    """
    if len(line) <= MOST and NOTHING.fullmatch(line):
        return ""
    clause = CLAUSE.search(line, 0, MOST)
    if clause is None or not NOTHING.fullmatch(line[: clause.start()]) or EXCEPTED.match(line, clause.end()):
        return None
    return line[clause.end() :]
