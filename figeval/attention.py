"""Choice of the kernels by which torch computes attention on a GPU."""

from __future__ import annotations


def avoid_cudnn_attention() -> None:
    """Let torch compute attention on NVIDIA's GPUs by its other kernels (FlashAttention, memory-efficient attention).

    Recent versions of torch prefer cuDNN's on Hopper. It prepares a plan for every new shape of a batch, and each batch
    of texts, each token that is written, has a new shape. This holds for the whole process; without such a GPU it
    changes nothing.
    """
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)
