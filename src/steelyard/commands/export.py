"""Convert an artifact from a file into a format for other programs. The suffix of --out selects the format (bricks:
.ldr, .gltf, …).

Without FILE: write a run's model to the folder --out, as a transformers model that other programs can load.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.commands.inputs.artifact_files import WHERE, WHERE_HELP, known_domains, open_domain, read_artifact
from steelyard.commands.inputs.target import add_trust, read_named_run
from steelyard.commands.output.files import format_of, write_file
from steelyard.commands.output.screen import loading, print_line
from steelyard.config import Config
from steelyard.defaults import CHECKPOINT
from steelyard.errors import ConfigError, DataError, PolicyError
from steelyard.folders import NAMED_BY, run_at
from steelyard.trust import DOMAIN

if TYPE_CHECKING:
    from steelyard.policies.base import Policy

ADAPTER = "a PEFT adapter for its base model"
GRAMMAR = "constraint.lark"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar=WHERE, help=WHERE_HELP)
    add_trust(parser)
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="the artifact as text, as written by `render RUN`; - reads stdin"
    )
    parser.add_argument("--out", required=True, metavar="FILE|FOLDER", help="file or folder to write")
    parser.add_argument("--merge", action="store_true", help="for a LoRA run: merge the adapter into the base model")
    parser.add_argument(
        "--checkpoint",
        default=CHECKPOINT,
        metavar="WHICH",
        help="checkpoint to export: latest, best or a step number (default: latest)",
    )


def epilog() -> str:
    return known_domains()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if arguments.file is None:
        return _export_model(arguments, overrides)
    if arguments.merge or arguments.checkpoint != CHECKPOINT:
        raise ConfigError(
            f"--merge and --checkpoint apply only to a run's model; remove them, or remove {arguments.file}"
        )
    domain, out = open_domain(arguments.target, overrides, trust=arguments.trust), Path(arguments.out)
    form = format_of(out, domain.export_formats, "--out")
    main, *others = domain.export(read_artifact(arguments.file), form, name=out.stem).items()
    companions = [(out.with_name(name), content) for name, content in others]
    _require_free(out, companions)
    for path, content in ((out, main[1]), *companions):
        write_file(path, content)
        print_line(f"wrote {path}")
    return 0


def _require_free(out: Path, companions: Sequence[tuple[Path, bytes]]) -> None:
    """Raise if a companion file with a different stem would overwrite another artifact's file."""
    if out.exists():
        return
    for path, content in companions:
        if path.stem != out.stem and path.exists() and path.read_bytes() != content:
            raise DataError(
                f"{path} already exists and belongs to another artifact; write {out.name} to its own folder: "
                f"--out {out.with_name(out.stem) / out.name}"
            )


# --- the model of a run ----------------------------------------------------------------------------------------------


def _export_model(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    run, which, config = _run_of(arguments, overrides)
    out = Path(arguments.out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out} already exists; choose another folder, or remove it")
    with loading("torch and the model"):
        from steelyard.compose import build_model, find_checkpoint

        checkpoint = find_checkpoint(run, which, config.checkpoint.best_mode)
        policy = build_model(config)
        policy.load_weights(checkpoint.folder("model"))
        what = _save(policy, out, merge=arguments.merge)
    print_line(f"wrote {out}: {run} at step {checkpoint.step}, {what}; see docs/serving.md for how to use it")
    if what == ADAPTER:
        again = shlex.join(["steelyard", "export", arguments.target, "--merge", "--out", f"{out}-merged"])
        print_line(f"  {again}    as a complete model, without PEFT")
    if (grammar := _grammar(config)) is not None:
        write_file(out / GRAMMAR, grammar.encode())
        print_line(f"wrote {out / GRAMMAR}: the constraint as a grammar, for engines that use llguidance")
    return 0


def _save(policy: Policy, out: Path, *, merge: bool) -> str:
    """Write the model and return a description of what was written."""
    from peft import PeftModel

    adapted = isinstance(policy.model, PeftModel)
    if merge and not adapted:
        raise ConfigError("--merge: the run trained all weights and has no adapter; remove --merge")
    if not merge:
        policy.save_pretrained(out)
        return ADAPTER if adapted else "a complete model"
    try:
        policy.save_merged(out)
    except PolicyError as error:
        error.add_note("To merge into a quantised base model, load it unquantised: add --model.quantize none.")
        raise
    return "a complete model with the adapter merged"


def _run_of(arguments: argparse.Namespace, overrides: Sequence[str]) -> tuple[Path, str, Config]:
    """Return the run, the selected checkpoint and the run's configuration.

    Only the model is built, so the tasks and the verifier need not be available.
    """
    found = run_at(Path(arguments.target))
    if found is None:
        raise ConfigError(
            f"{arguments.target} is not a run folder, so there is no model to export; to export an artifact, pass its "
            "FILE after the domain name"
        )
    run, step = found
    config = read_named_run(run, overrides, trust=arguments.trust, uses=DOMAIN | {"model"}, unused=tuple(NAMED_BY))
    if "model" in config.run.supplied:
        raise ConfigError(
            f"{run} was started from Python with a model object; save that model in Python with save_pretrained"
        )
    return run, step or arguments.checkpoint, config


def _grammar(config: Config) -> str | None:
    """Return the run's constraint as a grammar, if the same grammar applies to every task."""
    table = config.constraint
    if table is None or table.kind in ("automaton", "tools") or table.column is not None:
        return None
    from steelyard.compose.constraint import grammar_source
    from steelyard.constraints.grammar.sources import parsed, unbounded_text

    return unbounded_text(table.kind, parsed(table.kind, grammar_source(table)))
