"""`warpsmith emit`: a trained network as one C++ header."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from ..emission import DTYPES, TARGETS
from .options import clean_stdout, common, emit, examples


@click.command(
    "emit",
    short_help="Write a trained Keras model as one C++ header.",
    epilog=examples(
        "warpsmith emit model.keras --out net.hpp",
        "warpsmith emit model.keras --out net.hpp --dtype double --namespace mixing",
        "warpsmith emit model.h5 --out net.cuh --target cuda",
    ),
)
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="FILE",
    help="The header to write.",
)  # fmt: skip
@click.option(
    "--dtype", type=click.Choice(DTYPES), default="float", show_default=True,
    help="Precision of weights and arithmetic.",
)  # fmt: skip
@click.option(
    "--target", type=click.Choice(TARGETS), default="cpp17", show_default=True,
    help="Plain C++17, or a CUDA kernel for many samples.",
)  # fmt: skip
@click.option(
    "--namespace", metavar="NAME", help="Of the generated code. [default: the model's name]"
)
@click.option(
    "--weights", type=click.Choice(("auto", "header", "object")), default="auto", show_default=True,
    help="Weights in the text, or in an object file beside it.",
)  # fmt: skip
@click.option(
    "--fast-math",
    is_flag=True,
    help="Shorter polynomials for exponentials; the report says the error.",
)
@click.option(
    "--samples", type=click.IntRange(1), default=16, show_default=True,
    help="Random inputs on which the header is compared with Keras.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of those inputs.")
@common
def command(
    model: Path, out: Path, dtype: str, target: str, namespace: str | None, weights: str,
    fast_math: bool, samples: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Write MODEL (.keras or .h5) as a C++17 header without dependencies, and compare it with Keras.

    A layer that cannot be emitted is refused by name before anything is written.
    """
    from .. import emission

    with clean_stdout(as_json):
        report = emission.emit(
            model, out, dtype=dtype, target=target, namespace=namespace, weights=weights,
            samples=samples, seed=seed, fast_math=fast_math,
        )  # fmt: skip
    if as_json:
        emit({k: v for k, v in asdict(report).items() if k != "text"})
        return
    click.echo(str(report))
    click.echo(f"call {report.namespace}::predict({_signature(report)}, workspace)")


def _signature(report) -> str:
    ports = [*report.inputs, *report.outputs]
    return ", ".join(f"{name}[{' x '.join(map(str, shape)) or 1}]" for name, shape in ports)
