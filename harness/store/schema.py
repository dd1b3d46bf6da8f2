"""The tables as SQL: migration 1. Never edited once released; a change is a new migration."""

TABLES = (
    """
CREATE TABLE run (
  run_id VARCHAR NOT NULL PRIMARY KEY,
  agent VARCHAR NOT NULL,
  task VARCHAR NOT NULL,
  base_model VARCHAR NOT NULL,
  base_model_hash VARCHAR NOT NULL,
  driver_model VARCHAR,
  protocol VARCHAR NOT NULL,
  limit_items INTEGER,
  seed INTEGER NOT NULL,
  timeout_s INTEGER NOT NULL,
  network VARCHAR NOT NULL,
  device VARCHAR NOT NULL,
  task_protocol VARCHAR NOT NULL,
  engine_hash VARCHAR NOT NULL,
  plan TEXT NOT NULL,
  phase VARCHAR NOT NULL,
  verdict VARCHAR
    CHECK (verdict IN ('graded', 'no_submission', 'agent_failed', 'infra_void', 'interrupted')),
  ended_by VARCHAR,
  exit_code INTEGER,
  detail VARCHAR NOT NULL,
  owner TEXT,
  token_sha256 VARCHAR NOT NULL,
  subnet VARCHAR NOT NULL,
  created_at TEXT NOT NULL,
  started_at TEXT,
  deadline TEXT,
  agent_ended_at TEXT,
  closed_at TEXT,
  imported_at TEXT,
  best_submission INTEGER,
  final_pct FLOAT,
  final_stderr_pct FLOAT,
  final_items INTEGER,
  baseline_pct FLOAT,
  baseline_stderr_pct FLOAT,
  improvement_pct FLOAT,
  improvement_stderr_pct FLOAT,
  improvement_low_pct FLOAT,
  improvement_high_pct FLOAT
)""",
    "CREATE INDEX ix_run_token_sha256 ON run (token_sha256)",
    """
CREATE TABLE evaluation (
  id INTEGER NOT NULL PRIMARY KEY,
  task_protocol VARCHAR NOT NULL,
  engine_hash VARCHAR NOT NULL,
  base_model_hash VARCHAR NOT NULL,
  tree_hash VARCHAR NOT NULL,
  origin VARCHAR NOT NULL,
  feedback_pct FLOAT,
  feedback_stderr_pct FLOAT,
  feedback_items INTEGER,
  final_pct FLOAT NOT NULL,
  final_stderr_pct FLOAT NOT NULL,
  final_items INTEGER NOT NULL,
  all_pct FLOAT NOT NULL,
  all_stderr_pct FLOAT NOT NULL,
  all_items INTEGER NOT NULL,
  truncation_rate FLOAT NOT NULL,
  extraction_failure_rate FLOAT NOT NULL,
  mean_output_tokens FLOAT NOT NULL,
  engine TEXT NOT NULL,
  engine_info TEXT NOT NULL,
  load_seconds FLOAT NOT NULL,
  generate_seconds FLOAT NOT NULL,
  score_seconds FLOAT NOT NULL,
  created_at TEXT NOT NULL,
  UNIQUE (task_protocol, engine_hash, base_model_hash, tree_hash, origin)
)""",
    """
CREATE TABLE item_score (
  evaluation_id INTEGER NOT NULL REFERENCES evaluation (id),
  item_id VARCHAR NOT NULL,
  part VARCHAR NOT NULL CHECK (part IN ('feedback', 'final')),
  score FLOAT NOT NULL CHECK (score BETWEEN 0 AND 1),
  output VARCHAR NOT NULL,
  output_tokens INTEGER NOT NULL,
  is_truncated BOOLEAN NOT NULL,
  is_extracted BOOLEAN NOT NULL,
  PRIMARY KEY (evaluation_id, item_id)
)""",
    """
CREATE TABLE baseline (
  run_id VARCHAR NOT NULL PRIMARY KEY REFERENCES run (run_id),
  state VARCHAR NOT NULL CHECK (state IN ('queued', 'scoring', 'scored', 'failed')),
  evaluation_id INTEGER REFERENCES evaluation (id),
  is_cached BOOLEAN NOT NULL,
  attempts INTEGER NOT NULL,
  detail VARCHAR,
  requested_at TEXT NOT NULL,
  ended_at TEXT,
  CHECK ((state = 'scored') = (evaluation_id IS NOT NULL))
)""",
    """
CREATE TABLE submission (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  run_id VARCHAR NOT NULL REFERENCES run (run_id),
  number INTEGER NOT NULL,
  state VARCHAR NOT NULL
    CHECK (state IN ('admitting', 'queued', 'scoring', 'scored', 'rejected', 'failed')),
  model_path VARCHAR NOT NULL,
  submitted_at TEXT NOT NULL,
  copied_at TEXT,
  scoring_at TEXT,
  ended_at TEXT,
  tree_hash VARCHAR,
  evaluation_id INTEGER REFERENCES evaluation (id),
  error_class VARCHAR,
  detail VARCHAR,
  note VARCHAR,
  attempts INTEGER NOT NULL,
  UNIQUE (run_id, number),
  CHECK ((state = 'scored') = (evaluation_id IS NOT NULL))
)""",
    "CREATE INDEX ix_submission_state ON submission (state)",
    """
CREATE TABLE event (
  id INTEGER NOT NULL PRIMARY KEY,
  run_id VARCHAR NOT NULL REFERENCES run (run_id),
  at TEXT NOT NULL,
  kind VARCHAR NOT NULL,
  detail TEXT NOT NULL
)""",
    "CREATE INDEX ix_event_run_id ON event (run_id)",
    """
CREATE TABLE resource_sample (
  id INTEGER NOT NULL PRIMARY KEY,
  run_id VARCHAR NOT NULL REFERENCES run (run_id),
  at TEXT NOT NULL,
  cpu_pct FLOAT NOT NULL,
  memory_mb FLOAT NOT NULL,
  disk_mb FLOAT NOT NULL,
  pids INTEGER NOT NULL
)""",
    "CREATE INDEX ix_resource_sample_run_id ON resource_sample (run_id)",
    """
CREATE TABLE llm_call (
  id INTEGER NOT NULL PRIMARY KEY,
  run_id VARCHAR NOT NULL REFERENCES run (run_id),
  at TEXT NOT NULL,
  provider VARCHAR NOT NULL,
  model VARCHAR NOT NULL,
  http_status INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  cached_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cost_usd FLOAT NOT NULL,
  seconds FLOAT NOT NULL,
  detail TEXT NOT NULL
)""",
    "CREATE INDEX ix_llm_call_run_id ON llm_call (run_id)",
    """
CREATE TABLE finding (
  id INTEGER NOT NULL PRIMARY KEY,
  run_id VARCHAR NOT NULL REFERENCES run (run_id),
  submission_number INTEGER,
  at TEXT NOT NULL,
  kind VARCHAR NOT NULL,
  severity VARCHAR NOT NULL CHECK (severity IN ('info', 'warning', 'serious')),
  detail VARCHAR NOT NULL
)""",
    "CREATE INDEX ix_finding_run_id ON finding (run_id)",
    """
CREATE TABLE artifact (
  run_id VARCHAR NOT NULL REFERENCES run (run_id),
  path VARCHAR NOT NULL,
  size_bytes INTEGER NOT NULL,
  sha256 VARCHAR NOT NULL,
  PRIMARY KEY (run_id, path)
)""",
)
