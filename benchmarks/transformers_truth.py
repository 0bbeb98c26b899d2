"""What transformers' cache holds after so many tokens: the model is run on the meta device.

    python benchmarks/transformers_truth.py CONFIG.json TOKENS      (needs torch, transformers)

Prints one JSON object. No memory is allocated and nothing is computed, but every tensor that
the cache is given has its real shape and dtype. Quantization is left out: it does not change
the cache. Scalars that the cache counts with are not memory of it and are left out too.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

SOURCE_TOKENS = 512  # of an encoder


def held(found: Any, seen: dict[int, Any]) -> None:
    """Collect every tensor in a cache."""
    import torch  # type: ignore[import-not-found]  # noqa: PLC0415  not in our environment

    if isinstance(found, torch.Tensor):
        seen[id(found)] = found
    elif isinstance(found, dict):
        held(list(found.values()), seen)
    elif isinstance(found, (list, tuple)):
        for item in found:
            held(item, seen)
    elif type(found).__module__ == "transformers.cache_utils":
        held(list(vars(found).values()), seen)


def cached(config: dict[str, Any], tokens: int) -> dict[str, Any]:
    """Return bytes and shapes of the cache."""
    import torch  # noqa: PLC0415
    import transformers  # type: ignore[import-not-found]  # noqa: PLC0415

    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(plain))
        read = transformers.AutoConfig.from_pretrained(folder)
    made = getattr(transformers, config["architectures"][0])
    with torch.device("meta"), torch.no_grad():
        model = made._from_config(read, dtype=torch.bfloat16).eval()  # noqa: SLF001
        text = torch.zeros(1, tokens, dtype=torch.long)
        given: dict[str, Any] = {"input_ids": text, "logits_to_keep": 1}
        if read.is_encoder_decoder:
            source = torch.zeros(1, SOURCE_TOKENS, dtype=torch.long)
            given = {"input_ids": source, "decoder_input_ids": text}
        answer = model(**given, use_cache=True)
    seen: dict[int, Any] = {}
    held(answer.get("past_key_values") or answer.get("cache_params"), seen)
    kept = [tensor for tensor in seen.values() if tensor.dim()]
    shapes = Counter((str(tensor.dtype), tuple(tensor.shape)) for tensor in kept)
    return {
        "bytes": sum(tensor.numel() * tensor.element_size() for tensor in kept),
        "tensors": [[dtype, list(shape), n] for (dtype, shape), n in shapes.items()],
        "version": transformers.__version__,
    }


if __name__ == "__main__":
    sys.stdout.write(
        json.dumps(cached(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])))
    )
