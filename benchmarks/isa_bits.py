"""The same PTX on a GPU and on the virtual GPU, bit for bit: every arithmetic spelling, whole kernels.

    python benchmarks/isa_bits.py record RECORD     # on a machine with a GPU: its results
    python benchmarks/isa_bits.py compare RECORD    # anywhere: the virtual GPU's, against the record

`record` writes what the GPU gave as compressed arrays, with the PTX of the whole kernels, so that the
comparison can be made again after a change without a GPU. `compare` writes
benchmarks/results/isa_bits.json: spellings that differ, ulp errors of approximate functions, kernels.
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from about import ROOT, about, gpu_name

sys.path.insert(0, str(ROOT / "tests" / "vgpu"))
import isa_batches
import isa_spellings
from isa_oracle import FORMATS

ROWS, MANY_ROWS, BATCH = isa_batches.ROWS, 1 << 15, 48
KERNEL_N = 4096
CHECKED_ON = 90  # architecture of the GPU that the record is of


# --------------------------------------------------------------------------------------- spellings


def batches(family: str) -> list[isa_batches.Batch]:
    """The family's exact spellings in batches; approximate ones over many more rows."""
    found = [s for s in isa_spellings.spellings(family) if s.arch <= CHECKED_ON]
    exact = [s for s in found if not s.approximate]
    rough = [s for s in found if s.approximate]
    parts = [exact[i : i + BATCH] for i in range(0, len(exact), BATCH)]
    made = [isa_batches.batch(p) for p in parts]
    return made + [isa_batches.batch([s], rows=MANY_ROWS) for s in rough]


def parameters(ptx: str, kernel: str) -> tuple:
    from warpsmith import vgpu
    from warpsmith.spec.artifact import Parameter

    info = vgpu.load(ptx).kernels[kernel]
    return tuple(
        Parameter("pointer" if p.kind == "pointer" else "struct", p.name, "", p.size)
        for p in info.parameters
    )


def on_gpu(ptx: str, kernel: str, grid: Any, block: Any, args: list, shared: int = 0) -> None:
    """Run a kernel of a PTX text on the GPU; arrays are copied there and back."""
    import torch

    from warpsmith.devices.launch import launch
    from warpsmith.spec import Artifact

    artifact = Artifact("ptx", kernel, "sm_90a", ptx, parameters(ptx, kernel))
    device = [
        torch.from_numpy(a.reshape(-1).view(np.uint8)).cuda() if isinstance(a, np.ndarray) else a
        for a in args
    ]
    plain = [a.tobytes() if isinstance(a, np.generic) else a for a in device]
    launch(artifact, grid, block, shared, plain)
    torch.cuda.synchronize()
    for host, there in zip(args, device):
        if isinstance(host, np.ndarray):
            host[...] = there.cpu().numpy().view(host.dtype).reshape(host.shape)


def on_virtual(ptx: str, kernel: str, grid: Any, block: Any, args: list, shared: int = 0) -> None:
    """The same on the virtual GPU."""
    from launching import Bench

    Bench(ptx).right(kernel, grid, block, *args, shared_bytes=shared, count=False)


def results(batch: isa_batches.Batch, run) -> np.ndarray:
    out = np.full((batch.results, batch.rows), isa_batches.SENTINEL, np.uint64)
    cells = np.zeros(batch.rows, np.uint64)
    run(batch.ptx, "batch", (batch.rows // 128,), (128,),
        [batch.operands, out, cells, np.uint32(128), np.uint32(0xFFFFFFFF)])  # fmt: skip
    return out


def compare_family(family: str, recorded: dict[str, np.ndarray]) -> dict[str, Any]:
    """Spelling by spelling: equal bits, or how the rows differ."""
    report: dict[str, Any] = {
        "spellings": 0,
        "equal": 0,
        "differ": {},
        "approximate": {},
        "refused": {},
    }
    for number, batch in enumerate(batches(family)):
        wanted = recorded[f"{family}_{number}"]
        for part, got in virtual_parts(batch, report):
            for item in part.spellings:
                place = batch.places[item.name]
                enter(report, item, batch, wanted[place], got[part.places[item.name]])
    return report


def virtual_parts(batch: isa_batches.Batch, report: dict[str, Any]):
    """The batch's results; one spelling at a time where the virtual GPU refuses one of them."""
    from warpsmith.errors import WarpsmithError

    try:
        yield batch, results(batch, on_virtual)
        return
    except WarpsmithError:
        pass
    for item in batch.spellings:
        alone = isa_batches.batch([item], rows=batch.rows)
        try:
            yield alone, results(alone, on_virtual)
        except WarpsmithError as error:
            report["spellings"] += 1
            report["refused"][item.name] = str(error)


def enter(report: dict, item, batch, want: np.ndarray, got: np.ndarray) -> None:
    report["spellings"] += 1
    if item.approximate:
        report["approximate"][item.name] = ulps(item.results[0], want[0], got[0])
        return
    wrong = np.flatnonzero((want != got).any(axis=0))
    if not wrong.size:
        report["equal"] += 1
        return
    row = int(wrong[0])
    operands = isa_batches.columns(item.sources, batch.rows)[:, row]
    report["differ"][item.name] = {
        "rows": int(wrong.size), "of": batch.rows, "operands": [hex(int(x)) for x in operands],
        "gpu": [hex(int(x)) for x in want[:, row]], "virtual": [hex(int(x)) for x in got[:, row]],
    }  # fmt: skip


def ulps(kind: str, want: np.ndarray, got: np.ndarray) -> dict[str, Any]:
    """Distance in units of the last place between finite results; how many other results differ."""
    parts = 2 if kind.endswith("x2") else 1
    name = kind.removesuffix("x2")
    f = FORMATS[name]
    mask = (1 << f.bits) - 1
    a, b = (np.concatenate([x >> np.uint64(i * f.bits) & np.uint64(mask) for i in range(parts)])
            .astype(np.int64 if f.bits < 64 else np.uint64) for x in (want, got))  # fmt: skip
    finite = (a & (f.sign - 1) <= f.largest) & (b & (f.sign - 1) <= f.largest)
    x, y = (ordered(v[finite], f) for v in (a, b))
    distance = np.abs(x - y)
    special = int((a[~finite] != b[~finite]).sum())
    return {
        "rows": len(a), "equal": float((a == b).mean()), "special_values_that_differ": special,
        "max_ulp": int(distance.max(initial=0)), "mean_ulp": float(distance.mean()) if len(x) else 0.0,
    }  # fmt: skip


def ordered(bits: np.ndarray, f) -> np.ndarray:
    """Integers in the order of the floats, neighbors one apart."""
    bits = bits.astype(np.int64)
    size = bits & np.int64(f.sign - 1 if f.bits < 64 else 0x7FFFFFFFFFFFFFFF)
    return np.where(
        bits < 0 if f.bits == 64 else (bits & np.int64(f.sign if f.bits < 64 else 0)) != 0,
        -size,
        size,
    )


# ------------------------------------------------------------------------------------ whole kernels


def cuda_kernels() -> list[dict[str, Any]]:
    """The kernels of bits_kernels.cu, contracted as NVRTC does by default and not at all."""
    from compile import cuda

    source = (ROOT / "benchmarks" / "bits_kernels.cu").read_text()
    made = []
    for name, options in (
        ("fmad", ("-device-int128",)),
        ("no_fmad", ("-device-int128", "-fmad=false")),
    ):
        ptx = cuda(source, "sm_90", *options)
        for kernel in re.findall(r"\.visible \.entry (\w+)", ptx):
            if name == "no_fmad" and kernel[0] == "i":
                continue
            made.append({"name": f"{kernel} {name}", "kernel": kernel, "ptx": ptx, "grid": (KERNEL_N // 256,),
                         "block": (256,), "args": plain_args(kernel)})  # fmt: skip
    return made


def plain_args(kernel: str) -> list:
    random = np.random.default_rng(3)
    if kernel[0] == "i":
        given = random.integers(0, 1 << 32, KERNEL_N, np.uint64).astype(np.uint32)
    else:
        given = (random.standard_normal(KERNEL_N) * 2).astype(
            np.float32 if kernel[0] == "f" else np.float64
        )
    return [given, np.zeros_like(given), np.int32(KERNEL_N)]


def tensor_kernels() -> list[dict[str, Any]]:
    """nvcuda::wmma of every type, and mma by hand."""
    from compile import cuda_file

    ptx = cuda_file("tensor.cu", "sm_90")
    random, made = np.random.default_rng(5), []
    shapes = {"wmma_f16": ("f2", "f4", 16, 16), "wmma_f16_sums": ("f2", "f2", 16, 16), "wmma_tall": ("f2", "f4", 32, 8),
              "wmma_bf16": ("bf16", "f4", 16, 16), "wmma_wide_bf16": ("bf16", "f4", 8, 32),
              "wmma_tf32": ("f4", "f4", 16, 16), "wmma_s8": ("i1", "i4", 16, 16), "wmma_f64": ("f8", "f8", 8, 8)}  # fmt: skip
    for kernel, (kind, out, m, n) in shapes.items():
        k = 64
        a, b = (values(random, kind, (size, k)) for size in (m * 2, n * 2))
        c = np.zeros((m * 2, n * 2), out)
        made.append({"name": kernel, "kernel": kernel, "ptx": ptx, "grid": (2, 2), "block": (32,),
                     "args": [a, b, c, np.int32(n * 2), np.int32(k)]})  # fmt: skip
    return made


def values(random, kind: str, shape) -> np.ndarray:
    if kind == "i1":
        return random.integers(-128, 128, shape, np.int64).astype(np.int8)
    x = random.standard_normal(shape)
    if kind == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return x.astype(kind)


def triton_kernels() -> list[dict[str, Any]]:
    """Triton kernels of exact operations, and products on tensor cores."""
    from compile import triton_ptx
    from kernels import triton_kernels as t

    random, made = np.random.default_rng(7), []
    n, p, h = 1024, "*fp32", "*fp16"
    x, whole = (
        random.standard_normal(n).astype(np.float32),
        random.integers(-(1 << 31), 1 << 31, n, np.int64).astype(np.int32),
    )
    z = np.zeros(n, np.float32)
    half = [random.standard_normal((128, 128)).astype(np.float16) for _ in range(2)]
    cases = [
        ("add", [p, p, p, "i32"], {"BLOCK": 256}, (4,), [x, x[::-1].copy(), z, np.int32(n)]),
        ("cumulative", [p, p], {"BLOCK": 1024}, (1,), [x, z]),
        ("sort", [p, p], {"BLOCK": 1024}, (1,), [x, z]),
        ("integers", ["*i32", "*i32"], {"BLOCK": 1024}, (1,), [whole, np.zeros_like(whole)]),
        ("to_float8", [p, p], {"BLOCK": 1024}, (1,), [x, z]),
        ("products", [p, p], {"BLOCK": 32}, (1,), [x, z]),
        ("histogram", ["*i32", "*i32", "i32"], {"BINS": 64, "BLOCK": 1024}, (1,),
         [(whole & 63), np.zeros(64, np.int32), np.int32(n)]),
        ("matmul", [h, h, p, "i32", "i32", "i32"], {"BM": 64, "BN": 64, "BK": 32}, (2, 2),
         [*half, np.zeros((128, 128), np.float32), *[np.int32(128)] * 3]),
        ("dot", [p, p, p], {"BLOCK": 32, "PRECISION": "ieee"}, (1,), [x, x[::-1].copy(), z]),
        ("dot", [p, p, p], {"BLOCK": 32, "PRECISION": "tf32"}, (1,), [x, x[::-1].copy(), z]),
        ("softmax", [p, p, "i32"], {"BLOCK": 1024}, (1,), [x, z, np.int32(n)]),
    ]  # fmt: skip
    for arch in (80, 90):
        for name, types, constants, grid, args in cases:
            if name == "to_float8" and arch == 80:  # e4m3 begins with sm_89
                continue
            function = getattr(t, name)
            names = [a for a in function.arg_names if a not in constants]
            signature = dict(zip(names, types)) | dict.fromkeys(constants, "constexpr")
            ptx, meta = triton_ptx(function, signature, constants, arch, num_warps=4)
            scratch = len(re.findall(r"\.param ", ptx.split(")")[0])) - len(args)
            extra = "" if "PRECISION" not in constants else f" {constants['PRECISION']}"
            made.append({"name": f"triton {name}{extra} sm_{arch}", "kernel": name, "ptx": ptx, "grid": grid,
                         "block": (128,), "shared": meta.shared,
                         "args": [*args, *[np.zeros(16, np.uint8)] * scratch]})  # fmt: skip
    return made


def run_kernel(case: dict[str, Any], run) -> list[np.ndarray]:
    """The arrays of a kernel's arguments after it has run."""
    args = [a.copy() for a in case["args"]]
    run(case["ptx"], case["kernel"], case["grid"], case["block"], args, case.get("shared", 0))
    return [a for a in args if isinstance(a, np.ndarray)]


def compare_kernel(case: dict[str, Any], want: list[np.ndarray]) -> dict[str, Any]:
    from warpsmith.errors import WarpsmithError

    try:
        got = run_kernel(case, on_virtual)
    except WarpsmithError as error:
        return {"equal_bits": False, "error": str(error)}
    total = sum(a.size for a in want)
    wrong = sum(
        int((a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")).sum()) for a, b in zip(want, got)
    )
    found: dict[str, Any] = {"equal_bits": wrong == 0, "elements": total, "different": wrong}
    if wrong:
        pairs = [
            (a.astype(np.float64), b.astype(np.float64))
            for a, b in zip(want, got)
            if a.dtype.kind == "f"
        ]
        sizes = [np.abs(a - b).max() / max(np.abs(a).max(), 1e-300) for a, b in pairs]
        found["largest_difference_over_largest_value"] = float(max(sizes, default=float("nan")))
    return found


# ------------------------------------------------------------------------------------------- main


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    notes: dict[str, Any] = about(gpu_name(), failed={}, seconds={})
    for family in isa_spellings.FAMILIES:
        start, arrays = time.perf_counter(), {}
        for number, batch in enumerate(batches(family)):
            try:
                arrays[f"{family}_{number}"] = results(batch, on_gpu)
            except Exception as error:  # the record says what the driver did not take
                notes["failed"][f"{family}_{number}"] = f"{type(error).__name__}: {error}"
        save(folder / f"bits_{family}.npz", arrays)
        notes["seconds"][family] = time.perf_counter() - start
        print(family, notes["seconds"][family], flush=True)
    arrays, texts = {}, {}
    for maker in (cuda_kernels, tensor_kernels, triton_kernels):
        try:
            cases = maker()
        except Exception as error:
            notes["failed"][maker.__name__] = f"{type(error).__name__}: {error}"
            continue
        for case in cases:
            texts[case["name"]] = {k: v for k, v in case.items() if k != "args"}
            for i, array in enumerate(case["args"]):
                arrays[f"{case['name']}|given|{i}"] = array
            try:
                for i, array in enumerate(run_kernel(case, on_gpu)):
                    arrays[f"{case['name']}|found|{i}"] = array
            except Exception as error:
                notes["failed"][case["name"]] = f"{type(error).__name__}: {error}"
    np.savez_compressed(folder / "kernels.npz", **arrays)
    np.savez_compressed(folder / "texts.npz", texts=np.array(json.dumps(texts | {"notes": notes})))
    print(json.dumps(notes, indent=1))


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez_compressed(path, **arrays)


def compare(folder: Path, families: list[str]) -> dict[str, Any]:
    texts = json.loads(str(np.load(folder / "texts.npz")["texts"]))
    notes = texts.pop("notes")
    report = about("virtual", against=notes, families={}, kernels={})
    for family in families or isa_spellings.FAMILIES:
        path = folder / f"bits_{family}.npz"
        if path.exists():
            report["families"][family] = found = compare_family(family, np.load(path))
            print(f"{family}: {found['equal']} of {found['spellings'] - len(found['approximate'])} exact "
                  f"spellings equal, {len(found['refused'])} refused", flush=True)  # fmt: skip
    if not families:
        arrays = np.load(folder / "kernels.npz")
        for name, case in texts.items():
            given, want = (series(arrays, f"{name}|{what}|") for what in ("given", "found"))
            if want:
                case["args"] = [a if a.ndim else a[()] for a in given]
                report["kernels"][name] = compare_kernel(case, want)
    return report


def series(arrays: Any, start: str) -> list[np.ndarray]:
    """The arrays `start`0, `start`1, … of a record."""
    count = sum(key.startswith(start) for key in arrays.files)
    return [arrays[f"{start}{i}"] for i in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("folder", type=Path, help="where the GPU's results are, or go")
    parser.add_argument("--families", nargs="*", default=[], choices=list(isa_spellings.FAMILIES))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/isa_bits.json")
    options = parser.parse_args()
    if options.what == "record":
        record(options.folder)
        return
    report = compare(options.folder, options.families)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    for family, found in report["families"].items():
        for name, row in found["differ"].items():
            print(f"differs: {family} {name} {row}")
    for name, row in report["kernels"].items():
        print(f"{name:34} {'equal' if row['equal_bits'] else row}")


if __name__ == "__main__":
    main()
