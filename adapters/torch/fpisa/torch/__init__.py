# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""The backend "fpisa" of torch.distributed: reductions through an FPISA aggregator, all other calls by Gloo or NCCL.

    import fpisa.torch

    torch.distributed.init_process_group("fpisa")

Ranks find the manager (`fpisa serve`) by environment variables: FPISA_MANAGER is the manager's host, and FPISA_KEY is the
key file. configure() sets both, and the other parameters of a group. doc/torch.md says which calls use the aggregator.
"""
import atexit
import datetime
import functools
import inspect
import os
import secrets
from collections.abc import Mapping
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.distributed

from .._arrays import Flags
from .._group import group_options, join
from .._library import library

library()  # the extension finds this library by its soname

try:
    from . import _backend  # noqa: E402
except ImportError as e:
    raise ImportError(f"{e}; if fpisa.torch was built for another version of PyTorch than {torch.__version__}, build it again") from e

__all__ = ["Entry", "configure", "flags", "report"]

MOST_S = 4e6  # the longest timeout of a call, 46 days. PyTorch has longer ones
MODE = "fpisa64"  # not the default mode of `fpisa job add`, which rounds down

_settings: Dict[str, Any] = {"host": None, "name": "torch", "options": {"overflow": "flag", "mode": MODE, "broadcast": "gloo"}}


def configure(host: Optional[str] = None, name: str = "torch", *, key_file: Union[str, "os.PathLike[str]", None] = None,
              mode: str = "default", rounding: str = "default", pipeline: str = "default", window: int = 0, elements: int = 0,
              overflow: str = "flag", transport: str = "udp", fanout: str = "default", broadcast: str = "gloo") -> None:
    """Set the options of process groups that are created later. Use the same options on all ranks.

    host      the aggregator's host, with a port if the port is not 18000. The default is the value of FPISA_MANAGER
    name      the first part of the group's name at the manager. A random number follows
    mode      "default" means fpisa64, which rounds averages of gradients correctly. "exact" rounds all averages correctly,
              but is slower
    broadcast the library that broadcasts CPU tensors: "gloo", or "fpisa", which is faster in some networks (doc/torch.md)
    overflow  what to do if a sum is beyond the type's range: "flag" gives an infinite or saturated result (doc/numbers.md),
              "error" raises an exception

    The other arguments are the same as for fpisa.Group.
    """
    options = {"key_file": key_file, "mode": MODE if mode == "default" else mode, "rounding": rounding, "pipeline": pipeline, "window": window, "elements": elements,
               "overflow": overflow, "transport": transport, "fanout": fanout, "broadcast": broadcast}
    group_options(**_split(options)[0])  # raises an exception for invalid options
    _settings.update(host=host, name=name, options=options)


def _split(options: Dict[str, Any]) -> Tuple[Dict[str, Any], bool]:
    """Return the library's options, except timeouts, and whether the library broadcasts."""
    broadcast = options["broadcast"]
    if broadcast not in ("fpisa", "gloo"):
        raise ValueError(f"broadcast is {broadcast!r}; it must be 'fpisa' or 'gloo'")
    return {key: value for key, value in options.items() if key != "broadcast"}, broadcast == "fpisa"


class Entry(NamedTuple):
    """One row of the result of report()."""
    operation: str  # the operation's name in torch.distributed
    by: str  # "fpisa", "gloo" or "nccl"
    calls: int
    bytes: int  # size of the tensors that this rank passed
    why: str  # why fpisa did not make the calls, or ""


def report(group: Optional[Any] = None) -> List[Entry]:
    """Return one row for each operation and reason that the process group has had so far. Without an argument use the default
    group.

    The logger "fpisa.torch" gets a warning at the group's first floating-point reduction by Gloo or NCCL, and a message of
    level INFO at the first other call by them.
    """
    return [Entry(*row) for row in _backend_of(group).report()]


def flags(group: Optional[Any] = None) -> Flags:
    """Return the union of the flags of a process group's results since the last call of flags(). Without an argument use the
    default group.
    """
    return Flags(_backend_of(group).take_flags())


def _backend_of(group: Optional[Any]) -> Any:
    if group is None:
        group = torch.distributed.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    backend = getattr(backend, "wrapped_pg", backend)  # torch wraps the backend if TORCH_DISTRIBUTED_DEBUG is DETAIL
    if not isinstance(backend, _backend.ProcessGroup):
        raise TypeError(f"the process group has backend {torch.distributed.get_backend(group)}, not fpisa")
    return backend


def _name(store: Any, rank: int) -> str:
    """Return the name of the group at the manager. Rank 0 chooses the name at random."""
    if rank == 0:
        store.set("fpisa", f"{_settings['name']}-{secrets.token_hex(8)}")
    return store.get("fpisa").decode()


def _nccl(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Optional[Any]:
    """Return the backend for CUDA tensors that fpisa does not sum, or None if there is none. It connects at its first call."""
    if not (torch.cuda.is_available() and torch.distributed.is_nccl_available()):
        return None
    options = torch.distributed.ProcessGroupNCCL.Options()
    options._timeout = timeout
    return torch.distributed.ProcessGroupNCCL(torch.distributed.PrefixStore("nccl", store), rank, size, options)


def _make(options: Dict[str, Any], store: Any, rank: int, size: int, timeout: datetime.timedelta, ranks: List[int]) -> Any:
    """Return the process group, after all ranks have joined. `options` are those of configure()."""
    ours, broadcasts = _split(options)
    # A store may contain keys of earlier process groups, so each rank counts the process groups that it has created there.
    store = torch.distributed.PrefixStore(str(store.add(f"fpisa of {rank}", 1)), store)
    inner = torch.distributed.ProcessGroupGloo(torch.distributed.PrefixStore("gloo", store), rank, size, timeout=timeout)
    seconds = min(timeout.total_seconds(), MOST_S)
    group = join(_settings["host"], _name(store, rank), rank, size, group_options(
        join_timeout=seconds, timeout=seconds, share=True, **ours))
    return _backend.ProcessGroup(inner, _nccl(store, rank, size, timeout), group.value, rank, size, ranks, timeout,
                                 broadcasts, functools.partial(_make, options))


def _create(options: Any, own: Any) -> Any:
    """Return the process group. `pg_options` of torch adds to the options of configure()."""
    if own is not None and not isinstance(own, Mapping):
        raise TypeError(f"pg_options is a {type(own).__name__}; it must be a dict of options of fpisa.torch.configure(), "
                        "such as {'mode': 'exact'}")
    own = {key: value for key, value in (own or {}).items() if (key, value) != ("mode", "default")}
    return _make({**_settings["options"], **own}, options.store, options.group_rank, options.group_size, options.timeout,
                 list(options.global_ranks_in_group))


_register = torch.distributed.Backend.register_backend
# The flight recorder of PyTorch needs a stream of a registered device "cuda", even without a GPU.
_devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
_register("fpisa", _create, extended_api=True,
          **({"devices": _devices} if "devices" in inspect.signature(_register).parameters else {}))
# Leave the groups when a rank's process ends, so that the last calls of other ranks still end. A killed rank cannot leave.
atexit.register(_backend.leave_all)
