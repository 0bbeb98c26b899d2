"""hfkv: will this Hugging Face model fit, at the context and concurrency I need, and why?"""

__version__ = "0.1.0"
