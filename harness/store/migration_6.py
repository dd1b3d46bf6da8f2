"""Migration 6: runs that reached the open network are labelled in every view, and ranked apart."""

_V_SUBMISSIONS = """
CREATE VIEW v_submissions AS
SELECT
  s.run_id, r.kind, r.agent, r.task, r.protocol, s.number AS submission_id, s.state, s.model_path, s.submitted_at,
  round((julianday(s.ended_at) - julianday(s.submitted_at)) * 86400, 1) AS elapsed_s,
  e.feedback_pct, e.feedback_stderr_pct, e.final_pct, e.final_stderr_pct, e.final_low_pct, e.final_high_pct,
  e.all_pct, e.all_stderr_pct, e.truncation_rate, e.extraction_failure_rate, e.mean_output_tokens,
  json_extract(e.metrics, '$.final.truncation_rate') AS final_truncation_rate,
  json_extract(e.metrics, '$.final.extraction_failure_rate') AS final_extraction_failure_rate,
  json_extract(e.metrics, '$.final.mean_output_tokens') AS final_mean_output_tokens,
  s.number IS r.best_submission AS is_best, s.error_class, s.detail, s.note, s.attempts, s.tree_hash,
  CASE r.network WHEN 'none' THEN NULL ELSE 'open-network' END AS label
FROM submission s JOIN run r USING (run_id) LEFT JOIN evaluation e ON e.id = s.evaluation_id
ORDER BY s.run_id, s.number"""

# all_*: the published way of counting, over all hidden items and the best of the budget, for either protocol.
_V_RUNS = """
CREATE VIEW v_runs AS
SELECT
  r.run_id, r.kind, r.created_at, r.agent, r.driver_model, r.task, r.protocol, r.base_model, r.phase, r.verdict,
  r.ended_by,
  coalesce(r.baseline_pct, CASE r.protocol WHEN 'paper' THEN b.all_pct ELSE b.final_pct END) AS baseline_pct,
  r.best_submission, r.final_pct, r.final_stderr_pct, r.final_low_pct, r.final_high_pct, r.improvement_pct,
  r.improvement_low_pct, r.improvement_high_pct, r.improvement_probability, r.improvement_p_value,
  r.items_won, r.items_lost, r.items_tied, r.protocol = 'paper' AS is_selected,
  h.truncation_rate, b.truncation_rate AS baseline_truncation_rate,
  h.extraction_failure_rate, b.extraction_failure_rate AS baseline_extraction_failure_rate,
  h.mean_output_tokens, b.mean_output_tokens AS baseline_mean_output_tokens,
  (SELECT count(*) FROM submission s WHERE s.run_id = r.run_id) AS submissions,
  (SELECT count(*) FROM submission s WHERE s.run_id = r.run_id AND s.state = 'scored') AS scored,
  b.all_pct AS all_baseline_pct, a.all_best_pct, a.all_best_pct - b.all_pct AS all_improvement_pct,
  round(r.timeout_s - (julianday(r.deadline) - julianday(r.agent_ended_at)) * 86400, 1) AS duration_s,
  r.timeout_s, r.seed, r.limit_items, r.network, r.device, r.task_protocol, r.engine_hash,
  (SELECT count(*) FROM finding f WHERE f.run_id = r.run_id) AS findings,
  r.exit_code, r.detail, r.imported_at IS NOT NULL AS is_imported,
  CASE r.network WHEN 'none' THEN NULL ELSE 'open-network' END AS label
FROM run r
LEFT JOIN (
  SELECT run_id, e.* FROM baseline JOIN evaluation e ON e.id = evaluation_id
) b USING (run_id)
LEFT JOIN (
  SELECT run_id, number, e.* FROM submission JOIN evaluation e ON e.id = evaluation_id
) h ON h.run_id = r.run_id AND h.number = r.best_submission
LEFT JOIN (
  SELECT run_id, max(all_pct) AS all_best_pct FROM submission JOIN evaluation e ON e.id = evaluation_id GROUP BY run_id
) a ON a.run_id = r.run_id
ORDER BY r.created_at, r.run_id"""

# One line per what may be compared; what reached the open network comes after all that did not, in an order of its own.
# A run without a valid submission counts as improvement 0; void and interrupted runs are left out of the means and
# counted beside them; limited runs are trials, and what was scored outside a run is none: both are left out.
_V_LEADERBOARD = """
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
  task_protocol, base_model_hash,
  CASE network WHEN 'none' THEN NULL ELSE 'open-network' END AS label
FROM (
  SELECT *, CASE WHEN verdict = 'graded' THEN improvement_pct
                 WHEN verdict IN ('no_submission', 'agent_failed') THEN 0.0 END AS counted
  FROM run WHERE verdict IS NOT NULL AND limit_items IS NULL AND kind = 'agent'
)
GROUP BY task, protocol, base_model, agent, driver_model, timeout_s, network, device, task_protocol, base_model_hash
ORDER BY task, protocol, base_model, label NULLS FIRST, mean_improvement_pct DESC NULLS LAST"""

# One run with the open network and one without it, where there are both.
_V_BEST = """
CREATE VIEW v_best AS
SELECT
  task AS benchmark, protocol, base_model, agent, driver_model, run_id, best_submission AS submission_id,
  baseline_pct, final_pct, final_stderr_pct, final_low_pct, final_high_pct, improvement_pct, improvement_low_pct,
  improvement_high_pct, improvement_probability,
  protocol = 'paper' AS is_selected, timeout_s, network, device, created_at, task_protocol, base_model_hash,
  CASE network WHEN 'none' THEN NULL ELSE 'open-network' END AS label
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY task, protocol, base_model, task_protocol, base_model_hash, network
    ORDER BY improvement_pct DESC, created_at, run_id) AS place
  FROM run WHERE verdict = 'graded' AND improvement_pct IS NOT NULL AND limit_items IS NULL AND kind = 'agent'
)
WHERE place = 1
ORDER BY task, protocol, base_model, label NULLS FIRST"""

MIGRATION_6 = (
    *(f"DROP VIEW {name}" for name in ("v_submissions", "v_runs", "v_leaderboard", "v_best")),
    *(_V_SUBMISSIONS, _V_RUNS, _V_LEADERBOARD, _V_BEST),
)
