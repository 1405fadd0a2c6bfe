"""Figures of the analysis. Each function returns an altair chart, whose title states the finding."""

from __future__ import annotations

from collections import Counter
from typing import Any

from figeval.io.plots import BLUE, GREY, INK, ORANGE, histogram, style_chart
from figeval.records.findings import Analysis

from .corpus import Stories

WIDTH, HEIGHT = 560, 340
BIN = 50  # words
MAX_NOUNS = 30
MAX_KINDS = 6  # kinds with a colour of their own


def lengths(stories: Stories) -> Any:
    """Plot a histogram of the stories' lengths, with a rule at the mean."""
    import altair as alt

    words = [len(words) for words in stories.story_words]
    bars = histogram(words, BIN, "Length of the story (words and punctuation marks)", "Stories")
    mean, middle = sum(words) / len(words), sorted(words)[len(words) // 2]
    rule = alt.Chart(alt.Data(values=[{"x": mean}])).mark_rule(color=ORANGE, strokeWidth=2.5).encode(x="x:Q")
    title = f"Half of the {stories.title} stories have {middle} words or more, the longest {max(words):,}"
    subtitle = [f"{len(words)} stories in bins of {BIN} words; line: mean of {mean:.1f}"]
    return style_chart((bars + rule).properties(width=WIDTH, height=HEIGHT), title, subtitle)


def topics(part: Analysis, stories: Stories) -> Any:
    """Plot the specificity of each topic against its share of the morals."""
    import altair as alt

    (listing,) = part.listings
    values = [
        {"specificity": row[1], "share": row[2], "words": row[3], "label": str(row[3]).partition(" ")[0]}
        for row in listing.rows
    ]
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("share:Q", title="Morals of the topic (percent)", scale=alt.Scale(zero=False)),
        y=alt.Y("specificity:Q", title="Specificity (share of the 20 heaviest words)", scale=alt.Scale(zero=False)),
        tooltip=["words:N", "share:Q", "specificity:Q"],
    )
    points = base.mark_circle(size=70, color=BLUE, opacity=0.7)
    labels = base.mark_text(align="left", dx=7, color=INK, fontSize=11).encode(text="label:N")
    rule = alt.Chart(alt.Data(values=[{"y": 0.5}])).mark_rule(color=ORANGE, strokeWidth=2).encode(y="y:Q")
    specific = sum(float(row[1] or 0) > 0.5 for row in listing.rows)
    title = f"{specific} of {len(values)} topics of {stories.title} morals are specific"
    subtitle = ["Line: the specificity of .5 that the paper asks of every topic; labels: heaviest word"]
    return style_chart((points + labels + rule).properties(width=WIDTH, height=HEIGHT), title, subtitle)


def nouns(part: Analysis, stories: Stories) -> Any:
    """Plot the most frequent nouns, coloured by kind."""
    import altair as alt

    listing = part.listings[0]
    rows = listing.rows[:MAX_NOUNS]
    kinds = [kind for kind, _ in Counter(str(row[0]) for row in rows if row[0]).most_common(MAX_KINDS)]
    values = [
        {"kind": row[0] if row[0] in kinds else "other", "noun": row[1], "n": row[2], "stories": row[3]} for row in rows
    ]
    colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"][: len(kinds)]
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("noun:N", title=None, sort=None, axis=alt.Axis(labelPadding=6, ticks=False, domain=False)),
        x=alt.X("n:Q", title="Occurrences in the stories (tokens)", axis=alt.Axis(grid=False)),
        tooltip=["noun:N", "kind:N", "n:Q", "stories:Q"],
    )
    scale = alt.Scale(domain=[*kinds, "other"], range=[*colours, GREY])
    legend = alt.Legend(title=None, orient="bottom-right") if kinds else None
    bars = base.mark_bar(height={"band": 0.75}).encode(color=alt.Color("kind:N", scale=scale, legend=legend))
    labels = base.mark_text(align="left", dx=4, color=INK, fontSize=11).encode(text="n:Q")
    first, second, third = ([str(row[1]) for row in rows] + [""] * 3)[:3]
    title = f"{first.capitalize()}, {second} and {third} are the most frequent nouns of {stories.title} stories"
    subtitle = [f"The {len(rows)} most frequent common nouns"]
    subtitle += ["Colours: kinds of figeval's own, not those of the paper's Figure 3"] if kinds else []
    return style_chart((bars + labels).properties(width=WIDTH, height=17 * len(rows)), title, subtitle)
