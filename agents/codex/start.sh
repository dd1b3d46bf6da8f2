#!/usr/bin/env bash
# Runs Codex on the prompt, or takes its last session up again; its events go to stdout and to a file.
set -euo pipefail

export CODEX_HOME="$HOME/.codex"
mkdir -p "$CODEX_HOME" "$TRAJECTORY_DIR"
cp --no-preserve=mode "$(dirname "$0")/config.toml" "$CODEX_HOME/config.toml"

resume=() prompt="$PROMPT_FILE"
if [ "$CONTINUATION" -gt 0 ] && compgen -G "$CODEX_HOME/sessions/*/*/*/*.jsonl" > /dev/null; then
  resume=(resume --last) prompt="$CONTINUE_FILE"
fi

# TERM goes to everybody here: Codex ends by it, tee when Codex has said its last, and Codex's exit code is ours.
trap : TERM
codex exec --json --strict-config --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check -C "$WORKSPACE" \
  --model "$LLM_MODEL" -c "model_providers.gateway.base_url=\"$OPENAI_BASE_URL\"" \
  -c "model_context_window=$CONTEXT_WINDOW" "${resume[@]}" - < "$prompt" \
  | (trap '' TERM; exec tee -a "$TRAJECTORY_DIR/codex.jsonl")
