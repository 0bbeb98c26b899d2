// The controls: what is asked, and the page that answers it.

const data = JSON.parse(document.getElementById("facts").textContent);
const models = data.models.map((model) => ({...model, weights: exact(model.weights ?? null), facts: exact(model.facts)}));
const gpus = data.gpus.map((gpu) => ({...exact(gpu), count: 1n}));
const first = models.find((model) => model.facts)?.facts;
const several = models.length !== 1;
const $ = (id) => document.getElementById(id);

const start = first && {
  tokens: several && first.asked.is_own ? null : first.asked.tokens,
  sequences: first.asked.sequences,
  lengths: first.asked.lengths,
  format: first.asked.format,
  utilization: first.asked.utilization,
  gpus: first.asked.gpus,
};
let setting = start;

// Sliders move over the usual numbers: four to an octave.
function steps(low, top) {
  const found = [];
  for (let octave = low; octave <= top; octave *= 2) {
    for (const quarter of [4, 5, 6, 7]) {
      const step = octave * quarter / 4;
      if (Number.isInteger(step) && step <= top) found.push(step);
    }
  }
  if (found.at(-1) !== top) found.push(top);
  return found;
}

const longestAsked = first && Number(models.reduce((top, {facts}) =>
  (facts ? most(top, most(facts.max_context ?? 0n, facts.asked.tokens)) : top), 1n));
const USUAL = first && {context: steps(Math.min(64, longestAsked), longestAsked), sequences: steps(1, 1024)};

function nearest(list, value) {
  let best = 0;
  list.forEach((one, i) => { if (Math.abs(one - value) <= Math.abs(list[best] - value)) best = i; });
  return best;
}

function showNumber(name, value, unit) {
  const [field, slider] = [$(name), $(`${name}-slider`)];
  if (document.activeElement !== field) field.value = value;
  slider.value = nearest(USUAL[name], Number(value));
  slider.setAttribute("aria-valuetext", plural(value, unit));
}

function listed() {
  return setting.gpus === start.gpus && start.gpus.length > 1;
}

function showControls() {
  const {tokens, sequences, lengths} = setting;
  const longestOwn = models.reduce((top, {facts}) => (facts ? most(top, facts.asked.own) : top), 1n);
  showNumber("context", tokens ?? longestOwn, "token");
  showNumber("sequences", sequences, "sequence");
  if ($("own-maximum")) $("own-maximum").checked = tokens === null;
  const note = document.querySelector("[data-region=lengths]");
  note.hidden = !lengths.length;
  note.textContent = lengths.length
    ? `As asked: ${loadPhrase({lengths})}. Moving either control replaces them.` : "";
  $("format").value = setting.format;
  const [gpu] = setting.gpus;
  $("gpu").value = listed() ? "listed" : gpu?.slug ?? "";
  $("count").value = listed() ? "1" : String(gpu?.count ?? 1n);
  $("count").disabled = listed() || !gpu;
  const share = gpu ? shareOf(first, setting, gpu, gpu.count) : setting.utilization ?? first.asked.usual_utilization;
  $("utilization").value = Math.round(100 * Number(share[0]) / Number(share[1]));
  $("utilization").setAttribute("aria-valuetext", `${sharePhrase(share)} of the memory`);
  $("utilization-value").textContent = sharePhrase(share);
  document.querySelector("[data-region=command]").textContent =
    models.filter((model) => model.facts).map((model) => command(model.facts, setting)).join("\n");
}

function answered(model) {
  if (!model.facts) return null;
  try {
    return answer(model.facts, setting);
  } catch (error) {
    if (error instanceof Refused) return {refused: error.message};
    throw error;
  }
}

function regions(index) {
  const place = document.querySelector(`[data-model="${index}"]`);
  return (name) => place.querySelector(`[data-region="${name}"]`);
}

// What no control changes stands for what was asked; anything else gets a sentence instead.
function showAsked(index) {
  const place = document.querySelector(`[data-model="${index}"]`);
  const same = setting === start;
  for (const part of place.querySelectorAll("[data-asked]")) part.hidden = !same;
  for (const part of place.querySelectorAll("[data-region=otherwise]")) part.hidden = same;
}

function show(model, index, told) {
  const region = regions(index);
  if (told.refused) {
    showVerdict(region("verdict"), ["unknown", `${told.refused}.`]);
    region("memory").replaceChildren();
    showAsked(index);
    return;
  }
  const {facts} = model;
  showVerdict(region("verdict"), verdict(facts, told));
  region("memory").replaceChildren(...memory(facts, told).filter(Boolean));
  showAsked(index);
  if (!region("components")) return;
  region("components").replaceChildren(...components(told));
  region("layers").replaceChildren(...layerMap(facts, told));
  curve(region("curve"), lines(facts, told));
  const simple = document.querySelector(`[data-model="${index}"] [data-figure="simple"]`);
  if (simple) simple.textContent = simpleNote(told);
}

function refresh() {
  showControls();
  const told = models.map(answered);
  told.forEach((one, i) => { if (one) show(models[i], i, one); });
  if (several) {
    document.querySelector("[data-region=models]").replaceChildren(comparison(models, told));
    curve(document.querySelector("[data-region=curves]"), totals(models, told));
  }
}

function ask(change) {
  setting = {...setting, ...change};
  refresh();
}

function chosenGpu() {
  const slug = $("gpu").value;
  if (slug === "listed") return start.gpus;
  const gpu = [...start.gpus, ...gpus].find((one) => one.slug === slug);
  return gpu ? [{...gpu, count: BigInt($("count").value)}] : [];
}

function option(value, text) {
  return h("option", {value}, text);
}

function fillGpus() {
  const own = start.gpus.filter((gpu) => !gpus.some((one) => one.slug === gpu.slug));
  const vendors = [...new Set(gpus.map((gpu) => gpu.vendor))];
  const label = (gpu) => `${gpu.name} (${size(gpu.memory)})`;
  $("gpu").append(option("", "none"));
  if (start.gpus.length > 1) $("gpu").append(option("listed", `the ${start.gpus.length} that were asked for`));
  for (const gpu of own) $("gpu").append(option(gpu.slug, gpu.name));
  for (const vendor of vendors) {
    $("gpu").append(h("optgroup", {label: vendor},
      gpus.filter((gpu) => gpu.vendor === vendor).map((gpu) => option(gpu.slug, label(gpu)))));
  }
  const refused = (facts, count) => facts.splits.find((one) => one.count === count)?.refused
    ?? facts.reserves?.tables[0].auto[count].refused;
  const possible = first.splits.map((split) => split.count).filter((count) =>
    models.some(({facts}) => facts && !refused(facts, count)));
  $("count").append(...possible.map((count) => option(String(count), String(count))));
}

function wireNumber(name, key, extra) {
  const [field, slider] = [$(name), $(`${name}-slider`)];
  Object.assign(slider, {min: 0, max: USUAL[name].length - 1, step: 1});
  slider.addEventListener("input", () => {
    field.value = USUAL[name][slider.value];
    ask({[key]: BigInt(field.value), ...extra()});
  });
  field.addEventListener("input", () => {
    if (field.checkValidity() && field.value) ask({[key]: BigInt(Math.trunc(field.value)), ...extra()});
  });
  field.addEventListener("blur", showControls);
}

function wire() {
  wireNumber("context", "tokens", () => ({lengths: [],
    ...(setting.lengths.length ? {sequences: BigInt($("sequences").value)} : {})}));
  wireNumber("sequences", "sequences", () => ({lengths: [],
    ...(setting.lengths.length ? {tokens: BigInt($("context").value)} : {})}));
  $("own-maximum")?.addEventListener("change", (event) => ask({
    tokens: event.target.checked ? null : BigInt($("context").value), lengths: []}));
  $("format").append(...first.formats.map(({name, block}) =>
    option(name, name === "auto" ? `auto (${shortFormat(block[0])})` : name)));
  $("format").addEventListener("change", () => ask({format: $("format").value}));
  fillGpus();
  for (const name of ["gpu", "count"]) $(name).addEventListener("change", () => ask({gpus: chosenGpu()}));
  $("utilization").addEventListener("input", () =>
    ask({utilization: [BigInt($("utilization").value), 100n]}));
  $("reset").addEventListener("click", () => { setting = start; refresh(); });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const colors of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(colors).addEventListener("change", () => drawn.forEach(({plot}) => plot.redraw()));
  }
  addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("details.more")) one.open = true;
  });
  addEventListener("resize", () => drawn.forEach(({plot}, region) =>
    plot.setSize({width: region.clientWidth, height: 300})));
}

if (first) {
  wire();
  for (const more of document.querySelectorAll(".more")) more.addEventListener("toggle", refresh);
  $("controls").hidden = false;
  refresh();
}
