"""The Python interface; `import hfkv` offers all of it."""
