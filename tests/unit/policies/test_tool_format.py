"""Tools are shown to a model through its chat template, or as text if the template does not support tools."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.policies.tokens.codec import Codec, Prompting
from steelyard.policies.tokens.conversation import Conversations
from steelyard.policies.tokens.tool_format import find_format
from steelyard.tools import Tool, calculator

PLAIN = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
HERMES = """{%- if tools %}<|system|>
{%- for tool in tools %}{{ tool | tojson }}{%- endfor %}<|end|>{%- endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|user|><tool_response>{{ m.content }}</tool_response><|end|>
{%- elif m.tool_calls %}<|assistant|>
{%- for call in m.tool_calls %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{%- endfor %}<|end|>
{%- else %}<|{{ m.role }}|>{{ m.content }}<|end|>{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>{%- endif %}"""
LLAMA = HERMES.replace("<tool_call>\n", "").replace("\n</tool_call>", "").replace('"arguments"', '"parameters"')
OTHER_MARKERS = HERMES.replace("<tool_call>", "<function>").replace("</tool_call>", "</function>")
SILENT = HERMES.replace("{{ tool | tojson }}", "")
NO_RESULTS = HERMES.replace("<tool_response>{{ m.content }}</tool_response>", "")
REFUSING = "{% if messages | length > 2 %}{{ raise_exception('two at most') }}{% endif %}" + HERMES
SCHEMA = Tool(calculator).schema


def tokenizer(template: str | None) -> Any:
    found = closed_vocabulary_tokenizer(["1"])
    found.chat_template = template
    return found


@pytest.mark.parametrize(
    ("template", "form"),
    [
        (HERMES, (True, "<tool_call>\n", "\n</tool_call>", "arguments")),
        (LLAMA, (True, "", "", "parameters")),
        *((other, (False, "<tool_call>", "</tool_call>", "arguments"))
          for other in (PLAIN, OTHER_MARKERS, SILENT, NO_RESULTS, REFUSING, None)),
    ],
    ids=["hermes", "llama", "plain", "other markers", "silent", "no results", "refusing", "no template"],
)  # fmt: skip
def test_the_format_is_found_by_rendering_a_call(template: str | None, form: tuple[bool, str, str, str]) -> None:
    found = find_format(tokenizer(template), [SCHEMA])
    assert (found.native, found.before, found.after, found.arguments) == form


def conversation(template: str, **prompting: Any) -> tuple[str, str]:
    """Return the rendered prompt and the text that follows a tool call."""
    tools = find_format(tokenizer(template), [SCHEMA])
    codec = Codec(tokenizer(template), (), 2, prompting=Prompting(chat=True, tools=tools, **prompting))
    prompt = codec.prompting.messages("How much?")
    assert prompt is not None
    result = [{"role": "tool", "content": "42"}]
    return codec.render(prompt, answer_next=True), Conversations(codec).delta(codec.prompting.reply(result))


def test_a_template_with_tools_lists_them_and_has_a_role_for_results() -> None:
    prompt, reply = conversation(HERMES)
    assert '"name": "calculator"' in prompt
    assert "To call a tool" not in prompt
    assert reply == "<|end|><|user|><tool_response>42</tool_response><|end|><|assistant|>"


def test_other_templates_get_the_list_in_the_system_message_and_results_from_the_user() -> None:
    prompt, reply = conversation(PLAIN, system="Be brief.")
    assert prompt.startswith("<|system|>Be brief.\n\nYou can call these tools:\n")
    assert '"name": "calculator"' in prompt
    assert prompt.endswith("<|end|><|user|>How much?<|end|><|assistant|>")
    assert reply == "<|end|><|user|>Result: 42<|end|><|assistant|>"
    assert conversation(PLAIN)[0].startswith("<|system|>You can call")


def test_examples_in_a_prompt_may_hold_results() -> None:
    plain = find_format(tokenizer(PLAIN), [SCHEMA])
    example = [{"role": "user", "content": "a"}, {"role": "tool", "content": "1"}]
    assert [message["role"] for message in plain.prompt(example)] == ["system", "user", "user"]
    assert plain.prompt(example)[-1]["content"] == "Result: 1"
    assert find_format(tokenizer(HERMES), [SCHEMA]).prompt(example) == example
