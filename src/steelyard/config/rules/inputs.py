"""Rules for the inputs of a run: model, tasks and verifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steelyard.config.problems import Problem
from steelyard.config.tasks import SOURCES, SourceConfig

if TYPE_CHECKING:
    from steelyard.config.sections import Sections


def model_source(config: Sections) -> Iterator[Problem]:
    model, supplied = config.model, "model" in config.run.supplied
    given = [name for name in ("path", "scratch") if getattr(model, name) is not None]
    if not given and not supplied:
        yield Problem("model", None, "no model specified; set model.path (hub id or folder) or the table model.scratch")
    if len(given) + supplied > 1:
        both = " and ".join([f"model.{name}" for name in given] + ["a model from Python"] * supplied)
        yield Problem("model", None, f"{both} are specified, but a run trains only one model; remove one")


def scratch_shape(config: Sections) -> Iterator[Problem]:
    scratch = config.model.scratch
    if scratch is None:
        return
    if scratch.width % scratch.heads:
        yield Problem(
            "model.scratch.width", scratch.width, f"must be a multiple of model.scratch.heads ({scratch.heads})"
        )
    elif (scratch.width // scratch.heads) % 2:
        reason = (
            f"width/heads is {scratch.width // scratch.heads}, but rotary embeddings need an even number; change width"
        )
        yield Problem("model.scratch.width", scratch.width, reason)
    if scratch.heads % scratch.kv_heads:
        yield Problem("model.scratch.kv_heads", scratch.kv_heads, f"must divide model.scratch.heads ({scratch.heads})")
    if scratch.vocabulary is None and not config.has_domain:
        reason = "is required without a [domain], which would provide one"
        yield Problem("model.scratch.vocabulary", None, reason)
    if config.model.kind == "causal" and scratch.max_length <= config.sampling.max_new_tokens:
        reason = (
            f"leaves no room for a prompt: it must exceed sampling.max_new_tokens ({config.sampling.max_new_tokens})"
        )
        yield Problem("model.scratch.max_length", scratch.max_length, reason)


def warm_start(config: Sections) -> Iterator[Problem]:
    warmstart = config.warmstart
    if warmstart is None:
        return
    if not config.has_domain:
        yield Problem(
            "warmstart", None, "needs a [domain] that provides examples; remove the table, or set domain.name"
        )
    if "model" in config.run.supplied:
        yield Problem(
            "warmstart",
            None,
            "needs a model from the configuration, but one was passed from Python; save it and set model.path",
        )


def precision(config: Sections) -> Iterator[Problem]:
    model = config.model
    if model.dtype == "float16" and model.lora is None:
        reason = (
            "training float16 weights loses small updates, and their gradients cannot be unscaled; "
            "use dtype = 'float32' with autocast = 'float16', or bfloat16, or LoRA over float16 weights"
        )
        yield Problem("model.dtype", model.dtype, reason)
    if model.autocast is not None and model.dtype != "float32":
        reason = (
            f"mixed precision needs float32 weights, but model.dtype is {model.dtype}; remove autocast, or set "
            "dtype = 'float32'"
        )
        yield Problem("model.autocast", model.autocast, reason)
    if model.quantize is None:
        return
    if model.lora is None:
        reason = "quantised weights are frozen and cannot be trained; add the table model.lora"
        yield Problem("model.quantize", model.quantize, reason)
    if model.scratch is not None:
        yield Problem(
            "model.quantize", model.quantize, "a model from scratch has no pretrained weights to freeze; remove the key"
        )


def domain_source(config: Sections) -> Iterator[Problem]:
    if config.domain is not None and "domain" in config.run.supplied:
        yield Problem("domain.name", config.domain.name, "a domain was also passed from Python; remove one of them")


def _domain_name(config: Sections) -> str | None:
    return None if config.domain is None else config.domain.name


def task_source(config: Sections) -> Iterator[Problem]:
    tasks, supplied = config.tasks, "tasks" in config.run.supplied
    if config.has_domain and (supplied or (tasks is not None and tasks.brings_tasks)):
        reason = "a domain provides its own tasks; remove the domain, or all of [tasks] except chat, system and source"
        yield Problem("domain", _domain_name(config), reason)
        return
    if config.has_domain:
        return
    given = [name for name in ("file", "dataset", "prompts") if tasks and getattr(tasks, name) is not None]
    own = tasks is not None and tasks.source is not None and tasks.source.brings_tasks
    if not given and not supplied and not own:
        reason = "no tasks specified; set tasks.file, tasks.dataset, tasks.prompts or a [domain]"
        yield Problem("tasks", None, reason)
    if len(given) + supplied > 1:
        names = " and ".join([f"tasks.{name}" for name in given] + ["tasks from Python"] * supplied)
        yield Problem("tasks", None, f"{names} are specified, but tasks must come from a single source; keep one")


def task_options(config: Sections) -> Iterator[Problem]:
    tasks = config.tasks
    if tasks is None:
        return
    if tasks.subset is not None and tasks.dataset is None:
        yield Problem(
            "tasks.subset",
            tasks.subset,
            "selects a part of tasks.dataset, which is not set; remove it, or set tasks.dataset",
        )
    if tasks.held_out and (tasks.eval_file is not None or "eval_tasks" in config.run.supplied):
        reason = "evaluation tasks are already given separately; set held_out to 0, or remove them"
        yield Problem("tasks.held_out", tasks.held_out, reason)


def sampled_source(config: Sections) -> Iterator[Problem]:
    tasks = config.tasks
    if tasks is None or tasks.source is None:
        return
    source, listed = tasks.source, [key for key in ("file", "dataset", "prompts") if getattr(tasks, key) is not None]
    listed += ["rows"] if "tasks" in config.run.supplied else []
    if source.kind in ("mixture", "generated") and listed:
        reason = f"does not use tasks.{listed[0]}; remove that key, or make it a part of a mixture"
        yield Problem("tasks.source.kind", source.kind, reason)
    if tasks.held_out and not listed:
        yield Problem("tasks.held_out", tasks.held_out, "works only with listed tasks; set tasks.eval_file instead")
    if source.kind == "generated" and not config.has_domain and source.function is None:
        yield Problem("tasks.source.function", None, "is required without a [domain] to generate the tasks")
    yield from _foreign_keys(source)
    for index, part in enumerate(source.parts):
        key = f"tasks.source.parts.{index}"
        if len(part.origins) != 1:
            named = " and ".join(part.origins) or "none"
            reason = f"needs exactly one of file, dataset, prompts and domain_split; it has {named}"
            yield Problem(key, part.name, reason)
        if part.domain_split is not None and not config.has_domain:
            yield Problem(f"{key}.domain_split", part.domain_split, "needs a [domain] with this split; set domain.name")
        if part.name in [other.name for other in source.parts[:index]]:
            yield Problem(f"{key}.name", part.name, "is also the name of another part; choose different names")


def _foreign_keys(source: SourceConfig) -> Iterator[Problem]:
    """Reject keys that apply only to another kind of source."""
    kind = source.kind if source.kind in SOURCES else "module:Class"
    owners = {"function": "generated", "limit": "dataset", "parts": "mixture", "options": "module:Class"}
    for key, owner in owners.items():
        if getattr(source, key) and kind != owner:
            yield Problem(
                f"tasks.source.{key}", None, f"applies to kind = '{owner}', not to '{source.kind}'; remove it"
            )
    if kind == "mixture" and not source.parts:
        yield Problem("tasks.source.parts", None, "is empty; add at least one [[tasks.source.parts]] with a name")


def prompting(config: Sections) -> Iterator[Problem]:
    tasks = config.tasks
    if tasks is None:
        return
    if tasks.system is not None and tasks.chat == "never":
        reason = "a system message needs the chat template; remove it, or set tasks.chat to 'auto'"
        yield Problem("tasks.system", tasks.system, reason)
    if config.model.kind == "masked" and (tasks.system is not None or tasks.chat == "always"):
        key = "chat" if tasks.system is None else "system"
        yield Problem(f"tasks.{key}", getattr(tasks, key), "masked models do not use chat templates; remove this key")


def verifier_source(config: Sections) -> Iterator[Problem]:
    verify, supplied = config.verify, "verifier" in config.run.supplied
    given = verify.verifier is not None or bool(verify.verifiers)
    if config.has_domain:
        if given or supplied:
            named = _domain_name(config) or "from Python"
            reason = f"the domain {named} provides its own verifier; remove this one, or use [tasks]"
            yield Problem("verify.verifier" if verify.verifier else "verify", verify.verifier, reason)
        return
    if not given and not supplied:
        reason = "no verifier specified; set it to your function as module:function, or list verify.verifiers"
        yield Problem("verify.verifier", None, reason)
    if verify.verifier is not None and verify.verifiers:
        reason = "is for a single verifier; move it to verify.verifiers"
        yield Problem("verify.verifier", verify.verifier, reason)
    if given and supplied:
        yield Problem("verify.verifier", verify.verifier, "a verifier was also passed from Python; remove one of them")


def tools(config: Sections) -> Iterator[Problem]:
    named, supplied = list(config.episode.tools), "tools" in config.run.supplied
    if named and supplied:
        yield Problem("episode.tools", named, "tools were also passed from Python; remove one of them")
    if config.model.kind == "masked" and (named or supplied):
        yield Problem("episode.tools", named, "a masked model fills in holes and cannot call tools; remove them")


def verifier_entries(config: Sections) -> Iterator[Problem]:
    for index, entry in enumerate(config.verify.verifiers):
        key = f"verify.verifiers.{index}"
        if (entry.function is None) == (entry.model is None):
            yield Problem(key, None, "needs exactly one of function (module:function) and model (hub id or folder)")
        if entry.model is not None and entry.kind is None:
            yield Problem(f"{key}.kind", None, "is required with model: classifier or likelihood")
        if entry.model is None and entry.kind is not None:
            yield Problem(f"{key}.kind", entry.kind, "applies only to an entry with a model; remove the key")
        if entry.size is not None and entry.mode != "batch":
            yield Problem(f"{key}.size", entry.size, "applies only to mode = 'batch'; remove it, or set mode")
        if entry.size is None and entry.mode == "batch" and entry.model is None:
            yield Problem(f"{key}.mode", entry.mode, "needs verify.verifiers.size, the number of samples per call")
