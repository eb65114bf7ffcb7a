"""Build the constraint on samples from the configuration, the domain or a supplied object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steelyard import config as configs
from steelyard.compose.supplied import NOTHING_SUPPLIED, Supplied, build_domain
from steelyard.config import Config
from steelyard.constraints.automaton import Automaton, WordConstraint
from steelyard.constraints.base import Constraint, pack
from steelyard.constraints.grammar import GrammarConstraint, PerTask, ToolCallConstraint, ToolCallGrammar
from steelyard.constraints.trie import CharacterConstraint, token_bytes
from steelyard.constraints.without import WithoutTokens
from steelyard.domains.base import Domain
from steelyard.errors import ConfigError
from steelyard.import_paths import load_user_object
from steelyard.policies.base import Policy
from steelyard.policies.causal import CausalPolicy
from steelyard.text import shown
from steelyard.types import Task


def build_constraint(config: Config, policy: Policy, supplied: Supplied = NOTHING_SUPPLIED) -> Constraint | None:
    """Build the constraint: a supplied object, the one in the configuration, or the domain's automaton.

    Only causal policies have a constraint. A constraint never allows a token that the policy does not sample.
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
        raise ConfigError(f"constraint = {shown(given)} must be a table, an Automaton or a Constraint")
    if table is None:
        automaton = None if domain is None else domain.automaton()
        return None if automaton is None else _over_tokens(policy, automaton, spaced=spaced)
    if table.kind == "automaton":
        spaced = spaced if table.symbols is None else table.symbols == "words"
        return _over_tokens(policy, _load_automaton(table), spaced=spaced)
    source, tokens = grammar_source(table), _token_texts(policy) if closed else policy.tokenizer
    settings: dict[str, Any] = {
        "end_id": policy.end_id,
        "vocabulary": policy.vocabulary,
        "canonical_tokens": table.canonical_tokens is not False,
        "max_tokens": config.sampling.max_new_tokens,
    }
    if table.kind == "tools":
        grammar = ToolCallConstraint(_tool_grammar(policy, source), tokens, **settings)
    else:
        grammar = GrammarConstraint(table.kind, source, tokens, **settings)
    text = grammar.table.plain & pack(policy.excluded, policy.vocabulary)
    if not text.any():
        return grammar
    if grammar.canonical_tokens:
        raise ConfigError(
            "model.excluded_tokens contains text tokens that the constraint may need for forced text; set "
            "constraint.canonical_tokens = false, so that other tokens can be used for that text"
        )
    return WithoutTokens(grammar, policy.excluded)


def _tool_grammar(policy: CausalPolicy, final: Any) -> Any:
    """Return the grammar of a turn: a call in the form that the model writes, or a final answer."""
    form = policy.prompting.tools
    if form is None:
        raise ConfigError("constraint.kind = 'tools': there are no tools to call; set episode.tools")
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": function["name"]}, form.arguments: function["parameters"]},
            "required": ["name", form.arguments],
            "additionalProperties": False,
        }
        for function in (schema["function"] for schema in form.schemas)
    ]
    grammar = ToolCallGrammar(calls, form.before, form.after, final)
    return grammar if callable(final) else grammar(Task("any", ""))


def _load_automaton(table: configs.ConstraintConfig) -> Automaton[Any]:
    """Load the automaton. The class is validated before it is called, because a configuration can name any object."""
    found = load_user_object(str(table.source), what="constraint.source")
    if not (isinstance(found, type) and issubclass(found, Automaton)):
        raise ConfigError(
            f"constraint.source = {table.source} must be a subclass of steelyard.constraints.automaton.Automaton"
        )
    try:
        return found(**table.options)
    except TypeError as error:
        raise ConfigError(f"constraint.source = {table.source}: {error}; correct constraint.options") from error


def grammar_source(table: configs.ConstraintConfig) -> Any:
    if table.column is not None:
        return PerTask(table.column)
    if table.file is None:
        return list(table.source) if isinstance(table.source, tuple) else table.source
    try:
        text = Path(table.file).read_text(encoding="utf-8")
        return json.loads(text) if table.kind in ("json_schema", "choices") else text
    except OSError as error:
        raise ConfigError(
            f"constraint.file {table.file}: {error.strerror} (working directory: {Path.cwd()})"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"constraint.file {table.file}: not UTF-8 ({error}); save it as UTF-8") from error
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"constraint.file {table.file}: not valid JSON, which kind = {table.kind} requires ({error})"
        ) from error


def _over_tokens(policy: CausalPolicy, automaton: Automaton[Any], *, spaced: bool) -> Constraint:
    """Lift an automaton over words (separated by spaces) or characters to the tokenizer's tokens."""
    end = policy.end_id
    if spaced:
        never = set(policy.excluded)
        words = {word: token for word, token in policy.tokenizer.get_vocab().items() if token not in never}
        return WordConstraint(automaton, words, end_id=end, vocabulary=policy.vocabulary)
    return CharacterConstraint(automaton, _token_texts(policy), end_id=end)


def _token_texts(policy: CausalPolicy) -> list[bytes | None]:
    """Return the text of each token in bytes, or None for tokens that are never sampled."""
    texts = token_bytes(policy.tokenizer, policy.vocabulary)
    for token in policy.excluded:
        texts[token] = None
    return texts


def _is_closed(config: Config, domain: Domain | None) -> bool:
    """Whether the model has a closed vocabulary.

    A model from scratch has a closed vocabulary, and so does any model of a domain with a vocabulary.
    """
    return config.model.scratch is not None or (domain is not None and domain.vocabulary() is not None)


def check_budgets(constraint: Constraint | None, tasks: Sequence[Task], tokens: int) -> None:
    """Raise before training if a task cannot be completed within the token limit."""
    if constraint is not None:
        for task in tasks:
            constraint.check_budget(task, tokens)
