"use strict";
// The figures of a harmix report, from the numbers in the page.

const content = JSON.parse(document.getElementById("content").textContent);

function bytes(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

// Values were rounded to 16 bits between `low` and `high`: rows are times, columns frequencies.
function unpacked(packed) {
  const raw = new Uint16Array(bytes(packed.data).buffer);
  const values = new Float32Array(raw.length);
  for (let i = 0; i < raw.length; i++) values[i] = packed.low + (raw[i] / 65535) * (packed.high - packed.low);
  return values;
}

function extent(...lists) {
  let low = Infinity;
  let high = -Infinity;
  for (const list of lists) {
    for (const value of list) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (!(high > low)) return [low - 0.5, high + 0.5];
  const margin = 0.04 * (high - low);
  return [low - margin, high + margin];
}

function nearest(sorted, value) {
  let low = 0;
  let high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle;
    else high = middle;
  }
  return value - sorted[low] < sorted[high] - value ? low : high;
}

const { names, signal, picture, checks, history } = content;
const xLabel = names.unit ? `${names.x} (${names.unit})` : names.x;
const perUnit = `frequency (cycles per ${names.unit || "unit of " + names.x})`;

// Dates are drawn as numbers of the time axis, and read out as dates.
function where(x, range) {
  if (!names.origin) return `${names.x} ${written(x, range)}`;
  const moment = new Date(Date.parse(names.origin + "Z") + x * names.milliseconds);
  if (Number.isNaN(moment.getTime())) return `${names.x} ${written(x, range)}`;
  const text = moment.toISOString();
  return range * names.milliseconds > 864e5 * 3 ? text.slice(0, 10) : text.slice(0, 19).replace("T", " ");
}

function margins(width) {
  return { left: width < 480 ? 52 : 66, right: 12 };
}

const time = signal ? new View(...signal.domain) : null;

// --- the record and the posterior -----------------------------------------------------------------------------------

function drawSignal() {
  const { x } = signal;
  let shown = signal;
  let panel = null;
  const figure = new Figure("signal", (width) => (width < 480 ? 280 : 340), (svg, width, height) => {
    const side = margins(width);
    const box = { left: side.left, top: 8, width: width - side.left - side.right, height: height - 46 };
    const { mean, lower, upper, below, above } = shown;
    const inView = (xs, ys) => ys.filter((_, i) => xs[i] >= time.range[0] && xs[i] <= time.range[1]);
    const seen = [inView(x, below), inView(x, above), inView(signal.points.x, signal.points.y), inView(signal.held.x, signal.held.y)];
    const range = seen.some((list) => list.length) ? extent(...seen) : extent(below, above);
    panel = new Panel(svg, box, time.range, range, { xLabel, yLabel: names.y });
    panel.band(x, below, above, "band-noise");
    panel.band(x, lower, upper, "band");
    panel.line(x, mean, "mean");
    panel.points(signal.points.x, signal.points.y, "dots");
    panel.points(signal.held.x, signal.held.y, "dots-held");
    if (signal.truth) panel.line(x, signal.truth, "truth");
    return [panel];
  });
  time.onChange(() => figure.render());
  const span = () => time.range[1] - time.range[0];
  const size = extent(signal.below, signal.above);
  const before = document.getElementById("show-before");
  if (before) {
    before.checked = false;
    before.addEventListener("change", () => {
      shown = before.checked ? signal.before : signal;
      figure.render();
    });
  }
  figure.interactive(() => panel, { x: time, y: null }, (at) => {
    const { mean, lower, upper, below, above } = shown;
    const i = nearest(x, at);
    const range = size[1] - size[0];
    const parts = [
      where(at, span()),
      `${names.y} ${written(mean[i], range)}`,
      `signal ${written(lower[i], range)} to ${written(upper[i], range)}`,
      `new observation ${written(below[i], range)} to ${written(above[i], range)}`,
    ];
    const close = nearest(signal.points.x, at);
    if (signal.points.x.length && Math.abs(signal.points.x[close] - at) < 0.01 * span()) parts.push(`measured ${written(signal.points.y[close], range)}`);
    return parts.join(" · ");
  });
}

// --- time and frequency ---------------------------------------------------------------------------------------------

// A heat map as the address of an image; row 0 of an image is on top, so frequencies are turned over.
function heatMap(values, T, F, low, high, colours) {
  const canvas = document.createElement("canvas");
  canvas.width = T;
  canvas.height = F;
  const context = canvas.getContext("2d");
  const image = context.createImageData(T, F);
  for (let t = 0; t < T; t++) {
    for (let f = 0; f < F; f++) {
      const colour = 3 * Math.round(255 * clamp((values[t * F + f] - low) / (high - low), 0, 1));
      const at = 4 * ((F - 1 - f) * T + t);
      image.data.set([colours[colour], colours[colour + 1], colours[colour + 2], 255], at);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

function drawPicture() {
  const { times, frequencies, layers, components, inducing } = picture;
  const T = times.length;
  const F = frequencies.length;
  const half = [(times[1] - times[0]) / 2, (frequencies[1] - frequencies[0]) / 2];
  const area = { x: [times[0] - half[0], times[T - 1] + half[0]], y: [frequencies[0] - half[1], frequencies[F - 1] + half[1]] };
  const pitch = new View(Math.max(0, frequencies[0]), frequencies[F - 1]);
  for (const layer of layers) {
    layer.values = unpacked(layer.packed);
    layer.image = heatMap(layer.values, T, F, layer.low, layer.high, bytes(content.colours[layer.colours]));
  }
  let shown = layers[0];
  const marks = { components: true, inducing: false };
  let panel = null;
  const figure = new Figure("picture", (width) => (width < 480 ? 420 : 520), (svg, width, height) => {
    const side = margins(width);
    const right = width < 480 ? 70 : 150;
    const low = 90;
    const box = { left: side.left, top: 8, width: width - side.left - side.right - right - 10, height: height - 8 - low - 66 };
    panel = new Panel(svg, box, time.range, pitch.range, { yLabel: perUnit, grid: false });
    panel.image(shown.image, area.x, area.y);
    if (marks.inducing) panel.points(inducing.x, inducing.y, "inducing");
    if (marks.components) {
      for (const c of components) {
        for (const [style, radius] of [["halo", 5.5], ["component", 4]]) {
          panel.line([c.center - c.width, c.center + c.width], [c.frequency, c.frequency], `${style}-width`);
          make("circle", { cx: panel.toX(c.center), cy: panel.toY(c.frequency), r: radius, class: style }, panel.marks);
        }
      }
    }
    const { spectrum, envelope } = picture;
    const beside = { left: box.left + box.width + 10, top: box.top, width: right, height: box.height };
    const spectra = new Panel(svg, beside, [0, extent([0], spectrum.upper)[1]], pitch.range, { yTicks: false, xTicks: width >= 480 });
    const along = (values) => frequencies.map((f, i) => `${spectra.toX(values[i]).toFixed(1)} ${spectra.toY(f).toFixed(1)}`);
    make("path", { d: `M${along(spectrum.upper).concat(along(spectrum.lower).reverse()).join("L")}Z`, class: "band" }, spectra.marks);
    make("path", { d: `M${along(spectrum.mean).join("L")}`, class: "mean" }, spectra.marks);
    const below = { left: box.left, top: box.top + box.height + 24, width: box.width, height: low };
    const under = new Panel(svg, below, time.range, [0, extent([0], envelope.upper)[1]], { xLabel, yLabel: "amplitude" });
    under.band(times, envelope.lower, envelope.upper, "band");
    under.line(times, envelope.mean, "mean");
    const middle = { x: beside.left + right / 2, y: beside.top + beside.height + (width < 480 ? 14 : 28), class: "label", "text-anchor": "middle" };
    make("text", middle, svg, "power");
    drawScale(svg, { left: beside.left, top: below.top + 36, width: right, height: 12 }, shown, width >= 480);
    return [panel];
  });
  for (const view of [time, pitch]) view.onChange(() => figure.render());
  figure.interactive(() => panel, { x: time, y: pitch }, (at, frequency) => {
    const t = nearest(times, at);
    const f = nearest(frequencies, frequency);
    const band = layers[0].bounds ? layers[0].bounds.map((b) => b.values[t * F + f]) : null;
    const parts = [
      where(at, time.range[1] - time.range[0]),
      `frequency ${written(frequencies[f], pitch.whole[1])} (period ${written(1 / frequencies[f], 1 / frequencies[f])})`,
      `${shown.name} ${shown.values[t * F + f].toPrecision(3)}`,
    ];
    if (band) parts.push(`power ${band[0].toPrecision(3)} to ${band[1].toPrecision(3)}`);
    return parts.join(" · ");
  });
  if (layers[0].bounds) layers[0].bounds.forEach((bound) => (bound.values = unpacked(bound)));
  const choice = document.getElementById("layer");
  choice.addEventListener("change", () => {
    shown = layers[choice.selectedIndex];
    document.getElementById("picture-note").textContent = shown.note;
    figure.render();
  });
  for (const name of Object.keys(marks)) {
    const box = document.getElementById(`show-${name}`);
    box.checked = marks[name];
    box.addEventListener("change", () => {
      marks[name] = box.checked;
      figure.render();
    });
  }
}

function drawScale(svg, box, layer, labels) {
  const colours = bytes(content.colours[layer.colours]);
  const canvas = document.createElement("canvas");
  canvas.width = 256;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  const image = context.createImageData(256, 1);
  for (let i = 0; i < 256; i++) image.data.set([colours[3 * i], colours[3 * i + 1], colours[3 * i + 2], 255], 4 * i);
  context.putImageData(image, 0, 0);
  make("image", { x: box.left, y: box.top, width: box.width, height: box.height, href: canvas.toDataURL(), preserveAspectRatio: "none" }, svg);
  make("rect", { x: box.left, y: box.top, width: box.width, height: box.height, class: "frame" }, svg);
  const label = (x, anchor, text) => make("text", { x, y: box.top + 26, class: "tick", "text-anchor": anchor }, svg, text);
  const short = (v) => (v === 0 ? "0" : Number(v.toPrecision(2)).toString().replace("-", "−"));
  label(box.left, "start", short(layer.low));
  label(box.left + box.width, "end", short(layer.high));
  if (labels && layer.low < 0) label(box.left + box.width / 2, "middle", "0");
  make("text", { x: box.left + box.width / 2, y: box.top - 5, class: "tick", "text-anchor": "middle" }, svg, layer.short);
}

// --- checks ---------------------------------------------------------------------------------------------------------

function drawChecks() {
  let panel = null;
  // With several inputs residuals are drawn over the prediction.
  const over = time || new View(...extent(checks.along));
  const residuals = new Figure("residuals", 220, (svg, width, height) => {
    const side = margins(width);
    const box = { left: side.left, top: 8, width: width - side.left - side.right, height: height - 46 };
    const reach = Math.max(3.5, ...checks.residuals.z.map(Math.abs));
    panel = new Panel(svg, box, over.range, [-1.05 * reach, 1.05 * reach], { xLabel: time ? xLabel : "prediction", yLabel: "standardised residual" });
    panel.band(over.whole, [-1.645, -1.645], [1.645, 1.645], "band-noise");
    const { x, z, held } = checks.residuals;
    const some = (list, wanted) => list.filter((_, i) => held[i] === wanted);
    panel.points(some(x, 0), some(z, 0), "dots");
    panel.points(some(x, 1), some(z, 1), "dots-held");
    return [panel];
  });
  over.onChange(() => residuals.render());
  const { x, z, held } = checks.residuals;
  residuals.interactive(() => panel, { x: over, y: null }, (at) => {
    const i = nearest(x, at);
    const range = over.range[1] - over.range[0];
    return `${time ? where(x[i], range) : `prediction ${written(x[i], range)}`} · residual ${written(z[i], 10)} standard deviations${held[i] ? " (held out)" : ""}`;
  });
  new Figure("coverage", 260, (svg, width, height) => {
    const side = margins(width);
    const size = Math.min(width - side.left - side.right, 420);
    const frame = new Panel(svg, { left: side.left, top: 8, width: size, height: height - 46 }, [0, 1], [0, 1], {
      xLabel: "promised share inside the band", yLabel: "share found inside",
    });
    frame.band(checks.coverage.level, checks.coverage.low, checks.coverage.high, "band");
    frame.line([0, 1], [0, 1], "ideal");
    frame.line(checks.coverage.level, checks.coverage.found, "mean");
    frame.points(checks.coverage.level, checks.coverage.found, "dots");
    return [frame];
  });
  new Figure("histogram", 260, (svg, width, height) => {
    const side = margins(width);
    const { edges, density, normal } = checks.histogram;
    const size = Math.min(width - side.left - side.right, 420);
    const box = { left: side.left, top: 8, width: size, height: height - 46 };
    const frame = new Panel(svg, box, [edges[0], edges[edges.length - 1]], [0, extent([0], density, normal.y)[1]], {
      xLabel: "standardised residual", yLabel: "density",
    });
    density.forEach((value, i) => {
      const left = frame.toX(edges[i]);
      const top = frame.toY(value);
      make("rect", { x: left + 0.5, y: top, width: frame.toX(edges[i + 1]) - left - 1, height: frame.toY(0) - top, class: "bar" }, frame.marks);
    });
    frame.line(normal.x, normal.y, "ideal");
    return [frame];
  });
}

function drawHistory() {
  new Figure("history", 240, (svg, width, height) => {
    const side = margins(width);
    const box = { left: side.left, top: 8, width: width - side.left - side.right, height: height - 46 };
    const last = Math.max(2, ...history.map((h) => h.objective.length));
    // The first steps climb from far below: what they show is that they do.
    const ends = history.map((h) => h.objective[h.objective.length - 1]);
    const starts = history.map((h) => h.objective[Math.min(3, h.objective.length - 1)]);
    const range = extent(ends, starts);
    const frame = new Panel(svg, box, [1, last], range, { xLabel: "iteration", yLabel: "objective" });
    const drawn = [...history].sort((a, b) => a.chosen - b.chosen);
    for (const restart of drawn) {
      const steps = restart.objective.map((_, i) => i + 1);
      frame.line(steps, restart.objective, restart.chosen ? "restart-chosen" : "restart");
      const end = steps.length - 1;
      frame.points([steps[end]], [restart.objective[end]], restart.chosen ? "dots-held" : "dots");
    }
    return [frame];
  });
}

if (signal) drawSignal();
if (picture) drawPicture();
if (checks) drawChecks();
if (history && history.length) drawHistory();
document.documentElement.dataset.ready = "true";
