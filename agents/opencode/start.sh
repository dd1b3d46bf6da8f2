#!/usr/bin/env bash
# Runs OpenCode on the prompt, or takes its last session up again; its events go to stdout and to a file.
set -euo pipefail

# Nothing but the gateway is asked.
export OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1
export OPENCODE_DISABLE_DEFAULT_PLUGINS=1
# Both clients are built in: chat completions, or Anthropic's messages.
case "$LLM_PROVIDER" in
  anthropic) export PROVIDER_PACKAGE=@ai-sdk/anthropic PROVIDER_URL="$ANTHROPIC_BASE_URL/v1" ;;
  *) export PROVIDER_PACKAGE=@ai-sdk/openai-compatible PROVIDER_URL="$OPENAI_BASE_URL" ;;
esac
OPENCODE_CONFIG="$(cd "$(dirname "$0")" && pwd)/opencode.jsonc"
# Training may take as long as the run does.
export OPENCODE_CONFIG OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS="$((TIMEOUT_S * 1000))"

mkdir -p "$TRAJECTORY_DIR"

resume=() prompt="$PROMPT_FILE"
if [ "$CONTINUATION" -gt 0 ] && [ -s "$TRAJECTORY_DIR/opencode.jsonl" ]; then
  resume=(--continue) prompt="$CONTINUE_FILE"
fi

# TERM goes to everybody here: OpenCode ends by it, tee when OpenCode has said its last, and OpenCode's exit code is ours.
trap : TERM
opencode run --model "gateway/$LLM_MODEL" --format json --dir "$WORKSPACE" --title "$TASK" "${resume[@]}" < "$prompt" \
  | (trap '' TERM; exec tee -a "$TRAJECTORY_DIR/opencode.jsonl")
