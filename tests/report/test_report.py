"""The report: complete in itself, safe whatever columns are called, right in its numbers, and alive in a real browser.

Without Chromium the tests of the living page are skipped, and say so; those of its structure run everywhere.
"""

import base64
import html.parser
import json
import re

import numpy as np
import pytest
from chromium import BINARY, Browser

import harmix as hx
from harmix.report import Fitted, HeldOut, Names, scores, write
from harmix.report.contents import checks, packed
from harmix.report.fitted import Component
from harmix.report.words import bands, number, place

HOSTILE = "y</script><script>document.title='owned'</script><img src=x onerror=alert(1)>&amp;\u2028'\""


def fitted(data, sparse=True):
    """A chirp under a kernel laid along it, in units of its own: x = 100 + 2 u, y = 5 + 3 f."""
    centers = np.linspace(0, 5, 6)[:, None]
    frequency = 0.5 + 0.2 * centers
    kernel = hx.kernels.HarmonizableMixture(centers, [[0.9]], [[0.8]], frequency[:, :, None], [[[0.4]]])
    features = hx.features.FourierFrequencies(frequency[:, None] + np.linspace(-0.6, 0.6, 4)[:, None])
    x, y = data
    post = hx.condition(kernel, features if sparse else None, 0.05 if sparse else 1e-4, ((x - 100) / 2, (y - 5) / 3))
    run = {
        "name": "a",
        "objective": np.array([-9.0, -5.0]),
        "bound": -4.0,
        "jitter": 0.0,
        "iterations": 2,
        "message": "done",
        "seconds": 1.0,
    }
    runs = (run, run | {"name": "b", "objective": np.array([-9.0, -6.0])})
    return Fitted(
        post, kernel, features, 0.05, np.array([100.0]), np.array([2.0]), 5.0, 3.0, np.array([[100.0], [110.0]]), runs, 0
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    u = np.sort(rng.uniform(0, 5, 60))
    x, y = 100 + 2 * u, 5 + 3 * np.cos(2 * np.pi * (0.5 * u + 0.1 * u**2)) + 0.6 * rng.normal(size=60)
    out = np.zeros(60, bool)
    out[20:32] = True
    before, after = fitted((x[~out], y[~out])), fitted((x, y))
    held = HeldOut(x[out][:, None], y[out], *before.predict(x[out], noise=True))
    path = tmp_path_factory.mktemp("report") / "report.html"
    names = Names(HOSTILE, (HOSTILE,), HOSTILE, "s")
    how = [("Shell", f"harmix fit '{HOSTILE}'")]
    write(path, after, names, x=x[:, None], y=y, held=held, before=before, notes=[HOSTILE], how=how)
    return path, after, held, (x, y)


class Outline(html.parser.HTMLParser):
    """Elements of a page with their attributes, and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] == "script":
            self.scripts.append(data)
        else:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def outline(page):
    return Outline(page[0].read_text(encoding="utf-8"))


def test_it_is_complete_in_itself(page, outline):
    assert [s.get("src") for s in outline.all("script")] == [None] * 3
    links = [a.get(k) for _, a in outline.elements for k in ("src", "href") if k in a]
    assert all(link.startswith("data:") for link in links), links
    (style,) = re.findall(r"<style>(.*?)</style>", page[0].read_text(encoding="utf-8"), flags=re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = [m["content"] for m in outline.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy


def test_the_policy_lets_only_its_own_scripts_run(page, outline):
    import hashlib

    (policy,) = [m["content"] for m in outline.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    allowed = re.findall(r"'sha256-(.+?)'", policy)
    ours = re.findall(r"<script>(.*?)</script>", page[0].read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in ours] == allowed


def test_whatever_columns_are_called_is_only_text(outline):
    assert not outline.all("img")
    assert len(outline.all("script")) == 3
    assert not [a for _, a in outline.elements if any(name.startswith("on") for name in a)]
    assert HOSTILE in outline.text
    content = json.loads(outline.scripts[0])
    assert content["names"]["y"] == HOSTILE


def test_figures_have_names_and_descriptions_for_those_who_do_not_see_them(outline):
    figures = [a["id"] for a in outline.all("figure")]
    assert figures == ["signal", "picture", "residuals", "coverage", "histogram", "history"]
    ids = {a["id"] for _, a in outline.elements if "id" in a}
    assert all({f"{name}-title", f"{name}-text"} <= ids for name in figures)
    assert all(a.get("aria-label") or a.get("data-action") == "reset" for a in outline.all("button"))
    assert dict(outline.elements)["html"] == {"lang": "en"}
    assert any(m.get("name") == "viewport" for m in outline.all("meta"))


def test_the_numbers_in_it_are_those_of_the_model(page, outline):
    _, model, held, (x, _) = page
    content = json.loads(outline.scripts[0])
    signal = content["signal"]
    grid = np.array(signal["x"])
    mean, deviation = model.predict(grid)
    np.testing.assert_allclose(signal["mean"], mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.array(signal["upper"]) - signal["lower"], 2 * 1.6448536 * deviation, rtol=1e-3, atol=1e-4)
    picture = content["picture"]
    layer = picture["layers"][0]["packed"]
    raw = np.frombuffer(base64.b64decode(layer["data"]), "<u2").reshape(len(picture["times"]), len(picture["frequencies"]))
    values = layer["low"] + raw / 65535 * (layer["high"] - layer["low"])
    direct = model.spectrogram(np.array(picture["times"]), np.array(picture["frequencies"]), picture["width"])
    np.testing.assert_allclose(values, np.sqrt(direct.mean), atol=1e-4 * layer["high"])
    assert len(content["checks"]["residuals"]["x"]) == len(x)  # held-out points count once, as they were predicted
    assert sum(content["checks"]["residuals"]["held"]) == len(held.y)


def test_a_sine_shows_with_its_amplitude_and_frequency_in_the_units_of_the_data():
    u = np.linspace(0, 5, 300)
    x, y = 100 + 2 * u, 5 + 1.5 * np.sin(2 * np.pi * 0.8 * u)  # 0.4 cycles per unit of x
    model = fitted((x, y), sparse=False)
    frequencies = np.linspace(0.1, 0.8, 71)
    power = model.spectrogram(np.array([105.0]), frequencies, 1.5)
    assert abs(frequencies[np.argmax(power.mean[0])] - 0.4) < 0.011
    assert abs(np.sqrt(np.max(power.mean)) - 1.5) < 0.05
    wigner = model.wigner(np.array([105.0]), np.linspace(-2, 2, 801))
    total = np.sum(wigner[0]) * 4 / 800
    mean, deviation = model.predict(np.array([105.0]))
    np.testing.assert_allclose(total, (mean[0] - 5) ** 2 + deviation[0] ** 2, rtol=1e-3)


def test_without_data_it_shows_what_the_model_knows(page, tmp_path):
    _, model, _, _ = page
    write(tmp_path / "bare.html", model, Names("bare", ("t",), "v"))
    found = Outline((tmp_path / "bare.html").read_text())
    assert [a["id"] for a in found.all("figure")] == ["signal", "picture", "history"]


def test_with_two_inputs_there_are_words_and_checks(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (40, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=40)
    kernel = hx.kernels.HarmonizableMixture([[0.0, 0.0]], [[1.0, 1.0]], [[0.5, 0.5]], [[[0.4, 0.0]]], [[[1.0]]])
    post = hx.condition(kernel, None, 0.01, (X, y))
    model = Fitted(post, kernel, None, 0.01, np.zeros(2), np.ones(2), 0.0, 1.0, np.array([[-1.0, -1], [1, 1]]))
    write(tmp_path / "two.html", model, Names("two", ("a", "b"), "v"), x=X, y=y)
    found = Outline((tmp_path / "two.html").read_text())
    assert [a["id"] for a in found.all("figure")] == ["residuals", "coverage", "histogram"]
    assert "frequencies a 0.4, b 0 cycles per unit" in found.text


def test_scores_and_coverage_of_a_calibrated_forecast():
    rng = np.random.default_rng(0)
    y = rng.normal(size=4000)
    held = HeldOut(np.arange(4000.0)[:, None], y, np.zeros(4000), np.ones(4000))
    found = scores(held)
    assert abs(found["coverage"] - 0.9) < 0.02
    assert abs(found["log_density"] + 0.5 * np.log(2 * np.pi * np.e)) < 0.05

    model = fitted((np.linspace(100, 110, 9), np.full(9, 5.0)))
    content = checks(model, np.array([[105.0]]), np.array([5.0]), held)
    coverage = content["coverage"]
    inside = [low <= f <= high for low, f, high in zip(coverage["low"], coverage["found"], coverage["high"], strict=True)]
    assert np.mean(inside) > 0.8
    narrow = checks(model, np.array([[105.0]]), np.array([5.0]), held._replace(deviation=np.full(4000, 0.5)))["coverage"]
    assert all(f < low for low, f in zip(narrow["low"][2:], narrow["found"][2:], strict=True))


def test_packed_pictures_keep_four_digits():
    values = np.random.default_rng(0).normal(size=(7, 5))
    one = packed(values)
    raw = np.frombuffer(base64.b64decode(one["data"]), "<u2").reshape(7, 5)
    np.testing.assert_allclose(one["low"] + raw / 65535 * (one["high"] - one["low"]), values, atol=1e-4)
    assert packed(np.zeros((2, 2)))["high"] > 0


@pytest.mark.parametrize(
    ("frequencies", "powers", "words"),
    [
        ([2.0, 2.0, 2.0], [1, 1, 1], "An oscillation of frequency 2 per s (period 0.5 s), throughout"),
        ([1.0, 2.0, 3.0], [1, 1, 1], "rising from frequency 1 to 3 per s"),
        ([3.0, 2.0, 1.0], [1, 1, 1], "falling from frequency 3 to 1 per s"),
        ([0.0, 0.0, 0.0], [1, 1, 1], "A slow variation without oscillation, throughout"),
        ([2.0, 2.0, 2.0], [1, 1e-3, 1e-6], "from t 0.0 to"),
    ],
)
def test_components_in_words(frequencies, powers, words):
    parts = [
        Component(np.array([c]), np.array([3.0]), np.array([4.0]), np.array([f]), float(p))
        for c, f, p in zip([0.0, 5.0, 10.0], frequencies, powers, strict=True)
    ]
    (band,) = bands(parts, (0.0, 10.0), "t", "s")
    assert words in band.words
    assert band.share == 1.0


def test_numbers_and_places_as_people_write_them():
    assert [number(v) for v in (0.0, 1234567.0, 0.00012345, -2.5, 1e-9)] == [
        "0",
        "1230000",
        "0.000123",
        "\N{MINUS SIGN}2.5",
        "1.00e\N{MINUS SIGN}09",
    ]
    assert [place(1612.25, 400.0), place(0.12345, 0.5)] == ["1612", "0.12"]


# --- in a real browser ---------------------------------------------------------------------------------------------------

alive = pytest.mark.skipif(BINARY is None, reason="no Chromium here: what the page does is not tested, only how it is built")


@pytest.fixture(scope="module")
def browser():
    with Browser() as tab:
        yield tab


@alive
def test_in_a_browser_it_opens_without_errors_and_asks_for_nothing(browser, page):
    browser.open(page[0])
    assert browser.evaluate("document.documentElement.dataset.ready") == "true"
    assert browser.evaluate("document.title") == HOSTILE.replace("\u2028", "\u2028")
    assert browser.evaluate("document.querySelectorAll('svg.figure').length") == 6
    assert browser.evaluate(
        "[...document.querySelectorAll('svg.figure')].every(s => s.getAttribute('role') === 'img' && s.children.length > 3)"
    )
    assert browser.problems == []
    assert all(url.startswith(("file:", "data:")) for url in browser.requests)


def area(browser, name):
    browser.evaluate(f"document.getElementById('{name}').scrollIntoView()")
    box = f"document.querySelector('#{name} svg').getBoundingClientRect()"
    return browser.evaluate(f"[{box}.left, {box}.top, {box}.width, {box}.height]")


def shown(browser):
    return browser.evaluate("time.range")


@alive
def test_in_a_browser_dragging_zooms_all_figures_and_a_double_click_shows_all_again(browser, page):
    browser.open(page[0])
    whole = shown(browser)
    ticks = "[...document.querySelectorAll('#picture .tick')].map(t => t.textContent).join()"
    before = browser.evaluate(ticks)
    left, top, width, _ = area(browser, "signal")
    browser.drag((left + 0.3 * width, top + 80), (left + 0.6 * width, top + 120))
    low, high = shown(browser)
    assert whole[0] < low < high < whole[1]
    assert 0.25 < (high - low) / (whole[1] - whole[0]) < 0.4
    assert browser.evaluate(ticks) != before  # the picture has the same axis
    browser.evaluate("document.querySelector('#signal svg').dispatchEvent(new MouseEvent('dblclick'))")
    assert shown(browser) == whole
    browser.evaluate("document.querySelector('#picture button[data-action=in]').click()")
    assert shown(browser)[1] - shown(browser)[0] == pytest.approx((whole[1] - whole[0]) / 2)
    browser.evaluate("document.querySelector('#residuals button[data-action=reset]').click()")
    assert shown(browser) == whole
    assert browser.problems == []


@alive
def test_in_a_browser_the_cursor_reads_out_what_the_model_says(browser, page):
    browser.open(page[0])
    left, top, width, _ = area(browser, "signal")
    browser.mouse("mouseMoved", left + 0.5 * width, top + 100)
    text = browser.evaluate("document.querySelector('#signal output').textContent")
    # Axes leave 66 pixels to the left of them, and 12 to the right.
    place = f"time.range[0] + {(0.5 * width - 66) / (width - 78)} * (time.range[1] - time.range[0])"
    at = browser.evaluate(f"signal.mean[nearest(signal.x, {place})]")
    assert f"{at:.2f}".replace("-", "\N{MINUS SIGN}")[:4] in text
    assert "new observation" in text
    browser.evaluate("document.querySelector('#picture svg').focus()")
    browser.send("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    assert "frequency" in browser.evaluate("document.querySelector('#picture output').textContent")


@alive
def test_in_a_browser_the_picture_can_be_the_wigner_distribution_with_inducing_frequencies(browser, page):
    browser.open(page[0])
    assert browser.evaluate("document.querySelectorAll('#picture path.inducing').length") == 0
    browser.evaluate(
        "layer.selectedIndex = 2; layer.dispatchEvent(new Event('change')); document.getElementById('show-inducing').click()"
    )
    assert browser.evaluate("document.querySelectorAll('#picture path.inducing').length") == 1
    assert "White is zero" in browser.evaluate("document.getElementById('picture-note').textContent")
    assert browser.problems == []


@alive
def test_in_a_browser_a_phone_needs_no_sideways_scrolling(browser, page):
    browser.open(page[0], width=390, height=844, mobile=True)
    wide = browser.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, pre, "
        "svg') && e.getBoundingClientRect().right > 391).length"
    )
    assert wide == 0
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
