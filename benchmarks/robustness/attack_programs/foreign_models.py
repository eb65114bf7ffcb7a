"""Models, adapters and checkpoints from strangers: each leaves a file behind if any of its code runs."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.robustness.attack_programs import Attack
from benchmarks.robustness.foreign_runs import (
    MARKER,
    OPEN,
    RESUME,
    RUN,
    TINY,
    Answer,
    call,
    check_rejected,
    executed,
    foreign_run,
    tamper,
    working_as,
)
from steelyard.config.overrides import apply_overrides


class _Bomb:
    """Creates a folder when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.marker),)


def _model_folder(change: Callable[[Path, Path], None], names: Mapping[str, Any], folder: Path) -> str | None:
    """Start the run from a bundled model that contains code or pickles."""
    folder = folder / "work"
    foreign_run(folder)
    with working_as(folder):
        model = Path("model")
        shutil.copytree(Path(RUN) / "checkpoints/step-00000001/model", model)
        change(model, folder / MARKER)
        tamper({"model.scratch": None, "model.path": "model", "verify.verifier": "checker:score", **names})
        Path("evil.py").unlink()
        commands = [[*words, "--verify.verifier", "checker:score"] for words in (*OPEN[:2], *RESUME[:1])]
        if "model.trust_remote_code" in names:
            return check_rejected(folder, commands, ("model.trust_remote_code", str(model.resolve())))
        for words in commands:
            try:
                answer = call(*words)
            except Exception as error:  # noqa: BLE001 - it must fail; how it fails is not checked here
                answer = Answer(1, repr(error))
            if wrong := executed(folder, answer, words):
                return wrong
    return None


def _own_code(model: Path, marker: Path) -> None:
    """Add a ``modeling.py`` that ``trust_remote_code`` would run."""
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
    """Use a pickled adapter whose settings name a module to import."""
    folder = folder / "work"
    foreign_run(folder, apply_overrides(TINY, {"model.lora": {"rank": 2}}))
    with working_as(folder):
        adapter = Path("adapter")
        shutil.copytree(Path(RUN) / "checkpoints/step-00000001/model", adapter)
        (adapter / "adapter_model.safetensors").unlink()
        (adapter / "adapter_model.bin").write_bytes(pickle.dumps({"weight": _Bomb(folder / MARKER)}))
        settings = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
        settings |= {"megatron_config": {"hidden_size": 1}, "megatron_core": "evil"}
        (adapter / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
        tamper({"model.lora.adapter": "adapter"})
        sys.path.insert(0, str(folder))
        for words in (*OPEN[:2], *RESUME[:1]):
            typed = [*words, "--verify.verifier", "checker:score"]
            try:
                answer = call(*typed)
            except Exception as error:  # noqa: BLE001
                answer = Answer(1, repr(error))
            if wrong := executed(folder, answer, typed):
                return wrong
            if answer.code == 0:
                return f"the adapter was loaded: {answer.output}"
    return None


def _hub_kernel(model: Path, _marker: Path) -> None:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps({**config, "attn_implementation": "theirs/kernel"}), encoding="utf-8")


def _chat_template(folder: Path) -> str | None:
    """Use a chat template that accesses ``os`` when it formats messages."""
    folder = folder / "work"
    foreign_run(folder)
    with working_as(folder):
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
            answer = call(*words)
        except Exception as error:  # noqa: BLE001
            answer = Answer(1, repr(error))
        return executed(folder, answer, words) or (None if answer.code else f"the template was used: {answer.output}")


def _pickled_checkpoint(folder: Path) -> str | None:
    """Add pickle files that other programs would load next to the files Steelyard reads."""
    folder = folder / "work"
    foreign_run(folder)
    with working_as(folder):
        bomb = pickle.dumps(_Bomb(folder / MARKER))
        step = Path(RUN) / "checkpoints/step-00000001"
        for place in (step, step / "model"):
            for name in (".metadata", "pytorch_model.bin", "optimizer.pt", "training_args.bin"):
                (place / name).write_bytes(bomb)
        for words in (("eval", RUN), ("train", "--resume", RUN, "--run.steps", "2")):
            answer = call(*words, "--verify.verifier", "checker:score")
            if wrong := executed(folder, answer, words):
                return wrong
    return None


ATTACKS = (
    Attack("run folder", "pickles in a checkpoint", _pickled_checkpoint),
    Attack("model", "trust_remote_code", partial(_model_folder, _own_code, {"model.trust_remote_code": True})),
    Attack("model", "custom code", partial(_model_folder, _own_code, {})),
    Attack("model", "pickled weights", partial(_model_folder, _pickled_weights, {})),
    Attack("model", "a pickled adapter that names a module", _pickled_adapter),
    Attack("model", "a kernel from the hub", partial(_model_folder, _hub_kernel, {})),
    Attack("model", "a chat template that reaches for os", _chat_template),
)
