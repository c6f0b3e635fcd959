# Everything runs in a virtual environment of its own, made on first use: no other step.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed

.PHONY: demo test campaign check postgres-tests ray-tests manifests-check crash crash-workers crash-places growth crash-ray cluster-demo crash-served crash-postgres crash-commands crash-programs crash-compaction crash-deploys exhaust bench regreader regreader-real dashboard-check conformance mutants screenshots docs clean

# Errors of pip stay visible; its warnings about the configuration of a machine do not help a newcomer.
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check install

$(STAMP): pyproject.toml
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip
	@$(PIP) --editable . --group dev
	@touch $(STAMP)

$(DOCS_STAMP): $(STAMP)
	@$(PIP) --group docs
	@touch $(DOCS_STAMP)

demo: $(STAMP)  ## run the main job for real, offline, without a key
	@$(BIN)/callboard demo

# Two processes, for some tests start more of them. worksteal: each begins with one half of the tests, so that
# fixtures are made once or twice, and the one that is done takes over half of what the other has left.
# With bytecode, even where the environment turns it off: hundreds of processes import callboard.
test campaign: export PYTHONDONTWRITEBYTECODE =
test: $(STAMP)  ## the whole suite
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal

campaign: $(STAMP)  ## the suite with longer searches for faults
	@CAMPAIGN=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

check: $(STAMP) docs  ## lint, format, types, import rules, figures, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.lint_deciders
	$(BIN)/python -m tools.check_figures
	$(BIN)/python -m pytest -q tests/test_architecture.py

# With CI, so that a machine without PostgreSQL's programs fails instead of skipping the tests.
postgres-tests: $(STAMP)  ## logs and memories on a private PostgreSQL server, which starts and stops with the run
	@CI=true $(BIN)/python -m pytest -q -n 2 --dist worksteal tests/runtime/log/postgres tests/runtime/memory \
		tests/cli/test_on_server.py tests/crash/test_postgres.py tests/crash/test_commands.py \
		tests/test_postgres_server.py

# Not the suite's: Ray takes 240 MB, and its cluster 6 s to start.
ray-tests: export RAY_TESTS = 1
ray-tests: $(STAMP)  ## shards and tools on a Ray cluster on loopback: kill a process, remove a node
	@$(PIP) --group ray
	@CI=true $(BIN)/python -m pytest -q tests/crash/test_ray.py tests/runtime/cluster

# Their schemas are 110 MB on disk, so they are not in `dev`.
manifests-check: $(STAMP)  ## check examples/cluster against the schemas of Compose and Kubernetes
	@$(PIP) kubernetes-validate check-jsonschema
	@$(BIN)/kubernetes-validate --strict examples/cluster/kubernetes.yaml
	@$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec examples/cluster/compose.yaml

crash: $(STAMP)  ## kill 1,000 processes for real and resume what they leave: make crash KILLS=200 SEED=1
	$(BIN)/python -m tests.crash --kills $(or $(KILLS),1000) $(if $(SEED),--seed $(SEED))

crash-workers: $(STAMP)  ## kill and pause workers that share sessions, and count effects that happened twice (2 minutes)
	$(BIN)/python -m tests.crash.workers --seed $(or $(SEED),1)

crash-ray: $(STAMP)  ## kill a shard on Ray and remove a node; prints how long its sessions stood still
	@$(PIP) --group ray
	@$(BIN)/python -m tests.crash.ray_shards

cluster-demo: $(STAMP)  ## three workers, 50 sessions with write tools, one worker killed and one paused
	$(BIN)/python -m tests.crash.workers --sessions 50 --calls 10 --kills 1 --pauses 1

crash-places: $(STAMP)  ## kill and pause workers that share a model's places, and count its calls in flight (1 minute)
	$(BIN)/python -m tests.crash.shared_places --seed $(or $(SEED),1)

growth: $(STAMP)  ## simulate clusters of up to 1,000 workers and 10 million sessions, and draw where they bend (1 minute of processor time)
	$(BIN)/python -m tests.growth --picture docs/img/growth.svg

crash-served: $(STAMP)  ## the same with models behind a server on loopback that speaks Chat Completions
	$(BIN)/python -m tests.crash --served --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED))

crash-postgres: $(STAMP)  ## disturb writers of a log on a private PostgreSQL server: make crash-postgres ROUNDS=60 SEED=1
	$(BIN)/python -m tests.crash.postgres --rounds $(or $(ROUNDS),300) $(if $(SEED),--seed $(SEED))

crash-commands: $(STAMP)  ## kill owners and clients between the steps of commands: make crash-commands ROUNDS=60 SEED=1
	$(BIN)/python -m tests.crash.commands --rounds $(or $(ROUNDS),170) $(if $(SEED),--seed $(SEED))

crash-programs: $(STAMP)  ## kill a program at every point of a sequence and of a gather
	$(BIN)/python -m tests.crash.test_programs

crash-compaction: $(STAMP)  ## kill an agent at every point while its conversation becomes shorter
	$(BIN)/python -m tests.crash.test_compaction

crash-deploys: $(STAMP)  ## deploy wrong code under 200 killed programs, and roll back: make crash-deploys SEED=1
	$(BIN)/python -m tests.crash.wrong_deploys $(if $(SEED),--seed $(SEED))

exhaust: $(STAMP)  ## every order of small sessions, and a crash after every event of each; takes half an hour
	$(BIN)/python -m tests.mutants.exhaustion

bench: $(STAMP)  ## callboard and the floor on the peers' workloads, one table
	$(BIN)/python benchmarks/run.py

regreader: $(STAMP)  ## score the regulation reader on its made corpus and on real documents
	@PYTHONPATH=examples/regreader $(BIN)/python -m tests.examples.regreader.score

# The packages come from the system's own archive; nothing is installed.
regreader-real: $(STAMP)  ## score the regulation reader on eighteen real documents from Debian packages
	@rm -rf build/real && mkdir -p build/real
	@PYTHONPATH=examples/regreader $(BIN)/python -m tests.examples.regreader.real build/real

dashboard-check: $(STAMP)  ## run the queries of the Grafana dashboard in a real Prometheus, under load
	@rm -rf build/dashboard && mkdir -p build/dashboard
	@$(PIP) grafana-foundation-sdk
	@$(BIN)/python -m tests.examples.dashboard_check build/dashboard

conformance: $(STAMP)  ## Pykka's own test suite with our actor class added
	$(BIN)/python tests/conformance/run.py

mutants: $(STAMP)  ## put each seeded fault into the core and hunt it; writes tests/mutants/RESULTS.md
	$(BIN)/python -m tests.mutants.run --write

screenshots: $(STAMP)  ## draw the pictures of docs/page.md again; needs Chromium
	@$(BIN)/python -m tests.replay.page.screenshots

docs: $(DOCS_STAMP)  ## write the generated pages and build the site into build/site; a broken link fails
	$(BIN)/python -m tools.generate_docs
	$(BIN)/python -m zensical build --strict --clean -f mkdocs.yml

clean:
	rm -rf $(VENV) .cache build dist *.egg-info
