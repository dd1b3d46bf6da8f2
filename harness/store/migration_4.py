"""Migration 4: LLM calls are numbered per run, with the tokens written to a cache; what a run spent, and how surely."""

# Refused calls reached no provider: a row of their own, without a model. `is_price_listed` is 0 where a model is not in
# the price table: its calls are charged as the dearest one, so that a budget holds, and that is no cost to report.
_V_LLM_SPEND = """
CREATE VIEW v_llm_spend AS
SELECT
  c.run_id, r.agent, r.task, c.provider, c.model,
  sum(json_extract(c.detail, '$.refused') IS NULL) AS calls,
  sum(json_extract(c.detail, '$.refused') IS NULL AND c.http_status >= 400) AS failed_calls,
  sum(json_extract(c.detail, '$.refused') IS NOT NULL) AS refused_calls,
  sum(c.input_tokens) AS input_tokens, sum(c.cached_tokens) AS cached_tokens,
  sum(c.cache_write_tokens) AS cache_write_tokens, sum(c.output_tokens) AS output_tokens,
  sum(c.cost_usd) AS cost_usd,
  min(json_extract(c.detail, '$.is_listed')) AS is_price_listed,
  sum(coalesce(json_extract(c.detail, '$.is_estimate'), 0)) AS estimated_calls,
  sum(c.seconds) AS seconds
FROM llm_call c JOIN run r USING (run_id)
GROUP BY c.run_id, c.provider, c.model
ORDER BY c.run_id, c.provider, c.model"""

MIGRATION_4 = (
    "DROP VIEW v_llm_spend",
    "ALTER TABLE llm_call ADD COLUMN number INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE llm_call ADD COLUMN cache_write_tokens INTEGER NOT NULL DEFAULT 0",
    """
UPDATE llm_call SET number = (
  SELECT count(*) FROM llm_call before WHERE before.run_id = llm_call.run_id AND before.id <= llm_call.id
)""",
    "CREATE UNIQUE INDEX ix_llm_call_run_id_number ON llm_call (run_id, number)",
    _V_LLM_SPEND,
)
