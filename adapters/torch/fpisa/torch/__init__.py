# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""The backend "fpisa" of torch.distributed: all-reduces through an FPISA aggregator, all other calls by Gloo.

    import fpisa.torch

    torch.distributed.init_process_group("fpisa")

Ranks find the manager (`fpisa serve`) by the environment: FPISA_MANAGER, its host, and FPISA_KEY, the file of the key.
configure() sets these, and the other parameters of a group. doc/torch.md says which calls go where.
"""
import atexit
import inspect
import os
import secrets
from typing import Any, Dict, Optional, Union

import torch
import torch.distributed

from .._arrays import Flags
from .._group import group_options, join
from .._library import library

library()  # the extension uses this library, by its soname

from . import _backend  # noqa: E402

__all__ = ["configure", "flags"]

_settings: Dict[str, Any] = {"host": None, "name": "torch", "options": {"overflow": "flag", "mode": "fpisa64"}}


def configure(host: Optional[str] = None, name: str = "torch", *, key_file: Union[str, "os.PathLike[str]", None] = None,
              mode: str = "fpisa64", rounding: str = "default", pipeline: str = "default", window: int = 0, elements: int = 0,
              overflow: str = "flag", transport: str = "udp", fanout: str = "default") -> None:
    """Configure process groups that are created from here on, the same on all ranks.

    host      the aggregator's, with a port if it is not 18000; None: the value of FPISA_MANAGER
    name      the beginning of groups' names at the manager; a random number follows
    mode      fpisa64, whose averages of gradients are correctly rounded; "exact" promises that for all values, and takes longer
    overflow  the handling of a sum beyond the type's range: "flag", the result is infinite or saturated as in doc/numbers.md,
              or "error"

    The other arguments are those of fpisa.Group.
    """
    options = {"key_file": key_file, "mode": mode, "rounding": rounding, "pipeline": pipeline, "window": window, "elements": elements,
               "overflow": overflow, "transport": transport, "fanout": fanout}
    group_options(**options)  # raises for invalid options
    _settings.update(host=host, name=name, options=options)


def flags(group: Optional[Any] = None) -> Flags:
    """Return the flags of a process group, by default the default group: the union over its results since the last call of flags()."""
    if group is None:
        group = torch.distributed.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    if not isinstance(backend, _backend.ProcessGroup):
        raise TypeError(f"the process group is of backend {torch.distributed.get_backend(group)}, not of fpisa")
    return Flags(backend.take_flags())


def _name(store: Any, rank: int) -> str:
    """Return the name of the group at the manager: rank 0 draws it."""
    if rank == 0:
        store.set("fpisa", f"{_settings['name']}-{secrets.token_hex(8)}")
    return store.get("fpisa").decode()


def _create(options: Any, _: Any) -> Any:
    """Return the process group, after all ranks have joined."""
    store, rank, size, timeout = options.store, options.group_rank, options.group_size, options.timeout
    inner = torch.distributed.ProcessGroupGloo(torch.distributed.PrefixStore("gloo", store), rank, size, timeout=timeout)
    seconds = timeout.total_seconds()
    group = join(_settings["host"], _name(store, rank), rank, size,
                 group_options(join_timeout=seconds, timeout=seconds, **_settings["options"]))
    return _backend.ProcessGroup(inner, group.value, rank, size, list(options.global_ranks_in_group))


_register = torch.distributed.Backend.register_backend
_register("fpisa", _create, extended_api=True,
          **({"devices": ["cpu"]} if "devices" in inspect.signature(_register).parameters else {}))
# A rank that ends leaves, so others' last calls still end. A killed rank does not leave.
atexit.register(_backend.leave_all)
