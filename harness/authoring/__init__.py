"""What authors of benchmarks use: the contract suite, a folder to begin with, and a draft by an LLM."""
