"""What an engine's process finds in its environment, by its spec: the same in a container and in a test."""

from __future__ import annotations

from harness.domain.specs import EngineSpec

# Nothing is fetched, and nothing is told to anybody.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
# PyTorch names a folder after the user when it is imported; the service's uid has no name in its image.
USER = {"USER": "harness"}
# In its own process vLLM takes requests as they come in: equal requests then have different answers.
IN_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
GPU = {
    # CUDA is up in this process before vLLM starts workers for more than one GPU.
    "VLLM_WORKER_MULTIPROCESSING_METHOD": "spawn",
    # Its kernels are built on first use, for which the image has no compiler.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    # cuBLAS sums in one order only with workspaces of fixed size.
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    # Threads that spin for work would take the cores that the agent trains with.
    "OMP_WAIT_POLICY": "PASSIVE",
}
CPU = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
# Everything that libraries write goes where the container can write and run: `/tmp`.
CACHES = {
    "VLLM_CACHE_ROOT": "/tmp/vllm",
    "TRITON_CACHE_DIR": "/tmp/triton",
    "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",
    "XDG_CACHE_HOME": "/tmp/cache",
}


def engine_environment(spec: EngineSpec) -> dict[str, str]:
    """The environment of the inference service for `spec`."""
    threads = str(spec.threads)
    common = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, **OFFLINE, **USER}
    if spec.engine == "transformers":
        return common | (GPU if spec.device.startswith("gpu") else {})
    device = CPU if spec.device.startswith("cpu") else GPU
    # vLLM tells of requests it failed on; a log holds no prompts.
    return common | IN_PROCESS | device | CACHES | {"VLLM_LOGGING_LEVEL": "WARNING", "VLLM_CONFIGURE_LOGGING": "1"}
