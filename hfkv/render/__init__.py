"""Reports as text, JSON, Markdown and CSV."""
