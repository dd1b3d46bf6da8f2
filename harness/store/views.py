"""The views for people as SQL: migration 2. A changed view is a new migration that drops and creates it again (see 3).

Their columns and ready queries are described in docs/records.md.
"""

VIEWS = (
    """
CREATE VIEW v_submissions AS
SELECT
  s.run_id, r.agent, r.task, r.protocol, s.number AS submission_id, s.state, s.model_path, s.submitted_at,
  round((julianday(s.ended_at) - julianday(s.submitted_at)) * 86400, 1) AS elapsed_s,
  e.feedback_pct, e.feedback_stderr_pct, e.final_pct, e.final_stderr_pct, e.all_pct, e.all_stderr_pct,
  e.truncation_rate, e.extraction_failure_rate, e.mean_output_tokens,
  s.number IS r.best_submission AS is_best, s.error_class, s.detail, s.note, s.attempts, s.tree_hash
FROM submission s JOIN run r USING (run_id) LEFT JOIN evaluation e ON e.id = s.evaluation_id
ORDER BY s.run_id, s.number""",
    # all_*: the published way of counting, over all hidden items and the best of the budget, for either protocol.
    """
CREATE VIEW v_runs AS
SELECT
  r.run_id, r.created_at, r.agent, r.driver_model, r.task, r.protocol, r.base_model, r.phase, r.verdict, r.ended_by,
  coalesce(r.baseline_pct, CASE r.protocol WHEN 'paper' THEN b.all_pct ELSE b.final_pct END) AS baseline_pct,
  r.best_submission, r.final_pct, r.final_stderr_pct, r.improvement_pct, r.improvement_low_pct,
  r.improvement_high_pct, r.protocol = 'paper' AS is_selected,
  (SELECT count(*) FROM submission s WHERE s.run_id = r.run_id) AS submissions,
  (SELECT count(*) FROM submission s WHERE s.run_id = r.run_id AND s.state = 'scored') AS scored,
  b.all_pct AS all_baseline_pct, a.all_best_pct, a.all_best_pct - b.all_pct AS all_improvement_pct,
  round(r.timeout_s - (julianday(r.deadline) - julianday(r.agent_ended_at)) * 86400, 1) AS duration_s,
  r.timeout_s, r.seed, r.limit_items, r.network, r.device, r.task_protocol, r.engine_hash,
  (SELECT count(*) FROM finding f WHERE f.run_id = r.run_id) AS findings,
  r.exit_code, r.detail, r.imported_at IS NOT NULL AS is_imported
FROM run r
LEFT JOIN (SELECT run_id, all_pct, final_pct FROM baseline JOIN evaluation e ON e.id = evaluation_id) b USING (run_id)
LEFT JOIN (
  SELECT run_id, max(all_pct) AS all_best_pct FROM submission JOIN evaluation e ON e.id = evaluation_id GROUP BY run_id
) a USING (run_id)
ORDER BY r.created_at, r.run_id""",
    # One line per what may be compared. A run without a valid submission counts as improvement 0; void and
    # interrupted runs are left out of the means and counted beside them; limited runs are trials and left out.
    """
CREATE VIEW v_leaderboard AS
SELECT
  task AS benchmark, protocol, base_model, agent, driver_model, timeout_s, network, device,
  count(counted) AS n_runs,
  avg(counted) AS mean_improvement_pct,
  avg(improvement_pct) AS mean_graded_improvement_pct,
  max(improvement_pct) AS best_improvement_pct,
  avg(baseline_pct) AS mean_baseline_pct,
  avg(final_pct) AS mean_final_pct,
  sum(verdict = 'graded') AS n_graded,
  sum(verdict = 'no_submission') AS n_no_submission,
  sum(verdict = 'agent_failed') AS n_agent_failed,
  sum(verdict = 'infra_void') AS n_infra_void,
  sum(verdict = 'interrupted') AS n_interrupted,
  protocol = 'paper' AS is_selected,
  task_protocol, base_model_hash
FROM (
  SELECT *, CASE WHEN verdict = 'graded' THEN improvement_pct
                 WHEN verdict IN ('no_submission', 'agent_failed') THEN 0.0 END AS counted
  FROM run WHERE verdict IS NOT NULL AND limit_items IS NULL
)
GROUP BY task, protocol, base_model, agent, driver_model, timeout_s, network, device, task_protocol, base_model_hash
ORDER BY task, protocol, base_model, mean_improvement_pct DESC NULLS LAST""",
    """
CREATE VIEW v_best AS
SELECT
  task AS benchmark, protocol, base_model, agent, driver_model, run_id, best_submission AS submission_id,
  baseline_pct, final_pct, final_stderr_pct, improvement_pct, improvement_low_pct, improvement_high_pct,
  protocol = 'paper' AS is_selected, timeout_s, network, device, created_at, task_protocol, base_model_hash
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY task, protocol, base_model, task_protocol, base_model_hash
    ORDER BY improvement_pct DESC, created_at, run_id) AS place
  FROM run WHERE verdict = 'graded' AND improvement_pct IS NOT NULL AND limit_items IS NULL
)
WHERE place = 1
ORDER BY task, protocol, base_model""",
    """
CREATE VIEW v_triage AS
SELECT run_id, closed_at AS at, 'verdict' AS what, verdict AS kind, coalesce(ended_by || ': ', '') || detail AS detail
FROM run WHERE verdict <> 'graded'
UNION ALL
SELECT run_id, ended_at, 'submission ' || number, coalesce(error_class, state), detail
FROM submission WHERE state IN ('failed', 'rejected')
UNION ALL
SELECT run_id, ended_at, 'baseline', 'failed', detail FROM baseline WHERE state = 'failed'
UNION ALL
SELECT run_id, at, 'finding', kind, severity || ': ' || detail FROM finding
UNION ALL
SELECT s.run_id, s.ended_at, 'submission ' || s.number, 'truncated outputs',
  round(100 * e.truncation_rate, 1) || ' % of the outputs hit the token cap'
FROM submission s JOIN evaluation e ON e.id = s.evaluation_id WHERE e.truncation_rate > 0.1
UNION ALL
SELECT s.run_id, s.ended_at, 'submission ' || s.number, 'unread outputs',
  'no answer found in ' || round(100 * e.extraction_failure_rate, 1) || ' % of the outputs'
FROM submission s JOIN evaluation e ON e.id = s.evaluation_id WHERE e.extraction_failure_rate > 0.1
ORDER BY 1, 2""",
    """
CREATE VIEW v_llm_spend AS
SELECT
  c.run_id, r.agent, r.task, c.provider, c.model, count(*) AS calls, sum(c.http_status >= 400) AS failed_calls,
  sum(c.input_tokens) AS input_tokens, sum(c.cached_tokens) AS cached_tokens, sum(c.output_tokens) AS output_tokens,
  sum(c.cost_usd) AS cost_usd, sum(c.seconds) AS seconds
FROM llm_call c JOIN run r USING (run_id)
GROUP BY c.run_id, c.provider, c.model
ORDER BY c.run_id, c.provider, c.model""",
)
