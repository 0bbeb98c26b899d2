"""Will this Hugging Face model fit, at the context and concurrency I need, and why.

The answer comes before a byte of weights is downloaded.
"""

__version__ = "0.1.0"
