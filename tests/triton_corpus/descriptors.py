"""Triton programs over tensor descriptors made in the kernel: TMA copies, gathers, reductions."""
# SPDX-License-Identifier: Apache-2.0

import torch
import triton
import triton.language as tl

from .corpus import close, entry, integers, launch, normal, same

HOPPER = "Triton lowers descriptors to TMA from sm_90 on; sm_120 has it too"


@triton.jit
def copy_kernel(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([m, n], source.load([m, n]) * 2)


@entry()
def descriptor_copy(device):
    for dtype in (torch.float32, torch.float16, torch.int8):
        x = integers(-50, 50, 40, 80, dtype=dtype, device=device)
        out = torch.zeros_like(x)
        launch(copy_kernel, (2, 3), x, out, 40, 80, BM=32, BN=32)
        same(out, x * 2)


@triton.jit
def cube_kernel(x, out, A, B, C, BB: tl.constexpr, BC: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [A, B, C], [B * C, C, 1], [2, BB, BC])
    target = tl.make_tensor_descriptor(out, [A, B, C], [B * C, C, 1], [2, BB, BC])
    a = tl.program_id(0) * 2
    target.store([a, 0, 0], source.load([a, 0, 0]) + 1)


@entry()
def descriptor_of_three_axes(device):
    x = normal(3, 12, 20, device=device)
    out = torch.zeros_like(x)
    launch(cube_kernel, (2,), x, out, 3, 12, 20, BB=16, BC=32)
    same(out, x + 1)


@triton.jit
def reduce_kernel(x, total, largest, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    sums = tl.make_tensor_descriptor(total, [BM, N], [N, 1], [BM, BN])
    tops = tl.make_tensor_descriptor(largest, [BM, N], [N, 1], [BM, BN])
    value = source.load([tl.program_id(0) * BM, 0])
    sums.atomic_add([0, 0], value)
    tops.atomic_max([0, 0], value)


@entry()
def descriptor_reductions(device):
    x = integers(-50, 50, 64, 32, device=device)
    total = torch.zeros(16, 32, dtype=torch.int32, device=device)
    largest = torch.full_like(total, -1000)
    launch(reduce_kernel, (4,), x, total, largest, 64, 32, BM=16, BN=32)
    same(total, x.view(4, 16, 32).sum(0))
    same(largest, x.view(4, 16, 32).amax(0))


@triton.jit
def gather_kernel(x, rows, out, M, N, K: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, BN])
    picked = source.gather(tl.load(rows + tl.arange(0, K)), tl.program_id(0) * BN)
    at = tl.arange(0, K)[:, None] * N + tl.program_id(0) * BN + tl.arange(0, BN)[None, :]
    tl.store(out + at, picked)


@triton.jit
def scatter_kernel(x, rows, out, M, N, K: tl.constexpr, BN: tl.constexpr):
    at = tl.arange(0, K)[:, None] * N + tl.program_id(0) * BN + tl.arange(0, BN)[None, :]
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [1, BN])
    target.scatter(tl.load(x + at), tl.load(rows + tl.arange(0, K)), tl.program_id(0) * BN)


@entry(archs=(80, 100), why="gather4 and scatter4 are sm_100's; older targets get plain loads")
def descriptor_gather_and_scatter(device):
    x = normal(64, 64, device=device)
    rows = torch.randperm(64, generator=torch.Generator().manual_seed(0))[:32].int().to(device)
    out, back = torch.zeros(32, 64, device=device), torch.zeros(64, 64, device=device)
    launch(gather_kernel, (2,), x, rows, out, 64, 64, K=32, BN=32)
    same(out, x[rows.long()])
    launch(scatter_kernel, (2,), out, rows, back, 64, 64, K=32, BN=32)
    same(back[rows.long()], out)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                  STAGES: tl.constexpr, SPECIALIZE: tl.constexpr):  # fmt: skip
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for step in tl.range(0, tl.cdiv(K, BK), num_stages=STAGES, warp_specialize=SPECIALIZE):
        sums = tl.dot(left.load([m, step * BK]), right.load([n, step * BK]).T, sums)
    out.store([m, n], sums.to(c.dtype.element_ty))


def matmul_case(device, dtype, specialize, tile=(128, 64, 64), **options):
    bm, bn, bk = tile
    a, b = (normal(2 * bm, 160, seed=s, device=device).to(dtype) for s in (0, 1))
    b = b[: 2 * bn].contiguous()
    out_dtype = torch.float16 if dtype == torch.float16 else torch.float32
    c = torch.zeros(2 * bm, 2 * bn, dtype=out_dtype, device=device)
    launch(matmul_kernel, (2, 2), a, b, c, 2 * bm, 2 * bn, 160, BM=bm, BN=bn, BK=bk, STAGES=3,
           SPECIALIZE=specialize, **options)  # fmt: skip
    close(c, a.double().cpu() @ b.double().cpu().T, 2e-3, 3e-2)


@entry()
def descriptor_matmul(device):
    matmul_case(device, torch.float16, False, (64, 64, 32))


@entry(90, why="Triton has fp8e4nv from sm_89 on")
def descriptor_matmul_float8(device):
    matmul_case(device, torch.float8_e4m3fn, False)


@entry(100, archs=(100,), why="Triton's automatic warp specialisation is sm_100's")
def descriptor_matmul_warp_specialized(device):
    matmul_case(device, torch.float16, True, (128, 128, 64))


@triton.jit
def persistent_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                      FLATTEN: tl.constexpr, SPECIALIZE: tl.constexpr):  # fmt: skip
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    along = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * along, tl.num_programs(0),
                         flatten=FLATTEN, warp_specialize=SPECIALIZE):  # fmt: skip
        m, n = tile // along * BM, tile % along * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for step in range(tl.cdiv(K, BK)):
            sums = tl.dot(left.load([m, step * BK]), right.load([n, step * BK]).T, sums)
        out.store([m, n], sums.to(tl.float16))


def persistent_case(device, flatten, specialize):
    a, b = (normal(256, 128, seed=s, dtype=torch.float16, device=device) for s in (0, 1))
    c = torch.zeros(256, 256, dtype=torch.float16, device=device)
    launch(persistent_kernel, (3,), a, b, c, 256, 256, 128, BM=128, BN=64, BK=64, FLATTEN=flatten,
           SPECIALIZE=specialize, num_stages=2)  # fmt: skip
    close(c, a.double().cpu() @ b.double().cpu().T, 2e-3, 3e-2)


@entry()
def descriptor_matmul_persistent(device):
    persistent_case(device, False, False)


@entry(90, why="two stages of 128 x 64 tiles, flattened, are made for TMA")
def descriptor_matmul_flattened(device):
    persistent_case(device, True, False)


@entry(100, archs=(100,), why="Triton's automatic warp specialisation is sm_100's", since=(3, 7))
def descriptor_matmul_persistent_specialized(device):
    persistent_case(device, False, True)


@triton.jit
def attention_kernel(q, k, v, out, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                     SPECIALIZE: tl.constexpr):  # fmt: skip
    head, m = tl.program_id(1), tl.program_id(0) * BM
    queries = tl.make_tensor_descriptor(q, [T * tl.num_programs(1), D], [D, 1], [BM, D])
    keys = tl.make_tensor_descriptor(k, [T * tl.num_programs(1), D], [D, 1], [BN, D])
    values = tl.make_tensor_descriptor(v, [T * tl.num_programs(1), D], [D, 1], [BN, D])
    outs = tl.make_tensor_descriptor(out, [T * tl.num_programs(1), D], [D, 1], [BM, D])
    query = queries.load([head * T + m, 0])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total, sums = tl.zeros((BM,), tl.float32), tl.zeros((BM, D), tl.float32)
    for start in tl.range(0, T, BN, warp_specialize=SPECIALIZE):
        score = tl.dot(query, keys.load([head * T + start, 0]).T) * (scale * 1.44269504)
        new = tl.maximum(top, tl.max(score, 1))
        p = tl.exp2(score - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, 1)
        value = values.load([head * T + start, 0])
        sums = tl.dot(p.to(value.dtype), value, sums * shrink[:, None])
        top = new
    outs.store([head * T + m, 0], (sums / total[:, None]).to(out.dtype.element_ty))


def attention_case(device, specialize):
    heads, t, d = 2, 256, 64
    q, k, v = (normal(heads, t, d, seed=s, dtype=torch.float16, device=device) for s in range(3))
    out = torch.zeros_like(q)
    launch(attention_kernel, (t // 128, heads), q, k, v, out, 0.125, t, D=d, BM=128, BN=64,
           SPECIALIZE=specialize)  # fmt: skip
    f = torch.nn.functional
    want = f.scaled_dot_product_attention(*(x.double().cpu() for x in (q, k, v)), scale=0.125)
    close(out, want, 4e-3, 4e-3)


@entry()
def descriptor_attention(device):
    attention_case(device, False)


@entry(100, archs=(100,), why="Triton's automatic warp specialisation is sm_100's")
def descriptor_attention_specialized(device):
    attention_case(device, True)


@triton.jit
def host_kernel(left, right, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        sums = tl.dot(left.load([m, step * BK]), right.load([n, step * BK]).T, sums)
    out.store([m, n], sums.to(tl.float16))


@entry()
def descriptors_made_on_the_host(device):
    from triton.tools.tensor_descriptor import TensorDescriptor

    a, b = (normal(100, 160, seed=s, dtype=torch.float16, device=device) for s in (0, 1))
    c = torch.zeros(100, 104, dtype=torch.float16, device=device)
    blocks = ((a, [64, 32]), (b, [64, 32]), (c, [64, 64]))
    made = [TensorDescriptor.from_tensor(t, block) for t, block in blocks]
    launch(host_kernel, (2, 2), *made, 160, BM=64, BN=64, BK=32)
    close(c[:, :100], a.double().cpu() @ b.double().cpu().T, 2e-3, 3e-2)
    assert not c[:, 100:].any()
