"""What certification tries of attribute values that no sample has and of denormal numbers; the device that it names."""

import numpy as np
import planted
import pytest

from byoc.contract import Backend, get_backend
from byoc.errors import PartitionError
from byoc.testing import certify
from byoc.testing.cases.attributes import ATTRIBUTES, attribute_cases
from byoc.testing.cases.operators import SAMPLE, BackendAnswers, operator_cases
from byoc.testing.cases.special import SPECIAL, special_cases
from byoc.testing.certificate import read_certificate
from byoc.testing.core.reference import outputs_of

QUICK = {"saved": False, "skip": ["outputs filled", "fallback", "threads", "same bytes"]}


@pytest.fixture
def backend_with():
    """A function from the name of a mistake to that of the backend that has it."""
    names = []

    def register(fault):
        names.append(planted.register(fault))
        return names[-1]

    yield register
    for name in names:
        planted.forget(name)


def cases_of(name):
    from byoc.ir.op import get_op

    asked = BackendAnswers(get_backend("json"))
    samples = [c for c in operator_cases(asked, get_op(name), 0) if c.kind == SAMPLE]
    return list(attribute_cases(asked, samples))


@pytest.mark.parametrize(
    "fault, operator, kind, piece",
    [
        ("axis", "nn.softmax", ATTRIBUTES, "axis=0"),
        ("bias", "nn.bias_add", ATTRIBUTES, "axis=2"),
        ("denormal", "tanh", SPECIAL, "e-39"),
    ],
)
def test_a_mistake_in_what_no_sample_has_is_found(backend_with, fault, operator, kind, piece):
    found = certify(backend_with(fault), only=[operator], **QUICK)
    assert not found.ok and {c.kind for c in found.failures} == {kind}, str(found)
    assert piece in str(found)


def test_each_axis_is_tried_once_with_the_numbers_of_numpy():
    made = cases_of("nn.softmax")
    tried = {(c.function.body.checked_type.ndim, c.function.body.attrs.axis) for c in made}
    assert (2, 0) in tried and (2, -1) not in tried and len(tried) == len(made)
    for case in made:
        (data,), axis = case.feeds[0], case.function.body.attrs.axis
        wanted = np.exp(data - data.max(axis, keepdims=True))
        wanted /= wanted.sum(axis, keepdims=True)
        np.testing.assert_allclose(outputs_of(case.function, case.feeds[0], False)[0], wanted, rtol=1e-5)


def test_a_kernel_that_raises_of_a_zero_where_a_denormal_number_stood_ends_nothing():
    from byoc.ir.op import get_op

    asked = BackendAnswers(get_backend("json"))
    for name in ("qnn.subtract", "exp"):
        samples = [c for c in operator_cases(asked, get_op(name), 0) if c.kind == SAMPLE]
        tiny = [c for c in special_cases(samples) if c.name.endswith("denormal numbers")]
        assert samples and len(tiny) <= 1  # a scale of zero, of which qnn.subtract's kernel raises, ends nothing
    assert len(tiny) == 1 and np.isfinite(outputs_of(tiny[0].function, tiny[0].feeds[0], False)[0]).all()


def test_what_an_operator_holds_along_its_axis_fits_the_turned_data():
    made = {c.function.body.attrs.axis: c for c in cases_of("nn.bias_add")}
    data, bias = made[0].feeds[0]
    assert data.shape[0] == bias.size
    shape = [-1] + [1] * (data.ndim - 1)
    np.testing.assert_array_equal(outputs_of(made[0].function, (data, bias), False)[0], data + bias.reshape(shape))


def test_the_certificate_names_the_device_and_its_driver(backend_with, monkeypatch, tmp_path):
    name = backend_with("none")
    asked = []
    monkeypatch.setattr(
        type(get_backend(name)), "device_name", lambda self, options: asked.append(options) or "Chip 7, driver 1.2"
    )
    found = certify(name, only=["nn.relu"], **QUICK)
    assert found.machine["device"] == "Chip 7, driver 1.2" and asked == [{}]
    assert "\ndevice: Chip 7, driver 1.2\n" in str(found)
    path = found.save(tmp_path / "chip.json")
    assert read_certificate(path).machine["device"] == "Chip 7, driver 1.2"
    assert "| device | Chip 7, driver 1.2 |" in path.with_suffix(".md").read_text()


def test_a_backend_of_the_processor_names_no_device(backend_with):
    found = certify(backend_with("none"), only=["nn.relu"], **QUICK)
    assert "device" not in found.machine and "device:" not in str(found)
    assert Backend().device_name({}) is None


@pytest.mark.parametrize("answer, words", [(7, "gave 7"), (" ", "gave ' '"), (1 / 3, "gave 0.33")])
def test_a_device_name_that_is_no_text_is_one_sentence(backend_with, monkeypatch, answer, words):
    name = backend_with("none")
    monkeypatch.setattr(type(get_backend(name)), "device_name", lambda self, options: answer)
    with pytest.raises(PartitionError, match=rf"its device_name\(options\) {words}.*, expected the name of the device"):
        certify(name, only=["nn.relu"], **QUICK)


@pytest.mark.needs_opencl
def test_opencl_names_its_device_and_driver():
    from byoc.runtime.opencl.devices import open_device

    info = open_device().info
    found = certify("opencl", only=["nn.relu"], **QUICK)
    assert info.name in found.machine["device"] and info.driver_version in found.machine["device"]
