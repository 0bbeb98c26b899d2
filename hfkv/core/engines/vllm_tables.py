"""Which models of vLLM have their embeddings and output head on every stage of a pipeline.

The classes of the others build them only where they are used (`is_first_rank`, `is_last_rank`),
as llama.py does; so does its backend for models of transformers.
Source: vLLM 0.19 and 0.32, model_executor/models (`VocabParallelEmbedding`, `ParallelLMHead`);
registry.py of 0.22 to 0.32 for the releases in which transformers took a model over.
"""

from __future__ import annotations

from hfkv.core.architecture import Architecture
from hfkv.core.engines.engine import text_type
from hfkv.core.engines.vllm_options import parse_version

__all__ = ["on_every_stage"]

_EVERYWHERE = frozenset(
    """
    arctic baichuan bamba bloom chatglm cohere cohere2 dbrx falcon falcon_mamba gemma gemma2
    gemma3 gemma3_text gemma3n gemma3n_text gemma4 gemma4_text gpt2 gpt_oss gptj granitemoe
    granitemoehybrid granitemoeshared grok-1 internlm2 jais jamba lfm2 lfm2_moe mamba mamba2
    minicpm minicpm3 mixtral molmo mpt nemotron_h olmo_hybrid olmoe opt orion persimmon phi3_v
    phimoe plamo2 plamo3 qwen qwen2_moe qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text
    qwen3_moe qwen3_next qwen3_vl_moe qwen3_vl_moe_text stablelm zamba2
    """.split()  # noqa: SIM905  a list of words is easier to read
)
# Models that were so until transformers took them over.
_UNTIL = {
    **dict.fromkeys(("gpt_bigcode", "olmo", "olmo2", "olmo3", "starcoder2"), (0, 26)),
    **dict.fromkeys(("gpt_neox", "phi"), (0, 31)),
}
# Of these only the embeddings are everywhere.
_HEAD_LAST = frozenset(
    {"lfm2", "lfm2_moe", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text"}
)


def on_every_stage(architecture: Architecture, version: str | None) -> frozenset[str]:
    """Return the roles of weights that every stage has, of embedding and lm_head."""
    kind = text_type(architecture)
    until = _UNTIL.get(kind)
    own = until is not None and parse_version(version) < until
    if kind not in _EVERYWHERE and not own:
        return frozenset()
    return frozenset({"embedding"} if kind in _HEAD_LAST else {"embedding", "lm_head"})
