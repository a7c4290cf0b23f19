"""relay.testing's networks: as many parameters as the literature counts, layers of the right sizes; they run."""

import math

import numpy as np
import pytest

from byoc import relay
from byoc.annex import testing
from byoc.annex.testing import (
    dcgan,
    densenet,
    dqn,
    inception_v3,
    lstm,
    mlp,
    mobilenet,
    resnet,
    resnet_3d,
    squeezenet,
    synthetic,
    vgg,
)
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.relay.interpreter import evaluate
from byoc.relay.transform import InferType

STATISTICS = ("moving_mean", "moving_var")


def typed(func):
    return InferType()(IRModule.from_expr(func))["main"]


def parameters(func, without=STATISTICS):
    """The number of learned numbers of a network."""
    params = [p for p in typed(func).params if p.name_hint != "data" and not p.name_hint.endswith(without)]
    return sum(math.prod(p.checked_type.concrete_shape) for p in params)


# the counts that the authors of the networks, or the model zoos of Keras and torchvision, publish
COUNTED = {
    "mlp": (lambda: mlp.get_net(1), 784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10),
    "dqn": (lambda: dqn.get_net(1), 1_693_362),
    "mobilenet": (lambda: mobilenet.mobile_net(), 4_231_976),
    "squeezenet 1.0": (lambda: squeezenet.get_net(1, (3, 224, 224), 1000, "1.0", "float32"), 1_248_424),
    "squeezenet 1.1": (lambda: squeezenet.get_net(1, (3, 224, 224), 1000, "1.1", "float32"), 1_235_496),
    "densenet 121": (lambda: densenet.get_net(1, (3, 224, 224), 1000, "float32", 121), 7_978_856),
    "densenet 169": (lambda: densenet.get_net(1, (3, 224, 224), 1000, "float32", 169), 14_149_480),
    "vgg 11": (lambda: vgg.get_net(1, (3, 224, 224), 1000, "float32", 11), 132_863_336),
    "vgg 16": (lambda: vgg.get_net(1, (3, 224, 224), 1000, "float32", 16), 138_357_544),
    "vgg 19 with norms": (lambda: vgg.get_net(1, (3, 224, 224), 1000, "float32", 19, True), 143_678_248),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_network_has_the_published_number_of_parameters(name):
    make, expected = COUNTED[name]
    assert parameters(make()) == expected


def test_inception_has_the_published_number_of_parameters():
    net = inception_v3.get_net(1, 1000, (3, 299, 299), "float32")
    assert parameters(net, (*STATISTICS, "gamma")) == 23_817_352  # its norms do not scale, so gamma is not learned


@pytest.mark.parametrize(
    ("layers", "shape", "classes", "published"),
    [
        (18, (3, 224, 224), 1000, 11.69e6),
        (34, (3, 224, 224), 1000, 21.80e6),
        (50, (3, 224, 224), 1000, 25.56e6),
        (101, (3, 224, 224), 1000, 44.55e6),
        (152, (3, 224, 224), 1000, 60.19e6),
        (20, (3, 28, 28), 10, 0.27e6),
        (110, (3, 28, 28), 10, 1.73e6),
    ],
)
def test_resnets_have_the_published_number_of_parameters_within_a_percent(layers, shape, classes, published):
    # pre-activation moves the norms, which changes thousands of millions
    assert parameters(resnet.get_net(1, classes, layers, shape)) == pytest.approx(published, rel=0.01)


def test_a_resnet_over_clips_has_the_published_number_of_parameters():
    # Hara et al.: 33.4 million with 400 classes, measured without the second half of this stem's norms
    assert parameters(resnet_3d.get_net(1, 400, 18)) == pytest.approx(33.4e6, rel=0.01)


def shapes_of(func):
    found = []
    relay.analysis.post_order_visit(
        typed(func).body,
        lambda n: (
            found.append((n.op.name, tuple(n.checked_type.shape)))
            if isinstance(n, relay.Call) and isinstance(n.checked_type, relay.TensorType)
            else None
        ),
    )
    return found


def test_the_stages_of_a_resnet_halve_the_image():
    added = [shape for name, shape in shapes_of(resnet.get_net(1, 1000, 50)) if name == "add"]
    assert added == [(1, 256, 56, 56)] * 3 + [(1, 512, 28, 28)] * 4 + [(1, 1024, 14, 14)] * 6 + [(1, 2048, 7, 7)] * 3


def test_the_modules_of_inception_have_the_published_sizes():
    joined = [s for n, s in shapes_of(inception_v3.get_net(1, 1000, (3, 299, 299), "float32")) if n == "concatenate"]
    assert joined == [
        (1, 256, 35, 35),
        (1, 288, 35, 35),
        (1, 288, 35, 35),
        (1, 768, 17, 17),
        *[(1, 768, 17, 17)] * 4,
        (1, 1280, 8, 8),
        (1, 2048, 8, 8),
        (1, 2048, 8, 8),
    ]


def test_a_generator_doubles_its_image_up_to_64():
    ups = [s for n, s in shapes_of(dcgan.get_net(2)) if n == "nn.conv2d_transpose"]
    assert ups == [(2, 512, 8, 8), (2, 256, 16, 16), (2, 128, 32, 32), (2, 3, 64, 64)]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_layout_of_a_network_changes_no_number(layout):
    shape = (3, 32, 32) if layout == "NCHW" else (32, 32, 3)
    assert parameters(mobilenet.mobile_net(10, (1, *shape), layout=layout)) == 3_217_226
    assert parameters(resnet.get_net(1, 10, 18, shape, layout)) == parameters(resnet.get_net(1, 10, 18, (3, 32, 32)))
    assert typed(dcgan.get_net(1, layout=layout)).ret_type.concrete_shape[layout.index("C")] == 3


@pytest.mark.parametrize(
    ("workload", "shape", "result"),
    [
        (lambda: mlp.get_workload(2), (2, 1, 28, 28), (2, 10)),
        (lambda: resnet.get_workload(1, 10, 8, (3, 28, 28)), (1, 3, 28, 28), (1, 10)),
        (lambda: resnet_3d.get_workload(1, 5, 8, (3, 4, 16, 16)), (1, 3, 4, 16, 16), (1, 5)),
        (lambda: squeezenet.get_workload(1, 10, "1.1", (3, 64, 64)), (1, 3, 64, 64), (1, 10)),
        (lambda: mobilenet.get_workload(1, 10, (3, 32, 32)), (1, 3, 32, 32), (1, 10)),
        (lambda: synthetic.get_workload(), (1, 3, 24, 12), (1, 3, 24, 12)),
    ],
)
def test_a_workload_runs_to_finite_numbers_that_depend_on_the_data(workload, shape, result):
    mod, params = workload()
    rng = np.random.default_rng(0)
    inputs = {name: array.numpy() for name, array in params.items()}
    runs = [evaluate(mod, {**inputs, "data": rng.normal(size=shape).astype("float32")}) for _ in range(2)]
    assert runs[0].shape == result and np.isfinite(runs[0]).all()
    assert not np.array_equal(runs[0], runs[1])
    if len(result) == 2:
        np.testing.assert_allclose(runs[0].sum(axis=1), 1, rtol=1e-5)  # a softmax


def test_a_generator_makes_numbers_between_minus_one_and_one():
    mod, params = dcgan.get_workload(1, ngf=8)
    noise = np.random.default_rng(0).normal(size=(1, 100)).astype("float32")
    image = evaluate(mod, {"data": noise, **{k: v.numpy() for k, v in params.items()}})
    assert image.shape == (1, 3, 64, 64) and 0 < np.abs(image).max() <= 1


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_an_lstm_computes_the_published_equations():
    size, steps = 4, 2
    net = lstm.get_net(steps, size)
    rng = np.random.default_rng(0)
    names = [p.name_hint for p in net.params]
    assert names.count("data") == steps and len(names) == steps * 5
    values = [rng.normal(size=tuple(p.type_annotation.concrete_shape)).astype("float32") for p in net.params]
    # each step has an input called data: renamed, so that they can be distinguished
    renamed = [relay.Var(f"{p.name_hint}_{k}", p.type_annotation) for k, p in enumerate(net.params)]
    func = relay.Function(renamed, relay.bind(net.body, dict(zip(net.params, renamed, strict=True))))
    found = evaluate(IRModule.from_expr(func), {p.name_hint: v for p, v in zip(renamed, values, strict=True)})
    by_step = dict(
        zip([n if n != "data" else f"data_{names[:k].count('data')}" for k, n in enumerate(names)], values, strict=True)
    )
    h = c = np.zeros((1, size), "float32")
    for k in range(steps):
        gates = by_step[f"data_{k}"] @ by_step[f"i2h_{k}_weight"].T + by_step[f"i2h_{k}_bias"]
        gates = gates + h @ by_step[f"h2h_{k}_weight"].T + by_step[f"h2h_{k}_bias"]
        taken, kept, new, shown = np.split(gates, 4, axis=1)
        c = sigmoid(kept) * c + sigmoid(taken) * np.tanh(new)
        h = sigmoid(shown) * np.tanh(c)
    np.testing.assert_allclose(found, h, rtol=1e-5)


def test_the_first_values_of_parameters_follow_from_their_names():
    weight, gamma, bias = np.zeros((4, 3, 5, 5)), np.zeros(3), np.ones(3)
    np.random.seed(0)
    fill = testing.init.Xavier()
    for name, array in (("a_weight", weight), ("a_gamma", gamma), ("a_bias", bias)):
        fill(name, array)
    bound = np.sqrt(3 / ((3 * 25 + 4 * 25) / 2))
    assert 0.9 * bound < np.abs(weight).max() <= bound and (gamma == 1).all() and (bias == 0).all()
    testing.init.Constant(7)("a_weight", weight)
    assert (weight == 7).all()
    wide = np.zeros((200, 300))
    testing.init.Xavier("gaussian", "in", 2)("w_weight", wide)
    assert wide.std() == pytest.approx(np.sqrt(2 / 300), rel=0.02)
    with pytest.raises(UserError, match="does not say what it is"):
        fill("mystery", weight)
    with pytest.raises(UserError, match="at least two axes"):
        fill("a_weight", gamma)


def test_a_workload_is_the_same_for_the_same_seed():
    net = mlp.get_net(1)
    first, again, other = (testing.create_workload(net, seed=seed)[1] for seed in (1, 1, 2))
    assert "data" not in first and sorted(first) == sorted(p.name_hint for p in net.params if p.name_hint != "data")
    np.testing.assert_array_equal(first["fc1_weight"].numpy(), again["fc1_weight"].numpy())
    assert not np.array_equal(first["fc1_weight"].numpy(), other["fc1_weight"].numpy())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: resnet.get_net(1, 10, 51), "ResNet has 18, 34"),
        (lambda: resnet.get_net(1, 10, 51, (3, 28, 28)), "6n.2 layers"),
        (lambda: squeezenet.get_net(1, (3, 64, 64), 10, "2.0", "float32"), "versions 1.0 and 1.1"),
        (lambda: densenet.get_net(1, (3, 64, 64), 10, "float32", 120), "DenseNet has"),
        (lambda: vgg.get_net(1, (3, 64, 64), 10, "float32", 12), "VGG has 11"),
        (lambda: testing.layers.conv2d(relay.var("x"), channels=1), "needs a name"),
        (lambda: testing.layers.conv_kernel_layout("CHWN"), "no kernel layout is known"),
    ],
)
def test_a_network_that_does_not_exist_is_one_sentence(make, message):
    with pytest.raises(UserError, match=message):
        make()
