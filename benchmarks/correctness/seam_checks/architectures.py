"""The local sampler rejects models it cannot run at construction time, not during sampling."""

from __future__ import annotations

from typing import Any, cast

from transformers import AutoConfig, AutoModelForCausalLM

from benchmarks.correctness.seam_checks import SeamCheck
from steelyard.constraints.base import Constraint
from steelyard.errors import PolicyError
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.sampling.local import LocalSampler

WORDS = tuple(str(number) for number in range(13))
SIZES = {"vocab_size": 16, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0}
STATEFUL: dict[str, dict[str, Any]] = {
    "mamba": {"state_size": 4},
    "lfm2": {"layer_types": ["conv", "full_attention"], "num_key_value_heads": 1, "intermediate_size": 64},
}
ALIBI: dict[str, dict[str, Any]] = {
    "bloom": {"n_layer": 2, "n_head": 2},
    "mpt": {"d_model": 32, "n_heads": 2, "n_layers": 2, "max_seq_len": 64},
}


def _accepted(architecture: str, settings: dict[str, Any], constraint: Constraint | None) -> bool:
    config = AutoConfig.for_model(architecture, **(SIZES | settings), bos_token_id=1, eos_token_id=2)
    policy = CausalPolicy(AutoModelForCausalLM.from_config(config), closed_vocabulary_tokenizer(WORDS))
    policy.constraint = constraint
    try:
        LocalSampler(policy, seed=0)
    except PolicyError:
        return False
    return True


def accepted(_: bool) -> float:
    """Count the unsupported architectures that the sampler accepts; those with ALiBi get a constraint."""
    some = cast("Constraint", object())  # the sampler must reject the model before it uses the constraint
    stateful = sum(_accepted(name, settings, None) for name, settings in STATEFUL.items())
    return float(stateful + sum(_accepted(name, settings, some) for name, settings in ALIBI.items()))


CHECKS = (SeamCheck("architectures", "unsupported architectures accepted, of 4", 4.0, accepted, "<=", 0.0),)
