"""Command `figeval hello`."""

from __future__ import annotations

from pathlib import Path

import click

import figeval


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--language", default="english", show_default=True, help="One of `figeval ls languages`.")
@click.option("--html", type=click.Path(path_type=Path), help="Also write the table to this file, as an HTML page.")
@figeval.shared_options("json")
def hello(run: Path, language: str, html: Path | None, as_json: bool) -> None:
    """Say hello to a run, and what it answered most often."""
    import figeval_hello

    greeting = figeval_hello.hello(run, language=language)
    if html is not None:
        content = {
            "title": f"{greeting.greeting}, {greeting.model}!",
            "grids": greeting.grids,
            "notes": greeting.notes(),
        }
        page = figeval.html_document(__package__, "page.html.jinja", content)
        figeval.write_output(page, html, inputs=[run], option="--html")
    figeval.print_result(greeting, as_json=as_json)
