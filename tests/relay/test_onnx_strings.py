"""Strings, from the ONNX model to the artefact in a new process, against ONNX Runtime."""

import json
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, save_model
from onnx_single_node import assert_like_onnx_runtime, ours, single_node

import byoc
from byoc.cli.main import main
from byoc.errors import ArtifactError, ImportModelError, InputError
from byoc.runtime.core.strings import read_text_bytes, text_bytes

ML = "ai.onnx.ml"
NAN, INF = float("nan"), float("inf")


def texts(*values: object) -> np.ndarray:
    return np.array(values, object)


TABLE = texts(["a", "bé"], ["", "漢字"], ["a", "zz"])
WORDS = texts("Hello, world foo", "a-b  c", "one")
MOVED = {
    "identity": single_node("Identity", 21, [TABLE]),
    "reshape": single_node("Reshape", 21, [TABLE], [np.array([-1])]),
    "transpose": single_node("Transpose", 21, [TABLE]),
    "concat": single_node("Concat", 21, [TABLE], [texts(["p", "q\0"])], axis=0),
    "gather": single_node("Gather", 21, [TABLE], [np.array([1, 0])], axis=1),
    "equal": single_node("Equal", 21, [TABLE], [texts("a", "zz")]),
    "expand": single_node("Expand", 21, [TABLE], [np.array([2, 3, 2])]),
    "slice": single_node("Slice", 21, [TABLE], [np.array([1]), np.array([3])]),
    "split": single_node("Split", 21, [TABLE], outputs=2, axis=1, num_outputs=2),
    "scatter": single_node("ScatterElements", 21, [TABLE], [np.array([[1, 0]]), texts(["P", "Q"])]),
}


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_or_compares_elements_takes_strings(name):
    assert_like(MOVED[name], {"x0": TABLE})


def assert_like(model, feeds) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for found, expected in zip(ours(model, feeds), session.run(None, feeds), strict=True):
        assert found.dtype.kind == expected.dtype.kind and found.tolist() == expected.tolist()


def test_padding_repeats_a_string():  # of which ONNX Runtime has no kernel
    found = ours(single_node("Pad", 21, [TABLE], [np.array([1, 0, 0, 0]), np.array("P", object)]), {"x0": TABLE})
    assert found[0].tolist() == [["P", "P"], *TABLE.tolist()]


NUMBERS = [
    np.array([1, 2.5, NAN, INF, -INF, 1e10, 1e-7, 0.1, 123456.7, 1e20, 3.0000001, -0.0], "float32"),
    np.array([1, 1 / 3, NAN, 1e-7], "float64"),
    np.array([0.1, 65504, 1 / 3], "float16"),
    np.array([1, -(2**60)], "int64"),
    np.array([True, False]),
]


@pytest.mark.parametrize("numbers", NUMBERS, ids=lambda a: a.dtype.name)
def test_numbers_become_strings_as_in_onnx_runtime(numbers):
    assert_like(single_node("Cast", 21, [numbers], to=TensorProto.STRING), {"x0": numbers})


@pytest.mark.parametrize(
    ("values", "to"),
    [
        (["1", "2.5", "-INF", "1e-3", "inf"], TensorProto.FLOAT),
        (["1", "0.1"], TensorProto.DOUBLE),
        (["1", "-25"], TensorProto.INT32),
        (["7", "0"], TensorProto.BOOL),
    ],
)
def test_strings_become_numbers_as_in_onnx_runtime(values, to):
    data = texts(*values)
    assert_like(single_node("Cast", 21, [data], to=to), {"x0": data})


@pytest.mark.parametrize(
    ("value", "to", "reason"),
    [
        ("1_0", TensorProto.INT64, "the string '1_0' is no whole number"),
        ("2.5", TensorProto.INT64, "the string '2.5' is no whole number"),
        ("one", TensorProto.FLOAT, "the string 'one' is no number"),
        ("300", TensorProto.INT8, "out of the range of int8"),
    ],
)
def test_a_string_that_is_no_number_ends_the_run_by_name(value, to, reason):
    data = texts(value)
    with pytest.raises(InputError, match=reason):
        ours(single_node("Cast", 21, [data], to=to), {"x0": data})


TOKENIZERS = [
    {"tokenexp": "[a-z]+", "mark": 0, "mincharnum": 1},
    {"tokenexp": r"\b\w\w+\b", "mark": 1, "mincharnum": 2},
    {"tokenexp": "z+", "mark": 0, "mincharnum": 1},
    {"tokenexp": "(?i)[h-o]*?l|o", "mark": 0, "mincharnum": 1},
    {"separators": [" ", "-"], "mark": 0, "mincharnum": 1},
    {"separators": ["[,o]", " +"], "mark": 0, "mincharnum": 2},
    {"separators": [""], "mark": 0, "mincharnum": 1},
]


@pytest.mark.parametrize("attrs", TOKENIZERS, ids=lambda a: str(a.get("tokenexp", a.get("separators"))))
def test_texts_are_cut_into_tokens_as_in_onnx_runtime(attrs):
    model = single_node("Tokenizer", 1, [WORDS], domain="com.microsoft", pad_value="#", **attrs)
    assert_like(model, {"x0": WORDS})


PATTERNS = [r"\pL+|\d\b", r"(?i)HELLO, .*", r"[[:alpha:]\-]* *c?", r"\w+$", r"one\z", r"(?:a|b|-| |c){5,6}", r"\Qone\E"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_are_those_of_re2(pattern):
    data = texts(*WORDS, "é", "5", "٣", "", "one\n", "HELLO, \n")
    assert_like(single_node("RegexFullMatch", 20, [data], pattern=pattern), {"x0": data})


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "a**", "(a", r"\p{Greek}", "(?:a{1000}){1000}"])
def test_a_pattern_that_is_none_of_re2_is_refused_with_its_node(pattern):
    with pytest.raises(ImportModelError, match=r"node node \(RegexFullMatch\): the pattern"):
        ours(single_node("RegexFullMatch", 20, [WORDS], pattern=pattern), {"x0": WORDS})


@pytest.mark.parametrize("case", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
@pytest.mark.parametrize("stopwords", [[], ["a", "One"], ["A", "HELLO", "one", "a"]])
def test_words_are_left_out_as_in_onnx_runtime(case, sensitive, stopwords):
    data = texts("a", "Hello", "A", "one", "a-b")
    extra = {"stopwords": stopwords} if stopwords else {}
    attrs = {"case_change_action": case, "is_case_sensitive": sensitive, "locale": "C", **extra}
    assert_like(single_node("StringNormalizer", 10, [data], **attrs), {"x0": data})


POOL = {"min_gram_length": 1, "max_gram_length": 3, "ngram_counts": [0, 3, 9], "ngram_indexes": [3, 0, 2, 1, 4, 5, 7]}
GRAMS = [2, 3, 5, 5, 4, 5, 6, 3, 3, 2, 5, 4, 5, 6, 3]  # 3 of one, 3 of two, 2 of three items


@pytest.mark.parametrize(
    "mode", ["TF", *(pytest.param(m, marks=pytest.mark.newer_onnxruntime) for m in ("IDF", "TFIDF"))]
)
@pytest.mark.parametrize("skips", [0, 2])
@pytest.mark.parametrize("lengths", [(1, 1), (1, 3), (2, 3)])
@pytest.mark.parametrize("of_strings", [False, True])
def test_n_grams_are_counted_as_in_onnx_runtime(mode, skips, lengths, of_strings):
    rng = np.random.default_rng(7)
    data = rng.integers(2, 7, (3, 12))
    pool = {"pool_strings": [str(v) for v in GRAMS]} if of_strings else {"pool_int64s": GRAMS}
    attrs = {**POOL, "ngram_indexes": [3, 0, 2, 1, 4, 5, 7, 6], "weights": [float(k + 1) for k in range(8)]}
    attrs |= {"min_gram_length": lengths[0], "max_gram_length": lengths[1], "max_skip_count": skips, "mode": mode}
    given = data.astype(str).astype(object) if of_strings else data
    assert_like_onnx_runtime(single_node("TfIdfVectorizer", 9, [given], **attrs, **pool), {"x0": given})


ENCODERS = [
    ("LabelEncoder", TABLE, {"keys_strings": ["a", "zz", "a"], "values_floats": [1.0, 2.0, 3.0], "default_float": 9.0}),
    ("LabelEncoder", TABLE, {"keys_strings": ["a", ""], "values_strings": ["A", "none"]}),
    ("LabelEncoder", np.array([3, 5, 7]), {"keys_int64s": [5, 3], "values_strings": ["five", "three"]}),
    ("LabelEncoder", np.array([5, NAN, 0], "float32"), {"keys_floats": [5.0, NAN], "values_strings": ["5", "nan"]}),
    ("CategoryMapper", TABLE, {"cats_strings": ["a", "zz"], "cats_int64s": [4, 5]}),
    ("CategoryMapper", np.array([4, 5, 6]), {"cats_strings": ["a", "zz"], "cats_int64s": [4, 5]}),
    ("OneHotEncoder", TABLE, {"cats_strings": ["a", "zz", "bé"], "zeros": 1}),
]


@pytest.mark.parametrize(("op", "data", "attrs"), ENCODERS)
def test_labels_and_categories_are_strings_too(op, data, attrs):
    assert_like(single_node(op, 4 if op == "LabelEncoder" else 1, [data], domain=ML, **attrs), {"x0": data})


def test_a_string_that_is_no_category_is_named_where_zeros_are_not_asked_for():
    model = single_node("OneHotEncoder", 1, [TABLE], domain=ML, cats_strings=["a", "zz"], zeros=0)
    with pytest.raises(InputError, match="a value is none of the 2 categories"):
        ours(model, {"x0": TABLE})


def test_classes_are_called_by_strings_and_a_map_of_scores_is_its_tensor():
    data = np.random.default_rng(1).standard_normal((5, 3)).astype("float32")
    attrs = {"classlabels_strings": ["a", "b"], "coefficients": [1.0, -2.0, 0.5, 0.5, 1.0, 1.0]}
    attrs["intercepts"] = [0.5, 0.0]
    model = single_node("LinearClassifier", 1, [data], domain=ML, outputs=2, **attrs)
    label, scores = ours(model, {"x0": data})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    wanted = session.run(None, {"x0": data})
    assert label.tolist() == wanted[0].tolist()
    np.testing.assert_allclose(scores, wanted[1], rtol=1e-5)
    zipped = single_node("ZipMap", 1, [scores], domain=ML, classlabels_strings=["a", "b"])
    assert ours(zipped, {"x0": scores})[0].tolist() == scores.tolist()


def whole_model():
    """Tokens of texts joined with a constant, counted, and branched over: several operators, and an If."""
    branch = [
        helper.make_graph(
            [helper.make_node(op, ["x", *more], ["y" + name])],
            name,
            [],
            [helper.make_tensor_value_info("y" + name, TensorProto.STRING, ["n"])],
        )
        for name, op, more in (("then", "Identity", []), ("else", "StringConcat", ["tail"]))
    ]
    nodes = [
        helper.make_node("If", ["plain"], ["texts"], then_branch=branch[0], else_branch=branch[1]),
        helper.make_node("StringSplit", ["texts"], ["parts", "counts"]),
        helper.make_node("Equal", ["parts", "tail"], ["found"]),
    ]
    values = {"x": (TensorProto.STRING, ["n"]), "plain": (TensorProto.BOOL, [])}
    results = {"parts": (TensorProto.STRING, ["n", "k"]), "counts": (TensorProto.INT64, ["n"])}
    results["found"] = (TensorProto.BOOL, ["n", "k"])
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *ty) for name, ty in values.items()],
        [helper.make_tensor_value_info(name, *ty) for name, ty in results.items()],
        [helper.make_tensor("tail", TensorProto.STRING, [1], ["é\0!".encode()])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


IN_A_NEW_PROCESS = """
import sys
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1])
for plain in (True, False):
    print([np.asarray(v).tolist() for v in library.run({"x": np.array(["a b", "c"]), "plain": np.array(plain)})])
print([m for m in sys.modules if m.startswith(("byoc.relay", "pickle5"))])
"""


@pytest.mark.parametrize("targets", [["c"], ["json", "c"]])
def test_constants_of_strings_are_saved_and_loaded_in_a_new_process(targets, tmp_path):
    library = byoc.compile(whole_model(), targets=targets)
    wanted = []
    session = onnxruntime.InferenceSession(whole_model().SerializeToString())
    for plain in (True, False):
        feeds = {"x": texts("a b", "c"), "plain": np.array(plain)}
        found = [np.asarray(value).tolist() for value in library.run(feeds)]
        assert found == [value.tolist() for value in session.run(None, feeds)]
        wanted.append(found)
    library.save(tmp_path / "m.byoc")
    done = subprocess.run(
        [sys.executable, "-c", IN_A_NEW_PROCESS, str(tmp_path / "m.byoc")], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [*map(str, wanted), "[]"]


def test_strings_stay_on_the_host_and_the_plan_says_why():
    model = single_node("Equal", 21, [TABLE], [texts("a", "zz")])
    plan = byoc.plan(model, ["opencl", "c"])
    assert "on the host" in str(plan) and "got string" in str(plan)


@pytest.mark.parametrize(
    "given",
    [
        np.array([["a", "b"]]),
        np.array([[b"a", b"b"]]),
        np.array([["a", b"b"]], object),
        [["a", "b"]],
        np.array([[np.str_("a"), "b"]], object),
    ],
)
def test_strings_are_given_as_any_array_of_texts(given):
    library = byoc.compile(single_node("Transpose", 21, [texts(["a", "b"])]))
    (found,) = library.run({"x0": given})
    assert np.asarray(found).tolist() == [["a"], ["b"]] and {type(v) for v in np.asarray(found).flat} == {str}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (np.array([["a", None]], object), "input 'x0': None stands among strings"),
        (np.array([["a", 1.5]], object), "input 'x0': 1.5, a float, stands among strings"),
        (np.array([[b"\xff", b""]]), "no text in UTF-8"),
        (np.zeros((1, 2), "float32"), r"expected dtype string, got float32; convert it with .astype\('str'\)"),
    ],
)
def test_what_is_no_string_is_named(given, reason):
    library = byoc.compile(single_node("Transpose", 21, [texts(["a", "b"])]))
    with pytest.raises(InputError, match=reason):
        library.run({"x0": given})


def test_the_command_line_reads_strings_from_json_and_from_numpy(tmp_path, capsys):
    save_model(single_node("StringConcat", 20, [texts("a", "b")], [texts("!")]), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.array(["é", "b"]))
    (tmp_path / "x.json").write_text(json.dumps(["é", "b"]))
    for name in ("x.npy", "x.json"):
        given = ["-i", f"x0={tmp_path / name}", "-o", str(tmp_path / "out.npz")]
        assert main(["run", str(tmp_path / "m.onnx"), *given]) == 0
        assert np.load(tmp_path / "out.npz")["y0"].tolist() == ["é!", "b!"]
    (tmp_path / "x.json").write_text('[["a"], ["b", "c"]]')
    assert main(["run", str(tmp_path / "m.onnx"), "-i", f"x0={tmp_path / 'x.json'}"]) == 2
    assert "it holds no list of strings, of numbers or of true and false" in capsys.readouterr().err


def test_saved_strings_are_read_back_or_refused():
    for array in (TABLE, texts(), np.array("a\0", object), np.empty((0, 3), object)):
        found = read_text_bytes(text_bytes(array), "strings")
        assert found.shape == array.shape and found.tolist() == array.tolist() and not found.flags.writeable
    for damaged in (
        b"",
        b"{}",
        b'{"shape":[2],"values":["a"]}',
        b'{"shape":[1],"values":[1]}',
        b'{"shape":1,"values":[]}',
    ):
        with pytest.raises(ArtifactError, match="strings"):
            read_text_bytes(damaged, "strings")
