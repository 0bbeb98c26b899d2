"""A report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

from hfkv.render.html.page import page_document, render_html

__all__ = ["page_document", "render_html"]
