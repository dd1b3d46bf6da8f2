"""The inference service: prompts in, completions out; it holds no answers."""
