"""Renders chat templates with limits on memory and CPU time.

A template is a program that comes with a model: its loops can nest, its strings can double, and its behaviour may
depend on the messages. Every prompt is therefore rendered in a child process with limited memory and limited CPU time
per prompt. The child starts at the first chat prompt and exits with this process.
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

CPU_SECONDS = 10.0
"""CPU time limit per prompt."""
MEMORY_BYTES = 512 << 20
"""Limit on the address space in addition to that used by imports."""
EXTRA_CHARACTERS = 1 << 20
"""A template may output up to four times the length of its messages plus this many characters."""


def template_ids(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], *, answer_next: bool, tools: Sequence[Any] = ()
) -> list[int]:
    """Encode chat messages as ``tokenizer.apply_chat_template`` does; ``answer_next`` opens the assistant's turn."""
    text = render_chat(tokenizer, messages, answer_next=answer_next, tools=tools)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def render_chat(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], *, answer_next: bool, tools: Sequence[Any] = ()
) -> str:
    """Return chat messages as the template writes them; ``answer_next`` opens the assistant's turn.

    ``tools``: their schemas, for a template that lists tools.
    """
    owner = tokenizer.name_or_path or "this model"
    plain = [dict(message) for message in messages]
    arguments = {
        **tokenizer.special_tokens_map,
        "conversations": [plain],
        "chat_template": tokenizer.get_chat_template(tools=list(tools) or None),
        "add_generation_prompt": answer_next,
    }
    if tools:
        arguments["tools"] = list(tools)
    limit = EXTRA_CHARACTERS + 4 * sum(len(text) for message in plain for text in message.values())
    answer = _renderer.render({"arguments": arguments, "max_characters": limit})
    if "limit" in answer:
        raise PolicyError(
            f"the chat template of {owner} exceeded a limit on a prompt of {len(plain)} messages: {answer['limit']} "
            f"(limits: {CPU_SECONDS:g} s of CPU time, {MEMORY_BYTES >> 20} MB, {limit} characters); correct "
            "chat_template in the tokenizer's files, or pass prompts as strings, which need no template"
        )
    if "error" in answer:
        raise PolicyError(
            f"the chat template of {owner} failed: {answer['error']}; "
            "change the messages accordingly, or correct chat_template in the tokenizer's files"
        )
    return answer["text"]


class Renderer:
    """The child process that renders templates. The process is restarted if a template terminates it."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # a forked child must not share its parent's pipes
        atexit.register(self.close)

    def render(self, request: Mapping[str, Any]) -> dict[str, str]:
        with self._lock:
            process = self._process = self._process or _start_process()
            try:
                line = _exchange(process, json.dumps(request) + "\n")
            except BaseException:  # the next prompt must not receive this answer
                self.close()
                raise
            if line.endswith("\n"):
                return json.loads(line)
            self.close()
            return _describe_exit(process.returncode)

    def close(self) -> None:
        """Terminate the child process if it is running; the exit code of a finished child is preserved."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        process.stdout.close()
        with suppress(BrokenPipeError):  # part of the prompt may still be unsent
            process.stdin.close()

    def _forget(self) -> None:
        self._lock, self._process = threading.Lock(), None


def _exchange(process: Any, line: str) -> str:
    """Send one line and return the answer, or an empty string if the process ended."""
    try:
        process.stdin.write(line)
        process.stdin.flush()
    except BrokenPipeError:
        return ""
    return process.stdout.readline()


def _describe_exit(code: int) -> dict[str, str]:
    if code >= 0:
        return {"error": f"its process ended with exit code {code}"}
    name = signal.Signals(-code).name
    return {"limit": "too much CPU time" if name == "SIGPROF" else f"its process ended with {name}"}


def _start_process() -> Any:
    script = Path(__file__).with_name("chat_template_process.py")
    return subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-P", str(script), str(CPU_SECONDS), str(MEMORY_BYTES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


_renderer = Renderer()
