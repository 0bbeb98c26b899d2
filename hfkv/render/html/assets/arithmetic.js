// The whole arithmetic, in BigInt: entries x bytes x layers, and what a GPU has left.

class Refused extends Error {}

const LONGEST = 2n ** 24n; // tokens; where the model states no maximum
const UNLIMITED = 2n ** 20n; // sequences; where a sequence takes no memory

// Every number of the data as BigInt, texts and truth values as they are.
function exact(value) {
  if (typeof value === "number") return BigInt(value);
  if (Array.isArray(value)) return value.map(exact);
  if (value === null || typeof value !== "object") return value;
  if (value.big) return BigInt(value.big); // more than a JSON number can hold
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, exact(item)]));
}

function formatOf(model, name) {
  const found = model.formats.find((format) => format.name === name);
  if (!found) throw new Refused(`${model.engine} keeps no cache of this model in ${name}`);
  return found;
}

function slotsOf(model, row, tokens) {
  return SLOTS[model.engine](row, row.cross ? model.source_tokens : tokens, model);
}

// Bytes of one entry on one rank; fewer heads than ranks are replicated.
function slotBytes(model, index, format, tp) {
  const [values, whole, own] = model.layouts[format.layout][index];
  const {heads} = model.rows[index];
  const [name, block, bytes] = own ?? format.block;
  const held = heads !== null && tp > 1n
    ? whole + (values - whole) / heads * ((heads + tp - 1n) / tp)
    : values;
  if (held % block) {
    throw new Refused(`${name} stores values in blocks of ${block}, `
      + `and a row of ${held} does not fill them`);
  }
  return held / block * bytes;
}

// How many layers from `start` to `stop` hold each row.
function layersOf(model, start, stop) {
  const counts = model.rows.map(() => 0n);
  for (const group of model.groups) {
    const inside = group.layers.filter((layer) => layer >= start && layer < stop).length;
    for (const row of group.rows) counts[row] += BigInt(inside);
  }
  return counts;
}

// A function from tokens to what one sequence holds on the fullest rank, by component; `account`
// makes one number of it.
function heldOf(model, split, format, account = summed) {
  const widths = model.rows.map((_, i) => slotBytes(model, i, format, split.tp));
  const stages = split.stages.map(([start, stop]) => layersOf(model, start, stop));
  return (tokens) => {
    const each = model.rows.map((row, i) => slotsOf(model, row, tokens) * widths[i]);
    let fullest = {bytes: -1n};
    for (const counts of stages) {
      const parts = model.components.map(() => 0n);
      model.rows.forEach((row, i) => { parts[row.component] += counts[i] * each[i]; });
      const bytes = account(model, counts, each);
      if (bytes > fullest.bytes) fullest = {bytes, parts};
    }
    return fullest;
  };
}

function summed(model, counts, each) {
  return counts.reduce((sum, n, i) => sum + n * each[i], 0n);
}

// What an engine sets aside for what one sequence holds. SGLang keeps states in a pool of their
// own, nine tenths as large as the other: `_of_pools` of hfkv/core/engines/sglang.py.
function reservedOf(model, counts, each) {
  const pooled = (i) => model.engine === "sglang" && model.rows[i].fixed && model.rows[i].heads !== null;
  let [cache, states] = [0n, 0n];
  counts.forEach((n, i) => {
    if (pooled(i)) states += n * each[i];
    else cache += n * each[i];
  });
  return states ? most((cache * 19n + 9n) / 10n, (states * 19n + 8n) / 9n) : cache;
}

function wholeOf(model) {
  return {tp: 1n, pp: 1n, stages: [[0n, model.layers]]};
}

// The components of the report: one sequence, all ranks together.
function cacheOf(model, tokens, format) {
  const whole = layersOf(model, 0n, model.layers);
  const parts = model.components.map((part) => ({...part, layers: 0n, bytes: 0n}));
  model.rows.forEach((row, i) => {
    const [slots, each] = [slotsOf(model, row, tokens), slotBytes(model, i, format, 1n)];
    const part = parts[row.component];
    part.layers += whole[i];
    part.bytes += whole[i] * slots * each;
    Object.assign(part, {slots, each, format: (model.layouts[format.layout][i][2] ?? format.block)[0]});
  });
  return parts;
}

// What one more token costs: averaged over a ratio and over an engine's rounding.
function marginal(model, tokens, format) {
  const whole = layersOf(model, 0n, model.layers);
  let [top, bottom] = [0n, 1n];
  model.rows.forEach((row, i) => {
    if (row.fixed || row.cross || row.modulo !== null) return;
    const bytes = whole[i] * slotBytes(model, i, format, 1n);
    const averaged = row.stride > 1n && row.window === null;
    const more = averaged ? 1n
      : slotsOf(model, row, tokens + model.period) - slotsOf(model, row, tokens);
    const over = averaged ? row.stride : model.period;
    [top, bottom] = [top * over + bytes * more * bottom, bottom * over];
  });
  return top / bottom;
}

// How many of `each` bytes find room beside the working memory that as many of them need.
function mostOf(each, spaceFor) {
  const beside = (sequences) => {
    const space = spaceFor(sequences);
    return space < each ? 0n : each ? space / each : UNLIMITED;
  };
  let high = beside(1n);
  let low = beside(high);
  if (low >= high) return high;
  while (high - low > 1n) { // `low` find room, `high` do not
    const middle = (low + high) / 2n;
    [low, high] = beside(middle) >= middle ? [middle, high] : [low, middle];
  }
  return low;
}

function longest(held, spaceFor, limit) {
  const fits = (tokens) => held(tokens).bytes <= spaceFor(tokens);
  if (fits(limit)) return limit;
  let [low, high] = [0n, limit]; // `low` has room or is nothing, `high` has none
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    [low, high] = fits(middle) ? [middle, high] : [low, middle];
  }
  return low;
}

// How so many GPUs share the model; mxfp4 experts are laid out by kind of GPU.
function splitOf(model, {slug, count}) {
  const split = model.splits.find((one) => one.count === count);
  if (split.refused) throw new Refused(split.refused);
  return {...split, ...split.kernels[model.kernels[slug]]};
}

// The share of the memory: asked for, else the engine's own for this GPU, else its usual one.
function shareOf(model, asked, gpu, count) {
  return asked.utilization ?? model.shares[gpu.slug]?.[count] ?? model.asked.usual_utilization;
}

// What is left for the cache. TensorRT-LLM takes its share of what is left, others of the total.
function roomOf(model, memory, [top, bottom], spent) {
  if (model.engine !== "trtllm") return floored(memory * top, bottom) - spent;
  return memory > spent ? floored((memory - spent) * top, bottom) : memory - spent;
}

// The account of one choice of GPU.
function fitOf(model, asked, format, gpu) {
  const pooled = model.reserves ? vllmPool(model, gpu, format, asked) : null;
  const split = splitOf(model, gpu);
  const kept = heldOf(model, split, format, reservedOf);
  const reserved = pooled && vllmReserved(model, gpu, pooled);
  const held = (tokens) => (reserved ? {...kept(tokens), bytes: reserved(tokens)} : kept(tokens));
  const heldBack = pooled?.held_back ?? 0n;
  const share = shareOf(model, asked, gpu, gpu.count);
  const spent = (work) => overheadOf(model, gpu, split, floored(gpu.memory * share[0], share[1]), work);
  const overhead = spent(asked);
  const weights = split.weights;
  const left = (spent, more = 0n) => roomOf(model, gpu.memory + more, share, spent + (weights ?? 0n));
  const room = left(overhead.bytes);
  const unseen = gpu.source === "framework total" ? gpu.memory / 48n : 0n; // totals vary so much
  const each = held(asked.tokens).bytes;
  const needed = asked.lengths.length
    ? asked.lengths.reduce((sum, tokens) => sum + held(tokens).bytes, 0n)
    : asked.sequences * each;
  const pool = most(0n, room);
  const space = room - heldBack;
  const roomFor = (tokens, sequences) => left(spent({...asked, tokens, sequences}).bytes);
  const sequences = mostOf(each, (count) => roomFor(asked.tokens, count) - heldBack);
  const limit = model.max_context === null ? LONGEST : most(model.max_context, asked.tokens);
  return {
    gpu, split, share, weights, overhead, each, needed, pool, sequences, held,
    budget: overhead.bytes + (weights ?? 0n) + room,
    fits: space >= needed && weights === null ? null : space >= needed,
    verdict: left(overhead.low, unseen) - heldBack < needed ? "does not fit"
      : weights === null ? "unknown"
        : left(overhead.high) - heldBack >= needed ? "fits" : "fits tightly",
    short: most(0n, needed - space),
    longest: longest(held, (tokens) => roomFor(tokens, 1n) - heldBack, limit),
    tokens: each ? pool * asked.tokens / each : sequences * asked.tokens,
    simple: simpleSequences(model, asked, format, split, (count) => roomFor(asked.tokens, count)),
  };
}

// 2·L·Hkv·D·T·B for so many positions; null where the format cannot hold such a row.
function simpleBytes(model, format, longest, positions) {
  if (model.simple === null) return null;
  let {values} = model.simple;
  if (longest <= model.simple.within) {
    const layers = layersOf(model, 0n, model.layers);
    values = model.layouts[format.layout].reduce((sum, [width], i) => sum + layers[i] * width, 0n);
  }
  const [, block, bytes] = format.block;
  return values % block ? null : values / block * bytes * positions;
}

function simpleSequences(model, asked, format, split, roomFor) {
  const one = simpleBytes(model, format, asked.tokens, asked.tokens);
  if (!one) return null;
  const {layers} = model.simple;
  const heads = model.simple.heads || split.tp;
  const stage = (layers + split.pp - 1n) / split.pp;
  const [part, whole] = [one * most(1n, heads / split.tp) * stage, heads * layers];
  const rank = (part + whole - 1n) / whole;
  return rank ? mostOf(rank, roomFor) : null;
}

// Everything the page says of one model under one setting.
function answer(model, setting) {
  const tokens = setting.tokens ?? model.asked.own;
  const asked = {...setting, tokens};
  const format = formatOf(model, asked.format);
  const parts = cacheOf(model, tokens, format);
  const one = parts.reduce((sum, part) => sum + part.bytes, 0n);
  const held = heldOf(model, wholeOf(model), format);
  const positions = asked.lengths.reduce((sum, n) => sum + n, 0n) || tokens * asked.sequences;
  return {
    asked, format, parts, held,
    perSequence: one,
    perToken: marginal(model, tokens, format),
    fixed: parts.filter((part) => part.growth === "fixed" || part.growth === "source")
      .reduce((sum, part) => sum + part.bytes, 0n),
    bytes: asked.lengths.length
      ? asked.lengths.reduce((sum, n) => sum + held(n).bytes, 0n)
      : one * asked.sequences,
    simple: simpleBytes(model, format, tokens, positions),
    fits: asked.gpus.map((gpu) => fitOf(model, asked, format, gpu)),
  };
}
