#!/usr/bin/env bash
# Runs Gemini CLI on the prompt, or takes its last session up again; its events go to stdout and to a file.
set -euo pipefail

# The settings here stand above those that an agent writes in its home: no updates, no telemetry, no limit on silent
# commands, and the run's model for whatever is asked; the gateway refuses others.
GEMINI_CLI_SYSTEM_SETTINGS_PATH="$(cd "$(dirname "$0")" && pwd)/settings.json"
export GEMINI_CLI_SYSTEM_SETTINGS_PATH GEMINI_SANDBOX=false GEMINI_TELEMETRY_ENABLED=false

mkdir -p "$TRAJECTORY_DIR"
cd "$WORKSPACE"

resume=() prompt="$PROMPT_FILE"
if [ "$CONTINUATION" -gt 0 ] && compgen -G "$HOME/.gemini/tmp/*/chats/session-*" > /dev/null; then
  resume=(--resume latest) prompt="$CONTINUE_FILE"
fi

# TERM goes to everybody here: Gemini ends by it, tee when Gemini has said its last, and Gemini's exit code is ours.
trap : TERM
gemini --yolo --skip-trust --model "$LLM_MODEL" --output-format stream-json "${resume[@]}" < "$prompt" \
  | (trap '' TERM; exec tee -a "$TRAJECTORY_DIR/gemini.jsonl")
