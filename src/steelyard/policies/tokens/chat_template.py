"""Chat templates, rendered with bounded work.

A template is a program that comes with a model: its loops can nest and its strings can double, and what it does may
depend on the messages. So every prompt is rendered in a child process that has a limit of memory and, per prompt, of
CPU time. The child starts with the first chat prompt and ends with this process.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from steelyard.errors import PolicyError

SECONDS = 10.0
"""CPU time per prompt."""
MEMORY = 512 << 20
"""Address space beyond what the imports take."""
ADDED = 1 << 20
"""How many characters a template may add to four times those of its messages."""


def template_ids(tokenizer: Any, messages: Sequence[Mapping[str, str]], *, answer_next: bool) -> list[int]:
    """Token ids of chat messages, as ``tokenizer.apply_chat_template`` has them; ``answer_next`` opens the
    assistant's turn.
    """
    owner = tokenizer.name_or_path or "this model"
    plain = [dict(message) for message in messages]
    arguments = {
        **tokenizer.special_tokens_map,
        "conversations": [plain],
        "chat_template": tokenizer.get_chat_template(),
        "add_generation_prompt": answer_next,
    }
    most = ADDED + 4 * sum(len(text) for message in plain for text in message.values())
    answer = _renderer.ask({"arguments": arguments, "most": most})
    if "too_much" in answer:
        raise PolicyError(
            f"the chat template of {owner} does too much work for a prompt of {len(plain)} messages: "
            f"{answer['too_much']} (at most {SECONDS:g} s of CPU time, {MEMORY >> 20} MB and {most} characters); "
            "correct chat_template in the tokenizer's files, or give prompts as strings, which need no template"
        )
    if "error" in answer:
        raise PolicyError(
            f"the chat template of {owner} failed: {answer['error']}; "
            "change the messages as it asks, or correct chat_template in the tokenizer's files"
        )
    return tokenizer(answer["text"], add_special_tokens=False)["input_ids"]


class Renderer:
    """The child process; it is started again after a template ended it."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # a fork must not share its parent's pipes
        atexit.register(self.close)

    def ask(self, request: Mapping[str, Any]) -> dict[str, str]:
        with self._lock:
            process = self._process = self._process or _started()
            try:
                line = _asked(process, json.dumps(request) + "\n")
            except BaseException:  # interrupted before the answer, which the next prompt must not get
                self.close()
                raise
            if line.endswith("\n"):
                return json.loads(line)
            self.close()
            return _ending(process.returncode)

    def close(self) -> None:
        """End the child, if there is one; its exit code stays what it was if it has ended already."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        process.stdout.close()
        with suppress(BrokenPipeError):  # part of a prompt may be left in it
            process.stdin.close()

    def _forget(self) -> None:
        self._lock, self._process = threading.Lock(), None


def _asked(process: Any, line: str) -> str:
    """The answer to one line; empty if the process ended."""
    try:
        process.stdin.write(line)
        process.stdin.flush()
    except BrokenPipeError:
        return ""
    return process.stdout.readline()


def _ending(code: int) -> dict[str, str]:
    if code >= 0:
        return {"error": f"its process ended with exit code {code}"}
    name = signal.Signals(-code).name
    return {"too_much": "more CPU time than it may have" if name == "SIGPROF" else f"its process ended with {name}"}


def _started() -> Any:
    script = Path(__file__).with_name("chat_template_process.py")
    return subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-P", str(script), str(SECONDS), str(MEMORY)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


_renderer = Renderer()
