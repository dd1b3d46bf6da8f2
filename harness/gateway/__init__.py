"""The LLM gateway: holds the provider keys; meters, limits and records every call of a run."""
