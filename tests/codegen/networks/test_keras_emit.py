"""`ws.emit`: files, refusals before anything is written, names, weights beside the header, threads."""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("keras")

import keras
from keras import layers
from keras_cases import randomize
from keras_truth import Compiled, error, truth

import warpsmith as ws
from warpsmith import emission
from warpsmith.codegen.keras import identifier, read
from warpsmith.errors import UnsupportedLayer, UsageError
from warpsmith.toolchains import cpp

pytestmark = pytest.mark.plain


def small(name: str = "net", **options):
    model = keras.Sequential(
        [keras.Input((4,), name="cell"), layers.Dense(5, activation="tanh"), layers.Dense(2)],
        name=name,
    )
    randomize(model, name)
    return model


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_file_gives_what_the_model_gives(tmp_path, suffix):
    model = small()
    model.save(tmp_path / f"a model{suffix}")
    report = ws.emit(tmp_path / f"a model{suffix}", tmp_path / "net.hpp")
    assert report.files == (str(tmp_path / "net.hpp"),)
    assert report.max_rel_err < 1e-6
    assert (report.parameters, report.inputs) == (37, (("cell", (4,)),))
    assert report.text == ws.emit(model).text == (tmp_path / "net.hpp").read_text()


def test_files_that_are_no_model(tmp_path):
    small().save_weights(tmp_path / "m.weights.h5")
    (tmp_path / "text.keras").write_text("not a model")
    (tmp_path / "cut.keras").write_bytes(b"PK\x03\x04 cut off")
    for name, words in (
        ("m.weights.h5", "holds weights and no model"), ("text.keras", "neither a .keras nor"),
        ("cut.keras", "neither a .keras nor"), ("gone.keras", "no model file"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            ws.emit(tmp_path / name, tmp_path / "net.hpp")
    assert not (tmp_path / "net.hpp").exists()


def test_code_in_a_file_is_not_run(tmp_path):
    model = keras.Sequential([keras.Input((4,)), layers.Lambda(lambda x: x + 1)])
    model.save(tmp_path / "lambda.keras")
    with pytest.raises(UsageError, match="does not load"):
        ws.emit(tmp_path / "lambda.keras")
    with pytest.raises(UnsupportedLayer, match="Python code"):
        ws.emit(model)


class Doubled(layers.Dense):
    def call(self, inputs):
        return 2 * super().call(inputs)


class Own(keras.Model):
    def call(self, inputs):
        return inputs


def sequence(*parts, shape=(4,)):
    return keras.Sequential([keras.Input(shape), *parts])


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: sequence(Doubled(3)), "a class of your own"),
        (lambda: sequence(layers.Discretization([0.0, 1.0])), "Discretization"),
        (lambda: sequence(layers.ConvLSTM1D(2, 3), shape=(3, 5, 2)), "ConvLSTM1D"),
        (lambda: sequence(layers.UpSampling2D(interpolation="bicubic"), shape=(4, 4, 1)), "bicubic"),
        (lambda: sequence(layers.Dense(2, activation=lambda x: x)), "activation"),
    ],
)  # fmt: skip
def test_layers_are_refused_by_name_with_advice(build, words, tmp_path):
    model = build()
    with pytest.raises(UnsupportedLayer, match=words) as caught:
        ws.emit(model, tmp_path / "net.hpp")
    assert caught.value.layer == model.layers[0].name
    assert " Use " in str(caught.value)
    assert not (tmp_path / "net.hpp").exists()


def test_models_without_fixed_shapes_and_subclassed_ones():
    with pytest.raises(UsageError, match="needs every extent"):
        ws.emit(keras.Sequential([keras.Input((None, 3)), layers.LSTM(2)]))
    with pytest.raises(UsageError, match="no input shape yet"):
        ws.emit(keras.Sequential([layers.Dense(2)]))
    with pytest.raises(UsageError, match="subclassed"):
        ws.emit(Own())
    with pytest.raises(UsageError, match="expected a Keras model"):
        ws.emit(3)


def test_options_are_checked():
    for options, words in (
        ({"dtype": "half"}, "'float', 'double'"), ({"target": "rust"}, "'cpp17', 'cuda'"),
        ({"weights": "here"}, "'auto'"), ({"samples": 0}, "1 or more"),
        ({"namespace": "a-b"}, "try 'a_b'"), ({"weights": "object"}, "need a place"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            ws.emit(small(), **options)


def test_names_become_names_of_cpp():
    assert identifier("int", "x") == "int_"
    assert identifier("résumé 2", "x") == "r_sum_2"
    assert identifier("--", "x") == "x"
    a, b = keras.Input((2,), name="state"), keras.Input((2,), name="predict")
    model = keras.Model([a, b], layers.Add(name="workspace_size")([a, b]), name="detail")
    assert ws.emit(model).max_rel_err == 0.0


def test_weights_in_an_object_file_and_two_users_of_one_header(tmp_path):
    model = small("big one")
    report = ws.emit(model, tmp_path / "net.hpp", weights="object")
    assert [name.rsplit("/", 1)[1] for name in report.files] == ["net.hpp", "net.weights.o"]
    assert report.max_rel_err < 1e-6
    call = '#include "net.hpp"\nextern "C" __attribute__((visibility("default"))) float '
    main = call + "test() { return big_one::self_test() + other(); }\n"
    main = main.replace("extern", "float other();\nextern", 1)
    (tmp_path / "other.cpp").write_text(
        '#include "net.hpp"\nfloat other() { return big_one::self_test(); }\n'
    )
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    library = ctypes.CDLL(str(cpp.library(main, files, objects=("other.cpp", "net.weights.o"))))
    library.test.restype = ctypes.c_float
    assert library.test() < 1e-6


def test_calls_in_threads_do_not_meet():
    model = small()
    network = read(model)
    x = np.ones(4)
    headers = Compiled(
        [network], [([x], truth(model, [x.astype(np.float32)]))], "double", cpp.STANDARD
    )
    wanted = {k: headers.predict(0, [x * k])[0] for k in range(4)}
    wrong = []

    def work(k: int) -> None:
        for _ in range(500):
            if error(headers.predict(0, [x * k]), [wanted[k]]) > 0:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_stateful_network_goes_on_where_it_was():
    model = keras.Sequential(
        [keras.Input(batch_shape=(1, 3, 2)), layers.LSTM(4, stateful=True), layers.Dense(1)]
    )
    randomize(model, "stateful")
    network = read(model)
    rng = np.random.default_rng(0)
    steps = [rng.standard_normal((3, 2)).astype(np.float32).astype(np.float64) for _ in range(3)]
    headers = Compiled([network], [([steps[0]], [np.zeros(1)])], "double", cpp.STANDARD)
    state = np.zeros(sum(a.size for a in network.program.states.values()) + 1)
    for x in steps:
        want = truth(model, [x.astype(np.float32)])
        assert error(headers.predict(0, [x], state), want) < 1e-6


def test_not_a_number_stays_one():
    model = keras.Sequential(
        [keras.Input((3,)), layers.Dense(9, activation="relu"), layers.Dense(9, activation="tanh")]
    )
    randomize(model, "nan")
    network = read(model)
    x = np.array([1.0, np.nan, 0.0])
    headers = Compiled([network], [([np.zeros(3)], [np.zeros(9)])], "float", cpp.STANDARD)
    assert np.isnan(headers.predict(0, [x])[0]).all()
    assert np.isfinite(headers.predict(0, [np.full(3, 1e30)])[0]).all()


def test_the_report_says_how_it_was_checked(monkeypatch):
    assert ws.emit(small()).checked_by == "compiled"
    monkeypatch.setattr(cpp, "compiler", _none)
    report = ws.emit(small())
    assert report.checked_by == "interpreted"
    assert report.max_rel_err < 1e-6
    assert "16 samples, interpreted" in str(report)


def _none():
    raise emission.MissingTool("a C++ compiler", "none", "install one")


def test_the_page_names_every_layer_and_operation():
    from pathlib import Path

    from warpsmith.codegen.keras.layers import table

    page = (Path(__file__).parents[3] / "docs" / "keras.md").read_text()
    for name in table():
        assert f"`{name.removeprefix('ops.')}`" in page


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_average_pools_divide_by_the_real_elements(stride):
    """Keras on torch divides by the whole window when one side alone is padded."""
    from warpsmith.codegen.keras import run

    model = sequence(layers.AveragePooling1D(3, strides=stride, padding="same"), shape=(8, 1))
    x = np.arange(8.0) ** 2
    (got,) = run(read(model).program, [x[:, None]])
    count = -(-8 // stride)
    before = max((count - 1) * stride + 3 - 8, 0) // 2
    starts = [i * stride - before for i in range(count)]
    assert got[:, 0].tolist() == [x[max(s, 0) : s + 3].mean() for s in starts]


def test_sparsemax_is_the_projection_onto_the_simplex():
    """Martins and Astudillo (2016), algorithm 1."""
    from warpsmith.codegen.keras import run

    model = sequence(layers.Activation("sparsemax"), shape=(9,))
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0):
        z = scale * rng.standard_normal(9)
        (got,) = run(read(model).program, [z])
        ranked = np.sort(z)[::-1]
        k = max(k for k in range(1, 10) if 1 + k * ranked[k - 1] > ranked[:k].sum())
        want = np.maximum(z - (ranked[:k].sum() - 1) / k, 0)
        np.testing.assert_allclose(got, want, atol=1e-12)
        assert abs(got.sum() - 1) < 1e-12


def test_fast_math_says_its_error():
    model = sequence(layers.Activation("exponential"), shape=(64,))
    exact, fast = ws.emit(model, seed=1), ws.emit(model, seed=1, fast_math=True)
    assert exact.text != fast.text
    assert exact.max_rel_err < 3e-7 < fast.max_rel_err < 5e-6
    with pytest.raises(UsageError, match="use_fast_math"):
        ws.emit(model, target="cuda", fast_math=True)


def test_every_option_of_every_layer_is_known():
    """An option that a lowering does not read would change nothing in what is emitted, and in silence."""
    import inspect

    from warpsmith.codegen.keras.layers import options, table

    for name in table():
        kind = getattr(layers, name, None)
        if kind is None:
            continue
        own = [c for c in kind.__mro__ if c is not layers.Layer and "keras" in c.__module__]
        names = {
            p
            for c in own
            if "__init__" in vars(c)
            for p in inspect.signature(c.__init__).parameters
        }
        names -= {"self", "args", "kwargs", "rank", "pool_dimensions", "pool_mode", "layer", "cell"}
        assert (
            options.unknown(name, names - {"arguments", "autocast", "inputs", "outputs"}) == []
        ), name


def test_an_option_that_is_not_known_is_refused(monkeypatch):
    from warpsmith.codegen.keras.layers import options

    monkeypatch.setitem(options.OPTIONS, "Dense", options.OPTIONS["Dense"] - {"use_bias"})
    ws.emit(sequence(layers.Dense(2)))  # its default is what it always was
    with pytest.raises(UnsupportedLayer, match="use_bias=False"):
        ws.emit(sequence(layers.Dense(2, use_bias=False)))


def test_inputs_by_name_and_arguments_that_nobody_reads():
    x = keras.Input((4,))
    assert ws.emit(keras.Model(x, layers.Dense(2)(inputs=x))).max_rel_err < 1e-6


def test_adapters_of_low_rank_are_added():
    model = small("lora")
    model.layers[0].enable_lora(2)
    model.layers[0].lora_kernel_b.assign(np.ones((2, 5)))
    assert ws.emit(model).max_rel_err < 1e-6
