"""Marks that memory is free, taken out again."""

from byoc import relay
from byoc.relay.structure.structural import assert_structural_equal

HEAD = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) '


def test_a_binding_of_a_mark_goes_and_elsewhere_it_is_the_empty_tuple():
    bound = relay.parse(HEAD + "{ let %y = exp(%x); let %k = memory.kill(%x); let %z = nn.relu(%y); %z }")
    plain = relay.parse(HEAD + "{ let %y = exp(%x); let %z = nn.relu(%y); %z }")
    infer = relay.transform.InferType()
    assert_structural_equal(relay.transform.RemoveKills()(infer(bound)), infer(plain))
    last = relay.transform.RemoveKills()(infer(relay.parse(HEAD + "{ memory.kill(%x) }")))
    assert isinstance(last["main"].body, relay.Tuple) and not last["main"].body.fields
