"""Quantization blocks → Scheme; stored tensors → logical parameters; the declared KV format.

The header decides and the config explains: a layout is recognised by tensor suffixes and
dtypes, and only what headers cannot hold (ignore lists, KV formats, some bit widths) is
taken from the config. Adding a format is one row in `layouts.py`, one in `methods.py` and
one fixture.
"""

from __future__ import annotations

from hfkv.core.quantization.layouts import unpack
from hfkv.core.quantization.methods import loadable
from hfkv.core.quantization.parts import Scheme, Stored
from hfkv.core.quantization.scheme import read_scheme

__all__ = ["Scheme", "Stored", "loadable", "read_scheme", "unpack"]
