"""HTML documents that load nothing from elsewhere: what the page of a report and a leaderboard have in common.

A Content-Security-Policy allows exactly the document's own style and script, by their digests, and images within it.
Names, notes and numbers are escaped by Jinja.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from figeval.records.schema import ScoreRecord
from figeval.text import clean
from figeval.types import JSON


def document(template: str, styles: Sequence[str], script: str, content: Mapping[str, Any]) -> str:
    """Return an HTML document.

    Args:
        template: name of the template, which inserts `policy`, `style` and `script`.
        styles: names of the style sheets, which are put together.
        script: name of the script.
        content: what the template shows.
    """
    from jinja2 import Environment, FunctionLoader

    environment = Environment(autoescape=True, finalize=_harmless, loader=FunctionLoader(asset))
    environment.filters["quoted"] = lambda text: quote(clean(text), safe="")
    environment.globals["zip"] = zip
    style, code = "\n".join(map(asset, styles)), asset(script)
    shared = {"style": markup(style), "script": markup(code), "policy": policy(style, code)}
    return environment.get_template(template).render(**content, **shared)


def policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy that allows one style and one script by their digests, and nothing else."""
    styles, scripts = (f"'sha256-{in_base64(hashlib.sha256(text.encode()).digest())}'" for text in (style, script))
    allowed = f"script-src {scripts}; style-src {styles}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def in_base64(content: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(content).decode("ascii")


def download(name: str, text: str) -> JSON:
    """Return a file within the document: its name, and its content as an address."""
    return {"name": name, "address": f"data:text/plain;charset=utf-8;base64,{in_base64(text.encode())}"}


def asset(name: str) -> str:
    """Return a template, style sheet or script of this folder."""
    return (files("figeval.reporting.html") / name).read_text(encoding="utf-8")


def markup(text: str) -> Any:
    """Return text that is inserted as it is: only the document's own style and script, and JSON without `<`."""
    from markupsafe import Markup

    return Markup(text)


def bar(score: ScoreRecord, floors: Sequence[float | None] = ()) -> JSON | None:
    """Return the places on a bar from 0 to 100, or None for a score that is not between 0 and 1."""
    if score.value is None or not 0 <= score.value <= 1:
        return None
    value, low, high = (
        None if one is None else round(100 * min(max(one, 0), 1), 2) for one in (score.value, score.low, score.high)
    )
    return {
        "value": value,
        "low": low,
        "high": high,
        "floors": [round(100 * one, 2) for one in floors if one is not None and 0 <= one <= 1],
    }


def _harmless(value: Any) -> Any:
    """Clean each text that the template inserts, unless it is the document's own."""
    return clean(value) if type(value) is str else value
