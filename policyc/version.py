"""Which compiler this is; a leaf, so that plans and certificates can name it."""

__version__ = "0.1.0"
