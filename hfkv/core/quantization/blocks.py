"""Where a checkpoint says how it was quantized, and typed getters for what stands there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hfkv.core.config import as_count
from hfkv.core.counts import kind_of
from hfkv.core.files import ModelFiles
from hfkv.core.record import dataclass
from hfkv.errors import MalformedError

__all__ = ["SIDE_FILES", "Block", "find_blocks"]

# Files beside config.json that may hold the block, with the method their name implies.
# EXL3's quantization_config.json stores the bit rate of every tensor beside the block.
SIDE_FILES: dict[str, str | None] = {
    "hf_quant_config.json": "modelopt",
    "quantization_config.json": "exl3",
    "quant_config.json": "awq",
    "quantize_config.json": "gptq",
}

# The parts of config.json that may hold it, best first.
_PARTS: tuple[tuple[str, ...], ...] = (
    (),
    ("text_config",),
    ("llm_config",),
    ("thinker_config", "text_config"),
)


@dataclass(frozen=True, slots=True)
class Block:
    """One JSON object with its place, so that an error can name the dotted path.

    `implied` is the method that the place itself tells, for blocks that do not name one.
    """

    values: dict[str, Any]
    file: str
    path: str = ""
    implied: str | None = None

    def place(self, key: str = "") -> str:
        """Return how a message names this block, or a key of it."""
        path = ".".join(part for part in (self.path, key) if part)
        return f"{self.file}: {path}" if path else self.file

    def _first(self, keys: tuple[str, ...]) -> tuple[str, Any]:
        for key in keys:
            if self.values.get(key) is not None:
                return key, self.values[key]
        return keys[0], None

    def count(self, *keys: str) -> int | None:
        """Return the first key that is set, as a whole number."""
        key, value = self._first(keys)
        return None if value is None else as_count(value, where=self.place(key))

    def bits(self, *keys: str) -> int | None:
        """Return a bit width between 1 and 32, or None where it is absent or an average."""
        key, value = self._first(keys)
        if isinstance(value, float) and not value.is_integer():
            return None
        width = self.count(*keys)
        if width is not None and not 1 <= width <= 32:
            raise MalformedError(f"{width} is no bit width", where=self.place(key))
        return width

    def group(self, *keys: str) -> int | None:
        """Return a group size; -1 and 0 mean one group a column, which is None here."""
        key, value = self._first(keys)
        if value is None or value in (-1, 0):
            return None
        return as_count(value, where=self.place(key))

    def text(self, *keys: str) -> str | None:
        """Return the first key that is set, as a string."""
        key, value = self._first(keys)
        if value is None or isinstance(value, str):
            return value
        raise MalformedError(f"expected a string, got {kind_of(value)}", where=self.place(key))

    def flag(self, key: str) -> bool:
        """Return a bool; absent and null are false."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise MalformedError(f"expected true or false, got {kind_of(value)}", where=self.place(key))

    def names(self, *keys: str) -> tuple[str, ...]:
        """Return a list of module names (empty where it is absent)."""
        key, value = self._first(keys)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise MalformedError(f"expected a list, got {kind_of(value)}", where=self.place(key))
        for i, name in enumerate(value):
            if not isinstance(name, str):
                raise MalformedError(
                    f"expected a string, got {kind_of(name)}", where=f"{self.place(key)}[{i}]"
                )
        return tuple(value)

    def child(self, key: str) -> Block | None:
        """Return a nested object, or None where it is absent."""
        value = self.values.get(key)
        if value is None:
            return None
        path = ".".join(part for part in (self.path, key) if part)
        if not isinstance(value, dict):
            raise MalformedError(
                f"expected an object, got {kind_of(value)}", where=f"{self.file}: {path}"
            )
        return Block(value, self.file, path, self.implied)

    def children(self, key: str) -> Iterator[tuple[str, Block]]:
        """Yield the nested objects of a nested object, by name; others are skipped."""
        parent = self.child(key)
        for name in parent.values if parent else ():
            if parent and isinstance(parent.values[name], dict):
                child = parent.child(name)
                if child:
                    yield name, child


def find_blocks(files: ModelFiles) -> tuple[Block, ...]:
    """Return every quantization block, the one that decides first.

    Order: config.json (outer, then the nested text configs), then MLX's `quantization`,
    then the side files.
    """
    return tuple(block for block in _candidates(files) if block.values)


def _candidates(files: ModelFiles) -> Iterator[Block]:
    config = Block(files.config or {}, files.config_name)
    for keys in _PARTS:
        part: Block | None = config
        for key in keys:
            # a nested text config of a wrong type is the architecture's to complain about
            nested = part and isinstance(part.values.get(key), dict)
            part = part.child(key) if part and nested else None
        for name in ("quantization_config", "compression_config"):
            block = part.child(name) if part else None
            if block:
                mlx = "mlx" if isinstance(config.values.get("quantization"), dict) else None
                yield Block(block.values, block.file, block.path, mlx)
    mlx_block = config.child("quantization")
    if mlx_block:
        yield Block(mlx_block.values, mlx_block.file, mlx_block.path, "mlx")
    for name, implied in SIDE_FILES.items():
        yield from _side(files, name, implied)


def _side(files: ModelFiles, name: str, implied: str | None) -> Iterator[Block]:
    data = files.side.get(name)
    if data is None:
        return
    if not isinstance(data, dict):
        raise MalformedError(f"expected an object, got {kind_of(data)}", where=name)
    root = Block(data, name, "", implied)
    yield root.child("quantization") or root
