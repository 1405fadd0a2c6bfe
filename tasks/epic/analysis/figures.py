"""Figures of the analysis. Each function returns an altair chart of one or two parts; its title states the finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from figeval.io.plots import BLUE, GREEN, GREY, INK, ORANGE, histogram, style_chart

from .part import Analysis

WIDTH, HEIGHT = 560, 340
MAX_HYPONYMS = 20  # most frequent hyponyms


def sentiment(part: Analysis) -> Any:
    """Plot the compound score of each proverb against the mean of its narratives, with a least-squares line."""
    import altair as alt

    proverbs, narratives = part.proverbs["sentiment"], part.proverbs["narratives_sentiment"]
    data = alt.Data(values=[{"proverb": key, "x": proverbs[key], "y": narratives[key]} for key in proverbs])
    scale = alt.Scale(domain=[-1, 1])
    x = alt.X("x:Q", title="Sentiment of the proverb (VADER compound, −1 to 1)", scale=scale)
    y = alt.Y("y:Q", title="Mean sentiment of its narratives (same scale)", scale=scale)
    tooltip = [
        alt.Tooltip("proverb:N"),
        alt.Tooltip("x:Q", format=".2f", title="proverb"),
        alt.Tooltip("y:Q", format=".2f", title="narratives"),
    ]
    base = alt.Chart(data).encode(x=x, y=y)
    points = base.mark_circle(size=46, color=BLUE, opacity=0.55).encode(tooltip=tooltip)
    line = base.transform_regression("x", "y").mark_line(color=ORANGE, strokeWidth=2.5)
    finding = part.findings[0]
    zeros = sum(value == 0 for value in proverbs.values())
    subtitle = [f"{len(proverbs)} proverbs, {zeros} of which VADER's lexicon scores 0; line: least squares"]
    title = "Sentiment of proverbs and narratives"
    if finding.value is not None and finding.interval is not None:
        low, high = finding.interval
        title = f"Narratives {correlation_verb(finding.value)} the sentiment of their proverb: r = {finding.value:.2f}"
        subtitle.append(f"95 % interval of r: {low:.2f} to {high:.2f}")
    return style_chart((points + line).properties(width=WIDTH, height=HEIGHT), title, subtitle)


def correlation_verb(r: float) -> str:
    """Return the verb that describes a correlation; .1 and .5 are Cohen's (1988) bounds for small and large."""
    if abs(r) < 0.1:
        return "do not follow"
    manner = "closely" if abs(r) >= 0.5 else "loosely"
    return f"{manner} follow" if r > 0 else f"{manner} oppose"


def reading_ease(part: Analysis) -> Any:
    """Plot a histogram of the narratives' Flesch reading ease, with a rule at the mean."""
    import altair as alt

    column = part.narratives["reading_ease"]
    values = [value for value in column.values() if value is not None]
    bars = histogram(values, 5, "Flesch reading ease (points; higher is easier)", "Narratives")
    centre = sum(values) / len(values)
    mark = alt.Data(values=[{"x": centre, "label": f"mean {centre:.1f}"}])
    rule = alt.Chart(mark).mark_rule(color=ORANGE, strokeWidth=2.5).encode(x="x:Q")
    label = (
        alt.Chart(mark)
        .mark_text(color=ORANGE, align="right", dx=-8, fontSize=13, fontWeight="bold", y=10)
        .encode(x="x:Q", text="label:N")
    )
    easy = sum(value >= 60 for value in values) / len(values)
    title = f"{100 * easy:.0f} % of the narratives are plain English or easier (60 points and more)"
    subtitle = [f"{len(values)} narratives; syllables by pyphen, sentences by Punkt; bins of 5 points"]
    return style_chart((bars + rule + label).properties(width=WIDTH, height=HEIGHT), title, subtitle)


def gender(part: Analysis) -> Any:
    """Plot the shares of mentions, and of narratives by predominant gender, as two stacked bars."""
    import altair as alt

    colours = {"male": BLUE, "female": ORANGE, "equally many of both": GREEN, "none": GREY}
    counts = {"Gendered mentions": part.details["mentions"], "Narratives, by majority": part.details["narratives"]}
    data = alt.Data(values=[row for bar, bar_counts in counts.items() for row in stack_bar(bar, bar_counts)])
    bars = alt.Chart(data).encode(
        y=alt.Y(
            "bar:N",
            title=None,
            sort=list(counts),
            axis=alt.Axis(labelFontSize=13, labelPadding=8, ticks=False, domain=False),
        ),
    )
    blocks = bars.mark_bar(height=54).encode(
        x=alt.X("start:Q", title="Share (percent)", scale=alt.Scale(domain=[0, 100])),
        x2="end:Q",
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
            legend=alt.Legend(title=None, orient="top", symbolType="square"),
        ),
        tooltip=[alt.Tooltip("kind:N"), alt.Tooltip("n:Q"), alt.Tooltip("share:Q", format=".1f", title="percent")],
    )
    labels = bars.mark_text(color="white", fontSize=13, fontWeight="bold").encode(x="middle:Q", text="label:N")
    male = share(counts["Gendered mentions"], "male")
    title = f"{male:.0f} of 100 gendered words in the narratives are male"
    subtitle = ["Pronouns and a list of nouns, not coreference: names without a pronoun are not counted"]
    return style_chart((blocks + labels).properties(width=WIDTH, height=170), title, subtitle)


def stack_bar(bar: str, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the blocks of one stacked bar, in percent."""
    rows, start = [], 0.0
    for kind, n in counts.items():
        part = share(counts, kind)
        label = f"{part:.0f} %" if part >= 4 else ""
        name = "equally many of both" if kind == "equal" else kind
        extent = {"start": start, "end": start + part, "middle": start + part / 2}
        rows.append({"bar": bar, "kind": name, "n": n, "share": part, "label": label, **extent})
        start += part
    return rows


def share(counts: Mapping[str, int], key: str) -> float:
    """Return the percentage of one count, or 0 if the counts add up to 0."""
    total = sum(counts.values())
    return 100 * counts[key] / total if total else 0.0


def hyponyms(part: Analysis) -> Any:
    """Plot the most frequent nouns that lie below event or process."""
    import altair as alt

    frequent: Sequence[tuple[str, int]] = part.details["most_frequent"][:MAX_HYPONYMS]
    data = alt.Data(values=[{"lemma": lemma, "n": n} for lemma, n in frequent])
    base = alt.Chart(data).encode(
        y=alt.Y("lemma:N", title=None, sort=None, axis=alt.Axis(labelPadding=6, ticks=False, domain=False)),
        x=alt.X("n:Q", title="Occurrences in the narratives (tokens)", axis=alt.Axis(grid=False)),
        tooltip=["lemma:N", "n:Q"],
    )
    bars = base.mark_bar(color=BLUE, height={"band": 0.75})
    labels = base.mark_text(align="left", dx=4, color=INK, fontSize=11).encode(text="n:Q")
    different, tokens = (finding_value(part, name) for name in ("different hyponyms", "hyponym tokens"))
    title = f"{join_words([lemma for lemma, _ in frequent[:3]])} lead the nouns for events and processes"
    subtitle = [
        f"Hyponyms of event and process in WordNet {part.details['wordnet']} by their first sense: "
        f"{different:.0f} lemmas, {tokens:.0f} tokens",
        f"The {len(frequent)} most frequent are shown",
    ]
    return style_chart((bars + labels).properties(width=WIDTH, height=19 * MAX_HYPONYMS), title, subtitle)


def join_words(words: Sequence[str]) -> str:
    """Join words into an enumeration, e.g. `Time, work and job`."""
    head = ", ".join(words[:-1])
    return (f"{head} and {words[-1]}" if head else "".join(words)).capitalize()


def finding_value(part: Analysis, name: str) -> float:
    return next(finding.value for finding in part.findings if finding.name == name and finding.value is not None)


def lengths(sizes: Analysis, spans: Analysis) -> Any:
    """Plot the narratives' lengths against the words that aligned spans cover; replaces `hyponyms` without WordNet."""
    import altair as alt

    tokens, covered = sizes.narratives["tokens"], spans.narratives["span_words"]
    rows = [(float(n or 0), float(covered[key] or 0)) for key, n in tokens.items()]
    bins = Counter((int(total // 10) * 10, int(inside // 5) * 5) for total, inside in rows)
    data = alt.Data(
        values=[
            {"x": x, "x2": x + 10, "y": y, "y2": y + 5, "n": n}  # one cell of the grid
            for (x, y), n in sorted(bins.items())
        ]
    )
    chart = (
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=alt.X("x:Q", title="Length of the narrative (words)"),
            x2="x2:Q",
            y=alt.Y("y:Q", title="Words within aligned spans"),
            y2="y2:Q",
            color=alt.Color("n:Q", title="Narratives", scale=alt.Scale(scheme="blues")),
            tooltip=["x:Q", "y:Q", "n:Q"],
        )
    )
    part = sum(inside for _, inside in rows) / sum(total for total, _ in rows)
    title = f"{100 * part:.0f} % of a narrative's words are aligned with its proverb"
    subtitle = [f"{len(rows)} narratives in cells of 10 by 5 words; spans that overlap count twice"]
    return style_chart(chart.properties(width=WIDTH, height=HEIGHT), title, subtitle)
