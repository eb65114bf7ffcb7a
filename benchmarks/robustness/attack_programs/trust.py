"""Runs and recipes that came from elsewhere: each would leave a file behind if anything that it brings were executed.

Somebody else trains a small run with a state folder of their own, and changes it. The user opens it with the command
line, in this process, and has agreed to nothing.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from benchmarks.robustness.attack_programs import Attack
from steelyard.cli import main
from steelyard.config.loading import read_tables
from steelyard.config.overrides import apply_overrides

MARKER = "EXECUTED"
"""The file that executed code leaves in the folder of the attack."""
CHECKER = "def score(task, text):\n    return len(text.split())\n"
EVIL = """\
from pathlib import Path
Path(__file__).resolve().with_name("EXECUTED").touch()

from steelyard.constraints.automaton import Automaton

def score(task, text):
    return len(text.split())

def part(found):
    return 0.0

def advantage(reward_M, group_M):
    return reward_M - reward_M.mean()

class Anything(Automaton):
    def start(self, task):
        return 0
    def moves(self, state):
        return {"a": 0, "b": 0}
    def may_end(self, state):
        return True
"""
TINY: dict[str, Any] = {
    "run": {"name": "theirs", "steps": 1},
    "model": {
        "device": "cpu",
        "scratch": {
            "layers": 1,
            "width": 16,
            "heads": 2,
            "kv_heads": 1,
            "max_length": 32,
            "vocabulary": ["a", "b", "<unused>"],
        },
    },
    "tasks": {"prompts": ["a", "b", "a b", "b a"], "held_out": 2},
    "verify": {"verifier": "checker:score", "pool": "inline"},
    "sampling": {"max_new_tokens": 4, "group_size": 2, "tasks_per_step": 2},
    "optimiser": {"warmup_steps": 0},
    "tracking": {"console": False, "samples_every": 0},
}
SEQUENCES: dict[str, Any] = {
    **{name: TINY[name] for name in ("run", "optimiser", "tracking")},
    "model": {"device": "cpu", "scratch": {**TINY["model"]["scratch"], "max_length": 64}},
    "sampling": {"max_new_tokens": 8, "group_size": 2, "tasks_per_step": 1},
    "domain": {"name": "sequences"},
}
del SEQUENCES["model"]["scratch"]["vocabulary"]
RUN = "runs/theirs"


class Answer(NamedTuple):
    code: int
    said: str


@contextmanager
def _user(folder: Path, who: str = "user") -> Iterator[None]:
    """Somebody at work in a folder, with agreements of their own; modules imported from there are forgotten again."""
    here, path, before, state = Path.cwd(), list(sys.path), set(sys.modules), os.environ.get("XDG_STATE_HOME")
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    os.environ["XDG_STATE_HOME"] = str(folder.parent / f"state of {who}")
    try:
        yield
    finally:
        os.chdir(here)
        sys.path[:] = path
        del os.environ["XDG_STATE_HOME"]
        os.environ.update({} if state is None else {"XDG_STATE_HOME": state})
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder.resolve())):
                del sys.modules[name]


def _call(*words: str) -> Answer:
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = main(words)
    return Answer(code, said.getvalue())


def _write_recipe(tables: Mapping[str, Any], path: str = "recipe.toml") -> None:
    """Keys that are ``None`` are left out."""
    plain = {name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()}
    Path(path).write_text(tomli_w.dumps(plain), encoding="utf-8")


def _foreign_run(folder: Path, tables: Mapping[str, Any] = TINY) -> None:
    """A run that somebody else trained, in the working folder of whoever opens it."""
    with _user(folder, "somebody else"):
        Path("checker.py").write_text(CHECKER, encoding="utf-8")
        _write_recipe(tables)
        answer = _call("train", "recipe.toml")
        if answer.code:
            raise RuntimeError(answer.said)
        Path("recipe.toml").unlink()


def _tamper(keys: Mapping[str, Any]) -> None:
    """Change the run's configuration, and bring the code that it then names."""
    config = Path(RUN) / "config.toml"
    _write_recipe(apply_overrides(read_tables(config), keys), str(config))
    Path("evil.py").write_text(EVIL, encoding="utf-8")


def _executed(folder: Path, answer: Answer, words: Sequence[str]) -> str | None:
    found = [str(path) for path in folder.parent.rglob(MARKER)]
    return f"{' '.join(words)} executed it ({', '.join(found)}): {answer.said}" if found else None


def _refused(folder: Path, commands: Sequence[Sequence[str]], naming: Sequence[str]) -> str | None:
    """Every command ends with a message that names what would be executed, and ``--trust``."""
    for words in commands:
        answer = _call(*words)
        if wrong := _executed(folder, answer, words):
            return wrong
        missing = [word for word in (*naming, "--trust") if word not in answer.said]
        if answer.code != 2 or missing:
            return f"{' '.join(words)} ended with {answer.code}, without {missing}: {answer.said}"
    return None


# --- code in the configuration of a run ------------------------------------------------------------------------------

OPEN = (("eval", RUN), ("sample", RUN), ("check", f"{RUN}/config.toml"))
RESUME = (("train", "--resume", RUN), ("train", f"{RUN}/config.toml", "--run.name", "again"))
AUTOMATON = {"constraint.kind": "automaton", "constraint.over": "words"}


def _code_in_run(key: str, keys: Mapping[str, Any], commands: Sequence[Sequence[str]], folder: Path) -> str | None:
    folder = folder / "work"
    _foreign_run(folder)
    with _user(folder):
        _tamper(keys)
        wrong = _refused(folder, commands, (key, "evil.py"))
        if wrong is not None:
            return wrong
        allowed = [_call(*commands[0], "--trust"), _call(*commands[0])]
        if any(answer.code for answer in allowed):
            return f"with --trust it does not work, or is not remembered: {allowed}"
        return None if (folder / MARKER).exists() else "the attack is none: with --trust nothing is executed either"


def _in_domain(folder: Path) -> str | None:
    """Names of rewards of the theories, which every command that makes the domain would import."""
    folder = folder / "work"
    _foreign_run(folder, SEQUENCES)
    with _user(folder):
        options = {"reward": {"extra": {"evil:part": 1.0}}}
        _tamper({"domain.name": "theories", "domain.options": options, "sampling.max_new_tokens": 40})
        Path("thing.txt").write_text("nothing\n", encoding="utf-8")
        files = (("verify", RUN, "thing.txt"), ("render", RUN, "thing.txt"), ("report", RUN, "thing.txt"))
        export = ("export", RUN, "thing.txt", "--out", "out.tex")
        drawn = (("render", RUN), ("report", RUN), ("plan", f"{RUN}/config.toml"), ("warmstart", f"{RUN}/config.toml"))
        commands = (*OPEN, *RESUME, *drawn, *files, export, ("judge", "train", f"{RUN}/config.toml"))
        return _refused(folder, commands, ("domain.options.reward.extra", "evil.py"))


def _unused_code(folder: Path) -> str | None:
    """An estimator of advantages is needed for training alone: without it nobody is asked."""
    folder = folder / "work"
    _foreign_run(folder)
    with _user(folder):
        _tamper({"credit.advantage": "evil:advantage"})
        words = ("eval", RUN, "--verify.verifier", "checker:score")
        answer = _call(*words)
        return _executed(folder, answer, words) or (answer.said if answer.code else None)


def _any_class(folder: Path) -> str | None:
    """Trusted or not, what is no automaton is not called."""
    folder = folder / "work"
    _foreign_run(folder)
    with _user(folder):
        command = ["touch", str(folder / MARKER)]
        _tamper({**AUTOMATON, "constraint.source": "subprocess:check_call", "constraint.options": {"args": command}})
        if wrong := _refused(folder, (*OPEN, *RESUME), ("constraint.source", "subprocess:check_call", "subprocess.py")):
            return wrong
        words = ("eval", RUN, "--trust")
        answer = _call(*words)
        if wrong := _executed(folder, answer, words):
            return wrong
        return None if answer.code == 2 and "Automaton" in answer.said else f"--trust: {answer}"


# --- what cannot be forged -------------------------------------------------------------------------------------------


def _returned_run(folder: Path) -> str | None:
    """The user's own run comes back in an archive, with its id and with another module of the same name."""
    mine, archive = folder / "mine", folder / "archive"
    _foreign_run(mine)
    with _user(mine):
        if (answer := _call("eval", RUN, "--trust")).code:
            return answer.said
        if (answer := _call("eval", RUN)).code:
            return f"not remembered: {answer.said}"
    shutil.copytree(mine, archive, ignore=shutil.ignore_patterns("__pycache__"))
    (archive / "checker.py").write_text(EVIL, encoding="utf-8")
    with _user(archive):
        return _refused(archive, (*OPEN, *RESUME), ("verify.verifier", str(archive.resolve() / "checker.py")))


def _own_run(folder: Path) -> str | None:
    """No attack: whoever trained a run evaluates and resumes it without a question, also after it was moved."""
    folder = folder / "work"
    _foreign_run(folder)
    with _user(folder, "somebody else"):
        Path(RUN).rename("moved")
        for words in (("eval", "moved"), ("sample", "moved"), ("train", "--resume", "moved", "--run.steps", "2")):
            if (answer := _call(*words)).code:
                return f"{' '.join(words)}: {answer.said}"
    return None


# --- recipes ---------------------------------------------------------------------------------------------------------


def _recipe_elsewhere(folder: Path) -> str | None:
    """A recipe in a folder below the working folder, with code next to it."""
    folder = folder / "work"
    with _user(folder):
        Path("download").mkdir()
        Path("download/evil.py").write_text(EVIL, encoding="utf-8")
        Path("download/__init__.py").write_text(EVIL, encoding="utf-8")
        _write_recipe(apply_overrides(TINY, {"verify.verifier": "download.evil:score"}), "download/recipe.toml")
        commands = (("check", "download/recipe.toml"), ("train", "download/recipe.toml"))
        return _refused(folder, commands, ("verify.verifier", "download.evil:score"))


def _recipe_in_project(name: str, keys: Mapping[str, Any], folder: Path) -> str | None:
    """A recipe that was put into the project: it may name the project's own modules, and nothing else."""
    folder = folder / "work"
    with _user(folder):
        Path("checker.py").write_text(CHECKER, encoding="utf-8")
        _write_recipe(apply_overrides(TINY, keys))
        return _refused(folder, (("check", "recipe.toml"), ("train", "recipe.toml")), (name,))


def _hostile_cluster(folder: Path) -> str | None:
    """A Ray cluster sends what it likes to whoever joins it: nobody connects to the one that a recipe names."""
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
        return f"somebody connected to {address}"


# --- files in a run folder -------------------------------------------------------------------------------------------


def _links(folder: Path) -> str | None:
    """Links in a run folder to a file of the user's, which resuming and reporting would write to."""
    folder = folder / "work"
    _foreign_run(folder, SEQUENCES)
    precious = folder.parent / "profile"
    precious.write_text("mine\n", encoding="utf-8")
    for name in (".config.toml.writing", "metrics.jsonl", "report.html", "looks"):
        with _user(folder):
            link = Path(RUN) / name
            link.unlink(missing_ok=True)
            link.symlink_to(precious)
            words = (("train", "--resume", RUN, "--run.steps", "2"), ("report", RUN), ("render", RUN), ("eval", RUN))
            if wrong := _refused(folder, words, (name, str(precious.resolve()))):
                return wrong
            link.unlink()
        if precious.read_text(encoding="utf-8") != "mine\n":
            return f"{name} was followed"
    return None


class _Bomb:
    """Pickled, it creates a file when it is loaded."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.marker),)


def _model_folder(change: Callable[[Path, Path], None], names: Mapping[str, Any], folder: Path) -> str | None:
    """A model that comes with the run, with code in it or pickled; the run begins with it."""
    folder = folder / "work"
    _foreign_run(folder)
    with _user(folder):
        model = Path("model")
        shutil.copytree(Path(RUN) / "checkpoints/step-00000001/model", model)
        change(model, folder / MARKER)
        _tamper({"model.scratch": None, "model.path": "model", "verify.verifier": "checker:score", **names})
        Path("evil.py").unlink()
        commands = [[*words, "--verify.verifier", "checker:score"] for words in (*OPEN[:2], *RESUME[:1])]
        if "model.trust_remote_code" in names:
            return _refused(folder, commands, ("model.trust_remote_code", str(model.resolve())))
        for words in commands:
            try:
                answer = _call(*words)
            except Exception as error:  # noqa: BLE001 - that it fails is right, how it fails is not looked at here
                answer = Answer(1, repr(error))
            if wrong := _executed(folder, answer, words):
                return wrong
    return None


def _own_code(model: Path, marker: Path) -> None:
    """``trust_remote_code`` runs ``modeling.py``."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    own = {"AutoConfig": "modeling.Config", "AutoModelForCausalLM": "modeling.Model"}
    settings = {**config, "model_type": "theirs", "auto_map": own}
    (model / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    program = f"open({str(marker)!r}, 'w')\nfrom transformers import LlamaConfig as Config, LlamaForCausalLM as Model\n"
    (model / "modeling.py").write_text(program, encoding="utf-8")
    tokenizer = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokenizer["auto_map"] = {"AutoTokenizer": ["modeling.Tokenizer", "modeling.Tokenizer"]}
    (model / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")


def _pickled_weights(model: Path, marker: Path) -> None:
    for file in model.glob("*.safetensors"):
        file.unlink()
    (model / "pytorch_model.bin").write_bytes(pickle.dumps({"model.norm.weight": _Bomb(marker)}))


def _pickled_adapter(folder: Path) -> str | None:
    """An adapter as a pickle, whose settings name a module to import."""
    folder = folder / "work"
    _foreign_run(folder, apply_overrides(TINY, {"model.lora": {"rank": 2}}))
    with _user(folder):
        adapter = Path("adapter")
        shutil.copytree(Path(RUN) / "checkpoints/step-00000001/model", adapter)
        (adapter / "adapter_model.safetensors").unlink()
        (adapter / "adapter_model.bin").write_bytes(pickle.dumps({"weight": _Bomb(folder / MARKER)}))
        settings = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
        settings |= {"megatron_config": {"hidden_size": 1}, "megatron_core": "evil"}
        (adapter / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
        _tamper({"model.lora.adapter": "adapter"})
        sys.path.insert(0, str(folder))
        for words in (*OPEN[:2], *RESUME[:1]):
            typed = [*words, "--verify.verifier", "checker:score"]
            try:
                answer = _call(*typed)
            except Exception as error:  # noqa: BLE001
                answer = Answer(1, repr(error))
            if wrong := _executed(folder, answer, typed):
                return wrong
            if answer.code == 0:
                return f"the adapter was loaded: {answer.said}"
    return None


def _hub_kernel(model: Path, _marker: Path) -> None:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps({**config, "attn_implementation": "theirs/kernel"}), encoding="utf-8")


def _chat_template(folder: Path) -> str | None:
    """A template that reaches for ``os`` when it formats messages."""
    folder = folder / "work"
    _foreign_run(folder)
    with _user(folder):
        shutil.copytree(Path(RUN) / "checkpoints/step-00000001/model", "model")
        path = Path("model/tokenizer_config.json")
        settings = json.loads(path.read_text(encoding="utf-8"))
        template = f"{{{{ cycler.__init__.__globals__.os.mkdir({str(folder / MARKER)!r}) }}}}a"
        path.write_text(json.dumps({**settings, "chat_template": template}), encoding="utf-8")
        words = (
            "sample",
            "model",
            "--prompt",
            "a",
            "--chat",
            "--sampling.max_new_tokens",
            "4",
            "--model.device",
            "cpu",
        )
        try:
            answer = _call(*words)
        except Exception as error:  # noqa: BLE001
            answer = Answer(1, repr(error))
        return _executed(folder, answer, words) or (None if answer.code else f"the template was used: {answer.said}")


def _pickled_checkpoint(folder: Path) -> str | None:
    """Files that another program would unpickle, next to those that are read."""
    folder = folder / "work"
    _foreign_run(folder)
    with _user(folder):
        bomb = pickle.dumps(_Bomb(folder / MARKER))
        step = Path(RUN) / "checkpoints/step-00000001"
        for place in (step, step / "model"):
            for name in (".metadata", "pytorch_model.bin", "optimizer.pt", "training_args.bin"):
                (place / name).write_bytes(bomb)
        for words in (("eval", RUN), ("train", "--resume", RUN, "--run.steps", "2")):
            answer = _call(*words, "--verify.verifier", "checker:score")
            if wrong := _executed(folder, answer, words):
                return wrong
    return None


def _dataset_script(folder: Path) -> str | None:
    folder = folder / "work"
    with _user(folder):
        Path("checker.py").write_text(CHECKER, encoding="utf-8")
        Path("theirs").mkdir()
        Path("theirs/theirs.py").write_text(EVIL, encoding="utf-8")
        _write_recipe(apply_overrides(TINY, {"tasks.prompts": None, "tasks.dataset": "./theirs"}))
        words = ("check", "recipe.toml")
        answer = _call(*words)
        return _executed(folder, answer, words) or (None if answer.code == 2 else f"it was read: {answer.said}")


def _shadowed_modules(folder: Path) -> str | None:
    """Modules named like those of Python, in the folder that the user works in: workers do not import them."""
    folder = folder / "work"
    _foreign_run(folder, SEQUENCES)
    with _user(folder):
        for name in ("json", "pickle", "socket", "numpy", "steelyard"):
            Path(f"{name}.py").write_text(EVIL, encoding="utf-8")
        words = ("eval", RUN, "--tasks", "1", "--k", "1", "--verify.pool", "processes", "--verify.workers", "1")
        answer = _call(*words)
        return _executed(folder, answer, words) or (answer.said if answer.code else None)


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
    Attack("run folder", "no attack: the user's own run", _own_run),
    Attack("run folder", "links to files of the user's", _links),
    Attack("run folder", "pickles in a checkpoint", _pickled_checkpoint),
    Attack("run folder", "modules named like Python's in the working folder", _shadowed_modules),
    Attack("recipe", "from a folder of its own", _recipe_elsewhere),
    *(
        Attack("recipe", f"{key} in the project", partial(_recipe_in_project, key, own))
        for key, own in IN_PROJECT.items()
    ),
    Attack("recipe", "a hostile Ray cluster", _hostile_cluster),
    Attack("recipe", "a data set with a script", _dataset_script),
    Attack("model", "trust_remote_code", partial(_model_folder, _own_code, {"model.trust_remote_code": True})),
    Attack("model", "code of its own", partial(_model_folder, _own_code, {})),
    Attack("model", "pickled weights", partial(_model_folder, _pickled_weights, {})),
    Attack("model", "a pickled adapter that names a module", _pickled_adapter),
    Attack("model", "a kernel from the hub", partial(_model_folder, _hub_kernel, {})),
    Attack("model", "a chat template that reaches for os", _chat_template),
)
