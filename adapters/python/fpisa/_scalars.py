# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Convert scalars and tensors of other libraries by their bits. The FPU is not used, because it may flush subnormals to zero."""
from __future__ import annotations

from typing import Any

from ._formats import FORMATS, number


def of_host(x: Any) -> Any:
    """Return a tensor whose memory contains its values. Detach it from the gradient, and perform the operations that a view
    only records.
    """
    x = x.detach()
    if getattr(x, "_is_zerotensor", bool)():  # a zero tensor does not have memory
        import torch
        return torch.zeros(x.shape, dtype=x.dtype)
    return x.resolve_conj().resolve_neg()


def of_tensor(x: Any) -> Any:
    """Return a tensor of one value as a Python number."""
    x = of_host(x.cpu())
    if str(x.dtype) == "torch.bfloat16":
        import torch
        return number(x.view(torch.int16).item() & 0xffff, FORMATS["bfloat16"])
    try:
        return plain(x.numpy()[()])
    except TypeError:  # numpy does not support the type
        return x.item()


def plain(x: Any) -> Any:
    """Return a scalar of numpy, torch or another library as a Python number with all its bits. Do not use float(), which would
    use the FPU.
    """
    if type(x).__name__ == "MaskedConstant":  # numpy's constant for a masked element
        return None
    if isinstance(x, str) or not hasattr(x, "dtype"):
        return x
    if tuple(getattr(x, "shape", ())):
        raise TypeError(f"a value is an array with shape {tuple(x.shape)}; sum one array, or a list of numbers")
    if str(x.dtype).startswith("torch."):
        return of_tensor(x)
    if not hasattr(x, "tobytes") or not hasattr(x.dtype, "kind"):
        return x.item()
    inner = x[()]  # the scalar in an array of no dimensions, in this machine's byte order
    if type(inner) is not type(x):
        return plain(inner)
    if x.dtype.name in FORMATS:
        return number(int.from_bytes(x.tobytes(), "little"), FORMATS[x.dtype.name])
    if x.dtype.kind in "iub":
        return int(x)
    if x.dtype.name in ("complex64", "complex128"):
        return complex(plain(x.real), plain(x.imag))
    if x.dtype.kind in "fc":  # a type with more bits than float64; exact_float() checks whether the value needs them
        return x
    raise TypeError(f"a value is {x!r}; values must be numbers")
