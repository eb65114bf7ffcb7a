"""The engine: vLLM in this process, built from a model's shape alone, with weights that can be renewed."""

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
from steelyard.sampling.vllm.draft import Draft

NEEDED = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # masks are made in this process, from rows that live in it
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # the other runner has another interface for logits processors
}
QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
"""Unless the environment says otherwise."""
ADAPTER = 1
"""The number of the only adapter."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How vLLM is set up."""

    dtype: str = "float32"
    memory: float = defaults.VLLM_MEMORY
    """Share of the device's memory for weights and cache."""
    cache_gib: float | None = None
    """Memory for keys and values, taken at once; None: what ``memory`` leaves."""
    max_length: int | None = None
    """Longest sequence, prompt and completion together; None: the model's own."""
    max_rows: int = defaults.MAX_ROWS
    """Sequences decoded at once."""
    eager: bool | None = None
    """Without compilation and CUDA graphs; None: so on a CPU."""
    adapter_rank: int | None = None
    """Rank of adapters that are served beside the base weights; None: none are."""


@dataclass(slots=True)
class Engine:
    """vLLM with its weights, and the drafts its requests write."""

    llm: Any
    drafts: dict[int, Draft] = field(default_factory=dict[int, Draft])
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
        """Take new weights, by the names of the transformers model, without a restart."""
        self._require_idle()
        runner = self._worker.model_runner
        runner.reload_weights(weights_iterator=iter(items))
        if runner.model_config.hf_config.get_text_config().tie_word_embeddings:
            self._renew_head(runner.get_model())
        self._forget()

    def serve(self, folder: Path) -> None:
        """Take a new adapter beside the base weights, in place of the one before."""
        from vllm.lora.request import LoRARequest

        self._require_idle()
        self.adapter = LoRARequest("policy", ADAPTER, str(folder), load_inplace=True)
        self.llm.llm_engine.add_lora(self.adapter)
        self.adapter = LoRARequest("policy", ADAPTER, str(folder))
        self._forget()

    def close(self) -> None:
        """Give the memory back; nothing can be sampled afterwards. Twice does no harm."""
        if self.llm is None:
            return
        from vllm.distributed import cleanup_dist_env_and_memory

        self.llm.llm_engine.engine_core.shutdown()
        self.llm = None
        cleanup_dist_env_and_memory()

    def _renew_head(self, model: Any) -> None:
        """A head tied to the embedding is not reloaded by itself, but on a CPU it keeps a repacked copy of the old."""
        head = getattr(model, "lm_head", None)
        head = getattr(head, "base_layer", head)
        if head is not None:
            head.quant_method.process_weights_after_loading(head)

    def _require_idle(self) -> None:
        if self.llm.llm_engine.has_unfinished_requests():
            raise PolicyError("weights cannot change while samples are being drawn; take or close the stream first")

    def _forget(self) -> None:
        """Keys and values of the old weights must not be used again."""
        if not self.llm.llm_engine.reset_prefix_cache():
            raise PolicyError("vLLM could not empty its prefix cache, which holds keys and values of the old weights")


def open_engine(model_config: Any, options: EngineOptions) -> Engine:
    """An engine for models of this configuration (of transformers). Its weights are random until ``Engine.load``."""
    vllm = require_vllm()
    from steelyard.sampling.vllm.masks import RowMasks

    drafts: dict[int, Draft] = {}
    excluded: list[int] = []
    own_masks = type("OwnMasks", (RowMasks,), {"drafts": drafts, "excluded": excluded})
    eager = on_cpu() if options.eager is None else options.eager
    adapters = {} if options.adapter_rank is None else _adapters(options.adapter_rank)
    with tempfile.TemporaryDirectory() as folder, _own_threads():
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
            async_scheduling=False,
            logprobs_mode="processed_logprobs",
            logits_processors=[own_masks],
            **adapters,
        )
    return Engine(llm, drafts, excluded)


def require_vllm() -> Any:
    """The ``vllm`` package, told to stay in this process; or an error that names the extra."""
    os.environ.update({**QUIET, **os.environ, **NEEDED})
    try:
        import vllm
    except ImportError:
        raise MissingExtraError("sampling.engine = 'vllm' (on a CPU: docs/vllm.md)", "vllm") from None
    return vllm


def on_cpu() -> bool:
    """Whether the vLLM that is installed runs on the processor."""
    require_vllm()
    from vllm.platforms import current_platform

    return current_platform.is_cpu()


def _adapters(rank: int) -> dict[str, Any]:
    ranks = (1, 8, 16, 32, 64, 128, 256, 320, 512)
    if rank > ranks[-1]:
        raise PolicyError(
            f"model.lora.rank = {rank}: vLLM serves adapters up to rank {ranks[-1]}; set sampling.vllm.lora = 'merge'"
        )
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": next(size for size in ranks if size >= rank)}


@contextmanager
def _own_threads() -> Iterator[None]:
    """On a CPU vLLM forbids the whole process to set its number of threads; the learner may."""
    allowed = torch.set_num_threads
    try:
        yield
    finally:
        torch.set_num_threads = allowed
