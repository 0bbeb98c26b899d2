// What vLLM reserves for one sequence: blocks of every group, drawn from one pool. The rules are
// those of hfkv/core/engines/vllm_specs.py, `Spec.blocks`.

// Tokens computed but not yet settled.
function inFlight(model, gpu, pool, tokens) {
  const [batched, seqs] = model.overhead.steps[model.overhead.step_of[gpu.slug] ?? 0];
  if (model.batch !== null) return {tokens: pool.batches * model.batch, batched: model.batch};
  const step = model.reserves.whole_prompts ? most(batched, tokens) : batched;
  const each = least(step, seqs * tokens);
  return {tokens: pool.batches * each, batched: each};
}

function blocksOf([kind, size, window, states, everyBlock], tokens, pool, flight) {
  const blocks = (n) => (n + size - 1n) / size;
  if (kind === "state") return everyBlock ? blocks(tokens) + states - 1n : states;
  if (kind === "cross") return blocks(flight.batched);
  if (window === null) return blocks(tokens);
  if (kind === "chunked") return blocks(least(window + flight.tokens, tokens));
  return blocks(least(window - 1n + pool.retained + flight.tokens, tokens)) + 1n;
}

function vllmPool(model, gpu, format) {
  const {tables, generation_of: generations} = model.reserves;
  const pool = tables[generations[gpu.slug] ?? 0][format.name][gpu.count];
  if (pool.refused) throw new Refused(pool.refused);
  return pool;
}

// A function from tokens to the bytes that one sequence takes of the pool.
function vllmReserved(model, gpu, pool) {
  return (tokens) => {
    const flight = inFlight(model, gpu, pool, tokens);
    const groups = pool.groups.map(([times, ...specs]) =>
      times * specs.map((spec) => blocksOf(spec, tokens, pool, flight)).reduce(most, 0n));
    return pool.block * groups.reduce((sum, n) => sum + n, 0n);
  };
}
