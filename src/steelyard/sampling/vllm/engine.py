"""An in-process vLLM engine, built from a model's configuration, with updatable weights."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from steelyard import defaults
from steelyard.errors import MissingExtraError, PolicyError
from steelyard.sampling.vllm.tracked_sample import TrackedSample

REQUIRED_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # masks are computed in this process
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # the V2 runner has a different interface for logits processors
}
QUIET_ENVIRONMENT = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
"""Defaults that the environment may override."""
ADAPTER = 1
"""Id of the only adapter."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings of vLLM."""

    dtype: str = "float32"
    memory: float = defaults.VLLM_MEMORY
    """Share of the device's memory for weights and cache."""
    cache_gib: float | None = None
    """Memory reserved for the KV cache at start; defaults to the rest of ``memory`` after the weights."""
    max_length: int | None = None
    """Maximum length of prompt plus completion; defaults to the model's maximum."""
    max_rows: int = defaults.MAX_ROWS
    """Sequences decoded together."""
    eager: bool | None = None
    """Whether to disable compilation and CUDA graphs; by default, only on a CPU."""
    adapter_rank: int | None = None
    """Rank of adapters served without merging, or None if adapters are not served."""


@dataclass(slots=True)
class Engine:
    """A vLLM instance with its weights and the samples of its current requests."""

    llm: Any
    tracked_samples: dict[int, TrackedSample] = field(default_factory=dict[int, TrackedSample])
    excluded: list[int] = field(default_factory=list[int])
    """Tokens that no request may sample."""
    adapter: Any = None

    @property
    def max_length(self) -> int:
        return self.llm.llm_engine.model_config.max_model_len

    @property
    def _worker(self) -> Any:
        return self.llm.llm_engine.model_executor.driver_worker.worker

    def load(self, items: Iterable[tuple[str, Tensor]]) -> None:
        """Load new weights, named as in the transformers model, without a restart."""
        self._require_idle()
        runner = self._worker.model_runner
        runner.reload_weights(weights_iterator=iter(items))
        if runner.model_config.hf_config.get_text_config().tie_word_embeddings:
            self._reload_head(runner.get_model())
        self._reset_cache()

    def serve(self, folder: Path) -> None:
        """Serve a new adapter on top of the base weights, replacing the previous one."""
        from vllm.lora.request import LoRARequest

        self._require_idle()
        self.adapter = LoRARequest("policy", ADAPTER, str(folder), load_inplace=True)
        self.llm.llm_engine.add_lora(self.adapter)
        self.adapter = LoRARequest("policy", ADAPTER, str(folder))
        self._reset_cache()

    def close(self) -> None:
        """Release the memory; the engine cannot sample afterwards. Calling it twice is safe."""
        if self.llm is None:
            return
        from vllm.distributed import cleanup_dist_env_and_memory

        self.llm.llm_engine.engine_core.shutdown()
        self.llm = None
        cleanup_dist_env_and_memory()

    def _reload_head(self, model: Any) -> None:
        """Reload a head that is tied to the embedding: on a CPU, the head keeps a repacked copy of the old weights."""
        head = getattr(model, "lm_head", None)
        head = getattr(head, "base_layer", head)
        if head is not None:
            head.quant_method.process_weights_after_loading(head)

    def _require_idle(self) -> None:
        if self.llm.llm_engine.has_unfinished_requests():
            raise PolicyError("weights cannot change while samples are being drawn; exhaust or close the stream first")

    def _reset_cache(self) -> None:
        """Discard the cached keys and values of the old weights."""
        if not self.llm.llm_engine.reset_prefix_cache():
            raise PolicyError("vLLM could not reset its prefix cache, which holds keys and values of the old weights")


def open_engine(model_config: Any, options: EngineOptions) -> Engine:
    """Start an engine for a transformers configuration. The engine's weights are random until ``Engine.load`` is
    called.
    """
    vllm = require_vllm()
    from steelyard.sampling.vllm.masks import RowMasks

    tracked_samples: dict[int, TrackedSample] = {}
    excluded: list[int] = []
    own_masks = type("OwnMasks", (RowMasks,), {"tracked_samples": tracked_samples, "excluded": excluded})
    eager = on_cpu() if options.eager is None else options.eager
    adapters = {} if options.adapter_rank is None else _adapter_options(options.adapter_rank)
    with tempfile.TemporaryDirectory() as folder, _keep_set_num_threads():
        model_config.save_pretrained(folder)
        llm = vllm.LLM(
            folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            generation_config="vllm",
            dtype=options.dtype,
            enforce_eager=eager,
            max_model_len=options.max_length,
            max_num_seqs=options.max_rows,
            gpu_memory_utilization=options.memory,
            kv_cache_memory_bytes=None if options.cache_gib is None else int(options.cache_gib * 2**30),
            distributed_executor_backend="uni",
            enable_prefix_caching=True,
            scheduling_policy="priority",
            async_scheduling=False,
            logprobs_mode="processed_logprobs",
            logits_processors=[own_masks],
            **adapters,
        )
    return Engine(llm, tracked_samples, excluded)


def require_vllm() -> Any:
    """Import ``vllm``, configured to stay in this process, or raise an error that names the extra."""
    os.environ.update({**QUIET_ENVIRONMENT, **os.environ, **REQUIRED_ENVIRONMENT})
    try:
        import vllm
    except ImportError:
        raise MissingExtraError("sampling.engine = 'vllm' (on a CPU: docs/vllm.md)", "vllm") from None
    return vllm


def on_cpu() -> bool:
    """Return whether the installed vLLM runs on the CPU."""
    require_vllm()
    from vllm.platforms import current_platform

    return current_platform.is_cpu()


def _adapter_options(rank: int) -> dict[str, Any]:
    ranks = (1, 8, 16, 32, 64, 128, 256, 320, 512)
    if rank > ranks[-1]:
        raise PolicyError(
            f"model.lora.rank = {rank} exceeds {ranks[-1]}, the limit of vLLM; set sampling.vllm.lora = 'merge'"
        )
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": next(size for size in ranks if size >= rank)}


@contextmanager
def _keep_set_num_threads() -> Iterator[None]:
    """Restore ``torch.set_num_threads``, which vLLM disables on a CPU; the learner needs it."""
    allowed = torch.set_num_threads
    try:
        yield
    finally:
        torch.set_num_threads = allowed
