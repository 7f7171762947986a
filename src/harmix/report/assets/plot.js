"use strict";
// Figures in SVG: scales, ticks, zooming and a cursor. No library, no network; text only ever becomes a text node.

const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes = {}, parent = null, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

function decimals(step) {
  return clamp(Math.ceil(-Math.log10(step) - 1e-9), 0, 12);
}

// A number as people write it: as many digits as the range needs.
function written(value, range) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.max(Math.abs(value), Math.abs(range));
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(2).replace("e", " × 10^").replace("^+", "^");
  return value.toFixed(decimals(Math.max(Math.abs(range) / 1000, 1e-12))).replace("-", "−");
}

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * (1 - 1e-9));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
  const large = Math.max(Math.abs(low), Math.abs(high));
  const label = (v) =>
    large >= 1e6 || large < 1e-3 ? v.toExponential(Math.max(0, Math.ceil(Math.log10(large / step))) | 0) : v.toFixed(decimals(step));
  return found.map((v) => ({ value: v, label: label(Math.abs(v) < 1e-9 * step ? 0 : v).replace("-", "−") }));
}

// What part of an axis is shown; several figures may look at one view.
class View {
  constructor(low, high) {
    this.whole = [low, high];
    this.range = [low, high];
    this.listeners = [];
  }
  onChange(listener) {
    this.listeners.push(listener);
  }
  set(low, high) {
    const [first, last] = this.whole;
    const smallest = 1e-6 * (last - first);
    if (!(high - low >= smallest)) return;
    const width = Math.min(high - low, last - first);
    const start = clamp(low, first, last - width);
    this.range = [start, start + width];
    this.listeners.forEach((listener) => listener());
  }
  reset() {
    this.set(...this.whole);
  }
  zoom(factor, at = (this.range[0] + this.range[1]) / 2) {
    this.set(at - (at - this.range[0]) * factor, at + (this.range[1] - at) * factor);
  }
  shift(fraction) {
    const step = fraction * (this.range[1] - this.range[0]);
    this.set(this.range[0] + step, this.range[1] + step);
  }
  get isWhole() {
    return this.range[0] <= this.whole[0] && this.range[1] >= this.whole[1];
  }
}

// One pair of axes inside an SVG. `box` is {left, top, width, height} in pixels.
class Panel {
  constructor(svg, box, x, y, options = {}) {
    Object.assign(this, { svg, box, x, y, options });
    const id = `clip-${Panel.count++}`;
    make("rect", { x: box.left, y: box.top, width: box.width, height: box.height }, make("clipPath", { id }, svg));
    this.back = make("g", { class: "axes", "aria-hidden": "true" }, svg);
    this.marks = make("g", { "clip-path": `url(#${id})`, "aria-hidden": "true" }, svg);
    this.drawAxes();
  }
  toX(value) {
    return this.box.left + ((value - this.x[0]) / (this.x[1] - this.x[0])) * this.box.width;
  }
  toY(value) {
    return this.box.top + (1 - (value - this.y[0]) / (this.y[1] - this.y[0])) * this.box.height;
  }
  fromX(pixel) {
    return this.x[0] + ((pixel - this.box.left) / this.box.width) * (this.x[1] - this.x[0]);
  }
  fromY(pixel) {
    return this.y[0] + (1 - (pixel - this.box.top) / this.box.height) * (this.y[1] - this.y[0]);
  }
  has(x, y) {
    const { left, top, width, height } = this.box;
    return x >= left && x <= left + width && y >= top && y <= top + height;
  }
  drawAxes() {
    const { left, top, width, height } = this.box;
    const { xLabel, yLabel, xTicks = true, yTicks = true, grid = true } = this.options;
    const bottom = top + height;
    for (const tick of ticks(...this.x, Math.max(2, Math.round(width / 85)))) {
      const at = this.toX(tick.value);
      if (grid) make("line", { x1: at, x2: at, y1: top, y2: bottom, class: "grid" }, this.back);
      if (xTicks) make("text", { x: at, y: bottom + 14, class: "tick", "text-anchor": "middle" }, this.back, tick.label);
    }
    for (const tick of ticks(...this.y, Math.max(2, Math.round(height / 45)))) {
      const at = this.toY(tick.value);
      if (grid) make("line", { x1: left, x2: left + width, y1: at, y2: at, class: "grid" }, this.back);
      if (yTicks) make("text", { x: left - 5, y: at + 4, class: "tick", "text-anchor": "end" }, this.back, tick.label);
    }
    make("rect", { x: left, y: top, width, height, class: "frame" }, this.back);
    if (xLabel) make("text", { x: left + width / 2, y: bottom + 30, class: "label", "text-anchor": "middle" }, this.back, xLabel);
    if (yLabel)
      make("text", { transform: `translate(12 ${top + height / 2}) rotate(-90)`, class: "label", "text-anchor": "middle" }, this.back, yLabel);
  }
  // Only what is in view, and one step beyond at either side, so that a zoomed figure stays light.
  visible(xs) {
    let first = 0;
    let last = xs.length;
    while (first < xs.length - 1 && xs[first + 1] < this.x[0]) first++;
    while (last > 1 && xs[last - 2] > this.x[1]) last--;
    return [first, last];
  }
  line(xs, ys, style) {
    const [first, last] = this.visible(xs);
    let path = "";
    for (let i = first; i < last; i++) path += `${i === first ? "M" : "L"}${this.toX(xs[i]).toFixed(1)} ${this.toY(ys[i]).toFixed(1)}`;
    return make("path", { d: path, class: style }, this.marks);
  }
  band(xs, lower, upper, style) {
    const [first, last] = this.visible(xs);
    const there = [];
    const back = [];
    for (let i = first; i < last; i++) {
      const at = this.toX(xs[i]).toFixed(1);
      there.push(`${at} ${this.toY(upper[i]).toFixed(1)}`);
      back.push(`${at} ${this.toY(lower[i]).toFixed(1)}`);
    }
    return make("path", { d: `M${there.concat(back.reverse()).join("L")}Z`, class: style }, this.marks);
  }
  // One path of dots: a stroke of no length with round ends is a disc.
  points(xs, ys, style) {
    let path = "";
    for (let i = 0; i < xs.length; i++) {
      if (xs[i] < this.x[0] || xs[i] > this.x[1]) continue;
      path += `M${this.toX(xs[i]).toFixed(1)} ${this.toY(ys[i]).toFixed(1)}h0`;
    }
    return make("path", { d: path, class: style }, this.marks);
  }
  image(url, x, y) {
    const left = this.toX(x[0]);
    const top = this.toY(y[1]);
    const size = { x: left, y: top, width: this.toX(x[1]) - left, height: this.toY(y[0]) - top };
    return make("image", { ...size, href: url, preserveAspectRatio: "none" }, this.marks);
  }
}
Panel.count = 0;

// An SVG that is drawn again whenever its width or what it shows changes, with a cursor and zooming by drag, keys and buttons.
class Figure {
  constructor(id, height, draw) {
    this.root = document.getElementById(id);
    this.draw = draw;
    this.height = height;
    this.svg = make("svg", { class: "figure", role: "img", tabindex: "0", "aria-labelledby": `${id}-title ${id}-text` });
    this.root.querySelector(".canvas").append(this.svg);
    this.readout = this.root.querySelector("output");
    this.width = 0;
    const resize = () => {
      const width = this.root.querySelector(".canvas").clientWidth;
      if (width > 0 && width !== this.width) {
        this.width = width;
        this.render();
      }
    };
    new ResizeObserver(resize).observe(this.root.querySelector(".canvas"));
    resize();
  }
  render() {
    const height = typeof this.height === "function" ? this.height(this.width) : this.height;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    this.svg.replaceChildren();
    this.panels = this.draw(this.svg, this.width, height) || [];
    this.cursor = make("g", { class: "cursor", "aria-hidden": "true" }, this.svg);
  }
  say(text) {
    if (this.readout) this.readout.textContent = text;
  }
  place(event) {
    const area = this.svg.getBoundingClientRect();
    return [((event.clientX - area.left) / area.width) * this.width, ((event.clientY - area.top) / area.height) * this.svg.viewBox.baseVal.height];
  }
  point(panel, x, y) {
    const { left, top, width, height } = panel.box;
    this.cursor.replaceChildren();
    if (x !== null) {
      const at = panel.toX(x);
      make("line", { x1: at, x2: at, y1: top, y2: top + height }, this.cursor);
    }
    if (y !== null) {
      const at = panel.toY(y);
      make("line", { x1: left, x2: left + width, y1: at, y2: at }, this.cursor);
    }
  }
  // `hover(x, y)` says what is there; `views` are what dragging changes, of x and (or null) of y.
  interactive(panelOf, views, hover) {
    let start = null;
    let keyboard = null;
    const show = (x, y) => {
      const panel = panelOf();
      this.point(panel, x, views.y ? y : null);
      this.say(hover(x, y));
    };
    this.svg.addEventListener("pointermove", (event) => {
      const panel = panelOf();
      const [px, py] = this.place(event);
      if (start) {
        const [left, right] = [start[0], clamp(px, panel.box.left, panel.box.left + panel.box.width)].sort((a, b) => a - b);
        const [top, bottom] = views.y
          ? [start[1], clamp(py, panel.box.top, panel.box.top + panel.box.height)].sort((a, b) => a - b)
          : [panel.box.top, panel.box.top + panel.box.height];
        this.cursor.replaceChildren();
        make("rect", { x: left, y: top, width: right - left, height: bottom - top, class: "selection" }, this.cursor);
      } else if (panel.has(px, py)) show(panel.fromX(px), panel.fromY(py));
      else this.cursor.replaceChildren();
    });
    this.svg.addEventListener("pointerleave", () => {
      if (!start) this.cursor.replaceChildren();
    });
    this.svg.addEventListener("pointerdown", (event) => {
      const [px, py] = this.place(event);
      // A finger scrolls the page; buttons zoom there.
      if (event.pointerType === "touch" || event.button !== 0 || !panelOf().has(px, py)) return;
      start = [px, py];
      this.svg.setPointerCapture(event.pointerId);
      event.preventDefault();
      this.svg.focus({ preventScroll: true });
    });
    this.svg.addEventListener("pointerup", (event) => {
      if (!start) return;
      const panel = panelOf();
      const [px, py] = this.place(event);
      const [x1, x2] = [panel.fromX(start[0]), panel.fromX(px)].sort((a, b) => a - b);
      const [y1, y2] = [panel.fromY(start[1]), panel.fromY(py)].sort((a, b) => a - b);
      const wide = Math.abs(px - start[0]) > 6;
      const high = Math.abs(py - start[1]) > 6;
      start = null;
      this.cursor.replaceChildren();
      if (views.y && high && wide) views.y.set(y1, y2);
      if (wide) views.x.set(x1, x2);
    });
    this.svg.addEventListener("pointercancel", () => {
      start = null;
      this.cursor.replaceChildren();
    });
    const reset = () => {
      views.x.reset();
      if (views.y) views.y.reset();
    };
    this.svg.addEventListener("dblclick", reset);
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return; // the wheel alone scrolls the page
      event.preventDefault();
      const panel = panelOf();
      views.x.zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, panel.fromX(this.place(event)[0]));
    }, { passive: false });
    const actions = {
      in: () => views.x.zoom(0.5),
      out: () => views.x.zoom(2),
      left: () => views.x.shift(-0.25),
      right: () => views.x.shift(0.25),
      reset,
    };
    this.root.querySelectorAll("button[data-action]").forEach((button) => {
      button.addEventListener("click", actions[button.dataset.action]);
    });
    this.svg.addEventListener("keydown", (event) => {
      const panel = panelOf();
      const [low, high] = panel.x;
      if (event.key === "+" || event.key === "=") actions.in();
      else if (event.key === "-") actions.out();
      else if (event.key === "0" || event.key === "Escape") actions.reset();
      else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        const step = ((event.key === "ArrowLeft" ? -1 : 1) * (high - low)) / 50;
        keyboard = clamp((keyboard === null || keyboard < low || keyboard > high ? (low + high) / 2 : keyboard) + step, low, high);
        show(keyboard, (panel.y[0] + panel.y[1]) / 2);
      } else return;
      event.preventDefault();
    });
  }
}
