"""What runs inside vLLM's workers: weights reloaded, compared with the files by samples, and zeroed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from safetensors import safe_open

Pair = tuple[Any, Any]

# Rows of each tensor that are compared, evenly spread.
ROWS = 16


def reload(worker: Any, folder: str) -> None:
    """Puts the folder's weights in the place of those in use, and whatever vLLM has derived of them."""
    worker.reload_weights(weights_path=folder)
    # It passes over a module without a tensor of its own in the files, a head that is tied to the embedding. What was
    # derived of the weights before (vLLM packs a copy for a CPU) stays in use then, and nothing tells.
    for module in _tied(worker.get_model()):
        method = getattr(module, "quant_method", None)
        if method is not None:
            method.process_weights_after_loading(module)


def compare_samples(
    worker: Any, places: Mapping[str, str], twins: Mapping[str, Sequence[str]]
) -> tuple[int, list[str]]:
    """How many tensors in use were compared with the files in `places` (name -> file), and which of them differ.

    vLLM joins some tensors, pads the vocabulary and divides tensors among GPUs: what cannot be mapped is left out.
    """
    model = worker.get_model()
    parallel = worker.vllm_config.parallel_config
    shard = (parallel.rank % parallel.tensor_parallel_size, parallel.tensor_parallel_size)
    packed = dict(getattr(model, "packed_modules_mapping", None) or {})
    n_compared, differing = 0, []
    for name, parameter in model.named_parameters(remove_duplicate=False):
        stored = next((twin for twin in twins.get(name, ()) if twin in places), name)
        sources = [_read(places, source) for source in _sources(stored, places, packed)]
        is_vocabulary = "embed" in name or "head" in name
        pairs = list(_pairs(parameter, sources, shard, is_vocabulary=is_vocabulary))
        n_compared += bool(pairs)
        if not all(torch.equal(mine.cpu(), theirs.to(mine.dtype)) for mine, theirs in pairs):
            differing.append(name)
    return n_compared, differing


def zero_memory(worker: Any) -> None:
    """Overwrites the weights and the KV cache: whoever gets that memory next finds nothing of them there."""
    runner = worker.model_runner
    with torch.inference_mode():
        for parameter in worker.get_model().parameters():
            parameter.zero_()
        for tensor in _tensors(getattr(runner, "kv_caches", ())):
            tensor.zero_()
    torch.cuda.synchronize()


def _tied(model: Any) -> list[Any]:
    """The modules that share a parameter with another."""
    owners = defaultdict(list)
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[id(parameter)].append(module)
    return [module for modules in owners.values() if len(modules) > 1 for module in modules]


def _sources(name: str, places: Mapping[str, str], packed: Mapping[str, list[str]]) -> list[str]:
    """The names in the files whose tensors make up the parameter `name`, in order; none if that is not known."""
    if name in places:
        return [name]
    for joined, parts in packed.items():
        if f".{joined}." in name:
            names = [name.replace(f".{joined}.", f".{part}.") for part in parts]
            return names if all(part in places for part in names) else []
    return []


def _read(places: Mapping[str, str], name: str) -> Any:
    with safe_open(places[name], framework="pt") as tensors:
        return tensors.get_tensor(name)


def _pairs(parameter: Any, sources: list[Any], shard: tuple[int, int], *, is_vocabulary: bool) -> Iterator[Pair]:
    """Rows of the parameter, each with the same rows of the files."""
    number, n_shards = shard
    if len(sources) > 1:
        if n_shards == 1:
            yield from _joined_pairs(parameter, sources)
        return
    for source in sources:
        if source.ndim != parameter.ndim or source.ndim == 0:
            return
        if source.shape == parameter.shape:
            rows = _spread(len(source))
            yield parameter[rows], source[rows]
        elif is_vocabulary and source.shape[1:] == parameter.shape[1:]:
            # Padded at its end, then divided by rows.
            first = number * len(parameter)
            rows = _spread(min(len(parameter), len(source) - first))
            yield parameter[rows], source[rows + first]
        elif source.ndim == 2 and source.shape == (parameter.shape[0], parameter.shape[1] * n_shards):
            columns = slice(number * parameter.shape[1], (number + 1) * parameter.shape[1])
            rows = _spread(len(source))
            yield parameter[rows], source[rows, columns]


def _joined_pairs(parameter: Any, sources: list[Any]) -> Iterator[Pair]:
    """As `_pairs`, of a parameter that is several tensors one below the other."""
    fits = all(source.ndim and source.shape[1:] == parameter.shape[1:] for source in sources)
    if not fits or sum(len(source) for source in sources) != len(parameter):
        return
    start = 0
    for source in sources:
        rows = _spread(len(source))
        yield parameter[rows + start], source[rows]
        start += len(source)


def _spread(length: int) -> Any:
    n_rows = max(0, min(ROWS, length))
    return torch.linspace(0, max(length - 1, 0), n_rows).round().long()


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
