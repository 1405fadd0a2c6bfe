"""What a page of `figeval report` has: the tables of a section, and the samples."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html import unescape
from typing import Any


def contents(page: str) -> dict[str, Any]:
    """The samples in a page, by task."""
    blocks = re.findall(r'class="task"[^>]*>"([^"]*)"<', page)
    documents = [json.loads(gzip.decompress(base64.b64decode(block))) for block in blocks]
    return {document["task"]: document for document in documents}


def tables(page: str, section: str) -> dict[str, list[list[str]]]:
    """The cells of the tables in a section, heads included, by the heading above."""
    text = page.partition(f'id="{section}"')[2].partition("</section>")[0]
    headed = re.findall(r"<h[23]>(.*?)</h[23]>(?:(?!<h[23]).)*?<table>(.*?)</table>", text, re.DOTALL)
    cells = re.compile(r"<t[dh][^>]*>(.*?)</t[dh]>", re.DOTALL)
    rows = {title: re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL) for title, table in headed}
    return {
        unescape(title): [list(map(unescape, cells.findall(row))) for row in lines] for title, lines in rows.items()
    }
