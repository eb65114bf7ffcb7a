"""Chat templates: valid ones render as in transformers; runaway ones hit a limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steelyard.errors import PolicyError
from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.policies.tokens import chat_template
from steelyard.policies.tokens.chat_template import template_ids
from steelyard.policies.tokens.codec import Codec

CHAT = ({"role": "user", "content": "1 2"}, {"role": "assistant", "content": "3"}, {"role": "user", "content": "4"})
SOUND = (
    "{{ bos_token }}{% for m in messages %} {{ m['content'] }}{% endfor %}{% if add_generation_prompt %} 9{% endif %}"
)
NESTED = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}1"
HUGE = "{{ '1' * 9000000000 }}"


@pytest.fixture(autouse=True, scope="module")
def little_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_template, "CPU_SECONDS", 0.5)
        chat_template._renderer.close()
        yield
    chat_template._renderer.close()


def ids(template: str, *, answer_next: bool = True) -> list[int]:
    tokenizer = closed_vocabulary_tokenizer([str(digit) for digit in range(10)])
    tokenizer.chat_template = template
    found = template_ids(tokenizer, CHAT, answer_next=answer_next)
    plain = [dict(message) for message in CHAT]
    assert found == tokenizer.apply_chat_template(plain, add_generation_prompt=answer_next, return_dict=False)
    return found


def check_rejected(template: str, why: str) -> None:
    tokenizer = closed_vocabulary_tokenizer(["1"])
    tokenizer.chat_template, tokenizer.name_or_path = template, "some/model"
    with pytest.raises(PolicyError, match=rf"chat template of some/model.*{why}.*chat_template"):
        Codec(tokenizer, (), len(tokenizer)).encode(CHAT)


def test_sound_templates_render_as_in_transformers() -> None:
    assert len(ids(SOUND)) == len(ids(SOUND, answer_next=False)) + 1


def test_template_resources_are_limited() -> None:
    """Limits on memory, output length and CPU time; errors raised by the template are reported."""
    check_rejected(HUGE, "memory")
    check_rejected("{{ '1 ' * 2000000 }}", "4000000 characters")
    check_rejected("{% if messages|length > 2 %}{{ raise_exception('two at most') }}{% endif %}", "two at most")
    check_rejected(NESTED, "CPU time")
    assert ids(SOUND), "the next prompt still renders"
