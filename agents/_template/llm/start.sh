#!/usr/bin/env bash
# Runs the agent on its prompt; with $CONTINUATION above 0 it has ended early and is taken up again, with another prompt.
#
# A CLI of your own goes in the place of loop.py, installed by a Dockerfile (`ARG BASE`, `FROM ${BASE}`):
#   - prompt by stdin or as a file's name, never as an argument: `my-cli --headless < "$PROMPT_FILE"`
#   - LLM: $LLM_BASE_URL, $LLM_API_KEY, $LLM_MODEL; the names that providers' own clients read are set too
#   - its log to $TRAJECTORY_DIR; its limit on shell commands to $TIMEOUT_S seconds or none
#   - its exit code is the run's: no pipe behind it without `pipefail`
set -euo pipefail

mkdir -p "$TRAJECTORY_DIR"
cd "$WORKSPACE"
prompt="$PROMPT_FILE"
if [ "$CONTINUATION" -gt 0 ]; then
  prompt="$CONTINUE_FILE"
fi
exec python3 "$(dirname "$0")/loop.py" < "$prompt"
