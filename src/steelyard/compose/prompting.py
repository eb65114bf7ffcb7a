"""Decide whether prompts are sent unchanged or through the model's chat template."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from steelyard import config as configs
from steelyard.compose.supplied import NOTHING_SUPPLIED, Supplied, build_tools
from steelyard.config import Config
from steelyard.errors import PolicyError
from steelyard.policies.base import Policy
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.tokens.codec import Prompting
from steelyard.policies.tokens.tool_format import find_format
from steelyard.text import shown
from steelyard.tracking.console import Screen
from steelyard.types import Task

log = logging.getLogger("steelyard")


def build_prompting(config: Config, policy: CausalPolicy, supplied: Supplied = NOTHING_SUPPLIED) -> Prompting:
    """Apply tasks.chat, tasks.system and the tools to this model. By default, the prompts of a domain are sent
    unchanged.
    """
    found = _prompting(config, policy)
    tools = build_tools(config, supplied)
    return replace(found, tools=find_format(policy.tokenizer, [tool.schema for tool in tools])) if tools else found


def _prompting(config: Config, policy: CausalPolicy) -> Prompting:
    tasks = config.tasks or configs.TasksConfig()
    has_template = policy.tokenizer.chat_template is not None
    wanted = [key for key, there in (("system", tasks.system), ("chat", tasks.chat == "always")) if there]
    if wanted and not has_template:
        value = getattr(tasks, wanted[0])
        raise PolicyError(
            f"tasks.{wanted[0]} = {shown(value)}: the tokenizer of {_name(policy)} has no chat template; use a model "
            "that has one (often called instruct or chat), or add the text to each prompt with tasks.template"
        )
    if tasks.chat != "auto":
        return Prompting(tasks.chat == "always", tasks.system)
    own = config.has_domain and tasks.system is None
    return Prompting(has_template and not own, tasks.system)


def describe_prompting(policy: Policy) -> str:
    """Describe how string prompts are sent; return an empty string if there is no choice."""
    if not isinstance(policy, CausalPolicy) or policy.tokenizer.chat_template is None:
        return ""
    prompting = policy.prompting
    if not prompting.chat:
        return 'prompts are sent unchanged, without the chat template (tasks.chat = "always" uses it)'
    after = "" if prompting.system is None else f", after the system message {shown(prompting.system, 60)}"
    return (
        f"prompts are sent as user messages through the chat template of {_name(policy)}{after} "
        '(tasks.chat = "never" sends them unchanged)'
    )


def announce_prompting(config: Config, policy: Policy, tasks: Sequence[Task]) -> None:
    """Report once, at the start of a run, how the string prompts of [tasks] are sent."""
    description = describe_prompting(policy)
    if not description or (config.has_domain and config.tasks is None):
        return
    if tasks and not any(isinstance(task.prompt, str) for task in tasks):
        return
    if config.tracking.console:
        Screen(stderr=True, highlight=False).print(description, markup=False, soft_wrap=True)
    else:
        log.info("%s", description)


def _name(policy: Policy) -> str:
    return policy.tokenizer.name_or_path or "the model"
