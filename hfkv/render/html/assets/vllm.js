// What vLLM reserves for one sequence: blocks of every group, drawn from one pool. The rules are
// those of hfkv/core/engines/vllm_specs.py, `Spec.blocks`.

// Tokens computed at once: stated, else a default and no more than all sequences have. `step` of
// hfkv/core/engines/vllm_options.py; no default of sequences is above that of tokens.
function vllmTokens(model, batched, seqs, tokens) {
  if (model.batch !== null) return batched;
  return least(model.reserves.whole_prompts ? most(batched, tokens) : batched, seqs * tokens);
}

// `refuse_step` of hfkv/core/engines/vllm_refusals.py.
function startable(model, gpu, asked) {
  const {batched, seqs} = stepOf(model, gpu, asked);
  if (batched < seqs) {
    throw new Refused("vLLM needs --max-num-batched-tokens to be at least --max-num-seqs, "
      + `and they are ${grouped(batched)} and ${grouped(seqs)}`);
  }
  if (model.reserves.whole_prompts && batched < asked.tokens) {
    throw new Refused(`vLLM computes prompts of this model whole, and ${plural(asked.tokens, "token")} `
      + `are more than --max-num-batched-tokens ${grouped(batched)}`);
  }
}

// Tokens computed but not yet settled.
function inFlight(model, gpu, pool, tokens) {
  const {batched} = stepOf(model, gpu, {tokens});
  return {tokens: pool.batches * batched, batched};
}

function blocksOf([kind, size, window, states, everyBlock], tokens, pool, flight) {
  const blocks = (n) => (n + size - 1n) / size;
  if (kind === "state") return everyBlock ? blocks(tokens) + states - 1n : states;
  if (kind === "cross") return blocks(flight.batched);
  if (window === null) return blocks(tokens);
  if (kind === "chunked") return blocks(least(window + flight.tokens, tokens));
  return blocks(least(window - 1n + pool.retained + flight.tokens, tokens)) + 1n;
}

function vllmPool(model, gpu, format, asked) {
  const {tables, generation_of: generations} = model.reserves;
  const pool = tables[generations[gpu.slug] ?? 0][format.name][gpu.count];
  if (pool.refused) throw new Refused(pool.refused);
  startable(model, gpu, asked);
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
