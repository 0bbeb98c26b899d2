// The sentences of hfkv/render/phrases.py, said again for another setting.

const TIGHT = "fits tightly";
const NO_WEIGHTS = "The size of the weights is not known.";

function gpuPhrase(gpu) {
  return gpu.count === 1n ? gpu.name : `${gpu.count} × ${gpu.name.replace(/^a /, "")}`;
}

function loadPhrase(asked) {
  const {lengths, tokens, sequences} = asked;
  if (!lengths.length) return `${plural(tokens, "token")} × ${plural(sequences, "sequence")}`;
  const [low, high] = [lengths.reduce(least), lengths.reduce(most)].map(grouped);
  const word = high === "1" ? "token" : "tokens";
  return `${plural(lengths.length, "sequence")} of ${low === high ? low : `${low} to ${high}`} ${word}`;
}

function verdict(model, told) {
  const {asked, fits} = told;
  if (!fits.length) return ["needs", needs(model, told)];
  if (fits.length === 1) return oneGpu(asked, fits[0]);
  const held = loadPhrase(asked);
  const fitting = fits.filter((fit) => fit.fits !== false);
  const hardly = fits.filter((fit) => fit.verdict === TIGHT).length;
  if (!fitting.length && hardly) {
    return ["tight", `Hardly fits on ${hardly} of ${fits.length} choices, only if overhead stays at its lowest: ${held}.`];
  }
  if (!fitting.length) return ["short", `Does not fit on any of ${fits.length} choices: ${held}.`];
  const memory = (fit) => fit.gpu.memory * fit.gpu.count;
  const smallest = fitting.reduce((a, b) => (memory(b) < memory(a) ? b : a));
  const every = fits.length === 2 ? "both" : `all ${fits.length}`;
  const some = fitting.length === fits.length ? every : `${fitting.length} of ${fits.length}`;
  const where = `${some} choices, the smallest ${gpuPhrase(smallest.gpu)}`;
  if (smallest.fits === null) return ["needs", `The cache alone fits on ${where}: ${held}. ${NO_WEIGHTS}`];
  return smallest.verdict === TIGHT
    ? ["tight", `Fits on ${where}, which is tight: ${held}.`] : ["fits", `Fits on ${where}: ${held}.`];
}

function needs(model, told) {
  const cache = `${size(told.bytes)} of KV cache for ${loadPhrase(told.asked)}`;
  if (model.weights === null) return `Needs ${cache}, beside the weights, which are not known.`;
  const weights = `${size(model.weights)} of weights`;
  if (told.bytes === 0n && !told.parts.length) return `Needs ${weights} and keeps no cache.`;
  return `Needs ${size(model.weights + told.bytes)}: ${weights} and ${cache}.`;
}

function oneGpu(asked, fit) {
  const [where, held] = [gpuPhrase(fit.gpu), loadPhrase(asked)];
  if (fit.fits === false) {
    const per = fit.gpu.count > 1n ? " per GPU" : "";
    const short = `short by ${size(fit.short)}${per} for ${held}`;
    return fit.verdict === TIGHT
      ? ["tight", `Hardly fits on ${where}: ${short}. It would fit only if overhead stays at its lowest.`]
      : ["short", `Does not fit on ${where}: ${short}.`];
  }
  if (fit.fits === null) return ["needs", `The cache alone fits on ${where}: ${held}. ${NO_WEIGHTS}`];
  if (fit.each === 0n) return ["fits", `Fits on ${where}, and keeps no cache.`];
  const room = `Room for ${plural(fit.sequences, "such sequence")}`;
  return fit.verdict === TIGHT
    ? ["tight", `Fits tightly on ${where}: ${held}. ${room} if overhead is as estimated.`]
    : ["fits", `Fits on ${where}: ${held}. ${room}.`];
}

function sharePhrase([top, bottom]) {
  return String(Number((Number(top) / Number(bottom)).toPrecision(4)));
}

function quoted(word) {
  return /^[\w./:@=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

// The command line that says what the controls say.
function command(model, setting) {
  const words = [...model.command];
  if (setting.lengths.length) words.push("--seq-lens", setting.lengths.join(","));
  else {
    if (setting.tokens !== null) words.push("--context", setting.tokens);
    if (setting.sequences !== 1n) words.push("--concurrency", setting.sequences);
  }
  if (setting.format !== "auto") words.push("--kv-dtype", setting.format);
  for (const gpu of setting.gpus) {
    words.push("--gpu", gpu.count === 1n ? gpu.slug : `${gpu.slug}:${gpu.count}`);
  }
  if (setting.gpus.length && setting.utilization !== null) {
    words.push("--utilization", sharePhrase(setting.utilization));
  }
  return words.map(String).map(quoted).join(" ");
}

// Which figures are weaker than they look: `_notes` of hfkv/core/fit.py.
function notes(model, fit) {
  const {gpu, split, weights, each} = fit;
  const seen = ["framework total", "as given"].includes(gpu.source);
  const served = gpu.memory * gpu.count >= 47n * GIB ? 262144n : gpu.memory * gpu.count >= 23n * GIB ? 32768n : 4096n;
  return [
    weights === null && "the weights are not known: the pool is what is left before them",
    ...split.notes,
    !seen && `memory is the ${gpu.source}: the framework's own total was not seen`,
    each === 0n && "a sequence takes no cache: memory does not limit their number",
    model.engine === "trtllm"
      && "TensorRT-LLM takes its share of what weights and overhead leave, not of the total",
    model.engine === "ollama"
      && `without num_ctx Ollama serves ${grouped(served)} tokens on so much memory`,
  ].filter(Boolean);
}
