"""The explorer's charts, as Vega-Lite that Altair writes.

Each chart draws the data set `rows`, which the page fills: every row brings its own colour, shape
and text. The page also fills in `<title>` and the parameters. Lines and letters are `currentColor`:
one chart serves dark and light.
"""

from __future__ import annotations

from typing import Any

import altair as alt

Layers = alt.LayerChart | alt.FacetChart  # what Altair declares of a layered chart
INK = "currentColor"
# as in page.css: Vega measures labels with it
FONT = "system-ui, Liberation Sans, DejaVu Sans, sans-serif"


def charts() -> dict[str, dict[str, Any]]:
    """Every chart by the name that the page uses for it."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    layers = {"sizes": sizes(), "roofline": roofline()}
    whole = {
        name: chart.properties(width="container", autosize=fit) for name, chart in layers.items()
    }
    return {name: chart.configure(**look()).to_dict() for name, chart in whole.items()}


def look() -> dict[str, Any]:
    """The configuration that all charts share."""
    words = {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    lines = {
        "gridColor": INK,
        "gridOpacity": 0.14,
        "domainColor": INK,
        "domainOpacity": 0.5,
        "tickColor": INK,
    }
    return {
        "background": "transparent",
        "font": FONT,
        "axis": lines | words | {"tickOpacity": 0.5},
        "view": {"stroke": None},
        "text": {"color": INK, "fontSize": 12},
        "rule": {"color": INK},
    }


def rows(name: str = "rows") -> alt.Chart:
    """A chart of one of the page's data sets, without marks."""
    return alt.Chart(alt.NamedData(name))


def plain(kind: Any, field: str) -> Any:
    """A channel whose values the rows bring as they are."""
    return kind(field, scale=None)


def sizes() -> Layers:
    """A mark for each kernel and measured size, with an error bar, and a rule at the size that is
    read.

    A line connects the rows of a `series`.
    """
    at, zero = alt.param(name="at", value=0), alt.param(name="zero", value=True)
    axis = alt.Axis(tickCount=6, format="d", labelOverlap=True, labelSeparation=8)
    size = alt.X("n:Q", title="n (m = n = k)", axis=axis, scale=alt.Scale(nice=False, padding=12))
    value = alt.Y("value:Q", title="<title>", scale=alt.Scale(zero=alt.expr("zero")))
    colour, series = plain(alt.Color, "colour:N"), alt.Detail("series:N")
    base = rows().encode(x=size)
    line = base.mark_line(strokeWidth=1.8).encode(strokeDash=plain(alt.StrokeDash, "dash:N"))
    bar = base.mark_rule(strokeWidth=1.2).encode(y="low:Q", y2="high:Q", color=colour)
    point = base.mark_point(size=45, strokeWidth=1.6, opacity=1).encode(
        y=value,
        stroke=plain(alt.Stroke, "colour:N"),
        fill=plain(alt.Fill, "fill:N"),
        shape=plain(alt.Shape, "shape:N"),
    )
    tips = [
        alt.Tooltip(f"{field}:N", title=title) for field, title in (("label", "kernel"), ("n", "n"))
    ]
    tips += [
        alt.Tooltip("shown:N", title="<title>"),
        alt.Tooltip("range:N", title="range"),
        alt.Tooltip("gpu:N"),
    ]
    name = alt.Description("label:N")  # for screen readers
    target = base.mark_point(size=400, opacity=0, filled=True).encode(
        y=value, tooltip=tips, description=name
    )
    opacity = alt.condition("datum.n == at", alt.value(0.6), alt.value(0))
    read = base.mark_rule(strokeDash=[3, 3]).encode(opacity=opacity)
    layers = alt.layer(read, line.encode(y=value, color=colour, detail=series), bar, point, target)
    return layers.add_params(at, zero).properties(height=360)


def roofline() -> Layers:
    """TFLOP/s over FLOP per DRAM byte: roofs, an arrow for each step, a mark for each kernel and
    its name.

    Data sets: `roofs` (x, y, roof), `names` (x, y, text) and `rows` (x, y; x0 and y0 of the kernel
    before; angle of the arrow's head in degrees; labelX, labelY and left of the name). The
    parameters left, right, bottom and top are the ends of both axes.
    """
    ends = [alt.param(name=name, value=1) for name in ("left", "right", "bottom", "top")]

    def scale(low: str, high: str) -> alt.Scale:
        return alt.Scale(type="log", domain=[alt.expr(low), alt.expr(high)], nice=False)

    x = alt.X(
        "x:Q",
        title="FLOP per byte of DRAM",
        scale=scale("left", "right"),
        axis=alt.Axis(labelOverlap=True, tickCount=5),
    )
    y = alt.Y(
        "y:Q",
        title="TFLOP/s",
        scale=scale("bottom", "top"),
        axis=alt.Axis(labelOverlap=True, tickCount=5),
    )
    roof = (
        rows("roofs")
        .mark_line(strokeWidth=1.4, color=INK, clip=True)
        .encode(x=x, y=y, detail="roof:N")
    )
    name = (
        rows("names")
        .mark_text(align="left", baseline="bottom", dy=-3)
        .encode(x=x, y=y, text="text:N")
    )
    colour = plain(alt.Color, "colour:N")
    base = rows().encode(x=x, y=y)
    stepped = base.transform_filter("isValid(datum.x0)")
    shaft = stepped.mark_rule(strokeWidth=1.8, aria=False).encode(
        x2="x0:Q", y2="y0:Q", color=colour
    )
    head = stepped.mark_point(shape="triangle-right", filled=True, size=120, opacity=1).encode(
        color=colour, angle=plain(alt.Angle, "angle:Q")
    )
    first = base.transform_filter("!isValid(datum.x0)").mark_point(
        size=70, strokeWidth=1.8, opacity=1
    )
    first = first.encode(stroke=plain(alt.Stroke, "colour:N"), fill=plain(alt.Fill, "fill:N"))
    label = rows().transform_filter("isValid(datum.labelX)").encode(x="labelX:Q", y="labelY:Q")
    leader = label.mark_rule(strokeWidth=0.6, opacity=0.6, aria=False).encode(x2="x:Q", y2="y:Q")
    label = label.encode(text="text:N")
    on_left = label.transform_filter("datum.left").mark_text(align="right", baseline="middle")
    on_right = label.transform_filter("!datum.left").mark_text(align="left", baseline="middle")
    fields = (
        ("label", "kernel"),
        ("speed", "TFLOP/s"),
        ("intensity", "FLOP per byte"),
        ("step", "step"),
    )
    target = base.mark_point(size=300, opacity=0, filled=True).encode(
        tooltip=[alt.Tooltip(f"{field}:N", title=title) for field, title in fields],
        description=alt.Description("label:N"),
    )
    return (
        alt.layer(roof, name, leader, shaft, head, first, on_left, on_right, target)
        .add_params(*ends)
        .properties(height=420)
    )
