"""HTML as lines: all that informs, and digests of the style and the script, which are the same on every page."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from typing import Any

STYLE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)
DATA = re.compile(r'<script type="application/json"([^>]*)>(.*?)</script>', re.DOTALL)
DOWNLOAD = re.compile(r'href="data:text/plain;charset=utf-8;base64,([^"]*)"')
POLICY = re.compile(r"'sha256-[\w+/=]+'|&#39;sha256-[\w+/=]+&#39;")
MACHINE = re.compile(r'<tr><td class="whole">(?:python|platform|packages|hardware|git)</td>.*?</tr>')


def page(text: str) -> dict[str, Any]:
    """Return the lines of a page without its style, its script and what it says about the machine; the data within it,
    and the files that it offers.
    """
    sections = [{"attributes": match[1].strip(), "content": unpacked(match[2])} for match in DATA.finditer(text)]
    offered = [base64.b64decode(match[1]).decode("utf-8").splitlines() for match in DOWNLOAD.finditer(text)]
    constant = {match[1]: hashlib.sha256(match[2].encode()).hexdigest() for match in STYLE.finditer(text)}
    text = MACHINE.sub("", text)
    text = DOWNLOAD.sub('href="{download}"', DATA.sub("", STYLE.sub("", text)))
    lines = [line.strip() for line in POLICY.sub("{digest}", text).splitlines()]
    embedded = {"data": sections, "downloads": offered, "sha256": constant}
    return {"lines": [line for line in lines if line], **{name: value for name, value in embedded.items() if value}}


def unpacked(text: str) -> Any:
    """Return JSON that stands in a page, compressed or not."""
    value = json.loads(text)
    return json.loads(gzip.decompress(base64.b64decode(value))) if isinstance(value, str) else value
