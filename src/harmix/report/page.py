"""The page: sections in HTML, with everything a person has named escaped, and the figures' numbers and scripts inside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import harmix

CONTROLS = (
    '<button type="button" data-action="in" aria-label="Zoom in">+</button>'
    '<button type="button" data-action="out" aria-label="Zoom out">\N{MINUS SIGN}</button>'
    '<button type="button" data-action="left" aria-label="Move left">\N{LEFTWARDS ARROW}</button>'
    '<button type="button" data-action="right" aria-label="Move right">\N{RIGHTWARDS ARROW}</button>'
    '<button type="button" data-action="reset">whole record</button>'
)
HINT = '<span class="hint">Drag over a figure to zoom, double-click to see all of it; arrow keys move a cursor.</span>'


def figure(name: str, title: str, description: str, caption: str, *, controls: str = CONTROLS) -> str:
    """A figure with a name and a description for those who do not see it. Title, description and caption are plain text.

    Args:
        name: identifies it; the script draws into it.
        title: its accessible name.
        description: what it shows.
        caption: below it; HTML that has been escaped.
        controls: buttons above it, HTML; "" for a figure that stands still.
    """
    bar = f'<div class="bar-of-controls" role="group" aria-label="Controls of the figure">{controls}</div>' if controls else ""
    readout = '<output aria-live="polite"></output>' if controls else ""
    return (
        f'<figure id="{name}"><span id="{name}-title" hidden>{escape(title)}</span>'
        f'<span id="{name}-text" hidden>{escape(description)}</span>{bar}<div class="canvas"></div>{readout}'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def facts(entries: Sequence[tuple[str, str]]) -> str:
    """Short facts side by side."""
    return '<dl class="facts">' + "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in entries) + "</dl>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = (), style: str = "") -> str:
    """A table of plain text; columns in `numbers` are aligned to the right."""
    kind = lambda i: ' class="number"' if i in numbers else ""
    top = "".join(f'<th scope="col"{kind(i)}>{escape(h)}</th>' for i, h in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f'<td{kind(i)} data-label="{escape(head[i])}">{escape(c)}</td>' for i, c in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table class="{style}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def key(*entries: tuple[str, str]) -> str:
    """The legend of a figure: style and plain text."""
    return "".join(f'<span class="key k-{style}"></span>{escape(text)}' for style, text in entries) + ". "


def render(title: str, subtitle: str, body: str, content: dict[str, Any]) -> str:
    """The whole file.

    Args:
        title: plain text.
        subtitle: plain text.
        body: HTML that has been escaped.
        content: the numbers of the figures.
    """
    assets = files("harmix.report") / "assets"
    text = lambda name: (assets / name).read_text(encoding="utf-8").strip()
    # Inside a script element "</script>" and "<!--" would end it, whatever quotes they are in.
    data = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    scripts = [text("plot.js"), text("report.js")]
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return Template(text("report.html")).substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        version=escape(harmix.__version__),
        css=text("report.css"),
        body=body,
        content=data,
        plot=scripts[0],
        script=scripts[1],
        hashes=hashes,
    )
