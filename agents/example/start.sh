#!/usr/bin/env bash
# Trains the base model with GRPO and submits checkpoints. Uses only what every agent gets: environment, files, the grader.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
mkdir -p "$WORKSPACE/code" "$OUTPUT_DIR"
cp --no-preserve=mode "$here"/*.py "$WORKSPACE/code/"

# Threads that wait must not spin: the grader scores on the same cores. Huge pages: twice the speed on small models.
export OMP_WAIT_POLICY=PASSIVE THP_MEM_ALLOC_ENABLE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
export HF_HUB_DISABLE_PROGRESS_BARS=1 HF_DATASETS_DISABLE_PROGRESS_BARS=1 TRANSFORMERS_VERBOSITY=error
export PYTHONWARNINGS=ignore::FutureWarning

cd "$WORKSPACE/code"
exec python train_grpo.py
