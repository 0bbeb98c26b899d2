"""Models that vLLM does not serve, and why.

Source: vLLM 0.32 model_executor/models/registry.py (`_PREVIOUSLY_SUPPORTED_MODELS`,
`_OOT_SUPPORTED_MODELS`), models/qwen2.py, config/model.py.
"""

from __future__ import annotations

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.engines.engine import text_type
from hfkv.core.engines.vllm_options import VllmOptions, whole_prompts
from hfkv.core.stores import Fixed, Grows, Role
from hfkv.core.workload import Deployment
from hfkv.errors import UnsupportedError, UsageError

__all__ = ["refuse", "refuse_step"]

# Architectures and the last version that served them.
_LAST_SERVED: dict[str, tuple[int, int]] = {
    "Phi3SmallForCausalLM": (0, 9),
    "MotifForCausalLM": (0, 10),
    "Phi4FlashForCausalLM": (0, 10),
    "DonutForConditionalGeneration": (0, 10),
    "MllamaForConditionalGeneration": (0, 10),
    "Phi4MultimodalForCausalLM": (0, 12),
    "JAISLMHeadModel": (0, 22),
    "InternLM2VEForCausalLM": (0, 23),
    "QWenLMHeadModel": (0, 23),
    "QwenVLForConditionalGeneration": (0, 23),
    "InternLMForCausalLM": (0, 23),
    "XverseForCausalLM": (0, 23),
    "Dots1ForCausalLM": (0, 23),
    "BambaForCausalLM": (0, 23),
    "MiniMaxForCausalLM": (0, 23),
    "MiniMaxText01ForCausalLM": (0, 23),
    "MiniMaxM1ForCausalLM": (0, 23),
    "MiniMaxVL01ForConditionalGeneration": (0, 23),
    "BaiChuanForCausalLM": (0, 23),
    "BaichuanForCausalLM": (0, 23),
    "AquilaModel": (0, 24),
    "AquilaForCausalLM": (0, 24),
    "Grok1ModelForCausalLM": (0, 24),
    "Grok1ForCausalLM": (0, 24),
    "AyaVisionForConditionalGeneration": (0, 24),
    "TeleChatForCausalLM": (0, 25),
    "PersimmonForCausalLM": (0, 25),
    "FuyuForCausalLM": (0, 25),
    "Plamo2ForCausalLM": (0, 26),
    "OuroForCausalLM": (0, 26),
    "ArcticForCausalLM": (0, 28),
    "ChameleonForConditionalGeneration": (0, 28),
    "HCXVisionForCausalLM": (0, 28),
    "MPTForCausalLM": (0, 28),
    "MptForCausalLM": (0, 28),
    "RWForCausalLM": (0, 28),
    "StableLMEpochForCausalLM": (0, 28),
}
# Served by a plugin of the project instead.
_BY_PLUGIN = frozenset(
    {
        "BartModel",
        "BartForConditionalGeneration",
        "MBartForConditionalGeneration",
        "Florence2ForConditionalGeneration",
    }
)
# The classes that assert that windows are on all layers or on none. Source: models/qwen2.py.
_ALL_LAYERS_OR_NONE = ("qwen2", "qwen3")
# Rings, pools and streams beside the pages, sized by keys that hfkv does not read.
# Source: models/glm5next, models/qwen4_exp, models/inkling, models/deepseek_v41.
_OWN_LAYOUT = ("glm5_next", "qwen4_exp", "inkling", "deepseek_v41")
# Encoder-decoders with a class of their own.
_SERVED_ENCODER_DECODERS = ("whisper", "cohere_asr", "nemotron_parse", "fireredasr")
# Families whose recurrent layers have a class of their own.
_SERVED_RECURRENT = (
    "bailing",
    "bamba",
    "falcon_h1",
    "falcon_mamba",
    "granitemoehybrid",
    "jamba",
    "kimi",
    "lfm2",
    "mamba",
    "minimax",
    "nemotron_h",
    "olmo_hybrid",
    "plamo2",
    "qwen3_5",
    "qwen3_next",
    "zamba2",
)


def refuse(arch: Architecture, options: VllmOptions) -> None:
    """Raise UnsupportedError for a model that vLLM does not serve, UsageError for a plan."""
    _removed(arch, options)
    name = text_type(arch)
    if name.startswith(_OWN_LAYOUT):
        raise UnsupportedError(
            f"vLLM keeps rings or pools beside the pages of {name}, "
            "and hfkv does not read the config keys that size them",
            hint="--engine none gives what the model itself needs",
            code="vllm-unsupported",
        )
    if whole_prompts(arch) and not name.startswith(_SERVED_ENCODER_DECODERS):
        raise _unserved(arch, "it has no class for this encoder-decoder")
    if name.startswith(_ALL_LAYERS_OR_NONE) and _partly_windowed(arch):
        raise UnsupportedError(
            "vLLM refuses this model: a sliding window on some but not all layers "
            "(max_window_layers) is not supported by its class",
            hint="set use_sliding_window to false in the config to serve it without windows",
            code="vllm-unsupported",
        )
    recurrent = any(isinstance(s, Fixed) for layer in arch.layers for s in layer.stores)
    if recurrent and not name.startswith(_SERVED_RECURRENT):
        raise _unserved(arch, "it has no class for these recurrent layers")
    _plan(arch, options)


def refuse_step(
    arch: Architecture, deployment: Deployment, options: VllmOptions, max_model_len: int
) -> None:
    """Raise UsageError for limits of a step that vLLM does not start with.

    A default that depends on the GPU refuses nothing while none is named.
    Source: vLLM 0.11.2 and 0.32, config/scheduler.py, `verify_max_model_len`.
    """
    stated, whole = options.max_num_batched_tokens, whole_prompts(arch)
    tokens, seqs = options.step(max_model_len, whole_prompts=whole)
    if tokens < seqs and (deployment.gpus or (stated and options.max_num_seqs)):
        raise UsageError(
            "vLLM needs --max-num-batched-tokens to be at least --max-num-seqs, and they are "
            f"{tokens:,} and {seqs:,}",
            hint="state both, or lower --max-num-seqs",
            code="step",
        )
    if whole and tokens < max_model_len:
        raise UsageError(
            f"vLLM computes prompts of this model whole, and {counted(max_model_len, 'token')} "
            f"are more than --max-num-batched-tokens {tokens:,}",
            hint="raise --max-num-batched-tokens, or lower --context",
            code="step",
        )


def _unserved(arch: Architecture, why: str) -> UnsupportedError:
    name = arch.class_name or arch.model_type or "this model"
    return UnsupportedError(
        f"vLLM does not serve {name:.60}: {why}",
        hint="choose another --engine",
        code="vllm-unsupported",
    )


def _removed(arch: Architecture, options: VllmOptions) -> None:
    name = arch.class_name or ""
    if name in _BY_PLUGIN and options.version > (0, 10):
        raise UnsupportedError(
            f"vLLM serves {name} only with its bart-plugin, whose cache hfkv does not know",
            hint="choose another --engine",
            code="vllm-unsupported",
        )
    last = _LAST_SERVED.get(name)
    if last is not None and options.version > last:
        version = f"{last[0]}.{last[1]}"
        raise UnsupportedError(
            f"vLLM does not serve {name} any more: {version} was the last version that did",
            hint=f"size it for that version with --engine-version {version}",
            code="vllm-unsupported",
        )


def _partly_windowed(arch: Architecture) -> bool:
    windows = {
        store.window is not None
        for layer in arch.layers
        for store in layer.stores
        if isinstance(store, Grows) and store.role is Role.KV
    }
    return len(windows) > 1


def _plan(arch: Architecture, options: VllmOptions) -> None:
    """Refuse parallel sizes that vLLM refuses."""
    tp, dcp = options.tensor_parallel_size, options.decode_context_parallel_size
    heads = arch.num_attention_heads
    if heads and heads % tp:
        raise UsageError(
            f"vLLM cannot share {counted(heads, 'attention head')} between "
            f"{tp} tensor-parallel ranks",
            hint="the number of ranks must divide the number of heads",
            code="tp",
        )
    if options.pipeline_parallel_size > max(1, len(arch.layers)):
        raise UsageError(
            f"{counted(len(arch.layers), 'layer')} cannot fill "
            f"{options.pipeline_parallel_size} stages",
            hint="choose a smaller --pp",
            code="pp",
        )
    if dcp == 1:
        return
    if tp % dcp:
        raise UsageError(
            f"decode context parallel size {dcp} does not divide tensor parallel size {tp}",
            code="dcp",
        )
    stores = [s for layer in arch.layers for s in layer.stores if isinstance(s, Grows)]
    if any(store.window is not None for store in stores):
        raise UnsupportedError(
            "vLLM does not split the positions of windowed layers between ranks",
            hint="use decode context parallelism only with full attention",
            code="dcp",
        )
    copies = min((tp // s.heads for s in stores if s.heads), default=tp)
    if dcp > copies:
        raise UsageError(
            f"decode context parallel size {dcp} needs as many copies of the KV heads, and "
            f"tensor parallel size {tp} makes {max(1, copies)}",
            code="dcp",
        )
