// What is shown: regions of the page, filled anew for every setting. Text is only ever text.

const MARKS = {fits: "✔", tight: "≈", short: "✘", needs: "●", unknown: "?"};

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") Object.assign(element.style, value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// An exact figure under a short one: what a pointer shows, and what the tests read.
function sized(bytes, figure) {
  const title = `${grouped(bytes)} B`;
  return h("span", {title, "data-figure": figure}, size(bytes));
}

function counted(value, figure) {
  return h("span", {"data-figure": figure}, grouped(value));
}

function part(value, whole) {
  return whole > 0n ? Number(value * 1000000n / whole) / 10000 : 0;
}

function table(caption, heading, rows) {
  const look = (i) => (heading[i].startsWith(">") ? "figure" : i ? null : "wrap");
  return h("div", {class: "scroll", tabindex: 0, role: "group", "aria-label": caption},
    h("table", {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heading.map((name, i) =>
        h("th", {scope: "col", class: look(i)}, name.replace(/^>/, ""))))),
      h("tbody", {}, rows.map((row) =>
        h("tr", {}, row.map((cell, i) => h("td", {class: look(i)}, cell)))))));
}

function showVerdict(region, [feeling, sentence]) {
  region.className = `verdict ${feeling}`;
  region.querySelector(".mark").textContent = MARKS[feeling];
  const text = region.querySelector("[data-figure=verdict]");
  if (text.textContent !== sentence) text.textContent = sentence;
  const echo = document.querySelector("[data-region=echo]");
  if (echo) Object.assign(echo, {textContent: `${MARKS[feeling]} ${sentence}`, className: `echo verdict ${feeling}`});
}

// The stretches of one GPU: what it is to hold, then what is left of it.
function stretches(told, fit) {
  const estimated = fit.overhead.parts.map((one) => `${one.name} ${size(one.bytes)}`).join(", ");
  const cache = told.parts.length
    ? `${loadPhrase(told.asked)}, ${shortFormat(told.format.block[0])}` : "none is kept";
  const held = [
    {kind: "weights", name: "weights", bytes: fit.weights},
    {kind: "overhead", name: "overhead", bytes: fit.overhead.bytes,
      note: estimated ? `estimated, ${size(fit.overhead.low)} to ${size(fit.overhead.high)}: ${estimated}` : "as given"},
    {kind: "kv", name: "KV cache", bytes: fit.needed, note: cache},
  ].filter((one) => one.bytes !== null);
  const total = held.reduce((sum, one) => sum + one.bytes, 0n);
  if (fit.short) return {all: held, whole: total, over: true};
  const free = fit.weights === null ? "for the weights, which are not known"
    : fit.needed ? "for more sequences or longer ones" : "";
  const left = fit.gpu.memory > fit.budget ? [{kind: "left", name: "not used",
    bytes: fit.gpu.memory - fit.budget, note: "left to the system"}] : [];
  return {whole: fit.gpu.memory, over: false, all: [...held,
    {kind: "free", name: "free", bytes: fit.budget - total, note: free}, ...left]};
}

function bar({all, whole, over}, fit, label) {
  const inside = all.filter((one) => one.bytes > 0n).map((one) =>
    h("div", {class: `part ${one.kind}`, style: {width: `${part(one.bytes, whole)}%`}}));
  const limit = over
    ? h("div", {class: "limit", style: {left: `${part(fit.budget, whole)}%`}}) : null;
  const said = all.map((one) => `${one.name} ${size(one.bytes)}`).join(", ");
  return h("div", {class: "bar", role: "img", "aria-label": `${label}: ${said}`}, inside, limit);
}

function legend(all, whole) {
  return h("ul", {class: "legend"}, all.map((one) => h("li", {},
    h("span", {}, h("i", {class: `swatch ${one.kind}`}), one.name),
    h("span", {class: "figure"}, sized(one.bytes, `fit.${one.kind}`)),
    h("span", {class: "figure"}, percent(one.bytes, whole)),
    h("span", {class: "quiet"}, one.note ?? ""))));
}

// TensorRT-LLM takes its share of what weights and overhead leave.
function budget(model, fit) {
  const per = fit.gpu.count > 1n ? " per GPU" : "";
  const [whole, taken] = [sized(fit.gpu.memory), sized(fit.budget, "fit.budget")];
  const share = sharePhrase(fit.share);
  if (model.engine !== "trtllm") return [whole, `${per} × ${share} = `, taken];
  if (!fit.pool) return [taken, per];
  return [whole, `${per}, weights + overhead + ${share} × the rest = `, taken];
}

function oneFit(model, told, fit) {
  const {gpu, split} = fit;
  const parallel = [
    split.tp > 1n ? `tensor parallel ${split.tp}` : null,
    split.pp > 1n ? `pipeline parallel ${split.pp}` : null,
  ].filter(Boolean).join(", ");
  const engine = model.engine === "none" ? "the engine" : model.engine_title;
  const shown = stretches(told, fit);
  return [
    h("p", {class: "quiet"}, `${gpuPhrase(gpu)}${parallel ? ` (${parallel})` : ""}: `,
      ...budget(model, fit), ` for ${engine}`),
    bar(shown, fit, gpuPhrase(gpu)),
    shown.over ? h("p", {class: "limit-note"}, `▲ ${size(fit.budget)} is all there is`) : null,
    legend(shown.all, most(gpu.memory, shown.whole)),
    capacity(model, told, fit),
    notes(model, fit).map((note) => h("p", {class: "quiet"}, note)),
  ].flat();
}

// How many sequences, and how long a one; what memory does not limit is any: `most` of
// hfkv/render/phrases.py.
function room(model, told, fit) {
  const said = (text, figure) => h("span", {"data-figure": figure}, text);
  const [many, long] = [counted(fit.sequences, "fit.sequences"), counted(fit.longest, "fit.longest")];
  if (!fit.fits || told.perToken) return [many, long];
  if (!told.parts.length) return [said("any", "fit.sequences"), said("–", "fit.longest")];
  return [many, model.max_context === null ? said("any", "fit.longest") : long];
}

function capacity(model, told, fit) {
  if (!fit.pool) return h("p", {}, "Weights and overhead leave nothing for a cache.");
  const simple = fit.simple !== null && fit.simple !== fit.sequences
    ? ` (the simple formula would say ${grouped(fit.simple)})` : "";
  const own = fit.longest === model.max_context ? " (the model's own maximum)" : "";
  const pairs = [["left for the cache", sized(fit.pool, "fit.pool")]];
  if (fit.each) {
    const [many, long] = room(model, told, fit);
    const noun = fit.longest === 1n ? "token" : "tokens";
    const unit = long.textContent === "any" ? " (a longer one takes no more)" : ` ${noun}${own}`;
    pairs.push(["sequences like this", [many, simple]], ["longest single sequence", [long, unit]]);
    if (told.perToken) pairs.push(["tokens in all", counted(fit.tokens, "fit.tokens")]);
  }
  return h("dl", {}, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]).flat());
}

function manyFits(model, told) {
  const heading = ["GPU", "fits", "per GPU", ">memory", ">weights", ">left for KV", ">sequences", ">longest"];
  return table("On each GPU", heading, told.fits.map((fit) => [
    gpuPhrase(fit.gpu), mark(fit), bar(stretches(told, fit), fit, gpuPhrase(fit.gpu)),
    sized(fit.gpu.memory), fit.weights === null ? "–" : sized(fit.weights),
    sized(fit.pool, "fit.pool"), ...room(model, told, fit),
  ]));
}

function withoutGpu(model, told) {
  const parts = [
    {kind: "weights", name: "weights", bytes: model.weights},
    {kind: "kv", name: "KV cache", bytes: told.bytes,
      note: `${loadPhrase(told.asked)}, ${shortFormat(told.format.block[0])}`},
  ].filter((one) => one.bytes !== null);
  const whole = parts.reduce((sum, one) => sum + one.bytes, 0n);
  return [
    parts.length > 1 && told.bytes ? bar({all: parts, whole}, null, "Memory") : null,
    legend(parts, whole),
    h("p", {class: "quiet"}, "Choose a GPU to see whether it fits."),
  ];
}

function memory(model, told) {
  if (!told.fits.length) return withoutGpu(model, told);
  return told.fits.length === 1 ? oneFit(model, told, told.fits[0]) : [manyFits(model, told)];
}

const UNITS = {token: "tokens", window: "window", chunk: "chunk", ratio: "compressed", fixed: "",
  source: "positions"};

function components(told) {
  const whose = told.asked.lengths.length ? "the longest sequence" : "each sequence";
  const rows = told.parts.map((one) => [
    [h("i", {class: `swatch growth-${one.growth}`}), one.name], `${grouped(one.layers)} ×`,
    `${grouped(one.slots)} ${UNITS[one.growth]}`,
    [sized(one.each), ` ${shortFormat(one.format)}`], sized(one.bytes, "kv.part")]);
  const always = told.fixed ? [", ", sized(told.fixed, "kv.fixed"), " whatever its length"] : [];
  const more = told.perToken
    ? [", ", sized(told.perToken, "kv.token"), " for each further token"] : [];
  return [
    table(`What ${whose} keeps`, ["what", ">layers", ">entries", ">each", ">in all"], rows),
    h("p", {}, h("strong", {}, sized(told.perSequence, "kv.sequence"),
      told.asked.lengths.length ? " in the longest sequence" : " a sequence"), ...always, ...more, ". ",
    h("strong", {}, sized(told.bytes, "kv.bytes")), ` for ${loadPhrase(told.asked)}.`),
  ];
}

// One column a layer, as high as what it keeps: windows stay low, states do not grow.
function layerMap(model, told) {
  const columns = new Array(Number(model.layers));
  const shown = model.groups.map((group) => {
    const bytes = group.rows.reduce((sum, row) => sum + slotsOf(model, model.rows[row], told.asked.tokens)
      * slotBytes(model, Number(row), told.format, 1n), 0n);
    return {...group, bytes, name: group.kind.replaceAll("_", " ")};
  });
  const largest = shown.reduce((top, group) => most(top, group.bytes), 1n);
  for (const group of shown) {
    for (const layer of group.layers) {
      const title = `layer ${layer}: ${group.name}, ${size(group.bytes)}`;
      columns[Number(layer)] = h("div", {class: `layer kind-${group.kind}`, title},
        h("div", {class: group.bytes ? "kept" : "nothing", style: {height: `${part(group.bytes, largest)}%`}}));
    }
  }
  const said = shown.map((group) =>
    `${plural(group.layers.length, "layer")} of ${group.name} with ${size(group.bytes)} each`).join("; ");
  return [
    h("figcaption", {}, `What each of ${model.layers} layers keeps of one sequence`),
    h("div", {class: "map", role: "img", "aria-label": said}, columns),
    h("ul", {class: "keys"}, shown.map((group) => h("li", {},
      h("i", {class: `swatch kind-${group.kind}`}),
      `${group.layers.length} × ${group.name}: `, h("span", {class: "quiet"}, `${size(group.bytes)} each`)))),
  ];
}

function simpleNote(told) {
  if (told.simple === null || !told.bytes) return "";
  if (told.simple === told.bytes) return `, though it says the same here, ${size(told.simple)}`;
  const [low, high] = [least(told.simple, told.bytes), most(told.simple, told.bytes)];
  if (!low) return `; it would say ${size(told.simple)}`;
  return told.simple > told.bytes
    ? `; it would say ${size(told.simple)}, ${ratio(high, low)} the truth`
    : `; it would say ${size(told.simple)}, the truth is ${ratio(high, low)} that`;
}

function mark(fit) {
  const [look, said] = fit.fits === null ? ["unknown", "not known"]
    : fit.verdict === TIGHT ? ["tight", "fits tightly, or hardly"]
      : fit.fits ? ["fits", "fits"] : ["short", "does not fit"];
  return h("span", {class: look, role: "img", "aria-label": said, "data-figure": "fit.mark"}, MARKS[look]);
}

function comparison(models, told) {
  const gpus = told.find((one) => one?.fits)?.fits.map((fit) => fit.gpu) ?? [];
  const many = gpus.length > 1;
  const heading = ["model",
    ...gpus.flatMap((gpu) => (many ? [gpuPhrase(gpu)] : ["fits", ">sequences", ">longest"])),
    ">KV cache", ">tokens", ">each token", ">weights", "in all"];
  const total = (i) => (models[i].weights ?? 0n) + told[i].bytes;
  const whole = told.reduce((top, one, i) => (one?.parts ? most(top, total(i)) : top), 1n);
  const rows = told.map((one, i) => {
    const name = h("a", {href: `#model-${i}`}, models[i].id);
    const {weights} = models[i];
    if (!one?.parts) {
      const known = (column) => (column === ">weights" && weights !== null ? sized(weights) : "–");
      return [name, ...heading.slice(1).map(known)];
    }
    const parts = [{kind: "weights", name: "weights", bytes: weights ?? 0n},
      {kind: "kv", name: "KV cache", bytes: one.bytes}];
    return [name,
      ...one.fits.flatMap((fit) => (many ? [mark(fit)]
        : [mark(fit), ...room(models[i].facts, one, fit)])),
      sized(one.bytes, "kv.bytes"), grouped(one.asked.tokens), sized(one.perToken),
      weights === null ? "–" : sized(weights), bar({all: parts, whole}, null, models[i].id)];
  });
  const on = gpus.length === 1 ? `, on ${gpuPhrase(gpus[0])}` : "";
  return table(`Each model under the same setting${on}`, heading, rows);
}
