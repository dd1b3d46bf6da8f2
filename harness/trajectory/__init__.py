"""What an agent said and did, turn by turn: native logs and captured LLM calls, read into one format (ATIF)."""
