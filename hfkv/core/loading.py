"""What an engine has of a model once it is loaded, in portions that GPUs share out."""

from __future__ import annotations

from dataclasses import replace

from hfkv.core.architecture import Architecture
from hfkv.core.dtypes import DType
from hfkv.core.files import ModelFiles
from hfkv.core.pieces import take_inventory
from hfkv.core.portions import POSITIONS, Portion, portions_of
from hfkv.core.positions import position_elements
from hfkv.core.quantization import read_scheme
from hfkv.core.weights import WeightReport

__all__ = ["stored_portions", "with_portions"]


def stored_portions(files: ModelFiles, *, drafting: bool = False) -> tuple[Portion, ...]:
    """Return the portions of what engines load as it is stored; next-token layers for drafting."""
    inventory = take_inventory(files, read_scheme(files))
    drafts = tuple(p for p in inventory.pieces if p.role == "mtp") if drafting else ()
    return portions_of((*inventory.loaded, *drafts), tied=inventory.tied)


def with_portions(
    weights: WeightReport,
    files: ModelFiles,
    architecture: Architecture,
    *,
    drafting: bool,
    positions_in: DType | None,
) -> WeightReport:
    """Return the weights with portions of `loaded_bytes`, and of tables that the engine builds.

    A cast to 16 bit shrinks all alike; `positions_in` is the format of position tables, None
    where none are built. Where no tensor was seen there are no portions.
    """
    found = stored_portions(files, drafting=drafting) if files.tensors else ()
    stored, loaded = sum(portion.bytes for portion in found), weights.loaded_bytes
    if not stored:
        return weights
    if loaded != stored:
        found = tuple(replace(p, bytes=p.bytes * loaded // stored) for p in found)
    elements = position_elements(files.config or {}, architecture) if positions_in else 0
    if positions_in and elements:
        tables = Portion(role=POSITIONS, bytes=positions_in.size(elements), cut="copied")
        found = (*found, tables)
    return replace(weights, portions=found)
