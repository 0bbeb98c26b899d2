// Curves over the context, drawn by uPlot: log scales show windows and states beside tokens.

const POINTS = 160;
let scale = "log";

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function shortTokens(value) {
  const n = Math.round(value);
  if (n >= 1048576 && n % 1048576 === 0) return `${n / 1048576}m`;
  return n >= 1024 && n % 1024 === 0 ? `${n / 1024}k` : grouped(BigInt(n));
}

// The contexts a curve is drawn at, `marks` among them; doubling ones begin below the first mark.
function contexts(top, marks) {
  const last = Number(top);
  const first = Math.max(1, Math.min(last / 1024, ...marks.map((n) => Number(n) / 4)));
  const low = scale === "log" ? 2 ** Math.floor(Math.log2(first)) : 1;
  const found = new Set(marks.map(Number).filter((n) => n >= low && n <= last));
  for (let i = 0; i <= POINTS; i++) {
    const even = low + (last - low) * i / POINTS;
    found.add(Math.round(scale === "log" ? low * (last / low) ** (i / POINTS) : even));
  }
  return [...found].sort((a, b) => a - b);
}

function plain(bytes) {
  return scale === "log" && bytes === 0n ? null : Number(bytes);
}

// The lines of one model: its components, their sum, and what the simple formula says.
function lines(model, told) {
  const {asked, format} = told;
  const fit = told.fits.length === 1 ? told.fits[0] : null;
  const held = fit ? fit.held : told.held;
  const sequences = asked.lengths.length ? 1n : asked.sequences;
  const limits = model.components.filter((one) => one.growth === "window" || one.growth === "chunk")
    .map((one) => one.limit);
  const top = most(model.max_context ?? 0n, asked.tokens);
  const xs = contexts(top, [asked.tokens, ...limits.flatMap((n) => [n, n + 1n])]);
  const at = xs.map((tokens) => held(BigInt(tokens)));
  const alike = {};
  const series = model.components.map((one, i) => ({
    name: one.name, color: `growth-${one.growth}`,
    dash: DASHES[one.growth][(alike[one.growth] = (alike[one.growth] ?? -1) + 1) % 3],
    values: at.map((kept) => plain(sequences * kept.parts[i])), now: sequences * held(asked.tokens).parts[i],
  }));
  if (series.length > 1) {
    series.push({name: "in all", color: "ink", width: 2.5,
      values: at.map((kept) => plain(sequences * kept.bytes)), now: sequences * held(asked.tokens).bytes});
  }
  const spread = fit && fit.split.tp * fit.split.pp > 1n;
  const simple = (tokens) => simpleBytes(model, format, BigInt(tokens), sequences * BigInt(tokens));
  if (!spread && simple(1) !== null && simple(asked.tokens) !== sequences * held(asked.tokens).bytes) {
    series.push({name: "the simple formula", color: "quiet", dash: [2, 4],
      values: xs.map((tokens) => plain(simple(tokens))), now: simple(asked.tokens)});
  }
  const whose = plural(sequences, "sequence");
  return {xs, series, tokens: asked.tokens, limits: [...new Set(limits)],
    room: fit?.pool && !asked.lengths.length ? {bytes: fit.pool, name: `room on ${gpuPhrase(fit.gpu)}`} : null,
    title: `KV cache of ${whose} by context${spread ? ", on each GPU" : ""}`};
}

// How the first, second and third component of one growth are dashed.
const LONG = [[8, 4], [8, 3, 2, 3], [14, 4]];
const SHORT_DASHES = [[3, 3], [1, 4], [5, 2]];
const DASHES = {token: [[], [14, 3], [14, 3, 3, 3]], window: LONG, chunk: LONG, ratio: LONG,
  fixed: SHORT_DASHES, source: SHORT_DASHES};

const TURNS = [[10, 10], [4, 8], [2, 10]];

// The lines of a comparison: the sum of each model, up to the longest context it is made for.
function totals(models, told) {
  const sized = told.flatMap((one, i) => (one?.bytes ? [{one, model: models[i]}] : []));
  const top = sized.reduce((n, {one, model}) =>
    most(n, most(model.facts.max_context ?? 0n, one.asked.tokens)), 1n);
  const xs = contexts(top, []);
  const alike = {}; // lines that lie on each other take turns
  const series = sized.map(({one, model}, i) => {
    const ends = most(model.facts.max_context ?? top, one.asked.tokens);
    const values = xs.map((n) => (BigInt(n) > ends ? undefined : plain(one.asked.sequences * one.held(BigInt(n)).bytes)));
    const before = alike[one.perToken] = (alike[one.perToken] ?? -1) + 1;
    return {name: model.id, color: `series-${i % 8}`, dash: before ? TURNS[(before - 1) % 3] : i < 8 ? [] : [6, 4],
      values, now: one.bytes};
  });
  return {xs, series, tokens: null, limits: [], room: null,
    title: `KV cache of ${plural(sized[0]?.one.asked.sequences ?? 1n, "sequence")} by context, all models`};
}

function rule(plot, {x, y, text, look, dash = []}) {
  const {ctx, bbox} = plot;
  const at = x !== undefined ? plot.valToPos(x, "x", true) : plot.valToPos(y, "y", true);
  const [low, high] = x !== undefined ? [bbox.left, bbox.left + bbox.width] : [bbox.top, bbox.top + bbox.height];
  if (!(at >= low - 1 && at <= high + 1)) return;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = color(look);
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash(dash.map((n) => n * devicePixelRatio));
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.beginPath();
  if (x !== undefined) {
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    const right = at > bbox.left + bbox.width * 0.6;
    ctx.textAlign = right ? "right" : "left";
    ctx.fillText(text, at + (right ? -5 : 5) * devicePixelRatio, bbox.top + 12 * devicePixelRatio);
  } else {
    ctx.moveTo(bbox.left, at);
    ctx.lineTo(bbox.left + bbox.width, at);
    ctx.textAlign = "left";
    const below = at < bbox.top + 20 * devicePixelRatio;
    ctx.fillText(text, bbox.left + 5 * devicePixelRatio, at + (below ? 16 : -7) * devicePixelRatio);
  }
  ctx.stroke();
  ctx.restore();
}

const DOUBLINGS = Array.from({length: 60}, (_, i) => 2 ** i);

function axis(values, extra) {
  return {incrs: scale === "log" ? undefined : DOUBLINGS, stroke: () => color("quiet"), grid: {stroke: () => color("line"), width: 1},
    ticks: {stroke: () => color("line"), width: 1}, values, font: "12px system-ui, sans-serif", ...extra};
}

function options(shown, width, readout) {
  const distr = scale === "log" ? {distr: 3, log: 2} : {distr: 1};
  const many = shown.xs.length - 1;
  return {
    width, height: 300, legend: {show: false}, padding: [8, 20, 0, 0],
    cursor: {y: false, drag: {x: false, y: false}},
    scales: {x: {time: false, ...distr, range: () => [shown.xs[0], shown.xs[many]]}, y: distr},
    axes: [
      axis((_, splits) => splits.map((n) => (n === null ? null : shortTokens(n))), {size: 32}),
      axis((_, splits) => splits.map((n) => (n === null ? null : size(BigInt(Math.round(n))))), {size: 76}),
    ],
    series: [{}, ...shown.series.map((one) => ({
      stroke: () => color(one.color), width: one.width ?? 2, dash: one.dash, pxAlign: 0, points: {show: false},
    }))],
    hooks: {
      draw: [(plot) => {
        for (const limit of shown.limits) {
          rule(plot, {x: Number(limit), text: `window ${grouped(limit)}`, look: "growth-window", dash: [2, 3]});
        }
        if (shown.room) {
          rule(plot, {y: Number(shown.room.bytes), text: shown.room.name, look: "good", dash: [6, 3]});
        }
        if (shown.tokens) rule(plot, {x: Number(shown.tokens), text: "", look: "ink"});
      }],
      setCursor: [(plot) => { readout.textContent = reading(shown, plot.cursor.idx); }],
    },
  };
}

// A value of a line: null is nothing on a logarithmic scale, undefined is beyond its end.
function told(value) {
  return value === undefined ? "–" : size(BigInt(Math.round(value ?? 0)));
}

function reading(shown, index) {
  if (index === null || index === undefined) return "";
  const parts = shown.series.map((one) =>
    `${one.name} ${told(one.values[index])}`);
  return `${grouped(BigInt(shown.xs[index]))} tokens: ${parts.join(", ")}`;
}

function numbers(shown) {
  const rows = [];
  shown.xs.forEach((tokens, i) => {
    const next = shown.xs[i + 1];
    if (next !== undefined && Math.log2(next) < rows.length + 8) return;
    rows.push([grouped(BigInt(tokens)), ...shown.series.map((one) => told(one.values[i]))]);
  });
  return h("details", {}, h("summary", {}, "The curve as numbers"),
    table(shown.title, [">tokens", ...shown.series.map((one) => `>${one.name}`)], rows));
}

const drawn = new Map();

function curve(region, shown) {
  if (!region.clientWidth || !shown.series.length) return; // folded away, or nothing to draw
  const before = drawn.get(region);
  const opened = region.querySelector("details")?.open;
  before?.plot.destroy();
  const readout = h("p", {class: "readout quiet"});
  const place = h("div", {class: "plot", role: "img",
    "aria-label": `${shown.title}: ${shown.series.map((one) => `${one.name} ${size(one.now)}`).join(", ")}`});
  const list = numbers(shown);
  if (opened) list.open = true;
  region.replaceChildren(
    h("figcaption", {}, shown.title, scaleButton()), place, readout,
    h("ul", {class: "keys"}, shown.series.map((one) => h("li", {},
      sample(one), `${one.name}: `,
      h("span", {class: "quiet"}, size(one.now))))), list);
  const plot = new uPlot(options(shown, region.clientWidth, readout),
    [shown.xs, ...shown.series.map((one) => one.values)], place);
  drawn.set(region, {plot, shown});
}

// A stretch of a line, as the legend shows it.
function sample({color: name, dash, width}) {
  const [svg, line] = ["svg", "line"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  svg.setAttribute("aria-hidden", "true");
  const look = {x1: 0, x2: "100%", y1: "50%", y2: "50%", "stroke-width": width ?? 2.5,
    "stroke-dasharray": (dash ?? []).join(" ")};
  for (const [key, value] of Object.entries(look)) line.setAttribute(key, value);
  line.style.stroke = `var(--${name})`;
  svg.append(line);
  return svg;
}

function scaleButton() {
  const other = scale === "log" ? "Linear" : "Logarithmic";
  const button = h("button", {type: "button", class: "scale"}, `${other} scale`);
  button.addEventListener("click", () => {
    scale = scale === "log" ? "linear" : "log";
    refresh();
    document.querySelector(".scale")?.focus();
  });
  return button;
}
