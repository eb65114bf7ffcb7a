"""What samples must look like, from the configuration, the domain, or handed over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steelyard import config as configs
from steelyard.compose.supplied import NOTHING, Supplied, build_domain
from steelyard.config import Config
from steelyard.constraints.automaton import Automaton, WordConstraint
from steelyard.constraints.base import Constraint, pack
from steelyard.constraints.grammar import GrammarConstraint, PerTask
from steelyard.constraints.trie import CharacterConstraint, token_bytes
from steelyard.constraints.without import WithoutTokens
from steelyard.domains.base import Domain
from steelyard.errors import ConfigError
from steelyard.import_paths import load_own
from steelyard.policies.base import Policy
from steelyard.policies.causal import CausalPolicy
from steelyard.text import shown
from steelyard.types import Task


def build_constraint(config: Config, policy: Policy, supplied: Supplied = NOTHING) -> Constraint | None:
    """What samples must look like: handed over, named by the configuration, or the domain's own automaton; a policy
    that does not write from left to right has none. It never allows a token that the policy does not sample.
    """
    if not isinstance(policy, CausalPolicy):
        return None
    table, given, domain = config.constraint, supplied.constraint, build_domain(config, supplied)
    closed = _is_closed(config, domain)
    spaced = closed and (config.model.scratch is None or config.model.scratch.spaced)
    if isinstance(given, Constraint):
        return WithoutTokens(given, policy.excluded) if policy.excluded else given
    if isinstance(given, Automaton):
        return _over_tokens(policy, given, spaced=spaced)
    if given is not None:
        raise ConfigError(f"constraint is {shown(given)}; hand over a table, an Automaton or a Constraint")
    if table is None:
        automaton = None if domain is None else domain.automaton()
        return None if automaton is None else _over_tokens(policy, automaton, spaced=spaced)
    if table.kind == "automaton":
        spaced = spaced if table.over is None else table.over == "words"
        return _over_tokens(policy, _load_automaton(table), spaced=spaced)
    grammar = GrammarConstraint(
        table.kind,
        grammar_source(table),
        _written(policy) if closed else policy.tokenizer,
        end_id=policy.end_id,
        vocabulary=policy.vocabulary,
        canonical_runs=table.canonical_runs is not False,
        max_tokens=config.sampling.max_new_tokens,
    )
    text = grammar.table.plain & pack(policy.excluded, policy.vocabulary)
    if not text.any():
        return grammar
    if grammar.canonical_runs:
        raise ConfigError(
            "model.excluded_tokens lists tokens that stand for text, which the constraint may have to write; set "
            "constraint.canonical_runs = false, so that such text may be cut into other tokens"
        )
    return WithoutTokens(grammar, policy.excluded)


def _load_automaton(table: configs.ConstraintConfig) -> Automaton[Any]:
    """A configuration may name anything that can be imported: it must be an automaton's class before it is called."""
    found = load_own(str(table.source), what="constraint.source")
    if not (isinstance(found, type) and issubclass(found, Automaton)):
        raise ConfigError(
            f"constraint.source: {table.source} is not a subclass of steelyard.constraints.automaton.Automaton; "
            "name one"
        )
    try:
        return found(**table.options)
    except TypeError as error:
        raise ConfigError(f"constraint.source: {error}") from error


def grammar_source(table: configs.ConstraintConfig) -> Any:
    if table.column is not None:
        return PerTask(table.column)
    if table.file is None:
        return list(table.source) if isinstance(table.source, tuple) else table.source
    try:
        text = Path(table.file).read_text(encoding="utf-8")
        return json.loads(text) if table.kind in ("json_schema", "choices") else text
    except OSError as error:
        raise ConfigError(f"constraint.file {table.file}: {error.strerror} (looked in {Path.cwd()})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"constraint.file {table.file}: not UTF-8: {error}") from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"constraint.file {table.file}: not JSON, which {table.kind} asks for: {error}") from error


def _over_tokens(policy: CausalPolicy, automaton: Automaton[Any], *, spaced: bool) -> Constraint:
    """An automaton over words with spaces between, or over characters lifted to the tokenizer's tokens."""
    end = policy.end_id
    if spaced:
        never = set(policy.excluded)
        words = {word: token for word, token in policy.tokenizer.get_vocab().items() if token not in never}
        return WordConstraint(automaton, words, end_id=end, vocabulary=policy.vocabulary)
    return CharacterConstraint(automaton, _written(policy), end_id=end)


def _written(policy: CausalPolicy) -> list[bytes | None]:
    """What each token writes, None for those that are never sampled."""
    written = token_bytes(policy.tokenizer, policy.vocabulary)
    for token in policy.excluded:
        written[token] = None
    return written


def _is_closed(config: Config, domain: Domain | None) -> bool:
    """Whether the model has a closed vocabulary: one from scratch, and every model of a domain with a vocabulary, such
    as the one that a warm start left in a folder.
    """
    return config.model.scratch is not None or (domain is not None and domain.vocabulary() is not None)


def check_budgets(constraint: Constraint | None, tasks: Sequence[Task], tokens: int) -> None:
    """Fail before the run if a task cannot be answered within the token limit."""
    if constraint is not None:
        for task in tasks:
            constraint.check_budget(task, tokens)
