"""One function per layer kind: what the config says a layer keeps, as stores.

Every function takes the view of one layer and returns its `Layer`. Sizes are raw need
(DESIGN section 3): a window keeps W tokens, a convolution K-1 columns, state is float32
unless the reference implementation keeps the model's dtype.
"""

from __future__ import annotations

from hfkv.core.config import Config
from hfkv.core.counts import counted
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role, Store
from hfkv.errors import MalformedError, UnsupportedError

__all__ = [
    "attention",
    "conv_state",
    "cross",
    "gated_delta",
    "head_dim",
    "heads",
    "index_store",
    "kda",
    "key_value_heads",
    "latent",
    "lightning",
    "mamba1",
    "mamba2",
    "nothing",
    "per_head",
    "shared",
    "short_conv",
    "window",
]

FLOAT32 = "float32"
# Classes whose num_kv_heads is written and ignored under multi_query.
_MULTI_QUERY = ("falcon", "gpt_bigcode", "RefinedWeb", "RefinedWebModel")
# Classes that set head_dim to hidden_size / num_attention_heads, whatever the file says, and
# have no other widths. Source: transformers 5.24, configuration files of these types.
_DERIVED_HEAD_DIM = frozenset(
    """
    blt_global_transformer blt_local_decoder blt_local_encoder cohere2 cohere_compass_text
    deepseek_ocr2_text recurrent_gemma unlimited_ocr_text
    """.split()  # noqa: SIM905 - a column of words reads better than a list of strings
)


def heads(cfg: Config) -> int:
    """Return the number of query heads."""
    return cfg.need("num_attention_heads")


def key_value_heads(cfg: Config) -> int:
    """Return the number of KV heads of this layer.

    `multi_query` means one head (falcon-7b, gpt_bigcode) unless falcon's
    `new_decoder_architecture` or an explicit count says otherwise; in the classes that
    save a count they do not use, only `n_head_kv` is one. No key at all
    means as many as query heads. Source: transformers 5.24 modeling_falcon.py,
    modeling_gpt_bigcode.py; falcon's remote code for `n_head_kv`.
    """
    if cfg.flag("multi_query") and not cfg.flag("new_decoder_architecture"):
        own = cfg.model_type in _MULTI_QUERY
        found = cfg.positive("n_head_kv" if own else "num_key_value_heads")
        cfg.note("num_key_value_heads", found or 1, cfg.where("multi_query"))
        return found or 1
    if cfg.raw("multi_query_attention") is False:
        return heads(cfg)
    found, total = cfg.count("num_key_value_heads"), heads(cfg)
    if found == 0:
        raise MalformedError("0 is not a size", where=cfg.where("num_key_value_heads"))
    if found is None:
        cfg.note("num_key_value_heads", total, "num_attention_heads")
        return total
    if total % found:
        raise UnsupportedError(
            f"{counted(total, 'head')} cannot be divided into {found} KV heads",
            where=cfg.where("num_key_value_heads"),
            hint="one of the two is wrong; supply a corrected config with --config FILE",
            code="contradiction",
        )
    return found


def head_dim(cfg: Config) -> int:
    """Return the key width of one head: stated, else hidden_size / num_attention_heads.

    What the file states is passed over where the class overwrites it.
    """
    found = None if _derives_head_dim(cfg) else cfg.positive("head_dim")
    if found is not None:
        return found
    found = per_head(cfg, cfg.need("hidden_size"), heads(cfg))
    cfg.note("head_dim", found, "hidden_size / num_attention_heads")
    return found


def per_head(
    cfg: Config,
    width: int,
    count: int,
    *,
    what: str = "hidden_size",
    key: str = "head_dim",
    exact: bool = True,
) -> int:
    """Return the width of one of the heads that share a width, where no `key` states it.

    Raises UnsupportedError for heads without a width; where `exact`, also for a remainder.
    """
    found, rest = divmod(width, count)
    if not found or (rest and exact):
        raise UnsupportedError(
            f"{what} {width} does not divide by {counted(count, 'head')}, and no {key} is stated",
            where=cfg.where(key),
            hint=f"supply a config that states {key} with --config FILE",
            code="head-dim",
        )
    return found


def _derives_head_dim(cfg: Config) -> bool:
    return cfg.model_type in _DERIVED_HEAD_DIM


def window(cfg: Config) -> int | None:
    """Return the sliding window in tokens (this one included), or None when it is off."""
    if cfg.flag("use_sliding_window") is False or cfg.raw("sliding_window") == -1:
        return None  # grok-2 writes -1 for no window
    return cfg.positive("sliding_window")


def attention(cfg: Config, *, limit: int | None = None, chunked: bool = False) -> Layer:
    """Return ordinary or latent self-attention, over everything or over a window."""
    derived = _derives_head_dim(cfg)
    if not derived and cfg.positive("kv_lora_rank"):
        return latent(cfg, limit=limit)
    dim = head_dim(cfg)
    store = Grows(
        heads=key_value_heads(cfg),
        key=dim,
        value=dim if derived else cfg.positive("v_head_dim") or dim,
        window=limit,
        chunked=chunked,
    )
    if limit is None:
        kind = LayerKind.FULL
    else:
        kind = LayerKind.CHUNKED if chunked else LayerKind.SLIDING
    return Layer(kind=kind, stores=(store,), heads=heads(cfg))


def latent(cfg: Config, *, limit: int | None = None, rope: bool = True) -> Layer:
    """Return multi-head latent attention: one compressed vector, plus the rope part.

    Source: DeepSeek-V2 paper (arXiv 2405.04434) section 2.1.3.
    """
    width = cfg.need("kv_lora_rank") + ((cfg.count("qk_rope_head_dim") or 0) if rope else 0)
    store = Grows(key=width, window=limit, role=Role.LATENT)
    return Layer(kind=LayerKind.LATENT, stores=(store,), heads=heads(cfg))


def index_store(cfg: Config, *, width: int | None = None, dtype: str | None = None) -> Grows:
    """Return the index keys of sparse attention: one vector per token, shared by all heads."""
    return Grows(key=width or cfg.need("index_head_dim"), role=Role.INDEX, dtype=dtype)


def cross(cfg: Config, *, count: int | None = None, dim: int | None = None) -> Grows:
    """Return what cross-attention keeps: keys and values of the source positions."""
    width = dim or head_dim(cfg)
    return Grows(heads=count or key_value_heads(cfg), key=width, value=width, role=Role.CROSS)


def conv_state(channels: int, kernel: int, *, dtype: str | None = None, whole: int = 0) -> Fixed:
    """Return the K-1 past inputs a causal convolution of width K needs.

    `whole` of the channels are read by every head: tensor parallelism copies them.
    """
    columns = max(kernel - 1, 0)
    return Fixed(
        elements=channels * columns,
        heads=channels - whole,
        role=Role.CONV,
        dtype=dtype,
        columns=columns,
        whole=whole * columns,
    )


def _recurrent(kind: LayerKind, *stores: Store) -> Layer:
    return Layer(kind=kind, stores=stores)


def mamba1(cfg: Config) -> Layer:
    """Return a Mamba-1 mixer: convolution inputs and a float32 state.

    `intermediate_size` is the inner width where the class has it (mamba, falcon_mamba),
    else expand x hidden. Source: transformers 5.24 modeling_mamba.py, modeling_jamba.py.
    """
    inner = cfg.positive("mamba_inner_size")
    if inner is None:
        inner = cfg.need("mamba_expand") * cfg.need("hidden_size")
    state = Fixed(elements=inner * cfg.need("state_size"), heads=inner, dtype=FLOAT32)
    return _recurrent(LayerKind.STATE_SPACE, conv_state(inner, cfg.need("conv_kernel")), state)


def mamba2(cfg: Config) -> Layer:
    """Return a Mamba-2 mixer: convolution over x, B and C, and a float32 state per head.

    Source: transformers 5.24 modeling_mamba2.py, modeling_bamba.py, modeling_nemotron_h.py.
    """
    count = cfg.need("mamba_num_heads")
    dim = _mamba2_head_dim(cfg, count)
    size = cfg.need("state_size")
    groups = cfg.need("mamba_n_groups")
    channels = count * dim + 2 * groups * size
    # one group serves all heads, so every rank needs its B and C
    whole = 2 * size if groups == 1 else 0
    conv = conv_state(channels, cfg.need("conv_kernel"), whole=whole)
    state = Fixed(elements=count * dim * size, heads=count, dtype=FLOAT32)
    return _recurrent(LayerKind.STATE_SPACE, conv, state)


def _mamba2_head_dim(cfg: Config, count: int) -> int:
    """Return the head width: stated, or ("auto") the inner width divided by the heads."""
    raw, stated = cfg.raw("mamba_head_dim"), cfg.positive("mamba_d_ssm")
    if raw is None or raw == "auto":
        inner = stated or cfg.need("mamba_expand") * cfg.need("hidden_size")
        return per_head(cfg, inner, count, what="inner width", key="mamba_head_dim")
    dim = cfg.need("mamba_head_dim")
    if cfg.given("mamba_d_ssm") and stated != count * dim:
        raise UnsupportedError(
            f"{stated} is not {counted(count, 'head')} of {dim}",
            where=cfg.where("mamba_d_ssm"),
            code="contradiction",
        )
    return dim


def gated_delta(cfg: Config) -> Layer:
    """Return gated delta-net linear attention: convolution over q, k, v and a matrix per head.

    Source: transformers 5.24 modeling_qwen3_next.py; Gated DeltaNet paper (arXiv 2412.06464).
    """
    keys, values = cfg.need("linear_num_key_heads"), cfg.need("linear_num_value_heads")
    key_dim, value_dim = cfg.need("linear_key_head_dim"), cfg.need("linear_value_head_dim")
    channels = 2 * keys * key_dim + values * value_dim
    state = Fixed(elements=values * key_dim * value_dim, heads=values, dtype=FLOAT32)
    kernel = cfg.need("linear_conv_kernel_dim")
    return _recurrent(LayerKind.LINEAR, conv_state(channels, kernel), state)


def kda(count: int, dim: int, kernel: int) -> Layer:
    """Return Kimi delta attention: convolutions over q, k, v and a square matrix per head.

    Source: transformers 5.24 modeling_kimi_linear.py; Kimi Linear report (arXiv 2510.26692).
    """
    state = Fixed(elements=count * dim * dim, heads=count, dtype=FLOAT32)
    return _recurrent(LayerKind.LINEAR, conv_state(3 * count * dim, kernel), state)


def lightning(cfg: Config) -> Layer:
    """Return lightning attention (MiniMax-01): a square matrix per head in the model's dtype.

    Source: transformers 5.24 modeling_minimax.py, MiniMaxCache.
    """
    count, dim = heads(cfg), head_dim(cfg)
    return _recurrent(LayerKind.LINEAR, Fixed(elements=count * dim * dim, heads=count))


def short_conv(cfg: Config) -> Layer:
    """Return a gated short convolution (LFM2) over the hidden width."""
    return _recurrent(
        LayerKind.CONVOLUTION, conv_state(cfg.need("hidden_size"), cfg.need("conv_L_cache"))
    )


def nothing() -> Layer:
    """Return a layer that keeps nothing (MLP-only, encoder)."""
    return Layer(kind=LayerKind.NONE)


def shared() -> Layer:
    """Return a layer that attends to another layer's cache."""
    return Layer(kind=LayerKind.SHARED)
