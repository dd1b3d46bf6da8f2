#!/usr/bin/env bash
# Runs RD-Agent's RL loop; what it trains with is the Python of the training stack, its own packages lie in /opt/scaffold.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
# Caches, pickles and sessions go below the working directory.
state="$HOME/rdagent"
mkdir -p "$state" "$TRAJECTORY_DIR"
cd "$state"

# It starts `python $WORKSPACE/code/main.py`.
PATH="$(dirname "$TRAINING_PYTHON"):$PATH"
# Its settings are printed and pickled, keys included. The shim hands the run's token over by itself (LLM_API_KEY).
unset OPENAI_API_KEY ANTHROPIC_API_KEY GEMINI_API_KEY

export PATH PYTHONPATH="$here"
export RL_SCEN=rdagent_shim.parts.TaskScenario RL_RUNNER=rdagent_shim.parts.PatientRunner
export BACKEND=rdagent_shim.parts.GatewayBackend CHAT_MODEL="$LLM_PROVIDER/$LLM_MODEL"
export LOG_TRACE_PATH="$state/log"
# Without it, the start waits for a price list from the internet.
export LITELLM_LOCAL_MODEL_COST_MAP=True
# The other kind of traceback prints local variables, tokens among them.
export TYPER_STANDARD_TRACEBACK=1

left="$(curl -fsS --max-time 30 "$GRADING_SERVER_URL/time" \
    | "$TRAINING_PYTHON" -c 'import json, sys; print(int(json.load(sys.stdin)["remaining"]))')" || left="$TIMEOUT_S"
exec /opt/scaffold/bin/python -m rdagent.app.rl.loop --base-model "$BASE_MODEL" --benchmark "$TASK" \
    --loop-n "$RDAGENT_LOOPS" --step-n "$RDAGENT_STEPS" --timeout "${left}s"
