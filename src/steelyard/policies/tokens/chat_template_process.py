"""Renders chat templates in a separate process, with limits on memory and on CPU time per prompt.

``steelyard.policies.tokens.chat_template`` runs this file as a script. The script reads one JSON line per prompt
(arguments for the transformers renderer and the maximum length of the output) and answers with one JSON line. A prompt
that takes too long terminates the process with SIGPROF, which the kernel delivers even inside a single long operation
such as ``10 ** 10 ** 10``.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any


def main(seconds: float, memory: int) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    sizes = Path("/proc/self/statm")
    if sizes.is_file():  # without /proc, only CPU time and output are limited
        limit = int(sizes.read_text(encoding="ascii").split()[0]) * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and closes the pipe on exit
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answer = _answer(render_jinja_template, request)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(answer, flush=True)


def _answer(render: Any, request: dict[str, Any]) -> str:
    try:
        (text,), _ = render(**request["arguments"])
        if len(text) > request["max_characters"]:
            return json.dumps({"limit": f"{len(text)} characters"})
        return json.dumps({"text": text})
    except MemoryError:
        return json.dumps({"limit": "too much memory"})
    except Exception as error:  # noqa: BLE001 - a template may raise anything
        return json.dumps({"error": f"{type(error).__name__}: {error!s:.300}"})


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
