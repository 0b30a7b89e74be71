# SPDX-License-Identifier: GPL-2.0-only
"""bench/collective/cpu_time.py attributes each sample to the right party."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench", "collective"))

from cpu_time import IDLE, party  # noqa: E402

ENTRY = "bpf_prog_18c879b5f9fb8216_fpisa"


@pytest.mark.parametrize("comm, stack, owner", [
    ("napi/p0-9", ["bpf_prog_5464494dc82f8479_run_fused_add", ENTRY, "veth_xdp_rcv_skb", "veth_poll"], "datapath"),
    ("napi/p0-9", ["memcpy_orig", "skb_copy_bits", "veth_convert_skb_to_xdp_buff", "veth_xdp_rcv_skb"], "veth"),
    ("napi/p0-9", ["memcpy", "xdpf_clone", "dev_map_enqueue_multi", "xdp_do_redirect", "veth_xdp_rcv_skb"], "fan_out"),
    ("napi/p0-9", ["bpf_prog_0123456789abcdef_fpisa_egress", "dev_map_bpf_prog_run", "bq_xmit_all"], "fan_out"),
    ("python3", ["_copy_from_iter", "ip_generic_getfrag", "udp_sendmsg"], "worker"),
    ("python3", ["veth_xmit", "dev_hard_start_xmit", "tbf_dequeue"], "veth"),
    ("python3", ["tbf_dequeue", "__qdisc_run", "udp_send_skb"], "shaper"),
    ("napi/eth0-7", ["udp_gro_receive", "napi_gro_receive"], "worker"),
    ("napi/p3-8", ["__netif_receive_skb_core"], "bridge"),
    ("swapper", ["br_forward", "br_handle_frame"], "bridge"),
    ("cc1", ["ggc_alloc"], "other")])
def test_party(comm, stack, owner):
    assert party(comm, stack) == owner


def test_idle():
    assert IDLE.match("pv_native_safe_halt") and not IDLE.match("bpf_prog_0123456789abcdef_fpisa")
