"""Operators on strings. Source: StringNormalizer-10, StringConcat-20, StringSplit-20, RegexFullMatch-20,
TfIdfVectorizer-9; Tokenizer-1 of com.microsoft, which skl2onnx writes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter
from byoc.relay.op import strings
from byoc.relay.op.strings.tokens import TfIdfAttrs, TokenizeAttrs
from byoc.runtime.core.container import object_vector
from byoc.runtime.kernels.strings.ngrams import MODES
from byoc.runtime.kernels.strings.regex import regex_of
from byoc.runtime.kernels.strings.regex_syntax import PatternError


def text_vector(values: Sequence[str]) -> RelayExpr:
    """*values* as a constant vector of strings."""
    return constant(object_vector(list(values)))


@converter("StringNormalizer", since=10)
def _string_normalizer(node: OnnxNode) -> RelayExpr:
    """Words left out, then upper or lower case. Case follows Unicode; no locale changes it."""
    case, words = node.attrs.string("case_change_action", "NONE"), node.attrs.strings("stopwords", [])
    if case not in ("NONE", "LOWER", "UPPER"):
        raise node.error(f"case_change_action is NONE, LOWER or UPPER, got {case!r}")
    shape = node.shape(node[0])
    if len(shape) not in (1, 2) or (len(shape) == 2 and isinstance(shape[0], int) and shape[0] != 1):
        raise node.error(f"takes one row of strings, got {node.type_of(node[0])}")
    if words:
        sensitive = node.attrs.flag("is_case_sensitive")
        return strings.without(node[0], text_vector(words), case.lower(), sensitive)
    return node[0] if case == "NONE" else strings.change_case(node[0], case.lower())


@converter("StringConcat", since=20)
def _string_concat(node: OnnxNode) -> RelayExpr:
    return strings.concat(node[0], node[1])


@converter("StringSplit", since=20)
def _string_split(node: OnnxNode) -> list[RelayExpr]:
    most = node.attrs.int("maxsplit", -1)
    return list(strings.split(node[0], node.attrs.string("delimiter", ""), most))


@converter("RegexFullMatch", since=20)
def _regex_full_match(node: OnnxNode) -> RelayExpr:
    return strings.full_match(node[0], _pattern(node, node.attrs.string("pattern")))


def _pattern(node: OnnxNode, pattern: str) -> str:
    """*pattern*. Raises ImportModelError where it is none of RE2's."""
    try:
        regex_of(pattern)
    except PatternError as error:
        raise node.error(str(error)) from error
    return pattern


@converter("TfIdfVectorizer", since=9)
def _tf_idf_vectorizer(node: OnnxNode) -> RelayExpr:
    """``T[N, C] -> f32[N, columns]``, of strings or integers."""
    data, mode = node[0], node.attrs.string("mode")
    starts, places = (np.array(node.attrs.ints(name), "int64") for name in ("ngram_counts", "ngram_indexes"))
    of_strings = node.dtype(data) == "string"
    texts, numbers = node.attrs.strings("pool_strings", []), node.attrs.ints("pool_int64s", [])
    size = len(texts) if of_strings else len(numbers)
    weights = np.array(node.attrs.floats("weights", []), "float32")
    lengths = node.attrs.int("min_gram_length"), node.attrs.int("max_gram_length")
    if mode not in MODES or not 1 <= lengths[0] <= lengths[1] or node.attrs.int("max_skip_count") < 0:
        raise node.error(f"mode is {', '.join(MODES)}, lengths are from 1 on, got {mode!r} and {lengths}")
    ends = [*starts[1:].tolist(), size]
    spans = [end - start for start, end in zip(starts.tolist(), ends, strict=True)]
    count = sum(span // length for length, span in enumerate(spans, 1))
    if any(span < 0 or span % length for length, span in enumerate(spans, 1)) or starts[:1].any():
        raise node.error(f"ngram_counts {starts.tolist()} do not divide a pool of {size}; the model is damaged")
    if len(places) != count or not count or len(weights) not in (0, count) or (places < 0).any():
        raise node.error(f"{count} n-grams need as many ngram_indexes and weights or none; the model is damaged")
    pool = text_vector(texts) if of_strings else constant(np.array(numbers, node.dtype(data)))
    attrs = TfIdfAttrs(int(places.max()) + 1, *lengths, node.attrs.int("max_skip_count"), mode)
    return strings.tf_idf(data, (pool, constant(starts)), constant(places), constant(weights), attrs)


@converter("Tokenizer", domain=MICROSOFT)
def _tokenizer(node: OnnxNode) -> RelayExpr:
    """``string[N, C] -> string[N, C, tokens]``."""
    token, separators = node.attrs.string("tokenexp", ""), node.attrs.strings("separators", [])
    if bool(token) == bool(separators):
        raise node.error("takes either tokenexp or separators")
    for pattern in (token, *separators):
        _pattern(node, pattern)
    if "" in separators and len(separators) > 1:
        raise node.error("an empty separator, which stands between all characters, is the only one")
    least = node.attrs.int("mincharnum")
    if least < 1:
        raise node.error(f"mincharnum is from 1 on, got {least}")
    attrs = TokenizeAttrs(token, least, node.attrs.string("pad_value"), node.attrs.flag("mark"))
    return strings.tokenize(node[0], text_vector(separators), attrs)
