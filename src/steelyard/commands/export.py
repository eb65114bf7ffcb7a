"""Write an artifact from a file for other programs; the ending of --out names the format (bricks: .ldr, .gltf, …).

Without FILE: write the model of a run into the folder --out, for any program that opens transformers models.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.commands.inputs.artifact_files import WHERE, WHERE_HELP, known_domains, open_domain, read_artifact
from steelyard.commands.inputs.target import add_trust, read_named_run
from steelyard.commands.output.files import form_of, write_file
from steelyard.commands.output.screen import loading, tell
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
        "file", nargs="?", metavar="FILE", help="the artifact as text, as `render RUN` writes it; - is stdin"
    )
    parser.add_argument("--out", required=True, metavar="FILE|FOLDER", help="what to write")
    parser.add_argument("--merge", action="store_true", help="of a run with LoRA: merge the adapter into its base")
    parser.add_argument(
        "--checkpoint", default=CHECKPOINT, metavar="WHICH", help="of a run: latest, best or a step (latest)"
    )


def epilog() -> str:
    return known_domains()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if arguments.file is None:
        return _export_model(arguments, overrides)
    if arguments.merge or arguments.checkpoint != CHECKPOINT:
        raise ConfigError(f"--merge and --checkpoint are for the model of a run: leave out {arguments.file}")
    domain, out = open_domain(arguments.target, overrides, trust=arguments.trust), Path(arguments.out)
    form = form_of(out, domain.export_formats, "--out")
    asked, *others = domain.export(read_artifact(arguments.file), form, name=out.stem).items()
    beside = [(out.with_name(name), content) for name, content in others]
    _require_free(out, beside)
    for path, content in ((out, asked[1]), *beside):
        write_file(path, content)
        tell(f"wrote {path}")
    return 0


def _require_free(out: Path, beside: Sequence[tuple[Path, bytes]]) -> None:
    """Files that go beside the one asked for under a name of their own must not be those of another artifact."""
    if out.exists():
        return
    for path, content in beside:
        if path.stem != out.stem and path.exists() and path.read_bytes() != content:
            raise DataError(
                f"{path} is there already and belongs to something else; give {out.name} a folder of its own: "
                f"--out {out.with_name(out.stem) / out.name}"
            )


# --- the model of a run ----------------------------------------------------------------------------------------------


def _export_model(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    run, which, config = _run_of(arguments, overrides)
    out = Path(arguments.out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out} is there already; choose another folder, or remove it")
    with loading("torch and the model"):
        from steelyard.compose import build_model, find_checkpoint

        checkpoint = find_checkpoint(run, which, config.checkpoint.best_mode)
        policy = build_model(config)
        policy.load_weights(checkpoint.folder("model"))
        what = _save(policy, out, merge=arguments.merge)
    tell(f"wrote {out}: {run} at step {checkpoint.step}, {what}; docs/serving.md says how to use it")
    if what == ADAPTER:
        again = shlex.join(["steelyard", "export", arguments.target, "--merge", "--out", f"{out}-merged"])
        tell(f"  {again}    as a whole model, which needs no PEFT")
    if (grammar := _grammar(config)) is not None:
        write_file(out / GRAMMAR, grammar.encode())
        tell(f"wrote {out / GRAMMAR}: the constraint as a grammar, for engines with llguidance")
    return 0


def _save(policy: Policy, out: Path, *, merge: bool) -> str:
    """Write the model; gives what it is."""
    from peft import PeftModel

    adapted = isinstance(policy.model, PeftModel)
    if merge and not adapted:
        raise ConfigError("--merge: the run trained all weights and has no adapter; leave it out")
    if not merge:
        policy.save_pretrained(out)
        return ADAPTER if adapted else "a whole model"
    try:
        policy.save_merged(out)
    except PolicyError as error:
        error.add_note("A quantised base is merged unquantised: add --model.quantize none.")
        raise
    return "a whole model with the adapter merged"


def _run_of(arguments: argparse.Namespace, overrides: Sequence[str]) -> tuple[Path, str, Config]:
    """A run, which of its checkpoints, and its configuration. Only its model is built, so tasks and verifier need not
    be there.
    """
    found = run_at(Path(arguments.target))
    if found is None:
        raise ConfigError(
            f"{arguments.target} is not a run folder, whose model could be exported; for an artifact of a domain, give "
            "its FILE after the name of the domain"
        )
    run, step = found
    config = read_named_run(run, overrides, trust=arguments.trust, uses=DOMAIN | {"model"}, unused=tuple(NAMED_BY))
    if "model" in config.run.supplied:
        raise ConfigError(f"{run} was started from Python with its own model: save it there with save_pretrained")
    return run, step or arguments.checkpoint, config


def _grammar(config: Config) -> str | None:
    """The constraint of a run as a grammar, if it is one and the same for every task."""
    table = config.constraint
    if table is None or table.kind == "automaton" or table.column is not None:
        return None
    from steelyard.compose.constraint import grammar_source
    from steelyard.constraints.grammar.sources import free_text, parsed

    return free_text(table.kind, parsed(table.kind, grammar_source(table)))
