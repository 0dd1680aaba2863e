"""A GPU's memory and the host's are two limits with two cures."""

import pytest

from helpers import GpuOutOfMemory, JobFacts, JobOutOfMemory
from helpers.submission.jobs.gpu_memory import gpu_out_of_memory

FACTS = JobFacts(job_id="7", folder="/runs/train/1", node="gpu1", rank=3)
# As torch 2.13 words it (c10/cuda/CUDACachingAllocator.cpp).
TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 15.78 GiB "
    "of which 14.11 GiB is free. Including non-PyTorch memory, this process has 1.66 GiB memory in use. Of the "
    "allocated memory 1.20 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated."
)


def test_device_peak_and_what_was_asked_for_are_said() -> None:
    """They are in the middle of torch's paragraph."""
    error = gpu_out_of_memory("train", TORCH, FACTS)
    assert isinstance(error, GpuOutOfMemory)
    assert error.message == (
        "train ran out of memory on GPU 1 (15.78 GiB); it tried to allocate 20.00 GiB; it had 1.66 GiB in use."
    )
    assert "smaller batches" in error.hint
    assert error.facts.rank == 3


def test_it_is_a_runtime_error_and_no_host_memory_error() -> None:
    """Code that catches torch's own class catches RuntimeError."""
    assert issubclass(GpuOutOfMemory, RuntimeError)
    assert not issubclass(GpuOutOfMemory, JobOutOfMemory)


@pytest.mark.parametrize("line", ["RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB", "OutOfMemoryError"])
def test_older_words_do(line: str) -> None:
    """Other libraries and older versions say less."""
    assert "on its GPU" in str(gpu_out_of_memory("train", line, FACTS))


@pytest.mark.parametrize("line", ["MemoryError", "ValueError: out of memory bank", "RuntimeError: CUDA error: x"])
def test_any_other_exception_is_the_functions_own(line: str) -> None:
    """A host's MemoryError is not the GPU's."""
    assert gpu_out_of_memory("train", line, FACTS) is None
