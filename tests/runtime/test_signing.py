"""Signatures of artefacts: who signed, what a changed file says, and that nothing is read before they are looked at."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.runtime.artefact.artifact import read_artifact, sign_artifact, write_artifact
from byoc.runtime.artefact.signing import fingerprint, public_key
from byoc.runtime.core.errors import ArtifactError, UserError

ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
X = np.array([[-1, 2]], "float32")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    x = relay.var("x", shape=(1, 2))
    module = byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    return byoc.compile(module, ["json"]).save(tmp_path_factory.mktemp("signing") / "m.byoc").read_bytes()


@pytest.fixture
def path(original, tmp_path):
    (tmp_path / "m.byoc").write_bytes(original)
    return tmp_path / "m.byoc"


def key_pair(folder, name):
    """A private and a public key as PEM files."""
    private = ed25519.Ed25519PrivateKey.generate()
    pem, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / f"{name}.pem").write_bytes(private.private_bytes(pem, kind, serialization.NoEncryption()))
    public = private.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub.pem").write_bytes(public)
    return folder / f"{name}.pem", folder / f"{name}.pub.pem"


@pytest.fixture
def keys(tmp_path):
    return key_pair(tmp_path, "alice")


def test_what_a_trusted_key_signed_is_loaded(path, keys, original):
    private, public = keys
    assert sign_artifact(path, private) == public_key(public)
    for trusted in ([public], [public.read_bytes()], [public_key(public)], str(public)):
        np.testing.assert_array_equal(byoc.runtime.load(path, trusted=trusted)(X), [[0, 2]])
    np.testing.assert_array_equal(byoc.runtime.load(path)(X), [[0, 2]])
    signed = path.read_bytes()
    sign_artifact(path, private)
    assert path.read_bytes() == signed != original  # Ed25519 has no chance in it


def test_what_is_not_signed_or_by_another_is_refused_before_it_is_read(path, keys, tmp_path, monkeypatch):
    _, public = keys
    with pytest.raises(ArtifactError, match=r"m\.byoc: it is not signed, and only artefacts that a trusted key signed"):
        byoc.runtime.load(path, trusted=[public])
    other, _ = key_pair(tmp_path, "mallory")
    signer = sign_artifact(path, other)
    monkeypatch.setattr(
        "byoc.runtime.artefact.artifact._check_version", lambda manifest: pytest.fail("the manifest was read")
    )
    with pytest.raises(ArtifactError, match=f"it is signed by {fingerprint(signer)}, which is no trusted key"):
        byoc.runtime.load(path, trusted=[public])


def test_what_was_changed_after_signing_is_refused(path, keys):
    private, public = keys
    sign_artifact(path, private)
    members = {n: bytes(d) for n, d in read_artifact(path).members.items() if n != "manifest.json"}
    manifest = {k: v for k, v in read_artifact(path).manifest.items() if k not in ("members", "seal")}
    signatures = path.read_bytes()
    assert b"signatures.json" in signatures
    write_artifact(path, {**manifest, "requires": ["json", "c"]}, members)
    unsigned = path.read_bytes()
    with pytest.raises(ArtifactError, match="it is not signed"):
        byoc.runtime.load(path, trusted=[public])
    path.write_bytes(signatures.replace(b'"name": "byoc"', b'"name": "bioc"'))
    with pytest.raises(ArtifactError, match="its signature does not fit its manifest: it was changed after"):
        byoc.runtime.load(path, trusted=[public])
    path.write_bytes(unsigned)


def test_several_may_sign_and_who_signs_again_replaces_his_own(path, keys, tmp_path):
    alice, alice_public = keys
    bob, bob_public = key_pair(tmp_path, "bob")
    for private in (alice, bob, alice):
        sign_artifact(path, private)
    for public in (alice_public, bob_public):
        byoc.runtime.load(path, trusted=[public])


def test_a_folder_of_trusted_keys_is_a_policy_for_the_whole_process(path, keys, tmp_path, monkeypatch):
    private, public = keys
    folder = tmp_path / "trusted"
    folder.mkdir()
    monkeypatch.setenv("BYOC_TRUSTED_KEYS", str(folder))
    with pytest.raises(UserError, match="there is no key in it, so that nothing could be loaded"):
        byoc.runtime.load(path)
    (folder / "alice.pem").write_bytes(public.read_bytes())
    with pytest.raises(ArtifactError, match="it is not signed"):
        byoc.runtime.load(path)
    sign_artifact(path, private)
    byoc.runtime.load(path)
    monkeypatch.setenv("BYOC_TRUSTED_KEYS", str(tmp_path / "absent"))
    with pytest.raises(UserError, match="the folder of trusted keys cannot be read"):
        byoc.runtime.load(path)


def test_an_edited_artifact_is_not_signed(path, keys):
    artifact = read_artifact(path)
    members = {n: bytes(d) for n, d in artifact.members.items() if n != "manifest.json"}
    write_artifact(path, {k: v for k, v in artifact.manifest.items() if k != "members"} | {"requires": []}, members)
    with pytest.raises(ArtifactError, match="its seal does not fit"):
        sign_artifact(path, keys[0])


def test_what_is_no_key_is_named(path, keys, tmp_path):
    private, public = keys
    sign_artifact(path, private)
    with pytest.raises(UserError, match=r"gone\.pem: the key cannot be read \(No such file"):
        byoc.runtime.load(path, trusted=[tmp_path / "gone.pem"])
    with pytest.raises(UserError, match=r"m\.byoc: this is no public key in PEM form"):
        byoc.runtime.load(path, trusted=[path])
    with pytest.raises(UserError, match="this is no private key in PEM form"):
        sign_artifact(path, public)
    with pytest.raises(UserError, match="trusted: there is no key in it"):
        byoc.runtime.load(path, trusted=[])


def test_the_command_line_signs_verifies_and_runs(path, keys, capsys):
    private, public = keys
    assert main(["verify", str(path), "--key", str(public)]) == 2
    assert "it is not signed" in capsys.readouterr().err
    assert main(["sign", str(path), "--key", str(private)]) == 0
    name = fingerprint(public_key(public))
    assert capsys.readouterr().out == f"{path}: signed by the key {name}\n"
    assert main(["verify", str(path), "--key", str(public), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["key"] == public_key(public).hex()
    assert main(["run", str(path), "--random", "--trusted", str(public)]) == 0
    assert main(["inspect", str(path)]) == 0


def test_without_the_package_its_extra_is_named(path, keys):
    code = (
        "import sys; sys.modules['cryptography'] = sys.modules['cryptography.hazmat.primitives'] = None\n"
        f"from byoc.cli.main import main; sys.exit(main(['verify', {str(path)!r}, '--key', {str(keys[1])!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 3
    assert "signatures need the package cryptography, which is missing here: pip install" in done.stderr
