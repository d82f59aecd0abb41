"""Triton functions compile for named targets with no GPU, specialised as Triton does itself."""
# SPDX-License-Identifier: Apache-2.0

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

import triton_kernels as kernels  # noqa: E402

from warpsmith.errors import CompileError, DtypeError, UsageError  # noqa: E402
from warpsmith.targets import get  # noqa: E402
from warpsmith.toolchains import triton as toolchain  # noqa: E402

pytestmark = pytest.mark.plain

X = torch.zeros(4096)
LINES = {
    name: getattr(kernels, name).fn.__code__.co_firstlineno
    for name in ("add_scaled", "broken_inside", "broken_range", "broken_assertion")
}


def bound(fn, *args, part="h100", **kwargs):
    return toolchain.bind(fn, get(part), args, kwargs)


LADDER = {
    "vadd": lambda: ((X, X, X, 1000), {"BLOCK": 256}),
    "softmax": lambda: ((X, X, 100), {"BLOCK": 128}),
    "layernorm": lambda: ((X, X, X, X, 100, 1e-5), {"BLOCK": 128}),
    "matmul": lambda: ((X.half(), X.half(), X, 64, 64, 64), {"BM": 64, "BN": 64, "BK": 32}),
}


@pytest.mark.parametrize(("part", "arch"), [("a100", "sm_80"), ("h100", "sm_90a")])
@pytest.mark.parametrize("name", LADDER)
def test_the_ladder_compiles_for_ampere_and_hopper(name, part, arch):
    args, kwargs = LADDER[name]()
    artifact = bound(getattr(kernels, name), *args, part=part, **kwargs).program.artifact
    assert (artifact.language, artifact.kernel, artifact.arch) == ("triton", name, arch)
    assert artifact.threads == 128
    assert artifact.resources.registers
    assert artifact.cubin[:4] == b"\x7fELF"
    assert (artifact.shared_bytes > 0) == (name != "vadd")
    assert [p.name for p in artifact.parameters[-2:]] == list(toolchain.SCRATCH)
    assert '.file\t1 "triton_kernels.py"' in artifact.ptx
    assert ".debug_info" not in artifact.ptx


def test_matmul_uses_the_tensor_cores_of_its_target():
    args, kwargs = LADDER["matmul"]()
    assert "wgmma" in bound(kernels.matmul, *args, **kwargs).program.artifact.ptx
    assert "mma.sync" in bound(kernels.matmul, *args, part="a100", **kwargs).program.artifact.ptx


def test_types_and_values_are_those_of_the_arguments():
    call = bound(kernels.optional, X.bfloat16(), X, X, 2**40, 0.5, BLOCK=64)
    shown = [(p.kind, p.ctype, p.size) for p in call.program.artifact.parameters[:5]]
    assert shown == [
        ("pointer", "__nv_bfloat16", 8),
        ("pointer", "float", 8),
        ("pointer", "float", 8),
        ("scalar", "long long", 8),
        ("scalar", "float", 4),
    ]
    assert call.values[3:] == (2**40, 0.5)


def test_none_and_one_become_constants():
    call = bound(kernels.optional, X, None, X, 1, 0.5, BLOCK=64)
    assert [p.name for p in call.program.artifact.parameters[:3]] == ["x", "out", "scale"]
    assert call.values[2:] == (0.5,)


def test_divisibility_by_sixteen_makes_another_program():
    even = bound(kernels.vadd, X, X, X, 1024, BLOCK=256).program.artifact
    odd = bound(kernels.vadd, X, X, X, 1023, BLOCK=256).program.artifact
    shifted = bound(kernels.vadd, X[1:], X, X, 1024, BLOCK=256).program.artifact
    assert len({even.id, odd.id, shifted.id}) == 3
    again = bound(kernels.vadd, X, X, X, 2048, BLOCK=256).program.artifact
    assert again.id == even.id


def test_options_of_the_launch():
    artifact = bound(kernels.vadd, X, X, X, 1024, BLOCK=256, num_warps=8).program.artifact
    assert artifact.threads == 256


def test_multiply_and_add_are_fused_unless_told():
    args, kwargs = LADDER["layernorm"]()
    fused = bound(kernels.layernorm, *args, **kwargs).program.artifact
    apart = bound(kernels.layernorm, *args, enable_fp_fusion=False, **kwargs).program.artifact
    assert fused.ptx.count("fma.rn") > apart.ptx.count("fma.rn")


@pytest.mark.parametrize(
    ("fn", "more", "threads"),
    [
        ("tuned_vadd", {}, 64),
        ("tuned_vadd", {"config": 2}, 256),
        ("tuned_vadd", {"config": kernels.CONFIGS[1]}, 128),
        ("pruned_vadd", {}, 128),
    ],
)
def test_an_autotuned_kernel_takes_a_configuration(fn, more, threads):
    call = bound(getattr(kernels, fn), X, X, X, 1000, **more)
    assert call.program.artifact.threads == threads
    assert call.named["BLOCK"] == threads


def test_hooks_of_a_configuration_run():
    seen = []
    config = triton.Config(
        {"BLOCK": 64}, num_warps=2, pre_hook=lambda named: seen.append(named["n"])
    )
    tuned = triton.autotune([config], key=["n"])(kernels.vadd)
    bound(tuned, X, X, X, 999)
    assert seen == [999]


def test_a_configuration_that_the_target_cannot_hold_is_passed_over():
    seen = []

    def config(stages):
        return triton.Config(
            {"BM": 128, "BN": 128, "BK": 64},
            num_stages=stages,
            pre_hook=lambda named: seen.append(stages),
        )

    tuned = triton.autotune([config(3), config(1)], key=["M"])(kernels.matmul)
    args = (X, X, X, 256, 256, 256)
    call = bound(tuned, *args, part="rtx4090")
    assert call.program.artifact.shared_bytes <= get("rtx4090").shared_per_block_bytes
    assert seen == [1]
    assert bound(tuned, *args, part="a100").program.artifact.shared_bytes > 100_000
    chosen = bound(tuned, *args, part="rtx4090", config=0)  # asked for: the launch will refuse it
    assert chosen.program.artifact.shared_bytes > get("rtx4090").shared_per_block_bytes


def test_equal_kernels_in_two_files_keep_their_own_file():
    shown = [
        bound(toolchain.from_text(TEXT, file=file), X, BLOCK=32).program.artifact.ptx
        for file in ("one.py", "two.py")
    ]
    assert 'one.py"' in shown[0]
    assert 'two.py"' in shown[1]


def test_heuristics_are_computed_from_the_arguments():
    call = bound(kernels.sized_softmax, X, X, cols=100)
    assert call.named["BLOCK"] == 128


ERRORS = {
    "broken_inside": (lambda: LINES["add_scaled"] + 2, "undefined_name"),
    "broken_range": (lambda: LINES["broken_range"] + 2, "power of 2"),
    "broken_assertion": (lambda: LINES["broken_assertion"] + 2, "BLOCK is small"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_names_the_innermost_file_and_line(name):
    line, words = ERRORS[name]
    with pytest.raises(CompileError) as caught:
        bound(getattr(kernels, name), X, 100, BLOCK=64)
    (first,) = caught.value.diagnostics
    assert (first.file, first.line) == ("triton_kernels.py", line())
    assert words in first.message


MISUSE = {
    "unknown keyword": (lambda: bound(kernels.vadd, X, X, X, 4, BLOCK=64, BLOK=2), UsageError, "BLOK"),
    "missing argument": (lambda: bound(kernels.vadd, X, X, X, BLOCK=64), UsageError, "'n'"),
    "text argument": (lambda: bound(kernels.vadd, X, X, X, "4", BLOCK=64), DtypeError, "str"),
    "numpy array": (lambda: bound(kernels.vadd, X.numpy(), X, X, 4, BLOCK=64), DtypeError, "from_numpy"),
    "no such config": (lambda: bound(kernels.tuned_vadd, X, X, X, 4, config=7), UsageError, "3 config"),
    "config of a plain kernel": (
        lambda: bound(kernels.vadd, X, X, X, 4, BLOCK=64, config=0), UsageError, "not autotuned"),
    "tuned argument given": (lambda: bound(kernels.tuned_vadd, X, X, X, 4, BLOCK=64), UsageError, "BLOCK"),
    "plain function": (lambda: toolchain.base(len), UsageError, "@triton.jit"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_is_told_in_words(name):
    call, kind, words = MISUSE[name]
    with pytest.raises(kind, match=words):
        call()


TEXT = """
import triton
import triton.language as tl

@triton.jit
def double(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)
"""


def test_a_kernel_may_exist_only_as_text():
    fn = toolchain.from_text(TEXT, file="made_up.py")
    artifact = bound(fn, X, BLOCK=64).program.artifact
    assert 'made_up.py"' in artifact.ptx
    with pytest.raises(UsageError, match="double"):
        toolchain.from_text(TEXT, "triple")


def test_the_line_of_an_error_in_a_text():
    broken = toolchain.from_text(TEXT.replace("* 2", "* two"), file="broken.py")
    with pytest.raises(CompileError) as caught:
        bound(broken, X, BLOCK=64)
    assert str(caught.value.diagnostics[0]).startswith("broken.py:8: error: ")


def test_two_texts_of_one_name_are_two_kernels():
    one = toolchain.from_text(TEXT, file="same.py")
    two = toolchain.from_text(TEXT.replace("* 2", "* 5"), file="same.py")
    ids = {bound(fn, X, BLOCK=64).program.artifact.id for fn in (one, two)}
    assert len(ids) == 2


def test_a_changed_global_is_noticed(monkeypatch):
    bound(kernels.by_global, X, BLOCK=64)
    monkeypatch.setattr(kernels, "FACTOR", triton.language.constexpr(4))
    with pytest.raises(UsageError, match="FACTOR was"):
        bound(kernels.by_global, X, BLOCK=64)


def test_the_toolchain_role():
    options = {"args": (X, X, X, 1000), "kwargs": {"BLOCK": 256}}
    assert toolchain.Triton().build(kernels.vadd, get("h100"), options=options).kernel == "vadd"
