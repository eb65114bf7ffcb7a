"""Runs and recipes from strangers: each leaves a file behind if any of its code runs."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.robustness.attack_programs import Attack
from benchmarks.robustness.foreign_runs import (
    CHECKER,
    EVIL,
    MARKER,
    OPEN,
    RESUME,
    RUN,
    SEQUENCES,
    TINY,
    call,
    check_rejected,
    executed,
    foreign_run,
    tamper,
    working_as,
    write_recipe,
)
from steelyard.config.overrides import apply_overrides

AUTOMATON = {"constraint.kind": "automaton", "constraint.symbols": "words"}

# --- code in the configuration of a run ------------------------------------------------------------------------------


def _code_in_run(key: str, keys: Mapping[str, Any], commands: Sequence[Sequence[str]], folder: Path) -> str | None:
    folder = folder / "work"
    foreign_run(folder)
    with working_as(folder):
        tamper(keys)
        wrong = check_rejected(folder, commands, (key, "evil.py"))
        if wrong is not None:
            return wrong
        allowed = [call(*commands[0], "--trust"), call(*commands[0])]
        if any(answer.code for answer in allowed):
            return f"--trust does not work or is not remembered: {allowed}"
        return None if (folder / MARKER).exists() else "the attack is void: --trust executes nothing either"


def _in_domain(folder: Path) -> str | None:
    """Reference code in the theories domain's rewards, which every command that builds the domain would import."""
    folder = folder / "work"
    foreign_run(folder, SEQUENCES)
    with working_as(folder):
        options = {"reward": {"extra": {"evil:part": 1.0}}}
        tamper({"domain.name": "theories", "domain.options": options, "sampling.max_new_tokens": 40})
        Path("thing.txt").write_text("nothing\n", encoding="utf-8")
        files = (("verify", RUN, "thing.txt"), ("render", RUN, "thing.txt"), ("report", RUN, "thing.txt"))
        export = ("export", RUN, "thing.txt", "--out", "out.tex")
        drawn = (("render", RUN), ("report", RUN), ("plan", f"{RUN}/config.toml"), ("warmstart", f"{RUN}/config.toml"))
        commands = (*OPEN, *RESUME, *drawn, *files, export, ("judge", "train", f"{RUN}/config.toml"))
        return check_rejected(folder, commands, ("domain.options.reward.extra", "evil.py"))


def _unused_code(folder: Path) -> str | None:
    """Specify code as the advantage estimator, which only training needs: evaluation must not ask for trust."""
    folder = folder / "work"
    foreign_run(folder)
    with working_as(folder):
        tamper({"credit.advantage": "evil:advantage"})
        words = ("eval", RUN, "--verify.verifier", "checker:score")
        answer = call(*words)
        return executed(folder, answer, words) or (answer.output if answer.code else None)


def _any_class(folder: Path) -> str | None:
    """Check that a callable that is not an automaton is never called, with or without trust."""
    folder = folder / "work"
    foreign_run(folder)
    with working_as(folder):
        command = ["touch", str(folder / MARKER)]
        tamper({**AUTOMATON, "constraint.source": "subprocess:check_call", "constraint.options": {"args": command}})
        if wrong := check_rejected(
            folder, (*OPEN, *RESUME), ("constraint.source", "subprocess:check_call", "subprocess.py")
        ):
            return wrong
        words = ("eval", RUN, "--trust")
        answer = call(*words)
        if wrong := executed(folder, answer, words):
            return wrong
        return None if answer.code == 2 and "Automaton" in answer.output else f"--trust: {answer}"


# --- identity of a run -----------------------------------------------------------------------------------------------


def _returned_run(folder: Path) -> str | None:
    """Send the user's own run back in an archive, with its id but a different module of the same name."""
    mine, archive = folder / "mine", folder / "archive"
    foreign_run(mine)
    with working_as(mine):
        if (answer := call("eval", RUN, "--trust")).code:
            return answer.output
        if (answer := call("eval", RUN)).code:
            return f"not remembered: {answer.output}"
    shutil.copytree(mine, archive, ignore=shutil.ignore_patterns("__pycache__"))
    (archive / "checker.py").write_text(EVIL, encoding="utf-8")
    with working_as(archive):
        return check_rejected(archive, (*OPEN, *RESUME), ("verify.verifier", str(archive.resolve() / "checker.py")))


def _own_run(folder: Path) -> str | None:
    """Check, as a control, that users can evaluate and resume their own run without a prompt, even if it was moved."""
    folder = folder / "work"
    foreign_run(folder)
    with working_as(folder, "somebody else"):
        Path(RUN).rename("moved")
        for words in (("eval", "moved"), ("sample", "moved"), ("train", "--resume", "moved", "--run.steps", "2")):
            if (answer := call(*words)).code:
                return f"{' '.join(words)}: {answer.output}"
    return None


# --- recipes ---------------------------------------------------------------------------------------------------------


def _recipe_elsewhere(folder: Path) -> str | None:
    """Put a recipe in a subfolder of the working directory, with code next to it."""
    folder = folder / "work"
    with working_as(folder):
        Path("download").mkdir()
        Path("download/evil.py").write_text(EVIL, encoding="utf-8")
        Path("download/__init__.py").write_text(EVIL, encoding="utf-8")
        write_recipe(apply_overrides(TINY, {"verify.verifier": "download.evil:score"}), "download/recipe.toml")
        commands = (("check", "download/recipe.toml"), ("train", "download/recipe.toml"))
        return check_rejected(folder, commands, ("verify.verifier", "download.evil:score"))


def _recipe_in_project(name: str, keys: Mapping[str, Any], folder: Path) -> str | None:
    """Add a recipe that may name only the project's own modules."""
    folder = folder / "work"
    with working_as(folder):
        Path("checker.py").write_text(CHECKER, encoding="utf-8")
        write_recipe(apply_overrides(TINY, keys))
        return check_rejected(folder, (("check", "recipe.toml"), ("train", "recipe.toml")), (name,))


def _hostile_cluster(folder: Path) -> str | None:
    """Specify a Ray cluster, which can send arbitrary code to anyone who joins: nothing may connect to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        keys = {"verify.pool": "ray", "cluster.address": address}
        if wrong := _recipe_in_project("cluster.address", keys, folder):
            return wrong
        try:
            server.accept()
        except BlockingIOError:
            return None
        return f"a connection to {address} was made"


# --- files in a run folder -------------------------------------------------------------------------------------------


def _links(folder: Path) -> str | None:
    """Put links to a user's file in a run folder where resuming and reporting would write to them."""
    folder = folder / "work"
    foreign_run(folder, SEQUENCES)
    precious = folder.parent / "profile"
    precious.write_text("mine\n", encoding="utf-8")
    for name in (".config.toml.writing", "metrics.jsonl", "report.html", "looks"):
        with working_as(folder):
            link = Path(RUN) / name
            link.unlink(missing_ok=True)
            link.symlink_to(precious)
            words = (("train", "--resume", RUN, "--run.steps", "2"), ("report", RUN), ("render", RUN), ("eval", RUN))
            if wrong := check_rejected(folder, words, (name, str(precious.resolve()))):
                return wrong
            link.unlink()
        if precious.read_text(encoding="utf-8") != "mine\n":
            return f"{name} was followed"
    return None


def _dataset_script(folder: Path) -> str | None:
    folder = folder / "work"
    with working_as(folder):
        Path("checker.py").write_text(CHECKER, encoding="utf-8")
        Path("theirs").mkdir()
        Path("theirs/theirs.py").write_text(EVIL, encoding="utf-8")
        write_recipe(apply_overrides(TINY, {"tasks.prompts": None, "tasks.dataset": "./theirs"}))
        words = ("check", "recipe.toml")
        answer = call(*words)
        return executed(folder, answer, words) or (None if answer.code == 2 else f"it was read: {answer.output}")


def _shadowed_modules(folder: Path) -> str | None:
    """Put modules that shadow Python's own in the working directory: workers must not import them."""
    folder = folder / "work"
    foreign_run(folder, SEQUENCES)
    with working_as(folder):
        for name in ("json", "pickle", "socket", "numpy", "steelyard"):
            Path(f"{name}.py").write_text(EVIL, encoding="utf-8")
        words = ("eval", RUN, "--tasks", "1", "--k", "1", "--verify.pool", "processes", "--verify.workers", "1")
        answer = call(*words)
        return executed(folder, answer, words) or (answer.output if answer.code else None)


IN_RUN: dict[str, tuple[dict[str, Any], Sequence[Sequence[str]]]] = {
    "verify.verifier": ({"verify.verifier": "evil:score"}, (*OPEN, *RESUME)),
    "verify.verifiers.0.function": (
        {"verify": {"verifiers": [{"function": "evil:score"}], "pool": "inline"}},
        (*OPEN, *RESUME),
    ),
    "constraint.source": ({**AUTOMATON, "constraint.source": "evil:Anything"}, (*OPEN, *RESUME)),
    "credit.advantage": ({"credit.advantage": "evil:advantage"}, RESUME),
}
IN_PROJECT: dict[str, dict[str, Any]] = {
    "verify.verifier": {"verify.verifier": "subprocess:Popen"},
    "model.trust_remote_code": {"model.scratch": None, "model.path": "theirs/model", "model.trust_remote_code": True},
    "verify.cache": {"verify.cache": "/tmp/steelyard-attack.pth"},
}
ATTACKS = (
    *(Attack("run folder", f"code in {key}", partial(_code_in_run, key, *how)) for key, how in IN_RUN.items()),
    Attack("run folder", "code in domain.options", _in_domain),
    Attack("run folder", "code that is not needed", _unused_code),
    Attack("run folder", "a class that is not an automaton", _any_class),
    Attack("run folder", "the user's own run, returned with other code", _returned_run),
    Attack("run folder", "control: the user's own run", _own_run),
    Attack("run folder", "links to the user's files", _links),
    Attack("run folder", "modules named like Python's in the working folder", _shadowed_modules),
    Attack("recipe", "in another folder", _recipe_elsewhere),
    *(
        Attack("recipe", f"{key} in the project", partial(_recipe_in_project, key, own))
        for key, own in IN_PROJECT.items()
    ),
    Attack("recipe", "a hostile Ray cluster", _hostile_cluster),
    Attack("recipe", "a data set with a script", _dataset_script),
)
