# One target a check; `make check` is the fast half of CI in the environment you already have, `make ci` all of it.
.PHONY: check ci format lint types layering unit learning faults e2e mutation benchmarks

check: lint types layering unit

ci:
	.ci/run

format:
	ruff format .
	ruff check --fix .

lint:
	ruff format --check .
	ruff check .

types:
	pyright

layering:
	lint-imports

unit:
	python -m pytest -q -n auto -m 'not slow' tests/unit tests/property tests/golden

learning:
	python -m pytest -q tests/learning

faults:
	python -m pytest -q tests/faults

e2e:
	python -m pytest -q tests/e2e

mutation:
	mutmut run

benchmarks:
	for name in $$(python -c 'from benchmarks.framework import catalogue; print(*catalogue.names())'); do \
	    python -m benchmarks $$name --quick || exit 1; \
	done
