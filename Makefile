# Everything a person types. Each target is one or two commands of the venv's own `harness`; nothing is hidden here.
#   make demo                                  set up, build, run the arithmetic demo
#   make run AGENT=example TASK=gsm8k MODEL=/models/mine DATA_DIR=/data/gsm8k LIMIT=50 TIMEOUT=600
#   make run AGENT=openhands TASK=gsm8k LLM=http://localhost:8000/v1 BUDGET_USD=5 CONTINUE=30
#   YES=1 make demo                            the same without the question before packages are installed

.DEFAULT_GOAL := help
.PHONY: help setup venv images demo run grader ui test test-unit test-integration test-e2e test-slow test-agents test-opencompass test-vllm-cpu bench fuzz check format docs clean
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HARNESS := $(BIN)/harness
PYTEST := $(BIN)/python -m pytest
VLLM_CPU := .vllm-cpu

AGENT ?= example
TASK ?= arithmetic
# The rest of a run's options, passed on only where given.
RUN_OPTIONS = --agent "$(AGENT)" --task "$(TASK)" \
  $(if $(MODEL),--model "$(MODEL)") $(if $(TIMEOUT),--timeout "$(TIMEOUT)") $(if $(DATA_DIR),--data-dir "$(DATA_DIR)") \
  $(if $(LIMIT),--limit "$(LIMIT)") $(if $(GPUS),--gpus "$(GPUS)") $(if $(SEED),--seed "$(SEED)") \
  $(if $(PROTOCOL),--protocol "$(PROTOCOL)") $(if $(EVAL_MODE),--eval-mode "$(EVAL_MODE)") $(if $(PORT),--port "$(PORT)") $(if $(FOLLOW),--follow) $(if $(DRY_RUN),--dry-run) \
  $(if $(LLM),--llm "$(LLM)") $(if $(LLM_MODEL),--llm-model "$(LLM_MODEL)") $(if $(LLM_KEY_FILE),--llm-key-file "$(LLM_KEY_FILE)") \
  $(if $(LLM_PROVIDER),--llm-provider "$(LLM_PROVIDER)") $(if $(BUDGET_USD),--budget-usd "$(BUDGET_USD)") \
  $(if $(BUDGET_TOKENS),--budget-tokens "$(BUDGET_TOKENS)") $(if $(BUDGET_REQUESTS),--budget-requests "$(BUDGET_REQUESTS)") \
  $(if $(DISK_MB),--disk-mb "$(DISK_MB)") $(if $(NETWORK),--network "$(NETWORK)") \
  $(if $(ALLOW),--allow-host "$(ALLOW)") $(if $(CONTINUE),--continue "$(CONTINUE)")

help: ## This list
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: ## What this machine lacks: Docker Engine and a few packages (asks first; YES=1 does not), the virtual environment
	@scripts/setup_host.sh
	@$(MAKE) --no-print-directory venv

venv: $(VENV)/.installed ## The virtual environment alone

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is $$($(PYTHON) --version 2>&1), 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..." >&2; exit 3; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "error: $(PYTHON) has no venv: apt-get install python3-venv (make setup does)" >&2; exit 3; }
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

images: venv ## Build the container images that are missing or stale
	@$(HARNESS) images

demo: setup images ## Set up, build, and run agent `example` on benchmark `arithmetic`
	@$(HARNESS) run --agent example --task arithmetic

run: images ## A run: AGENT TASK MODEL TIMEOUT DATA_DIR LIMIT GPUS SEED PROTOCOL EVAL_MODE PORT DISK_MB LLM LLM_MODEL LLM_PROVIDER LLM_KEY_FILE BUDGET_USD BUDGET_TOKENS BUDGET_REQUESTS NETWORK ALLOW CONTINUE FOLLOW DRY_RUN
	@$(HARNESS) run $(RUN_OPTIONS)

grader: images ## Start the grader service (runs do it by themselves)
	@$(HARNESS) up

ui: venv ## Runs and their results, in the terminal
	@$(HARNESS) list

test: setup images ## All tests of the fixed tier: unit, contract, integration, end-to-end on real Docker
	@$(PYTEST) -m "not slow" $(TEST_OPTIONS)

test-unit: venv ## Unit and contract tests: no Docker, no network, seconds
	@$(PYTEST) tests/unit tests/contract -m "not docker and not slow" $(TEST_OPTIONS)

test-integration: images ## Integration tests
	@$(PYTEST) tests/integration -m "not slow" $(TEST_OPTIONS)

test-e2e: images ## End-to-end tests
	@$(PYTEST) tests/e2e -m "not slow" $(TEST_OPTIONS)

test-slow: images ## What is too heavy for the fixed tier
	@$(PYTEST) -m slow $(TEST_OPTIONS)

test-agents: images ## Every agent with an LLM, driven by a scripted one to its scores (builds their images)
	@$(PYTEST) tests/agents -m agents $(TEST_OPTIONS)

test-opencompass: images ## eval_mode opencompass against OpenCompass itself (builds its image: minutes, 1.1 GB)
	@$(HARNESS) images opencompass
	@$(PYTEST) tests/integration/test_opencompass_image.py $(TEST_OPTIONS)

test-vllm-cpu: venv $(VLLM_CPU)/.installed ## The engine contract on vLLM's CPU build (own environment: 3 GB, minutes once)
	@VLLM_PYTHON="$(CURDIR)/$(VLLM_CPU)/bin/python" $(PYTEST) tests/contract/test_vllm_engine.py $(TEST_OPTIONS)

$(VLLM_CPU)/.installed: tests/requirements-vllm-cpu.txt
	@scripts/vllm_cpu_venv.sh "$(PYTHON)" $(VLLM_CPU) $<

bench: images ## Figures of docs/performance.md, measured here (minutes; keep the machine quiet)
	@$(BIN)/python tests/bench/noop_overhead.py
	@$(BIN)/python tests/bench/api_latency.py
	@$(BIN)/python tests/bench/admission.py
	@$(BIN)/python tests/bench/batch_size.py
	@$(BIN)/python tests/bench/executor.py
	@$(BIN)/python tests/bench/command_line.py
	@$(BIN)/python tests/bench/gateway.py
	@$(BIN)/python tests/bench/proxy.py

fuzz: venv ## Headers of safetensors files made wrong in every way, for FUZZ_SECONDS (60) from FUZZ_SEED (the time)
	@$(BIN)/python tests/fuzz/safetensors_header.py --seconds $(or $(FUZZ_SECONDS),60) --seed $(or $(FUZZ_SEED),$(shell date +%s))

check: venv docs ## Format, lint, types, layers, docs
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(PYTEST) -q tests/unit/test_layers.py

format: venv ## Format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: venv ## Links, commands and queries in the documents hold
	@$(PYTEST) -q tests/unit/test_docs.py

clean: ## Remove what dead runs left in Docker, the virtual environment and caches; records and runs stay
	@if [ -x $(HARNESS) ]; then $(HARNESS) clean --yes; fi
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.harness/*' -prune -exec rm -rf {} +
