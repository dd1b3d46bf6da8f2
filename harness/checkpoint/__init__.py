"""Checkpoints as bytes: safetensors headers and tree hashes, from the standard library alone."""

from harness.checkpoint.tree import tensors_of, tree_hash

__all__ = ["tensors_of", "tree_hash"]
