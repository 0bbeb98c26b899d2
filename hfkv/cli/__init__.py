"""The door: parse, call, render, exit code."""
