"""The four LLM protocols as the gateway captured them: what a request says, what an answer says."""
