"""What every source ends with: the parts that were read → one ModelFiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hfkv.core.files import ModelFiles, Problem, RepoFile, Target
from hfkv.core.headers import Shard
from hfkv.core.jsontext import gc_paused
from hfkv.core.manifest import Index, Manifest, check_shards, without_weights
from hfkv.core.params import PARAMS, as_config
from hfkv.core.templates import merge_groups
from hfkv.errors import UnreadableError, UnsupportedError

__all__ = ["assemble", "side_files"]

# Small files beside config.json that change how the model is read.
_SIDE_FILES = (
    "hf_quant_config.json",
    "quantize_config.json",
    "quant_config.json",
    "quantization_config.json",
)


def side_files(files: Sequence[RepoFile]) -> list[str]:
    """Return the small files to read besides config.json: params.json only in its absence."""
    names = {file.path for file in files}
    wanted = _SIDE_FILES if "config.json" in names else (*_SIDE_FILES, PARAMS)
    return [name for name in wanted if name in names]


@gc_paused()
def assemble(
    *,
    target: Target,
    files: Sequence[RepoFile],
    manifest: Manifest,
    config: dict[str, Any] | None,
    side: dict[str, Any],
    shards: Sequence[Shard],
    index: Index | None,
    hub: dict[str, Any] | None = None,
) -> ModelFiles:
    """Return everything that was read, with what does not add up as problems.

    Without a config, raises UnsupportedError when the weights are of a kind that cannot be
    read, and UnreadableError when there are none.
    """
    problems = [*manifest.problems]
    native = as_config(side[PARAMS]) if config is None and PARAMS in side else None
    if native is not None:
        config = native
        problems.append(
            Problem(
                code="mistral-format",
                message="described by params.json, in Mistral's own format",
                hint="vLLM reads it with --config-format mistral --load-format mistral",
            )
        )
    if not manifest.weight_files:
        reason = without_weights(files)
        if config is None and reason.code == "no-weights":
            raise UnreadableError(
                "no model here: neither config.json nor weights", where=target.id, code="no-model"
            )
        if config is None:
            raise UnsupportedError(
                reason.message, where=target.id, hint=reason.hint, code=reason.code
            )
        problems.append(reason)
    elif config is None:
        problems.append(
            Problem(
                code="no-config",
                message="there is no config.json, which says how the layers attend",
                hint="supply one with --config FILE",
            )
        )
    for shard in shards:
        problems.extend(shard.problems)
    problems.extend(check_shards(shards, index))
    return ModelFiles(
        target=target,
        files=tuple(files),
        weight_files=manifest.weight_files,
        config=config,
        config_name="config.json" if native is None else PARAMS,
        side=side,
        tensors=merge_groups((shard.groups for shard in shards), where=target.id),
        headers=tuple(shard.info for shard in shards),
        index=index.info if index else None,
        hub=hub or {},
        problems=tuple(dict.fromkeys(problems)),
    )
