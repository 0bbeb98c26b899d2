"""The pure core: bytes and dicts in, dataclasses out; no I/O."""
