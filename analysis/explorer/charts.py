"""The explorer's charts, as Vega-Lite that Altair writes.

Each chart draws the data set `rows`, which the page fills: every row brings its own colour, shape and words, so that a
scale never changes a kernel's look. The page also fills in `<title>` and the parameters; `hot` is the kernel under the
pointer, in whichever chart or table it is, and all other kernels fade.
Lines and letters are `currentColor`, so that the same charts serve dark and light screens and print.
"""

from __future__ import annotations

from typing import Any, Literal

import altair as alt

INK = "currentColor"
FONT = "system-ui, Liberation Sans, DejaVu Sans, sans-serif"  # as page.css has it: Vega measures labels by it
LABELS = 190  # pixels at most for the names of kernels; the page takes less on a phone

Spec = dict[str, Any]
Layers = alt.LayerChart | alt.FacetChart


def charts() -> dict[str, Spec]:
    """Every chart by the name that the page uses for it."""
    made = {"bars": bars(), "lines": lines(), "points": points(), "differences": differences()}
    made |= {"steps": steps("linear"), "steps_log": steps("log")}
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    whole = {name: chart.properties(width="container", autosize=fit) for name, chart in made.items()}
    return {name: chart.configure(**look()).to_dict() for name, chart in whole.items()}


def look() -> dict[str, Any]:
    """The configuration that all charts share."""
    faint = {"gridColor": INK, "gridOpacity": 0.14, "domainColor": INK, "domainOpacity": 0.5, "tickColor": INK}
    words = {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    return {
        "background": "transparent",
        "font": FONT,
        "axis": faint | words | {"tickOpacity": 0.5, "labelLimit": LABELS},
        "view": {"stroke": None},
        "text": {"color": INK, "fontSize": 12},
        "rule": {"color": INK},
    }


def data() -> alt.Chart:
    """A chart of the page's rows, without marks."""
    return alt.Chart(alt.NamedData("rows"))


def fading(full: float = 1.0) -> Any:
    """The opacity of a mark: a fifth of `full` while the pointer is on another kernel."""
    return alt.condition("hot === '' || datum.variant === hot", alt.value(full), alt.value(full / 5))


def hot() -> alt.Parameter:
    return alt.param(name="hot", value="")


def tooltips() -> list[alt.Tooltip]:
    """The facts of a timing that hovering over its mark shows."""
    return [
        alt.Tooltip("label:N", title="kernel"),
        alt.Tooltip("n:Q", title="n", format=","),
        alt.Tooltip("shown:N", title="<title>"),
        alt.Tooltip("interval:N", title="95% interval"),
        alt.Tooltip("clock:N", title="SM clock"),
        alt.Tooltip("samples:N", title="samples"),
        alt.Tooltip("where:N", title="measured in"),
    ]


def kernels(**more: Any) -> alt.Y:
    """An axis with a row per kernel, in the order that the page gives."""
    return alt.Y(
        "label:N",
        sort=alt.EncodingSortField("order", op="min", order="ascending"),
        title=None,
        axis=alt.Axis(ticks=False, **more),
    )


def bars() -> Layers:
    """A bar per kernel with its interval, and its number behind it."""
    end = alt.param(name="end", value=1)  # where the axis ends: the page leaves room for the numbers
    length = alt.X(
        "value:Q",
        title="<title>",
        axis=alt.Axis(tickCount=8),
        scale=alt.Scale(domainMin=0, domainMax=alt.expr("end"), nice=False),
    )
    base = data().encode(y=kernels(domain=False))
    bar = base.mark_bar(height={"band": 0.72}).encode(
        x=length, color=alt.Color("colour:N", scale=None), opacity=fading(), tooltip=tooltips(), href="link:N"
    )
    interval = base.mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    ends = [base.mark_tick(thickness=1.5, size=9, color=INK).encode(x=f"{side}:Q") for side in ("low", "high")]
    text = base.mark_text(align="left", dx=6).encode(x="high:Q", text="text:N")
    return alt.layer(bar, interval, *ends, text).add_params(end, hot()).properties(height=alt.Step(22))


def lines() -> Layers:
    """A line per kernel over n with its interval as a band, and a rule at the size that is read.

    Sizes whose row is not `joined` have a mark and no line, since a line would suggest values between them. Of
    rows that are a `ratio` of two machines, `level` draws a rule where both are equal.
    """
    at, zero = alt.param(name="at", value=0), alt.param(name="zero", value=True)
    size = alt.X(
        "n:Q",
        title="n (m = n = k)",
        axis=alt.Axis(tickCount=6, labelOverlap=True, labelSeparation=8),
        scale=alt.Scale(nice=False),
    )
    value = alt.Y("value:Q", title="<title>", scale=alt.Scale(zero=alt.expr("zero")))
    colour, series = alt.Color("colour:N", scale=None), alt.Detail("label:N")
    base = data().encode(x=size)
    joined = base.transform_filter("datum.joined")
    band = joined.mark_area().encode(
        y=alt.Y("low:Q"), y2="high:Q", fill=alt.Fill("colour:N", scale=None), detail=series, opacity=fading(0.22)
    )
    dash = alt.StrokeDash("dash:N", scale=None)
    line = joined.mark_line(strokeWidth=1.8).encode(
        y=value, color=colour, detail=series, strokeDash=dash, opacity=fading()
    )
    interval = base.mark_rule(strokeWidth=1.2).encode(
        y="low:Q", y2="high:Q", color=colour, detail=series, opacity=fading()
    )
    point = base.mark_point(size=55, strokeWidth=1.6).encode(
        y=value,
        stroke=alt.Stroke("colour:N", scale=None),
        fill=alt.Fill("fill:N", scale=None),
        detail=series,
        shape=alt.Shape("shape:N", scale=None),
        opacity=fading(),
    )
    equal = alt.condition("datum.ratio", alt.value(1), alt.value(0))
    level = data().mark_rule(strokeDash=[6, 3]).encode(y="level:Q", opacity=equal)
    target = base.mark_point(size=500, opacity=0, filled=True).encode(y=value, detail=series, tooltip=tooltips())
    here = alt.condition("datum.n == at", alt.value(0.6), alt.value(0))
    read = base.mark_rule(strokeDash=[3, 3]).encode(opacity=here)
    return (
        alt.layer(read, level, band, line, interval, point, target).add_params(at, zero, hot()).properties(height=380)
    )


def points() -> Layers:
    """A mark for each kernel and problem of any shape, with its interval, over the cube root of mnk."""
    at, zero = alt.param(name="at", value=0), alt.param(name="zero", value=True)
    size = alt.X("n:Q", title="cube root of mnk", axis=alt.Axis(labelOverlap=True), scale=alt.Scale(type="log", base=2))
    value = alt.Y("value:Q", title="<title>", scale=alt.Scale(zero=alt.expr("zero")))
    colour, base = alt.Color("colour:N", scale=None), data().encode(x=size)
    kernel, _, *rest = tooltips()
    tips = [kernel, alt.Tooltip("problem:N", title="m x n x k"), *rest]
    interval = base.mark_rule(strokeWidth=1.2).encode(y="low:Q", y2="high:Q", color=colour, opacity=fading())
    point = base.mark_point(filled=True, size=55).encode(
        y=value, color=colour, shape=alt.Shape("shape:N", scale=None), tooltip=tips, opacity=fading(0.85)
    )
    here = alt.condition("datum.n == at", alt.value(0.6), alt.value(0))
    read = base.mark_rule(strokeDash=[3, 3]).encode(opacity=here)
    return alt.layer(read, interval, point).add_params(at, zero, hot()).properties(height=380)


def steps(scale: Literal["linear", "log"]) -> Layers:
    """A step of a ladder a row: a metric before (hollow) and after (filled)."""
    value = alt.X("value:Q", title="<title>", axis=alt.Axis(tickCount=6), scale=alt.Scale(type=scale, padding=44))
    tips = [
        alt.Tooltip("label:N", title="step"),
        alt.Tooltip("changed:N", title="what it changes"),
        alt.Tooltip("before_shown:N", title="before"),
        alt.Tooltip("after_shown:N", title="after"),
        alt.Tooltip("text:N", title="change"),
    ]
    base = data().encode(y=kernels(domain=False), tooltip=tips, opacity=fading())
    colour = alt.Color("colour:N", scale=None)
    rule = base.mark_rule(strokeWidth=3).encode(x=value, x2="before:Q", color=colour)
    before = base.mark_point(filled=False, size=60, strokeWidth=1.6).encode(
        x="before:Q", stroke=alt.Stroke("colour:N", scale=None)
    )
    after = base.mark_point(filled=True, size=70).encode(x=value, color=colour, shape=alt.Shape("shape:N", scale=None))
    text = base.mark_text(align="left", dx=8).encode(x="most:Q", text="text:N")
    return alt.layer(rule, before, after, text).add_params(hot()).properties(height=alt.Step(22))


def differences() -> Layers:
    """How much more or less of each metric one kernel has than another, a row per metric of one unit."""
    value = alt.X("value:Q", title="<title>", axis=alt.Axis(tickCount=6), scale=alt.Scale(padding=58))
    tips = [
        alt.Tooltip("label:N", title="metric"),
        alt.Tooltip("before_shown:N", title="A"),
        alt.Tooltip("after_shown:N", title="B"),
        alt.Tooltip("text:N", title="B - A"),
    ]
    base = data().encode(y=kernels(domain=False), tooltip=tips)
    bar = base.mark_bar(height={"band": 0.7}).encode(x=value, color=alt.Color("colour:N", scale=None))
    zero = data().mark_rule(opacity=0.6).encode(x=alt.datum(0))
    number = base.encode(x="value:Q", text="text:N")
    right = number.transform_filter("datum.value >= 0").mark_text(align="left", dx=5)
    left = number.transform_filter("datum.value < 0").mark_text(align="right", dx=-5)
    return alt.layer(bar, zero, left, right).properties(height=alt.Step(22))
