// What an engine spends on neither weights nor cache: hfkv/core/overhead.py, part by part, each
// as [lowest, likely, highest] bytes. tests/browser compares the two.

const MIB = 1n << 20n;
const GIB = 1n << 30n;
const SERVER_CARD = 70n * GIB;
const LLAMA_CPP = ["llama.cpp", "ollama"];

// Tokens computed and sequences sampled at once: `engine_step` of hfkv/core/budget.py.
function stepOf(model, gpu, asked) {
  const {steps, step_of: chosen} = model.overhead;
  const [batched, seqs] = steps[chosen[gpu.slug] ?? 0];
  if (model.engine === "vllm") return {batched: vllmTokens(model, batched, seqs, asked.tokens), seqs};
  const own = model.engine === "ollama" && model.batch === null;
  return {batched: own ? ollamaBatch(asked.tokens) : batched, seqs: seqs ?? least(asked.sequences, 1024n)};
}

function contextPart(gpu, unshared, ranks) {
  const wired = ranks > 1n && gpu.memory >= SERVER_CARD;
  const sizes = [300n * MIB, (wired ? 1536n : 512n) * MIB,
    wired ? most(2100n * MIB, gpu.memory / 64n) : GIB];
  return ["device context", sizes.map((bytes) => most(0n, bytes - unshared))];
}

function systemPart(gpu) {
  const shared = gpu.unified && gpu.vendor !== "apple";
  return ["other programs", [1n, 7n, 20n].map((gib) => (shared ? gib * GIB : 0n))];
}

function librariesPart(gpu) {
  const likely = least(gpu.memory / 150n, (gpu.vendor === "amd" ? 676n : 256n) * MIB);
  return ["libraries", [0n, likely, likely + 256n * MIB]];
}

function communicationPart(gpu, ranks) {
  if (ranks < 2n) return ["communication", [0n, 0n, 0n]];
  if (gpu.memory >= SERVER_CARD) return ["communication", [256n * MIB, 1863n * MIB, 2048n * MIB]];
  const likely = least(gpu.memory / 100n * (ranks - 1n), 1863n * MIB);
  return ["communication", [0n, likely, 3n * likely]];
}

function activationPart({hidden, vocab, active, towers}, {batched, seqs}, ranks) {
  const wide = batched * hidden;
  const layer = wide * (21n * ranks + 28n); // all three in units of 1 / (2 ranks)
  const sampler = seqs * vocab * 29n * ranks;
  const kept = wide * (5n + 8n * active) * ranks;
  const likely = 41n * MIB + (kept + most(layer, sampler)) / (2n * ranks);
  const high = likely * 5n / 4n + 512n * MIB + (towers ? 3n * GIB : 0n);
  return ["activation peak", [likely * 3n / 4n, likely, high]];
}

function graphsPart({seqs}) {
  const likely = (seqs <= 30n ? 100n : seqs < 256n ? 360n : seqs === 256n ? 512n : 922n) * MIB;
  return ["captured graphs", [likely / 4n, likely, 2n * likely]];
}

function bufferPart({hidden, vocab}, {batched, seqs}, tokens) {
  const output = least(seqs, batched) * vocab * 4n + 2n * batched * hidden * 4n;
  const layer = batched * 16n * hidden * 4n + up(tokens, CELLS) * batched * 2n;
  const likely = most(output, layer);
  const high = (batched * vocab * 4n + 2n * batched * hidden * 4n + layer) * 5n / 4n;
  return ["compute buffer", [likely / 2n, likely, high]];
}

function overheadParts(model, gpu, ranks, budget, asked) {
  const {engine, overhead: facts} = model;
  const step = stepOf(model, gpu, asked);
  if (engine === "sglang") {
    return [contextPart(gpu, 0n, ranks), systemPart(gpu)].map(([name, sizes]) =>
      [name, sizes.map((bytes) => floored(bytes * budget, gpu.memory))]);
  }
  const context = contextPart(gpu, gpu.memory - budget, ranks);
  if (LLAMA_CPP.includes(engine)) {
    return [context, bufferPart(facts, step, asked.tokens),
      ["kept free", [0n, 1024n * MIB, 1024n * MIB]], systemPart(gpu)];
  }
  const beside = facts.beside[facts.beside_of[gpu.slug] ?? 0];
  return [context, ...beside, librariesPart(gpu), communicationPart(gpu, ranks),
    activationPart(facts, step, ranks), ...(facts.graphs ? [graphsPart(step)] : [])];
}

function overheadOf(model, gpu, split, budget, asked) {
  const {stated} = model.overhead;
  const parts = stated !== undefined ? [["stated", [stated, stated, stated]]]
    : overheadParts(model, gpu, split.tp, budget, asked).filter(([, sizes]) => sizes[2]);
  const [low, bytes, high] = [0, 1, 2].map((i) => parts.reduce((sum, [, sizes]) => sum + sizes[i], 0n));
  return {low, bytes, high,
    parts: stated !== undefined ? [] : parts.map(([name, sizes]) => ({name, bytes: sizes[1]}))};
}
