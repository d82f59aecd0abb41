"""Elementwise Triton programs: arithmetic, casts, random numbers, inline assembly, control flow."""
# SPDX-License-Identifier: Apache-2.0

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from .corpus import cdiv, close, entry, integers, launch, normal, same


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@entry()
def vector_add(device):
    for n in (1, 1000, 4096):
        x, y = normal(n, device=device), normal(n, seed=1, device=device)
        out = torch.empty_like(x)
        launch(add_kernel, (cdiv(n, 1024),), x, y, out, n, BLOCK=1024)
        same(out, x + y)


@triton.jit
def dropout_kernel(x, kept, out, n, p, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    keep = tl.load(kept + at, mask=mask) != 0
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=mask) / (1 - p), 0.0), mask=mask)


@triton.jit
def seeded_dropout_kernel(x, seeds, out, n, p, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    keep = tl.rand(tl.load(seeds + row), at) > p
    value = tl.load(x + row * n + at, mask=mask)
    tl.store(out + row * n + at, tl.where(keep, value / (1 - p), 0.0), mask=mask)


@entry()
def dropout(device):
    x, keep = normal(1000, device=device), integers(0, 2, 1000, device=device)
    out = torch.empty_like(x)
    launch(dropout_kernel, (1,), x, keep, out, 1000, 0.5, BLOCK=1024)
    close(out, torch.where(keep.bool(), x / 0.5, 0.0))


def philox(seed: int, counters: torch.Tensor) -> torch.Tensor:
    """First word of Philox 4x32, ten rounds (Salmon et al. 2011), as tl.rand turns it to [0, 1)."""
    low = 0xFFFF_FFFF
    c = [counters.long() & low] + [torch.zeros_like(counters).long() for _ in range(3)]
    k = [seed & low, seed >> 32 & low]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, [(c[2] >> 16) * 0xCD9E8D57, (c[2] & 0xFFFF) * 0xCD9E8D57]
        high_b = (b[0] + (b[1] >> 16)) >> 16 & low
        low_b = (b[0] << 16) + b[1] & low
        high_a = (((c[0] >> 16) * 0xD2511F53) + ((c[0] & 0xFFFF) * 0xD2511F53 >> 16)) >> 16 & low
        c = [high_b ^ c[1] ^ k[0], low_b, high_a ^ c[3] ^ k[1], a & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    signed = torch.where(c[0] >= 1 << 31, c[0] - (1 << 32), c[0])
    return torch.where(signed < 0, -signed - 1, signed).float() * 4.6566127342e-10


@entry()
def seeded_dropout(device):
    rows, n = 3, 200
    x, seeds = normal(rows, n, device=device), integers(0, 1 << 30, rows, device=device)
    out = torch.empty_like(x)
    launch(seeded_dropout_kernel, (rows, 1), x, seeds, out, n, 0.4, BLOCK=256)
    for row in range(rows):
        keep = philox(int(seeds[row]), torch.arange(n)) > 0.4
        close(out[row], torch.where(keep, x[row].cpu() / 0.6, 0.0))


@triton.jit
def random_kernel(uniform, gauss, words, four, seed, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(uniform + at, tl.rand(seed, at))
    tl.store(gauss + at, tl.randn(seed, at))
    tl.store(words + at, tl.randint(seed, at))
    a, b, c, d = tl.rand4x(seed, at)
    tl.store(four + at, a + b + c + d)


@entry()
def random_numbers(device):
    n = 2048
    uniform, gauss, four = (torch.empty(n, device=device) for _ in range(3))
    words = torch.empty(n, dtype=torch.int32, device=device)
    launch(random_kernel, (1,), uniform, gauss, words, four, 1234, BLOCK=n)
    close(uniform, philox(1234, torch.arange(n)), 0, 1e-7)
    assert abs(gauss.mean()) < 0.1
    assert abs(gauss.std() - 1) < 0.1
    assert abs(four.mean() - 2) < 0.1
    assert words.unique().numel() == n


@triton.jit
def library_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    a = libdevice.asin(v) + libdevice.atan2(v, v + 2) + libdevice.cosh(v)
    b = libdevice.erf(v) + libdevice.log1p(v) + libdevice.cbrt(v) + libdevice.pow(v + 2, v)
    tl.store(out + at, a, mask=at < n)
    tl.store(out + n + at, b, mask=at < n)
    tl.store(out + 2 * n + at, libdevice.rint(8 * v) + libdevice.ffs(at), mask=at < n)


@entry()
def libdevice_functions(device):
    x = torch.linspace(-0.95, 0.95, 500, device=device)
    out = torch.empty(3, 500, device=device)
    launch(library_kernel, (2,), x, out, 500, BLOCK=256)
    w = x.double().cpu()
    root = torch.sign(w) * w.abs() ** (1 / 3)
    close(out[0], torch.asin(w) + torch.atan2(w, w + 2) + torch.cosh(w), 3e-6, 1e-6)
    close(out[1], torch.erf(w) + torch.log1p(w) + root + (w + 2) ** w, 3e-6, 1e-6)
    first = torch.tensor([(i & -i).bit_length() for i in range(500)])
    close(out[2], torch.round(8 * x.cpu()) + first)


@triton.jit
def asm_kernel(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    both = tl.inline_asm_elementwise(
        "{ .reg .b32 t; xor.b32 t, $1, $2; not.b32 $0, t; }", "=r,r,r", [a, b], tl.int32, True, 1)  # fmt: skip
    low, high = tl.inline_asm_elementwise(
        "{ mul.lo.s32 $0, $2, $3; mul.hi.s32 $1, $2, $3; }", "=r,=r,r,r", [a, b],
        (tl.int32, tl.int32), True, 1)  # fmt: skip
    tl.store(out + at, both)
    tl.store(out + BLOCK + at, low)
    tl.store(out + 2 * BLOCK + at, high)


@triton.jit
def asm_packed_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    flipped = tl.inline_asm_elementwise(
        "lop3.b32 $0, $1, 0x0f0f0f0f, 0, 0x3c;", "=r,r", [tl.load(x + at)], tl.int8, True, 4
    )
    tl.store(out + at, flipped)


@entry()
def inline_assembly(device):
    x, y = (integers(-(1 << 31), 1 << 31, 256, seed=s, device=device) for s in (0, 1))
    out = torch.empty(3, 256, dtype=torch.int32, device=device)
    launch(asm_kernel, (1,), x, y, out, BLOCK=256)
    product = x.long() * y.long()
    same(out[0], ~(x ^ y))
    same(out[1], (product << 32 >> 32).int())
    same(out[2], (product >> 32).int())
    small = integers(-128, 128, 512, dtype=torch.int8, device=device)
    turned = torch.empty_like(small)
    launch(asm_packed_kernel, (1,), small, turned, BLOCK=512)
    same(turned, small ^ 0x0F)


@triton.jit
def rotary_kernel(x, cos, sin, out, HALF: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, HALF)
    base = x + row * 2 * HALF
    a, b = tl.load(base + at).to(tl.float32), tl.load(base + HALF + at).to(tl.float32)
    c, s = tl.load(cos + row * HALF + at), tl.load(sin + row * HALF + at)
    target = out + row * 2 * HALF + at
    tl.store(target, (a * c - b * s).to(out.dtype.element_ty))
    tl.store(target + HALF, (b * c + a * s).to(out.dtype.element_ty))


@entry()
def rotary(device):
    t, half = 12, 32
    x = normal(t, 2 * half, dtype=torch.float16, device=device)
    angle = torch.outer(torch.arange(t), 1e-4 ** (torch.arange(half) / half)).to(device)
    out = torch.empty_like(x)
    launch(rotary_kernel, (t,), x, angle.cos(), angle.sin(), out, HALF=half)
    a, b = x.float().chunk(2, -1)
    c, s = angle.cos(), angle.sin()
    close(out, torch.cat([a * c - b * s, b * c + a * s], -1), 1e-3, 1e-3)


@triton.jit
def quantize_kernel(x, q, scale, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    s = tl.max(tl.abs(v), axis=0) / 127.0
    tl.store(q + row * n + at, libdevice.rint(v / s).to(tl.int8), mask=at < n)
    tl.store(scale + row, s)


@entry()
def quantize_int8(device):
    rows, n = 5, 200
    x = normal(rows, n, device=device)
    q, scale = (
        torch.empty(rows, n, dtype=torch.int8, device=device),
        torch.empty(rows, device=device),
    )
    launch(quantize_kernel, (rows,), x, q, scale, n, BLOCK=256)
    close(scale, x.abs().amax(1) / 127)
    close(q * scale[:, None], x, 0, float(scale.max()) * 0.51)


@triton.jit
def dequantize_kernel(packed, scales, out, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    byte = tl.load(packed + at)
    low = ((byte & 15).to(tl.int8) << 4) >> 4
    high = byte.to(tl.int8, bitcast=True) >> 4
    both = tl.interleave(low, high).to(tl.float16)
    wide = tl.program_id(0) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    tl.store(out + wide, both * tl.load(scales + wide // GROUP))


@entry()
def dequantize_int4(device):
    values = integers(-8, 8, 1024, device=device)
    pairs = values.view(-1, 2)
    packed = ((pairs[:, 0] & 15) | (pairs[:, 1] & 15) << 4).to(torch.uint8)
    scales = normal(16, dtype=torch.float16, device=device)
    out = torch.empty(1024, dtype=torch.float16, device=device)
    launch(dequantize_kernel, (2,), packed, scales, out, GROUP=64, BLOCK=256)
    same(out, values.half() * scales.repeat_interleave(64))


@triton.jit
def cast_kernel(x, halves, brains, fives, bytes_, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(halves + at, v.to(tl.float16))
    tl.store(brains + at, v.to(tl.bfloat16))
    tl.store(fives + at, v.to(tl.float8e5).to(tl.float16))
    tl.store(bytes_ + at, v.to(tl.int8))


@entry()
def casts(device):
    x = torch.cat([normal(254, device=device) * 30, torch.tensor([0.0, -0.0], device=device)])
    half = torch.empty(256, dtype=torch.float16, device=device)
    brain, fives = half.bfloat16(), torch.empty_like(half)
    small = half.to(torch.int8)
    launch(cast_kernel, (1,), x, half, brain, fives, small, BLOCK=256)
    same(half, x.half())
    same(brain, x.bfloat16())
    same(fives, x.to(torch.float8_e5m2).half())
    same(small, x.to(torch.int8))


@triton.jit
def float8_kernel(x, stored, back, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at).to(tl.float8e4nv)
    tl.store(stored + at, v)
    tl.store(back + at, v.to(tl.float32))


@entry(89, why="Triton has fp8e4nv from sm_89 on")
def casts_float8(device):
    x = normal(256, device=device) * 100
    stored = torch.empty(256, dtype=torch.float8_e4m3fn, device=device)
    back = torch.empty_like(x)
    launch(float8_kernel, (1,), x, stored, back, BLOCK=256)
    want = x.clamp(-448, 448).to(torch.float8_e4m3fn)
    same(back, want.float())
    same(stored.view(torch.uint8), want.view(torch.uint8))


@triton.jit
def shape_kernel(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, N)
    at = i[:, None] * N + j[None, :]
    v = tl.load(x + at)
    left, right = tl.split(tl.reshape(tl.trans(v), (N, N // 2, 2)))
    joined = tl.reshape(tl.join(right, left), (N, N))
    tl.store(out + at, joined)
    tl.store(out + N * N + at, tl.flip(v, 1) + tl.sum(v, 0, keep_dims=True))
    cube = tl.permute(tl.reshape(v, (4, N // 4, N)), (1, 0, 2))
    tl.store(out + 2 * N * N + at, tl.reshape(cube, (N, N)))
    tl.store(out + 3 * N * N + at, tl.broadcast_to(tl.sum(v, 1)[:, None], (N, N)))


@entry()
def shapes(device):
    n = 32
    x = integers(-50, 50, n, n, device=device)
    out = torch.empty(4, n, n, dtype=torch.int32, device=device)
    launch(shape_kernel, (1,), x, out, N=n)
    same(out[0], x.T.reshape(n, n // 2, 2).flip(2).reshape(n, n))
    same(out[1], x.flip(1) + x.sum(0, keepdim=True))
    same(out[2], x.reshape(4, n // 4, n).permute(1, 0, 2).reshape(n, n))
    same(out[3], x.sum(1, keepdim=True).expand(n, n))


@triton.jit
def collatz_kernel(x, steps, n):
    i = tl.program_id(0)
    value, count = tl.load(x + i), 0
    while value != 1:
        if value % 2 == 0:
            value = value // 2
        else:
            value = 3 * value + 1
        count += 1
    tl.store(steps + i, count)


@entry()
def while_loop(device):
    x = torch.arange(1, 20, dtype=torch.int32, device=device)
    steps = torch.empty_like(x)
    launch(collatz_kernel, (19,), x, steps, 19, num_warps=1)

    def count(v):
        return 0 if v == 1 else 1 + count(v // 2 if v % 2 == 0 else 3 * v + 1)

    same(steps, torch.tensor([count(int(v)) for v in x.cpu()]))


@triton.jit
def nested_kernel(x, out, rows, columns, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        start = 0
        while start < columns:
            at = start + tl.arange(0, BLOCK)
            v = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
            total += tl.where(v > 0, v, 0.1 * v)
            start += BLOCK
    tl.store(out + tl.program_id(0), tl.sum(total))


@entry()
def nested_loops(device):
    x = normal(7, 300, device=device)
    out = torch.empty(3, device=device)
    launch(nested_kernel, (3,), x, out, 7, 300, BLOCK=128)
    rows = torch.nn.functional.leaky_relu(x.double(), 0.1).sum(1)
    close(out, torch.stack([rows[i::3].sum() for i in range(3)]), 1e-5, 1e-4)


@triton.jit
def talking_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.device_print("value", v)
    tl.device_assert(v < 100, "too big")
    tl.store(out + at, v * 2)


@entry()
def print_and_assert(device):
    x = torch.arange(32, dtype=torch.int32, device=device)
    out = torch.empty_like(x)
    launch(talking_kernel, (1,), x, out, BLOCK=32, num_warps=1, debug=True)
    same(out, x * 2)


@triton.jit
def integer_kernel(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, (a // b) * 3 + a % b)
    u, v = a.to(tl.uint32, bitcast=True), b.to(tl.uint32, bitcast=True)
    tl.store(
        out + BLOCK + at, tl.umulhi(u, v).to(tl.int32, bitcast=True) ^ (a >> 3) ^ (a << (b & 7))
    )
    tl.store(out + 2 * BLOCK + at, tl.minimum(a, b) - tl.maximum(a, b) + tl.abs(b))


@entry()
def integer_arithmetic(device):
    x = integers(-(1 << 30), 1 << 30, 256, device=device)
    y = integers(1, 1 << 20, 256, seed=1, device=device)
    out = torch.empty(3, 256, dtype=torch.int32, device=device)
    launch(integer_kernel, (1,), x, y, out, BLOCK=256)
    quotient = torch.div(x.long(), y.long(), rounding_mode="trunc")
    wrap = lambda t: ((t + (1 << 31)) % (1 << 32) - (1 << 31)).int()  # noqa: E731
    same(out[0], wrap(quotient * 3 + torch.fmod(x.long(), y.long())))
    high = (x.long() % (1 << 32)) * y.long() >> 32
    same(out[1], wrap(high) ^ (x >> 3) ^ wrap(x.long() << (y.long() & 7)))
    same(out[2], wrap(torch.minimum(x, y).long() - torch.maximum(x, y).long() + y.long()))


@triton.jit
def double_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(out + at, tl.exp(v) / tl.sqrt(v) + tl.log(v) * tl.cos(v) + tl.fma(v, v, v))


@entry()
def doubles(device):
    x = torch.linspace(0.1, 6, 256, dtype=torch.float64, device=device)
    out = torch.empty_like(x)
    launch(double_kernel, (1,), x, out, BLOCK=256)
    close(out, torch.exp(x) / torch.sqrt(x) + torch.log(x) * torch.cos(x) + x * x + x, 1e-13, 1e-13)


@triton.jit
def activation_kernel(x, gate, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    v, g = tl.load(x + at, mask=mask).to(tl.float32), tl.load(gate + at, mask=mask).to(tl.float32)
    gelu = 0.5 * v * (1 + tl.erf(v * 0.7071067811865476))
    tl.store(
        out + at, (gelu + g * tl.sigmoid(g) + tl.clamp(v, -0.5, 0.5)).to(tl.bfloat16), mask=mask
    )


@entry()
def activations(device):
    x, g = (normal(1000, seed=s, dtype=torch.bfloat16, device=device) for s in (0, 1))
    out = torch.empty_like(x)
    launch(activation_kernel, (2,), x, g, out, 1000, BLOCK=512)
    f = torch.nn.functional
    want = f.gelu(x.double()) + f.silu(g.double()) + x.double().clamp(-0.5, 0.5)
    close(out, want, 8e-3, 8e-3)


@triton.jit
def dependent_kernel(x, y, out, n, BLOCK: tl.constexpr, GDC: tl.constexpr):
    if GDC:
        tl.extra.cuda.gdc_wait()
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + at, mask=at < n), tl.load(y + at, mask=at < n)
    if GDC:
        tl.extra.cuda.gdc_launch_dependents()
    tl.store(out + at, a + b, mask=at < n)


@entry(90, why="griddepcontrol exists from sm_90 on")
def programmatic_dependent_launch(device):
    x, y = normal(3000, device=device), normal(3000, seed=1, device=device)
    out = torch.empty_like(x)
    launch(dependent_kernel, (3,), x, y, out, 3000, BLOCK=1024, GDC=True, launch_pdl=True)
    same(out, x + y)
