"""`python -m hfkv` is `hfkv`."""

from hfkv.cli import script

script()
