# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Average the gradients of DistributedDataParallel at an aggregator.

    import fpisa.torch_hook

    model = DistributedDataParallel(net)
    with fpisa.Group("aggregator", "train", rank, size) as group:
        hook = fpisa.torch_hook.Hook(group)
        model.register_comm_hook(hook, fpisa.torch_hook.average)

Torch's own process group (gloo on CPUs) makes all other calls, such as broadcasts and barriers.
"""
# Do not postpone the evaluation of annotations, because torch compares the annotations of a hook.
import concurrent.futures
import warnings
from typing import Optional, Union

import torch
import torch.distributed

from ._arrays import Flags
from ._calls import Request
from ._group import Group
from ._handle import Handle

BITS = {torch.bfloat16: ("bfloat16", torch.int16, "uint16")}  # types that numpy may not support


TYPES = (torch.float32, torch.float16, torch.float64, torch.bfloat16, torch.complex64, torch.complex128)


def check(tensor: torch.Tensor) -> None:
    """Check that the tensor's memory contains its values. The check succeeds for buckets. Other callers of the hook may get an
    error.
    """
    if tensor.device.type != "cpu":
        raise TypeError(f"the gradients are on {tensor.device}; the hook supports only the CPU")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.dtype not in TYPES:
        raise TypeError(f"the gradients have layout {tensor.layout} and dtype {tensor.dtype}; the hook takes dense gradients with dtype "
                        + ", ".join(str(t)[6:] for t in TYPES))
    if tensor.is_neg() or tensor.is_conj() or not tensor.is_contiguous():
        raise ValueError("the gradients are a view whose memory does not contain its values; pass "
                         "tensor.resolve_conj().resolve_neg().contiguous()")


class Hook:
    """The state of average(). Nothing else may use the group during the training.

    as_type   type in which gradients are sent, one of float32, float16, float64 or bfloat16. torch.float16 halves the bytes, but
              results have only that precision. The default is the type of the gradients

    `flags` is the union of the flags of all results since `flags` was last set. `error` is the exception with which the hook
    failed, because torch wraps it in another exception.
    """

    def __init__(self, group: Union[Group, Handle], as_type: Optional[torch.dtype] = None) -> None:
        if as_type not in (None, *TYPES[:4]):
            raise TypeError(f"as_type is {as_type!r}; it must be one of " + ", ".join(str(t) for t in TYPES[:4]))
        self.group, self.as_type = group, as_type
        self.flags = Flags(0)
        self.error: Optional[BaseException] = None
        self._waits = concurrent.futures.ThreadPoolExecutor(1, "fpisa-hook")

    def start(self, tensor: torch.Tensor, tag: int) -> torch.futures.Future[torch.Tensor]:
        """Average a tensor on the CPU in place. Return a future for the tensor."""
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        check(tensor)
        if not tensor.numel():
            future.set_result(tensor)
            return future
        real = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
        sent = real if self.as_type in (None, real.dtype) else real.to(self.as_type)
        name, bits, words = BITS.get(sent.dtype, (None, None, None))
        array = sent.numpy() if bits is None else sent.view(bits).numpy().view(words)
        request = self.group.start(array, op="avg", out=array, tag=tag, type=name)
        self._waits.submit(self._finish, request, sent, real, tensor, future)
        return future

    def _finish(self, request: Request, sent: torch.Tensor, real: torch.Tensor, tensor: torch.Tensor,
                future: torch.futures.Future[torch.Tensor]) -> None:
        try:
            flags = request.wait().flags
            self.flags |= flags
            if Flags.FEWER_RANKS in flags:
                warnings.warn(f"gradients are averages over ranks {', '.join(map(str, request.ranks))} only: other ranks "
                              "were removed from the job", RuntimeWarning)
            if sent is not real:
                with torch.inference_mode(real.is_inference()):  # the inference mode applies only to the current thread
                    real.copy_(sent)
            future.set_result(tensor)
        except BaseException as e:  # complete the future after any error, because training would wait for it forever
            self.error = e
            future.set_exception(e)  # type: ignore[arg-type]


def average(hook: Hook, bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of gradients over all ranks while backward() continues. Pass this function to register_comm_hook()."""
    try:
        return hook.start(bucket.buffer(), 1 + bucket.index())
    except BaseException as e:
        hook.error = e
        raise
