"""The sections of the report, in the order in which a person asks: what is it, when and how fast, can I trust it, how was it made."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harmix.report import contents, page, words
from harmix.report.contents import HeldOut
from harmix.report.fitted import LEVEL, Fitted
from harmix.report.words import number

_MILLISECONDS = {
    "year": 31_557_600e3,
    "day": 86_400e3,
    "hour": 3_600e3,
    "minute": 60e3,
    "second": 1e3,
    "millisecond": 1.0,
    "microsecond": 1e-3,
}


class Names(NamedTuple):
    """What things are called.

    Attributes:
        title: of the report.
        x: of the inputs.
        y: of the target.
        unit: of the first input, "" where it is not known.
        origin: the moment that a time axis counts from, or None.
    """

    title: str
    x: tuple[str, ...]
    y: str
    unit: str = ""
    origin: str | None = None


def write(
    path: str | Path,
    fitted: Fitted,
    names: Names,
    *,
    x: np.ndarray | None = None,
    y: np.ndarray | None = None,
    held: HeldOut | None = None,
    before: Fitted | None = None,
    truth: Any = None,
    notes: Sequence[str] = (),
    how: Sequence[tuple[str, str]] = (),
    scored: dict[str, Any] | None = None,
) -> Path:
    """Writes the report, and returns where it is.

    Args:
        path: the HTML file.
        fitted: the model.
        names: of everything.
        x: `(n, D)` all data; without them the report shows what the model knows.
        y: `(n,)`.
        held: those that were held out, as predicted before they were seen.
        before: the model before it had seen them.
        truth: the noiseless signal as a function of `(n,)`, where it is known.
        notes: what a person should know, one sentence each.
        how: commands and files to do it again, (heading, text) each.
        scored: scores of an earlier held-out check, where its data are not here any more.
    """
    scored = contents.scores(held) if held is not None else scored
    parts = fitted.components()
    content: dict[str, Any] = {
        "names": {
            "x": names.x[0],
            "y": names.y,
            "unit": names.unit,
            "origin": names.origin,
            "milliseconds": _MILLISECONDS.get(names.unit),
        },
        "colours": contents.colours(),
        "signal": None,
        "picture": None,
        "checks": None,
        "history": contents.history(fitted),
    }
    one = fitted.input_dim == 1
    sections = [_summary(fitted, names, parts, x, scored, notes)]
    if one:
        span = float(fitted.domain[1, 0] - fitted.domain[0, 0])
        width = contents.window_width(parts, span)
        highest = contents.highest_frequency(parts, width)
        flat = None if x is None else x[:, 0]
        content["signal"] = contents.signal(fitted, flat, y, held, highest, before=before, truth=truth)
        content["picture"] = contents.picture(fitted, highest, width)
        sections += [_signal(content["signal"], names, held, before, truth), _picture(content["picture"], names)]
    sections.append(_components(fitted, names, parts))
    if x is not None and y is not None:
        content["checks"] = contents.checks(fitted, x, y, held)
        sections.append(_checks(content["checks"], names, scored, one, before is not None))
    sections += [_history(fitted), _how(how)]
    html = page.render(names.title, _subtitle(fitted, names, x), "\n".join(filter(None, sections)), content)
    path = Path(path)
    path.write_text(html, encoding="utf-8")
    return path


def _subtitle(fitted: Fitted, names: Names, x: np.ndarray | None) -> str:
    rows = "" if x is None else f"{len(x):,} observations of "
    return f"{rows}{names.y} over {', '.join(names.x)}, learned with a harmonizable mixture kernel."


def _range(fitted: Fitted, names: Names) -> str:
    low, high = float(fitted.domain[0, 0]), float(fitted.domain[1, 0])
    if names.origin is None:
        return f"{words.place(low, high - low)} to {words.place(high, high - low)}{' ' + names.unit if names.unit else ''}"
    moment = lambda v: str(np.datetime64(names.origin, "ms") + np.timedelta64(round(v * _MILLISECONDS[names.unit]), "ms"))
    digits = 10 if (high - low) * _MILLISECONDS[names.unit] > 3 * 864e5 else 19
    return f"{moment(low)[:digits]} to {moment(high)[:digits]}"


def _summary(
    fitted: Fitted,
    names: Names,
    parts: Sequence[Any],
    x: np.ndarray | None,
    scored: dict[str, Any] | None,
    notes: Sequence[str],
) -> str:
    entries = [("observations", f"{len(x):,}")] if x is not None else []
    entries += [("range", _range(fitted, names)), ("noise (standard deviation)", number(fitted.noise))]
    lede = ""
    if fitted.input_dim == 1:
        found = [b for b in words.bands(parts, _domain(fitted), names.x[0], _counted(names)) if b.share > 0.01]
        lines = [b for b in found if b.kind == "oscillation"]
        say = "one oscillation" if len(lines) == 1 else f"{len(lines)} oscillations" if lines else "no oscillation"
        trend = " and a slow variation" if any(b.kind == "trend" for b in found) else ""
        lede = f'<p class="lede">In {escape(names.y)} harmix found {say}{trend}. {escape(found[0].words) if found else ""}</p>'
    if scored is not None:
        entries.append(
            ("error on held-out data (RMSE)", f"{number(scored['rmse'])}  (their spread is {number(scored['spread'])})")
        )
        entries.append(
            (f"held-out data inside the {scored['level']:.0%} band", f"{scored['coverage']:.0%} of {scored['count']:,}")
        )
    warnings = "".join(f'<p class="warning">{escape(note)}</p>' for note in notes)
    return f"<section>{lede}{page.facts(entries)}{warnings}</section>"


def _domain(fitted: Fitted) -> tuple[float, float]:
    return float(fitted.domain[0, 0]), float(fitted.domain[1, 0])


def _counted(names: Names) -> str:
    return names.unit


def _signal(content: dict[str, Any], names: Names, held: HeldOut | None, before: Fitted | None, truth: Any) -> str:
    entries = [
        ("mean", "posterior mean"),
        ("band", f"{LEVEL:.0%} band of the signal"),
        ("noise", f"{LEVEL:.0%} band of a new observation"),
    ]
    if content["count"]:
        entries.append(("dots", "data"))
    if held is not None:
        entries.append(("held", "held out from learning"))
    if truth is not None:
        entries.append(("truth", "the truth"))
    thinned = (
        f"{content['shown']:,} of {content['count']:,} observations are drawn. " if content["shown"] < content["count"] else ""
    )
    controls = page.CONTROLS
    if before is not None:
        controls += '<label><input type="checkbox" id="show-before">as it was before it saw the held-out points</label>'
    text = (
        f"Line of the posterior mean of {names.y} over {names.x[0]} with its {LEVEL:.0%} band, which widens where there are no data"
        f"{', and the observations as points' if content['count'] else ''}."
    )
    caption = page.key(*entries) + thinned + page.HINT
    figure = page.figure("signal", f"{names.y} over {names.x[0]}", text, caption, controls=controls)
    return f"<section><h2>The record and what the model makes of it</h2>{figure}</section>"


def _picture(content: dict[str, Any], names: Names) -> str:
    options = "".join(f"<option>{escape(layer['name'])}</option>" for layer in content["layers"])
    controls = (
        f'<label>show <select id="layer">{options}</select></label>'
        '<label><input type="checkbox" id="show-components">components</label>'
        '<label><input type="checkbox" id="show-inducing">inducing frequencies</label>'
    ) + page.CONTROLS
    text = (
        f"Heat map of the posterior of {names.y}: {names.x[0]} to the right, frequency upwards, colour for amplitude. To its right the "
        f"mean power at each frequency, below it the amplitude at each {names.x[0]}, each with its {LEVEL:.0%} band. "
        "The table of components says the same in words."
    )
    first = f'<span id="picture-note">{escape(content["layers"][0]["note"])}</span>'
    caption = (
        f"{first} Red dots: components of the kernel, with bars as wide as their windows; black dots: inducing frequencies. "
        "To the right: power (squared amplitude) averaged over the record; below: amplitude of all frequencies together. "
        f"The mean of the record has been taken out. {' '.join(map(escape, content['notes']))}"
    )
    figure = page.figure("picture", f"Time and frequency of {names.y}", text, caption, controls=controls)
    return f"<section><h2>When it has which frequencies</h2>{figure}</section>"


def _components(fitted: Fitted, names: Names, parts: Sequence[Any]) -> str:
    if fitted.input_dim > 1:
        rows = [(f"{r['share']:.0%}", r["words"]) for r in words.components_in_words(parts, names.x)[:40]]
        return f"<section><h2>The components in words</h2>{page.table(('share', 'what'), rows, numbers=(0,))}</section>"
    found = words.bands(parts, _domain(fitted), names.x[0], _counted(names))
    shares = []
    for b in found:
        frequency = (
            number(b.frequency[0])
            if b.frequency[1] < 1.1 * b.frequency[0]
            else f"{number(b.frequency[0])} to {number(b.frequency[1])}"
        )
        shares.append(
            (f"{b.share:.1%}", "0" if b.kind == "trend" else frequency, number(b.window), number(b.lengthscale), b.words)
        )
    head = ("share", "frequency", "window", "keeps its phase over", "in words")
    per = f" per {names.unit}" if names.unit else f" per unit of {names.x[0]}"
    note = (
        f"Shares are of the variance that the kernel has within the record; frequencies in cycles{per}; window: the standard "
        "deviation of the envelopes that follow one another along the record."
    )
    shown = page.table(head, shares, numbers=(0, 1, 2, 3), style="wordy")
    return f'<section><h2>The components in words</h2>{shown}<p class="soft">{escape(note)}</p></section>'


def _checks(content: dict[str, Any], names: Names, scored: dict[str, Any] | None, one: bool, added: bool) -> str:
    if content["held_out"] and scored is not None:
        ratio = scored["rmse"] / scored["spread"] if scored["spread"] > 0 else 1.0
        then = ", and only then added to the model" if added else ""
        verdict = (
            f"{scored['count']:,} observations were held out and predicted{then}. The root mean square error was "
            f"{number(scored['rmse'])}, {ratio:.0%} of their spread; {scored['coverage']:.0%} of them lie inside the "
            f"{LEVEL:.0%} band for new observations; mean log density {number(scored['log_density'])}."
        )
        judged = "held-out observations"
    else:
        verdict = (
            "Nothing was held out: these checks look at the data the model has seen, and flatter it. "
            "Fit with --holdout 0.2 for an honest check."
        )
        judged = "observations"
    outside = content["coverage"]
    # A band of 19 in 20 at each level: one of twenty levels may well lie outside of it.
    narrow = sum(f < low - 1e-9 for f, low in zip(outside["found"], outside["low"], strict=True))
    wide = sum(f > high + 1e-9 for f, high in zip(outside["found"], outside["high"], strict=True))
    if max(narrow, wide) > 2:
        verdict += (
            " At several levels its bands are too narrow: more lies outside than they promise."
            if narrow >= wide
            else " At several levels its bands are wider than they need be."
        )
    over = names.x[0] if one else "prediction"
    pictures = [
        page.figure(
            "residuals",
            f"Residuals over {over}",
            f"Points: how far each observation lies from its prediction, in standard deviations, over {over}.",
            page.key(("dots", "fitted"), ("held", "held out"))
            + f"Nine in ten should lie within the pale band, without a pattern along {escape(over)}.",
        ),
        '<div class="pair">',
        page.figure(
            "coverage",
            "Calibration",
            f"Share of {judged} inside bands of the promised probability: on the diagonal where the error bars are honest.",
            f"Share of {judged} found inside bands of each probability; the band is where 19 in 20 honest models would be.",
            controls="",
        ),
        page.figure(
            "histogram",
            "Histogram of residuals",
            f"Standardised residuals of {judged} beside the normal density.",
            f"Standardised residuals of {judged}; dashed: the normal density.",
            controls="",
        ),
        "</div>",
    ]
    return f"<section><h2>Can it be trusted?</h2><p>{escape(verdict)}</p>{''.join(pictures)}</section>"


def _history(fitted: Fitted) -> str:
    if not fitted.restarts:
        return ""
    rows = [
        (
            ("\N{BLACK RIGHT-POINTING TRIANGLE} " if i == fitted.chosen else "") + str(r["name"]),
            f"{r['objective'][-1]:.2f}" if len(r["objective"]) else "",
            f"{r['bound']:.2f}",
            str(r["iterations"]),
            f"{r['seconds']:.1f}",
            f"{r['jitter']:.1e}",
            str(r["message"]),
        )
        for i, r in enumerate(fitted.restarts)
    ]
    chart = page.figure(
        "history",
        "Training history",
        "Objective of every restart after each iteration; the chosen one stands out.",
        "What every restart climbs: the lower bound on the evidence with the prior, then also how well blocks of the record are told "
        "from the rest (where that begins, it starts afresh). The chosen one is red. No held-out point has a say.",
        controls="",
    )
    head = ("start", "objective", "bound", "iterations", "seconds", "jitter", "why it stopped")
    return f"<section><h2>How it was learned</h2>{chart}{page.table(head, rows, numbers=(1, 2, 3, 4, 5))}</section>"


def _how(how: Sequence[tuple[str, str]]) -> str:
    if not how:
        return ""
    blocks = "".join(f"<h3>{escape(heading)}</h3><pre>{escape(text)}</pre>" for heading, text in how)
    return f"<section><h2>How to reproduce this</h2>{blocks}</section>"
