"""The style of figures, and their output as PNG and SVG for a paper and as interactive HTML that works offline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from figeval import extras
from figeval.io.files import cure

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#8C8C8C"  # Okabe and Ito: safe for colour-blind readers
INK = "#222222"
PADDING = 12  # pixels around a figure
PLOT_PACKAGES = ("altair", "vl_convert")


def require(*modules: str, purpose: str = "a figure (--no_plots leaves it out)") -> None:
    """Raise `MissingPackage` if the extra `analysis`, or the extra of one of the modules, is not installed."""
    for module in (*PLOT_PACKAGES, *modules):
        extras.require(module, purpose)


def style_chart(chart: Any, title: str, subtitle: list[str]) -> Any:
    """Return a chart with its finding as the title, legible fonts and no frame."""
    heading = {"text": title, "subtitle": subtitle, "anchor": "start", "offset": 14}
    return (
        chart.properties(title=heading)
        .configure(font="Arial, Helvetica, Liberation Sans, sans-serif", background="white", padding=PADDING)
        .configure_view(stroke=None)
        .configure_title(fontSize=16, subtitleFontSize=12, color=INK, subtitleColor="#555555", subtitlePadding=6)
        .configure_axis(
            labelFontSize=12,
            titleFontSize=13,
            titleFontWeight="normal",
            labelColor=INK,
            titleColor=INK,
            gridColor="#E6E6E6",
            domainColor=GREY,
            tickColor=GREY,
            titlePadding=10,
        )
        .configure_legend(labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
    )


def histogram(values: Iterable[float], width: int, x_title: str, y_title: str) -> Any:
    """Return bars of the number of values in bins of this width."""
    import altair as alt

    bins = Counter(int(value // width) * width for value in values)
    data = alt.Data(values=[{"low": low, "high": low + width, "n": n} for low, n in sorted(bins.items())])
    return (
        alt.Chart(data)
        .mark_bar(color=BLUE, binSpacing=1)
        .encode(
            x=alt.X("low:Q", bin="binned", title=x_title),
            x2="high:Q",
            y=alt.Y("n:Q", title=y_title),
            tooltip=[alt.Tooltip("low:Q", title="from"), alt.Tooltip("high:Q", title="to"), alt.Tooltip("n:Q")],
        )
    )


def save(chart: Any, folder: Path, name: str) -> list[Path]:
    """Write `<name>.png` (two pixels per point), `.svg` and `.html`. Raises `RecordError` if that fails."""
    written = [folder / f"{name}.{ending}" for ending in ("png", "svg", "html")]
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        chart.save(str(written[0]), scale_factor=2)
        chart.save(str(written[1]))
        chart.save(str(written[2]), inline=True)
    return written
