"""The memory runtime alone: one warp of one block, driven from Python through ctypes."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from warpsmith.vgpu import memory

RUNTIME = Path(memory.__file__).parent / "rt"
FULL = 0xFFFFFFFF
SPACES = {"generic": 0, "global": 1, "shared": 2, "local": 3, "const": 4, "param": 5}
ATOMICS = dict(zip("add min max and or xor exch cas inc dec".split(), range(10)))  # noqa: SIM905
TYPES = dict(
    zip("u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f16x2 bf16x2 f32 f64 b128".split(), range(15))  # noqa: SIM905
)

SHIM = r"""
#include <stdlib.h>
#include "vgpu.h"
typedef struct Bench { VgLaunch launch; VgWorker worker; VgBlock block; VgWarp warp; VgSite sites[4]; } Bench;
int vg_fault(VgWarp *w, uint32_t kind, uint32_t site, uint32_t lanes) {
  VgFault *f = &w->worker->fault;
  if (f->kind) return 0;
  f->kind = kind, f->site = site, f->lanes = lanes, f->lane = (uint32_t)__builtin_ctz(lanes);
  f->thread[0] = f->lane;
  return 1;
}
Bench *bench_open(const VgAllocation *table, uint32_t rows, int counting, int parallel,
                  uint64_t shared_bytes, uint64_t local_bytes) {
  Bench *b = aligned_alloc(64, (sizeof *b + 63) / 64 * 64);
  memset(b, 0, sizeof *b);
  b->launch.table = table, b->launch.table_count = rows, b->launch.counting = (uint32_t)counting;
  b->launch.parallel = (uint32_t)parallel, b->launch.site_count = 4, b->launch.resident_blocks = 1;
  b->worker.launch = &b->launch, b->worker.sites = b->sites, b->worker.resident = &b->block;
  b->block.shared = aligned_alloc(1024, shared_bytes + 1024 & ~1023ull);
  b->block.shared_bytes = shared_bytes, b->block.worker = &b->worker, b->block.warps = &b->warp;
  b->warp.block = &b->block, b->warp.worker = &b->worker;
  b->warp.local = calloc(32, local_bytes + 1), b->warp.local_stride = local_bytes;
  return b;
}
VgWarp *bench_warp(Bench *b) { return &b->warp; }
char *bench_shared(Bench *b) { return b->block.shared; }
char *bench_local(Bench *b) { return b->warp.local; }
VgSite *bench_sites(Bench *b) { return b->sites; }
VgFault *bench_fault(Bench *b) { return &b->worker.fault; }
void bench_close(Bench *b) {
  vg_async_reset(&b->warp), vg_memory_close(&b->worker);
  free(b->block.shared), free(b->warp.local), free(b);
}
double bench_repeat(VgWarp *w, const VgAccess *a, const uint64_t *at, void *const *data, int n, int store) {
  int bad = 0;
  for (int i = 0; i < n; i++)
    bad |= store ? vg_store(w, a, VG_FULL, at, (const void *const *)data) : vg_load(w, a, VG_FULL, at, data);
  return bad;
}
"""


class Access(ctypes.Structure):
    _fields_ = [("site", ctypes.c_uint32)] + [
        (name, ctypes.c_uint8)
        for name in ("space", "bytes", "count", "reg_bytes", "is_signed", "atomic", "type", "flags")
    ] + [("offset", ctypes.c_int64)]  # fmt: skip


class Site(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "requests", "threads", "sectors", "sectors_ideal",
            "wavefronts", "wavefronts_ideal", "bytes", "divergent", "conflicts",
        )
    ]  # fmt: skip


class Fault(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint32)
        for name in ("kind", "site", "space", "is_store", "bytes", "lane", "warp", "lanes")
    ] + [
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("address", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("text", ctypes.c_char * 512),
    ]  # fmt: skip


@functools.cache
def library() -> ctypes.CDLL:
    """The memory files of the runtime and the shim, compiled once for the test process."""
    compiler = next(c for c in ("cc", "gcc", "clang") if shutil.which(c))
    folder = Path(tempfile.mkdtemp(prefix="memory_harness_"))
    (folder / "shim.c").write_text(SHIM)
    sources = [
        RUNTIME / f"{name}.c"
        for name in (
            "memory",
            "count",
            "cache",
            "pattern",
            "atomic",
            "copy",
            "order",
            "shadow",
            "findings",
        )
    ]
    flags = ["-O2", "-ftree-vectorize", "-march=native", "-ffp-contract=off", "-fno-strict-aliasing",
             "-fwrapv", "-shared", "-fPIC", "-Wl,-Bsymbolic", f"-I{RUNTIME}"]  # fmt: skip
    target = folder / "memory.so"
    subprocess.run(
        [compiler, *flags, *sources, folder / "shim.c", RUNTIME / "rare.c", "-lm", "-o", target],
        check=True,
    )
    lib = ctypes.CDLL(str(target))
    shutil.rmtree(folder)
    for name in ("open", "warp", "shared", "local"):
        getattr(lib, f"bench_{name}").restype = ctypes.c_void_p
    lib.bench_sites.restype = ctypes.POINTER(Site)
    lib.bench_fault.restype = ctypes.POINTER(Fault)
    return lib


def pointers(arrays):
    """A C array of data pointers; None stays NULL."""
    return (ctypes.c_void_p * len(arrays))(*[None if a is None else a.ctypes.data for a in arrays])


class Bench:
    """One warp with its memory. Close it, or use it in `with`."""

    def __init__(
        self, table=None, *, counting=True, parallel=False, shared_bytes=1024, local_bytes=64
    ):
        self.lib, self.table = library(), table
        address, rows = (table.address, table.count) if table else (None, 0)
        self.handle = ctypes.c_void_p(
            self.lib.bench_open(
                ctypes.c_void_p(address), rows, int(counting), int(parallel),
                ctypes.c_uint64(shared_bytes), ctypes.c_uint64(local_bytes),
            )
        )  # fmt: skip
        self.warp = ctypes.c_void_p(self.lib.bench_warp(self.handle))
        self.shared_address = self.lib.bench_shared(self.handle)
        self.local_address = self.lib.bench_local(self.handle)
        self.shared = np.ctypeslib.as_array(
            (ctypes.c_uint8 * shared_bytes).from_address(self.shared_address)
        )
        self.site = self.lib.bench_sites(self.handle)[0]
        self.fault = self.lib.bench_fault(self.handle)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.bench_close(self.handle)

    def access(self, space, nbytes, count=1, reg_bytes=None, **more) -> Access:
        return Access(0, SPACES[space], nbytes, count, reg_bytes or max(nbytes, 2), **more)

    def load(self, access, address, into, mask=FULL) -> int:
        at = np.asarray(address).astype(np.uint64)
        return self.lib.vg_load(
            self.warp, ctypes.byref(access), mask, ctypes.c_void_p(at.ctypes.data), pointers(into)
        )

    def store(self, access, address, source, mask=FULL) -> int:
        at = np.asarray(address).astype(np.uint64)
        return self.lib.vg_store(
            self.warp, ctypes.byref(access), mask, ctypes.c_void_p(at.ctypes.data), pointers(source)
        )

    def atomic(self, access, address, old, operand, operand2=None, mask=FULL) -> int:
        at = np.asarray(address).astype(np.uint64)
        return self.lib.vg_atomic(
            self.warp, ctypes.byref(access), mask, ctypes.c_void_p(at.ctypes.data),
            pointers(old) if old else None, pointers(operand), pointers(operand2) if operand2 else None,
        )  # fmt: skip

    def async_copy(self, access, shared, source, mask=FULL, source_bytes=None, ignore=None) -> int:
        to, at = (np.asarray(x).astype(np.uint64) for x in (shared, source))
        lanes = [None if x is None else x.astype(np.uint32) for x in (source_bytes, ignore)]
        return self.lib.vg_async_copy(
            self.warp, ctypes.byref(access), mask, ctypes.c_void_p(to.ctypes.data), ctypes.c_void_p(at.ctypes.data),
            *[ctypes.c_void_p(None if x is None else x.ctypes.data) for x in lanes],
        )  # fmt: skip
