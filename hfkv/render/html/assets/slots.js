// How many entries each engine keeps of a row for so many tokens: the `slots` of
// hfkv/core/engines/*.py. Every engine has its rule here.

const up = (value, unit) => (value + unit - 1n) / unit * unit;
const floored = (value, by) => (value - ((value % by) + by) % by) / by; // as Python divides
const least = (a, b) => (a < b ? a : b);
const most = (a, b) => (a > b ? a : b);

function entries(row, tokens) {
  if (row.fixed) return 1n;
  if (row.modulo !== null) return tokens % row.modulo;
  return (row.window === null ? tokens : least(tokens, row.window)) / row.stride;
}

const CELLS = 256n;

function cells(row, tokens, batch) {
  if (row.fixed) return 1n;
  if (row.cross) return tokens;
  const length = up(tokens, CELLS);
  if (row.window !== null) return up(least(length, row.window + batch), CELLS);
  return up((length + row.stride - 1n) / row.stride, CELLS);
}

function ollamaBatch(tokens) {
  return tokens > 32768n ? 2048n : tokens > 4096n ? 1024n : 512n;
}

const SLOTS = {
  none: entries,
  transformers: entries,
  vllm: entries,
  "llama.cpp": (row, tokens, model) => cells(row, tokens, model.batch ?? 512n),
  ollama: (row, tokens, model) => cells(row, tokens, model.batch ?? ollamaBatch(tokens)),
  sglang: (row, tokens) => {
    if (row.fixed) return row.heads ? 3n : 1n;
    if (row.window === null || row.cross) return entries(row, tokens);
    const [share, of] = row.heads === null ? [1n, 10n] : [4n, 5n];
    return most(least(tokens, row.window), (tokens * share + of - 1n) / of) / row.stride;
  },
  trtllm: (row, tokens) => {
    const kept = entries(row, tokens);
    return row.fixed || row.cross ? kept : up(kept, 32n);
  },
};
