"""Engines that turn prompts into completions."""
