"""Runs the code of docs/serving.md on a tiny model that was trained and exported."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import steelyard
from steelyard.cli import main
from steelyard.constraints.base import members
from steelyard.constraints.grammar import GrammarConstraint
from steelyard.constraints.grammar.sources import parsed, unbounded_text
from steelyard.policies.tokens import chat_template
from tests.gguf_files import write_gguf
from tests.grammars import TASK, grammar, small_table

pytest.importorskip("gguf", reason="the extra gguf is not installed")
PAGE = Path(__file__).parents[3] / "docs" / "serving.md"
PATTERN = "[0-9]{1,3}"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory with `plus`, exported with the command on the page."""
    place, before = tmp_path_factory.mktemp("serving"), Path.cwd()
    os.chdir(place)
    shape = LlamaConfig(
        vocab_size=262, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    write_gguf(place / "tiny.gguf", LlamaForCausalLM(shape))
    steelyard.train(
        model={"path": "tiny.gguf", "lora": {"rank": 2}},
        tasks={"rows": [{"a": 1, "b": 2}], "template": "What is {a} plus {b}?", "system": "Answer with a number."},
        verifier=lambda task, text: len(text) / 3,
        constraint={"kind": "regex", "source": PATTERN},
        sampling={"tasks_per_step": 1, "group_size": 4, "max_new_tokens": 4},
        verify={"pool": "inline"},
        run={"name": "plus", "steps": 2},
        tracking={"console": False},
    )
    (command,) = blocks("sh")
    assert main(command.split()[1:]) == 0
    yield place
    os.chdir(before)
    chat_template._renderer.close()


def test_transformers_opens_the_exported_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks("python")[0], str(PAGE), "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_vllm_serves_the_model_and_obeys_the_constraint(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    vllm: Any = pytest.importorskip("vllm", reason="vLLM is not installed (docs/vllm.md)")
    from steelyard.sampling.vllm.engine import Engine, require_vllm

    require_vllm()
    small = {"enforce_eager": True, "max_num_seqs": 2, "kv_cache_memory_bytes": 1 << 26}
    monkeypatch.setattr(torch, "set_num_threads", torch.set_num_threads)  # vLLM replaces this function
    monkeypatch.setattr(vllm, "LLM", partial(vllm.LLM, **small))  # no compilation, little memory
    _, free, within = blocks("python")
    names: dict[str, Any] = {}
    try:
        exec(compile(free, str(PAGE), "exec"), names)
        assert capsys.readouterr().out
        pytest.importorskip("lmformatenforcer", reason="vLLM imports it for structured outputs (docs/vllm.md)")
        for _ in range(4):
            exec(compile(within, str(PAGE), "exec"), names)
            assert re.fullmatch(PATTERN, capsys.readouterr().out.strip())
    finally:
        if "llm" in names:
            Engine(names.pop("llm")).close()


SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": [1, "x y"]}, "b": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("kind", "source"),
    [("regex", "(ab|c)[0-1]{1,2}"), ("json_schema", SCHEMA), ("choices", ["red", "re", "green"])],
)
def test_the_exported_grammar_has_exactly_the_texts_of_the_constraint(kind: Any, source: Any) -> None:
    """The grammar is passed to llguidance as vLLM would pass it; the texts accepted by each side are enumerated."""
    import llguidance

    table = small_table()
    ours = texts_of(grammar(table, kind, source))
    text = unbounded_text(kind, parsed(kind, source))
    matcher = llguidance.LLMatcher(table.engine, llguidance.grammar_from("grammar", text))
    theirs = {table.engine.decode_bytes(tokens).decode() for tokens in sentences(matcher, table.end_id)}
    assert ours == theirs
    assert len(ours) >= 3
    if kind == "json_schema":
        assert '{"a":"x y","b":true}' in ours
        assert all(json.loads(one) for one in ours)
        loose = llguidance.LLMatcher(table.engine, llguidance.LLMatcher.grammar_from_json_schema(json.dumps(SCHEMA)))
        assert loose.try_consume_tokens(table.encode('{ "a": 1}')) > 2, "vLLM's json= allows white space"


def texts_of(constraint: GrammarConstraint, left: int = 40) -> set[str]:
    """Return every text that a constraint allows."""
    table, found, open_ends = constraint.table, set[str](), [list[int]()]
    while open_ends:
        tokens = open_ends.pop()
        walk = constraint.begin(TASK)
        for token in tokens:
            walk.advance(token)
        forced = list(walk.forced(left - len(tokens)))
        for run in [forced] if forced else [[token] for token in members(walk.allowed(left - len(tokens))).tolist()]:
            if run[-1] == table.end_id:
                found.add(table.engine.decode_bytes([*tokens, *run[:-1]]).decode())
            else:
                open_ends.append([*tokens, *run])
    return found


def sentences(matcher: Any, end_id: int) -> Iterator[list[int]]:
    """Return every token sequence that a matcher of llguidance accepts, without the end token."""
    open_ends = [(matcher, list[int]())]
    while open_ends:
        at, tokens = open_ends.pop()
        if at.is_accepting():
            yield tokens
        if at.is_stopped():
            continue
        mask = at.compute_bitmask()
        for token in (number for number in range(8 * len(mask)) if mask[number // 8] >> number % 8 & 1):
            if token != end_id:
                after = at.deep_copy()
                assert after.consume_token(token)
                open_ends.append((after, [*tokens, token]))
