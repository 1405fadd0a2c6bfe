"""HTML documents that load nothing from elsewhere, from the templates of a package and the shared ones of this folder.

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

from figeval.io.text import clean


def html_document(
    package: str,
    template: str,
    content: Mapping[str, Any],
    *,
    styles: Sequence[str] = ("page.css",),
    script: str | Sequence[str] = "",
) -> str:
    """Return an HTML document that loads nothing from elsewhere.

    A Content-Security-Policy allows exactly its own style and script. Every text of the content is escaped, without
    terminal control characters. The files are looked up in the package and then among the shared ones: the style sheet
    `page.css`, and the macros of `parts.html.jinja` (`grid(table)` for a `figeval.Grid`).

    Args:
        package: the package with the files, such as `__package__`.
        template: name of the Jinja template, which inserts `policy`, `style` and `script`.
        content: values for the template.
        styles: names of the style sheets, which are put together.
        script: name of the script, or of several that are put together; empty without one.
    """
    from jinja2 import Environment, FunctionLoader

    def asset(name: str) -> str:
        """Return a file of the package, or a shared one."""
        file = files(package) / name
        return (file if file.is_file() else files(__name__) / name).read_text(encoding="utf-8")

    environment = Environment(autoescape=True, finalize=_harmless, loader=FunctionLoader(asset))
    environment.filters["quoted"] = lambda text: quote(clean(text), safe="")
    environment.globals["zip"] = zip
    scripts = script if not isinstance(script, str) else (script,) if script else ()
    style, code = ("\n".join(map(asset, names)) for names in (styles, scripts))
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


def markup(text: str) -> Any:
    """Return text that is inserted as it is: only the document's own style and script."""
    from markupsafe import Markup

    return Markup(text)


def _harmless(value: Any) -> Any:
    """Clean each text that the template inserts, unless it is the document's own."""
    return clean(value) if type(value) is str else value
