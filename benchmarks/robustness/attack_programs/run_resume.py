"""Resuming with an incompatible configuration, and checkpoints that contain foreign files."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.robustness.attack_programs import Attack
from benchmarks.robustness.tiny_runs import RUN, SCORE, TRAIN, steelyard, write_run

RESUME = ("train", "--resume", str(RUN), "--run.steps", "8")


def trained(folder: Path) -> None:
    """Train for four steps with checkpoints at steps 2 and 4."""
    write_run(folder)
    code, command = steelyard(folder, *TRAIN)
    if code != 0:
        raise RuntimeError(f"the run exited with {code}: {command.error[-300:]}")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def rejected(words: tuple[str, ...], message: str, folder: Path) -> str | None:
    """Resume with a different configuration: a message must name the difference, and nothing may be written."""
    trained(folder)
    before = contents(folder / RUN)
    code, command = steelyard(folder, *RESUME, *words)
    if code != 2 or message not in command.error or "Traceback" in command.error:
        return f"exit code {code}: {command.error[-300:]}"
    return None if contents(folder / RUN) == before else "the run folder was written to"


def changed_verifier(folder: Path) -> str | None:
    """Check that the resumed run warns once if its verifier or a helper module next to it has changed."""
    (folder / "rules.py").write_text("LETTER = 'a'\n")
    write_run(folder, score="import rules\n" + SCORE.replace("'a'", "rules.LETTER"))
    steelyard(folder, *TRAIN)
    code, command = steelyard(folder, *RESUME)
    if code != 0 or "code has changed" in command.error:
        return f"unchanged: exit code {code}: {command.error[-300:]}"
    (folder / "rules.py").write_text("LETTER = 'b'\n")
    code, command = steelyard(folder, "train", "--resume", str(RUN), "--run.steps", "10")
    if code != 0 or "code has changed since" not in command.error or "rules" not in command.error:
        return f"changed: exit code {code}: {command.error[-300:]}"
    return None


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def link_to_pipe(path: Path) -> None:
    os.mkfifo(path.parent / "pipe")
    path.unlink(missing_ok=True)
    path.symlink_to(path.parent / "pipe")


def link(path: Path) -> None:
    """Replace the file with a link to the same content, which may change later."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def tampered(harm: Callable[[Path], None], name: str, folder: Path) -> str | None:
    """Check that resume, eval and sample skip the damaged newest checkpoint, use the previous one, and never hang."""
    trained(folder)
    harm(folder / RUN / "checkpoints/step-00000004" / name)
    code, command = steelyard(folder, "sample", str(RUN), "--checkpoint", "4", "--split", "train")
    if code != 2 or "is damaged" not in command.error:
        return f"sample of the checkpoint ended with {code}: {command.error[-300:]}"
    code, command = steelyard(folder, *RESUME)
    if code != 0 or "skipped" not in command.error:
        return f"resume ended with {code}: {command.error[-300:]}"
    return None


def link_as_checkpoint(folder: Path) -> str | None:
    """Replace an old checkpoint with a link: pruning must remove the link, not its target."""
    trained(folder)
    old = folder / RUN / "checkpoints/step-00000002"
    old.rename(folder / "kept")
    old.symlink_to(folder / "kept")
    code, command = steelyard(folder, *RESUME, "--trust")
    if code != 0:
        return f"resume ended with {code}: {command.error[-300:]}"
    return None if (folder / "kept/manifest.json").is_file() else "the checkpoint behind the link was deleted"


ATTACKS = (
    Attack("resume", "another optimiser", partial(rejected, ("--optimiser.name", "adamw_8bit"), "optimiser")),
    Attack(
        "resume",
        "a reordered vocabulary",
        partial(rejected, ("--model.scratch.vocabulary", '["b", "a"]'), "vocabulary"),
    ),
    Attack("resume", "a wider model", partial(rejected, ("--model.scratch.width", "32"), "does not match")),
    Attack("resume", "other tasks", partial(rejected, ("--tasks.prompts", '["b"]'), "tasks changed"), quick=False),
    Attack("resume", "changed code of the verifier", changed_verifier),
    Attack("checkpoint", "the manifest is a pipe", partial(tampered, pipe, "manifest.json")),
    Attack("checkpoint", "the state is a link to a pipe", partial(tampered, link_to_pipe, "state.json"), quick=False),
    Attack("checkpoint", "an unlisted pipe in model/", partial(tampered, pipe, "model/adapter_config.json")),
    Attack("checkpoint", "the weights are a link", partial(tampered, link, "model/model.safetensors"), quick=False),
    Attack("checkpoint", "an old checkpoint is a link", link_as_checkpoint),
)
