"""The policy's side of an episode in ``verifiers``. No other module imports that package.

``verifiers`` runs an episode as a coroutine that requests completions from a model. Here the model is a
:class:`PolicyClient`, whose answer is the next turn of the policy. The event loop runs only while the environment
answers a turn, so the worker is idle between turns.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import httpx
import verifiers.v1 as vf  # pyright: ignore[reportMissingImports]
from verifiers.v1.configs.agent import agent_config_fields  # pyright: ignore[reportMissingImports]
from verifiers.v1.dialects import Dialect  # pyright: ignore[reportMissingImports]
from verifiers.v1.dialects.chat import ChatDialect, message_to_wire  # pyright: ignore[reportMissingImports]
from verifiers.v1.errors import model_error  # pyright: ignore[reportMissingImports]
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp  # pyright: ignore[reportMissingImports]
from verifiers.v1.interception import InterceptionServer  # pyright: ignore[reportMissingImports]
from verifiers.v1.types import content_text  # pyright: ignore[reportMissingImports]

from steelyard.errors import ConfigError
from steelyard.tools.calls import Call, InvalidCall, read_calls
from steelyard.types import Message

__all__ = ["PolicyHarness"]

HARNESS = "steelyard_policy"
"""Module name under which ``verifiers`` imports this module as a plug-in."""
sys.modules[HARNESS] = sys.modules[__name__]

INVALID = "invalid_call"
"""Name of the tool that represents a call that cannot be parsed; its result is the reason."""

POLICY = vf.TrainClientConfig(base_url="http://policy.invalid", api_key_var="STEELYARD_POLICY")
"""Client configuration that represents the policy; no request is sent to its address."""


@dataclass(frozen=True)
class Asked:
    """A request for a turn: the new messages of the conversation, and the tools."""

    messages: list[Message]
    tools: list[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    reward: float
    parts: dict[str, float] = field(default_factory=dict[str, float])


class PolicyHarness(vf.Harness[vf.HarnessConfig]):
    """Runs a chat loop with the task's tools in this process, without ``uv`` or a sandbox."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        system, prompt = self.resolve_prompt(data)
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        servers = {name: {"url": url, "timeout": self.config.tool_timeout} for name, url in mcp_urls.items()}
        async with AsyncExitStack() as stack:
            tools, dispatch, connections = await connect_mcp({"mcpServers": servers}, stack)
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=httpx.Timeout(None), trust_env=False))
            while True:
                body = {"model": ctx.model, "messages": messages, **({"tools": tools} if tools else {})}
                headers = {"Authorization": f"Bearer {secret}"}
                response = await client.post(f"{endpoint}/chat/completions", headers=headers, json=body)
                if response.status_code != httpx.codes.OK:
                    return vf.ProgramResult(exit_code=1, stdout="", stderr=response.text)
                message = response.json()["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    return vf.ProgramResult(exit_code=0, stdout="", stderr="")
                for called in message["tool_calls"]:
                    messages.append(await _run_tool(connections, dispatch, called))


async def _run_tool(connections: Any, dispatch: Mapping[str, Any], called: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = called["function"]["name"], json.loads(called["function"]["arguments"])
    if name == INVALID:
        content: Any = f"error: {arguments['reason']}"
    elif name not in dispatch:
        content = f"error: unknown tool {name!r}"
    else:
        content = await call_mcp(connections, dict(dispatch), name, arguments)
    return {"role": "tool", "tool_call_id": called["id"], "name": name, "content": content}


class PolicyClient(vf.Client):
    """Answers completion requests with the policy's turns; the trace id selects the episode."""

    def __init__(self) -> None:
        self.played: dict[str, Played] = {}

    async def get_response(
        self,
        dialect: Dialect,
        body: dict[str, Any],
        sampling: vf.SamplingConfig,
        session_id: str | None = None,
        turn: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> vf.Response:
        if not isinstance(dialect, ChatDialect):
            raise model_error(
                f"the policy supports only chat completions, not {dialect.upstream_path}", status_code=400
            )
        played = self.played[str(session_id)]
        text, cut = await played.ask(str(session_id), dialect.parse_request(body))
        raw = played.completion(text, cut=cut)
        response = dialect.parse_response(dialect.validate_response(raw))
        response.raw = raw
        return response


class Engine:
    """A ``verifiers`` environment that serves the sessions of one worker in its own event loop."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.loop = asyncio.new_event_loop()
        self.environment = vf.load_environment(_resolved(config))
        self.context = vf.ModelContext(model="policy", client=POLICY)
        self.client = PolicyClient()
        self._serving = self.environment.serving()
        self.loop.run_until_complete(self._serving.__aenter__())
        server = self.environment._interception
        if not isinstance(server, InterceptionServer):
            raise ConfigError(f"{self.environment.config.env_id}: interception must be of type 'server'")
        server.clients[POLICY.model_dump_json()] = self.client

    def close(self) -> None:
        """Stop the servers and the event loop."""
        self.loop.run_until_complete(self._serving.__aexit__(None, None, None))
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def play(self, data: Mapping[str, Any]) -> Played:
        """Start an episode of the task described by ``data``."""
        taskset = self.environment.taskset
        kind = type(taskset).task_type()
        return Played(self, kind(kind.data_type().model_validate(data), taskset.config.task))


class Played:
    """One episode."""

    def __init__(self, engine: Engine, task: vf.Task[Any, Any, Any]) -> None:
        self.engine = engine
        self.traces: list[vf.Trace] = []
        self._seat: str | None = None
        self._known = 0
        self._calls = 0
        self._stopped: str | None = None
        self._fault = ""
        self._asked: asyncio.Future[Asked] = engine.loop.create_future()
        self._answer: asyncio.Future[tuple[str, bool]] = engine.loop.create_future()
        running = engine.environment.run_episode(task, engine.context, on_trace=self._traced)
        self._episode = engine.loop.create_task(running)

    def advance(self) -> Asked | None:
        """Run until the environment requests a turn from the policy; return ``None`` if the episode has ended."""
        waiting = asyncio.wait({self._asked, self._episode}, return_when=asyncio.FIRST_COMPLETED)
        self.engine.loop.run_until_complete(waiting)
        if self._fault:
            raise RuntimeError(self._fault)
        if self._episode.done() or not self._asked.done():
            return None
        asked = self._asked.result()
        self._asked = self.engine.loop.create_future()
        return asked

    def answer(self, text: str, *, cut: bool = False) -> None:
        """Pass the policy's turn to the environment."""
        answered, self._answer = self._answer, self.engine.loop.create_future()
        answered.set_result((text, cut))

    def stop(self, text: str, limit: str) -> None:
        """End the episode at a limit; pass on the unfinished turn first, if there is one."""
        self._stopped = limit
        if text:
            self.answer(text, cut=True)
            return
        self._trace().stop(limit)
        self._answer.set_exception(model_error(f"the episode reached a limit: {limit}", status_code=400))

    @property
    def outcome(self) -> Outcome:
        """The rewards of the policy's seat; raises if the episode failed."""
        episode = self._episode.result()
        if not episode.ok:
            errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
            raise RuntimeError("; ".join(f"{error.type}: {error.message}" for error in errors) or "the episode failed")
        trace = self._trace()
        parts = {name: reward.value for name, reward in trace.rewards.items() if reward is not None}
        metrics = {name: float(value) for name, value in trace.metrics.items() if value is not None}
        return Outcome(float(trace.reward), {**metrics, **parts})

    def close(self) -> None:
        """Cancel the episode if it has not ended."""
        for trace in self.traces:
            self.engine.client.played.pop(trace.id, None)
        if not self._episode.done():
            self._episode.cancel()
            self.engine.loop.run_until_complete(asyncio.wait({self._episode}))

    async def ask(self, seat: str, request: vf.Request) -> tuple[str, bool]:
        """Wait for the policy's turn."""
        if self._seat not in (None, seat):
            await self._fail(
                "two seats request turns from the policy, which plays only one; set the model and client of the other"
            )
        if self._stopped is not None:
            self._trace().stop(self._stopped)
            raise model_error(f"the episode reached a limit: {self._stopped}", status_code=400)
        self._seat = seat
        fresh = request.messages[self._known :]
        if self._known and (not fresh or fresh[0].role != "assistant"):
            await self._fail(
                "the environment rewrote earlier messages of the conversation; an episode's turns must not change"
            )
        self._asked.set_result(Asked(_messages(fresh[1:] if self._known else fresh), _schemas(request.tools)))
        self._known = len(request.messages)
        return await self._answer

    async def _fail(self, reason: str) -> None:
        """Report the reason to the session and wait until the session closes the episode."""
        self._fault = reason
        self._asked.cancel()
        await asyncio.Event().wait()

    def completion(self, text: str, *, cut: bool) -> dict[str, Any]:
        """Return a turn as a chat completion."""
        calls = [] if cut else read_calls(text)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [self._tool_call(each) for each in calls]
        finish = "length" if cut else "tool_calls" if calls else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        head = {"id": "policy", "object": "chat.completion", "created": 0, "model": "policy"}
        return {**head, "choices": [choice], "usage": usage}

    def _tool_call(self, called: Call | InvalidCall) -> dict[str, Any]:
        self._calls += 1
        name, arguments = called if isinstance(called, Call) else (INVALID, called._asdict())
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"id": f"call-{self._calls}", "type": "function", "function": function}

    def _traced(self, trace: vf.Trace) -> None:
        self.traces.append(trace)
        self.engine.client.played[trace.id] = self

    def _trace(self) -> vf.Trace:
        return next(trace for trace in reversed(self.traces) if self._seat in (None, trace.id))


def task_data(config: Mapping[str, Any], first: int, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the prompt and data of ``count`` tasks of the taskset."""
    taskset = vf.load_taskset(_resolved(config).taskset)
    found = islice(iter(taskset), first, first + count)
    return [(task.data.prompt_text, task.data.model_dump(mode="json", exclude_none=True)) for task in found]


def _resolved(config: Mapping[str, Any]) -> vf.EnvConfig:
    """Return the configuration with this adapter's defaults in every seat that does not override them."""
    table = {**config, "interception": {"type": "server"}}
    kind = vf.env_config_type(str(config["taskset"]["id"]), str(config.get("id", "")))
    for name, declared in agent_config_fields(kind()).items():
        given = dict(table.get(name, {}))
        defaults: dict[str, Any] = {}
        if "runtime" not in declared.model_fields_set:
            defaults["runtime"] = {"type": "subprocess"}
        if declared.harness is None:
            defaults["harness"] = {"id": HARNESS}
        table[name] = {**defaults, **given}
    return vf.resolve_env_config(table)


def _messages(messages: Sequence[Any]) -> list[Message]:
    return [{"role": message.role, "content": content_text(message.content)} for message in messages]


def _schemas(tools: Sequence[vf.Tool] | None) -> list[dict[str, Any]]:
    return [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools or []]
