"""A Docker-sandboxed harness that asks whether an LLM agent can post-train a model by itself."""

__version__ = "0.1.0"
