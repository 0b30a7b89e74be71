# SPDX-License-Identifier: GPL-2.0-only
"""Run the ranks of backend "fpisa" as threads of one process, over transport `mem` (mem_group.c, loaded by LD_PRELOAD)."""
import ctypes
import datetime
import itertools
import os
import threading
import traceback

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.multi_threaded_pg import ThreadLocalWorld

import fpisa.torch

_names = itertools.count()
_join = ctypes.CDLL(os.environ["LD_PRELOAD"]).mem_group_join
ThreadLocalWorld.comms = []  # newer versions of PyTorch read this attribute
dist.distributed_c10d._world = ThreadLocalWorld()
if hasattr(torch._C._distributed_c10d, "_set_thread_isolation_mode"):
    torch._C._distributed_c10d._set_thread_isolation_mode(True)


_nccl = fpisa.torch._nccl


def _gloo(store, rank, size, timeout):
    return dist.ProcessGroupGloo(dist.PrefixStore("gloo of GPUs", store), rank, size, timeout=timeout)


def _join_mem(host, name, rank, size, options):
    group = ctypes.c_void_p()
    error = _join(ctypes.byref(group), name.encode(), rank, size, options.mode, options.timeout_ms)
    assert not error, os.strerror(-error)
    return group


def be_rank(rank, size, port):
    """Make this process a rank, over soft_server.c at the port. NCCL treats the ranks as ranks on different hosts, so they may share a GPU."""
    os.environ.update(FPISA_SOFT_PORT=str(port), NCCL_HOSTID=str(rank), NCCL_SOCKET_IFNAME="lo", NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1",
                      NCCL_IB_DISABLE="1")
    fpisa.torch.join = _join_mem
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0)
    dist.init_process_group("fpisa", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60))


def run(size, function, *, timeout=60, gpus=False, **options):
    """Run function(rank, size) in `size` threads, each of which is a rank. End the process if one fails.

    gpus  use NCCL as the inner process group, which needs a GPU for each rank. The default is Gloo, which accepts CUDA tensors for some
          operations
    """
    fpisa.torch.join = _join_mem
    fpisa.torch._nccl = _nccl if gpus else _gloo
    fpisa.torch.configure("mem", f"threads{next(_names)}", **options)
    store, errors = dist.HashStore(), []

    def rank_of(rank):
        try:
            torch.autograd.set_multithreading_enabled(False)  # otherwise all ranks share the thread of a device
            dist.init_process_group("fpisa", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=timeout))
            function(rank, size)
            dist.destroy_process_group()
        except BaseException:
            errors.append(rank)
            traceback.print_exc()
            os._exit(1)  # the other ranks wait for this one

    threads = [threading.Thread(target=rank_of, args=(rank,)) for rank in range(size)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
