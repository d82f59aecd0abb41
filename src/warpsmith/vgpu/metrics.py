"""The table of counters: the name of each, what it means, and how far it can equal a profiler's.

`Counters.as_dict` and docs/counters.md are made from this table. A key that Nsight Compute (ncu) has
too means the same quantity there; families say how close the two can be:

exact      counted from executed accesses or operations, as ncu's patched instructions do: equal
           wherever ptxas keeps the access or operation
address    computed from the addresses of executed accesses: equal under the same condition
PTX        counts PTX instructions; machine code has others, so that no profiler's number is equal
estimate   from the cache model: see vgpu/cache.py for what it takes for granted
own        no profiler has it
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import NamedTuple

FAMILIES = ("exact", "address", "PTX", "estimate", "own")


class Metric(NamedTuple):
    """One flat counter. `attribute` is a field or property of Counters; a mapping where the key has
    a `{}` for the mapping's own keys."""

    key: str
    attribute: str
    family: str
    definition: str


# section, in ncu's words -> its counters
SECTIONS: dict[str, tuple[Metric, ...]] = {
    "Launch Statistics": (
        Metric("launches", "launches", "own", "launches added together"),
        Metric("launch__grid_size", "blocks", "exact", "blocks"),
        Metric("warps", "warps", "own", "warps; ncu: smsp__warps_launched.sum"),
        Metric("launch__thread_count", "threads", "exact", "threads"),
    ),
    "Instruction Statistics": (
        Metric("warp_instructions", "warp_instructions", "PTX",
               "PTX instructions executed by a warp with at least one active thread"),
        Metric("thread_instructions", "thread_instructions", "PTX",
               "the same, once for each active thread"),
        Metric("thread_instructions_pred_on", "thread_instructions_pred_on", "PTX",
               "of them with a true guard"),
        Metric("ptx_thread_inst_executed_op_{}_pred_on.sum", "kinds", "PTX",
               "thread-level PTX instructions by class; ncu's classes of machine instructions are "
               "smsp__sass_thread_inst_executed_op_*_pred_on"),
        Metric("pipe_{}_warp_instructions", "pipe_instructions", "PTX",
               "warp-level PTX instructions by the pipe that would issue them"),
        Metric("mma_instructions", "mma_instructions", "PTX",
               "mma, wmma.mma and wgmma.mma_async, once for each warp"),
    ),
    "Floating-Point Operations": (
        Metric("smsp__sass_thread_inst_executed_op_{}_pred_on.sum", "operations", "exact",
               "additions, multiplications and fused multiply-adds by type, thread level; a packed "
               "operation (hfma2, ffma2) counts once; ncu counts hfma2 under hfma. Divisions, roots and exp are sequences of "
               "these in machine code only"),
        Metric("tensor_flops_{}", "tensor_flops", "exact",
               "2·m·n·k of every matrix instruction, by input type; ncu: sm__ops_path_tensor_src_*"),
        Metric("warpgroup_mma_flops", "warpgroup_mma_flops", "exact",
               "of them in wgmma; ncu: sm__ops_path_tensor_op_hgmma_*"),
        Metric("flops", "flops", "exact", "all of them, an FMA as two"),
    ),
    "Global Memory": (
        Metric("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "global_load_requests", "exact",
               "load instructions of a warp with at least one active thread. ncu's of this name has "
               "cp.async in it too: add cp_async_requests"),
        Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "global_load_sectors", "address",
               "distinct 32-byte sectors of each request; ncu adds those of cp.async here too"),
        Metric("global_load_ideal_sectors", "global_load_ideal_sectors", "address",
               "ceil(distinct bytes / 32) of each request"),
        Metric("global_load_bytes", "global_load_bytes", "exact",
               "bytes that active threads asked for; ncu: smsp__sass_data_bytes_mem_global_op_ld.sum "
               "counts a byte once however many threads want it"),
        Metric("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "global_store_requests", "exact",
               "as for loads"),
        Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "global_store_sectors", "address",
               "as for loads"),
        Metric("global_store_ideal_sectors", "global_store_ideal_sectors", "address",
               "as for loads"),
        Metric("global_store_bytes", "global_store_bytes", "exact", "as for loads"),
        Metric("memory_l2_theoretical_sectors_global", "global_sectors", "address",
               "sectors of loads and stores"),
        Metric("memory_l2_theoretical_sectors_global_ideal", "global_ideal_sectors", "address",
               "ideal sectors of the same"),
        Metric("unique_bytes_read", "unique_bytes_read", "own",
               "32 bytes for each distinct sector read: what DRAM must move at least, cold caches"),
        Metric("unique_bytes_written", "unique_bytes_written", "own", "the same, written"),
    ),
    "Atomics": (
        Metric("l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum", "global_fetch_requests", "exact",
               "atomics whose old value is used"),
        Metric("l1tex__t_requests_pipe_lsu_mem_global_op_red.sum", "global_reduction_requests",
               "exact", "red, and atomics whose old value nobody uses"),
        Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum", "global_fetch_sectors", "address",
               "distinct sectors of each request"),
        Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum", "global_reduction_sectors",
               "address", "distinct sectors of each request"),
        Metric("global_atomic_requests", "global_atomic_requests", "exact", "both kinds"),
        Metric("global_atomic_sectors", "global_atomic_sectors", "address", "both kinds"),
        Metric("global_atomic_threads", "global_atomic_threads", "exact", "active threads"),
        Metric("global_atomic_conflicts", "global_atomic_conflicts", "own",
               "threads that share their address with another active thread of the warp"),
        Metric("shared_atomic_requests", "shared_atomic_requests", "PTX",
               "atomics on shared memory; machine code has loops for what it cannot do at once"),
        Metric("shared_atomic_wavefronts", "shared_atomic_wavefronts", "own",
               "passes over the banks; threads on one word are combined first"),
        Metric("shared_atomic_threads", "shared_atomic_threads", "exact", "active threads"),
        Metric("shared_atomic_conflicts", "shared_atomic_conflicts", "own", "as in global memory"),
    ),
    "Shared Memory": (
        Metric("smsp__sass_inst_executed_op_shared_ld.sum", "shared_load_requests", "exact",
               "loads of a warp with at least one active thread, ldmatrix among them: ncu counts "
               "that apart"),
        Metric("smsp__inst_executed_op_ldsm.sum", "ldmatrix_requests", "exact", "ldmatrix"),
        Metric("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "shared_load_wavefronts",
               "address", "passes over the 32 banks: 32 lanes at once for up to 4 bytes each, half a "
               "warp for 8, a quarter for 16; twice as many in a load where each lane wants what its "
               "neighbor one off (by xor), or two off, wants"),
        Metric("shared_load_ideal_wavefronts", "shared_load_ideal_wavefronts", "address",
               "passes of the same request without any bank conflict"),
        Metric("smsp__sass_inst_executed_op_shared_st.sum", "shared_store_requests", "exact",
               "as for loads"),
        Metric("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "shared_store_wavefronts",
               "address", "as for loads"),
        Metric("shared_store_ideal_wavefronts", "shared_store_ideal_wavefronts", "address",
               "as for loads"),
        Metric("memory_l1_wavefronts_shared", "shared_wavefronts", "address",
               "wavefronts of loads, stores, atomics and cp.async's writes; ncu's sum over a kernel: "
               "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared.sum"),
        Metric("memory_l1_wavefronts_shared_ideal", "shared_ideal_wavefronts", "address",
               "ideal wavefronts of the same"),
        Metric("smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared.sum", "bank_conflicts",
               "address", "wavefronts beyond the ideal; the hardware's own counter "
               "l1tex__data_bank_conflicts_pipe_lsu_mem_shared also has arbitration in it"),
        Metric("wgmma_operand_bytes", "wgmma_operand_bytes", "own",
               "shared memory that wgmma reads, from its shape; ncu attributes none of it"),
    ),
    "Local Memory": (
        Metric("local_load_requests", "local_load_requests", "PTX",
               "ld.local; ptxas keeps some of it in registers and adds its spills"),
        Metric("local_store_requests", "local_store_requests", "PTX", "st.local"),
        Metric("local_load_sectors", "local_load_sectors", "PTX", "sectors, lanes interleaved"),
        Metric("local_store_sectors", "local_store_sectors", "PTX", "the same"),
        Metric("local_bytes", "local_bytes", "PTX", "bytes of both"),
    ),
    "Asynchronous Copies": (
        Metric("async_copy_requests", "async_copy_requests", "exact",
               "cp.async and bulk copies together"),
        Metric("async_copy_bytes", "async_copy_bytes", "exact", "bytes of both"),
        Metric("async_copy_sectors", "async_copy_sectors", "address", "sectors of both"),
        Metric("async_copy_ideal_sectors", "async_copy_ideal_sectors", "address", "of both"),
        Metric("async_copy_wavefronts", "async_copy_wavefronts", "address",
               "passes of cp.async's writes to shared memory"),
        Metric("smsp__sass_inst_executed_op_ldgsts.sum", "cp_async_requests", "exact",
               "cp.async alone"),
        Metric("cp_async_sectors", "cp_async_sectors", "address", "cp.async alone"),
        Metric("bulk_load_requests", "bulk_load_requests", "own",
               "cp.async.bulk and tensor-map (TMA) copies from global memory; ncu does not attribute "
               "them to a kernel's accesses, so that its global loads show none of them"),
        Metric("bulk_load_bytes", "bulk_load_bytes", "own", "bytes of these"),
        Metric("bulk_store_requests", "bulk_store_requests", "own", "the same, to global memory"),
        Metric("bulk_store_bytes", "bulk_store_bytes", "own", "bytes of these"),
    ),
    "Warp State": (
        Metric("branches", "branches", "PTX", "branches executed by warps"),
        Metric("divergent_branches", "divergent_branches", "PTX",
               "branches where some active threads jumped and some did not"),
        Metric("ptx_average_branch_targets_threads_uniform.pct", "uniform_branches_percent", "PTX",
               "branches that all active threads took or none; ncu's of machine code: "
               "smsp__sass_average_branch_targets_threads_uniform.pct"),
        Metric("ptx_thread_inst_executed_per_inst_executed.ratio", "active_threads", "PTX",
               "mean active threads of a warp instruction, 32 without divergence; ncu's of machine "
               "code: smsp__thread_inst_executed_per_inst_executed.ratio"),
        Metric("barriers", "barriers", "exact", "arrivals of warps at block barriers"),
    ),
    "Caches (estimated)": (
        Metric("estimated_{}", "cache_estimates", "estimate",
               "hit rates, L2 sectors and DRAM bytes of the cache model, cold at launch; only where "
               "it was asked for"),
    ),
}  # fmt: skip

METRICS: tuple[Metric, ...] = tuple(m for section in SECTIONS.values() for m in section)


def section_of(key: str) -> str:
    """The section that a flat counter belongs to; "" for a name that the table does not have."""
    for section, metrics in SECTIONS.items():
        if any(_fits(metric.key, key) for metric in metrics):
            return section
    return ""


def metric_of(key: str) -> Metric | None:
    """The row of the table for a flat name, exact names before patterns."""
    exact = next((m for m in METRICS if m.key == key), None)
    return exact or next((m for m in METRICS if "{}" in m.key and _fits(m.key, key)), None)


def _fits(pattern: str, key: str) -> bool:
    head, brace, tail = pattern.partition("{}")
    if not brace:
        return pattern == key
    return key.startswith(head) and key.endswith(tail) and len(key) > len(head) + len(tail)
