#!/usr/bin/env bash
# Runs Claude Code on the prompt, or takes its last session up again; its events go to stdout and to a file.
set -euo pipefail

# Neither telemetry nor updates nor titles: nothing but the gateway is asked.
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1 DISABLE_ERROR_REPORTING=1
# Whatever it asks for a model by (its small tasks, subagents), it gets the run's; the gateway refuses others.
export ANTHROPIC_MODEL="$LLM_MODEL" ANTHROPIC_SMALL_FAST_MODEL="$LLM_MODEL" CLAUDE_CODE_SUBAGENT_MODEL="$LLM_MODEL"
export ANTHROPIC_DEFAULT_HAIKU_MODEL="$LLM_MODEL" ANTHROPIC_DEFAULT_SONNET_MODEL="$LLM_MODEL" ANTHROPIC_DEFAULT_OPUS_MODEL="$LLM_MODEL"
# Training may take as long as the run does, and an answer as long as the gateway waits for it.
export BASH_MAX_TIMEOUT_MS="$((TIMEOUT_S * 1000))" CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS="$((TIMEOUT_S * 1000))"
export API_TIMEOUT_MS=1200000

mkdir -p "$TRAJECTORY_DIR"
cd "$WORKSPACE"

resume=() prompt="$PROMPT_FILE"
if [ "$CONTINUATION" -gt 0 ] && compgen -G "$HOME/.claude/projects/*/*.jsonl" > /dev/null; then
  resume=(--continue) prompt="$CONTINUE_FILE"
fi

# TERM goes to everybody here: Claude ends by it, tee when Claude has said its last, and Claude's exit code is ours.
trap : TERM
claude --print --verbose --output-format stream-json --dangerously-skip-permissions --model "$LLM_MODEL" \
  "${resume[@]}" < "$prompt" \
  | (trap '' TERM; exec tee -a "$TRAJECTORY_DIR/claude.jsonl")
