"""Secrets a class names: every way to name one, every way to name one wrongly."""

from collections.abc import Mapping

import pytest

from mooring.api.views.storage import SecretReference
from mooring.provisioner.provision.secrets import (
    CONTROLLER_EXPAND,
    NODE_STAGE,
    PROVISIONER,
    PURPOSES,
    Purpose,
    resolve_secret,
)
from mooring.provisioner.settings import ProvisioningFailure, ProvisioningState
from support.builders import a_claim

P = "csi.storage.k8s.io/"
CLAIM = a_claim(name="data", namespace="shop", annotations={"team": "red", "odd/key": "blue"})


def named(name: str, namespace: str, purpose: str = "provisioner-") -> dict[str, str]:
    return {f"{P}{purpose}secret-name": name, f"{P}{purpose}secret-namespace": namespace}


@pytest.mark.parametrize(
    ("purpose", "parameters", "want"),
    [
        pytest.param(PROVISIONER, {}, None, id="none is named"),
        pytest.param(PROVISIONER, {"fast": "yes"}, None, id="other parameters are not looked at"),
        pytest.param(PROVISIONER, named("s", "n"), ("s", "n"), id="plain names"),
        pytest.param(PROVISIONER, named("s", "n", ""), ("s", "n"), id="the fallback for every purpose"),
        pytest.param(NODE_STAGE, named("s", "n", "") | named("t", "n", "node-stage-"), ("t", "n"), id="its own wins"),
        pytest.param(CONTROLLER_EXPAND, named("s", "n", "provisioner-"), None, id="another purpose's is not used"),
        pytest.param(
            PROVISIONER,
            {"csiProvisionerSecretName": "s", "csiProvisionerSecretNamespace": "n"},
            ("s", "n"),
            id="the deprecated spelling",
        ),
        pytest.param(
            PROVISIONER, named("${pv.name}", "${pvc.namespace}"), ("pvc-1", "shop"), id="volume and namespace"
        ),
        pytest.param(PROVISIONER, named("s-${pvc.name}", "n"), ("s-data", "n"), id="the claim's name"),
        pytest.param(PROVISIONER, named("${pvc.annotations['team']}", "n"), ("red", "n"), id="an annotation"),
        pytest.param(PROVISIONER, named("${pvc.annotations['odd/key']}", "n"), ("blue", "n"), id="a key with a slash"),
        pytest.param(PROVISIONER, named("${pvc.name}.${pv.name}", "n"), ("data.pvc-1", "n"), id="two tokens"),
    ],
)
def test_named(purpose: Purpose, parameters: Mapping[str, str], want: tuple[str, str] | None) -> None:
    found = resolve_secret(purpose, parameters, CLAIM, "pvc-1")
    assert found == (None if want is None else SecretReference(*want))


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        pytest.param({f"{P}provisioner-secret-name": "s"}, "only one of", id="no namespace"),
        pytest.param({f"{P}provisioner-secret-namespace": "n"}, "only one of", id="no name"),
        pytest.param({f"{P}secret-name": "s"}, "only one of", id="half a fallback"),
        pytest.param(
            named("s", "n") | {"csiProvisionerSecretName": "s", "csiProvisionerSecretNamespace": "n"},
            "under both its names",
            id="both spellings",
        ),
        pytest.param(named("", "n"), "is empty", id="an empty name"),
        pytest.param(named("s", ""), "is empty", id="an empty namespace"),
        pytest.param(named("${pvc.uid}", "n"), "cannot resolve ${pvc.uid}", id="an unknown token"),
        pytest.param(named("$name", "n"), "cannot resolve $name", id="a token without braces"),
        pytest.param(named("s", "${pvc.name}"), "cannot resolve ${pvc.name}", id="the claim's name in a namespace"),
        pytest.param(named("${pvc.annotations['x']}", "n"), "cannot resolve", id="an annotation that is not there"),
        pytest.param(named("s", "${pvc.annotations['team']}"), "cannot resolve", id="an annotation in a namespace"),
        pytest.param(named("S", "n"), "invalid name", id="not a DNS name"),
        pytest.param(named("s", "a.b"), "must not contain dots", id="a namespace with a dot"),
    ],
)
def test_named_wrongly(parameters: Mapping[str, str], text: str) -> None:
    with pytest.raises(ProvisioningFailure) as caught:
        resolve_secret(PROVISIONER, parameters, CLAIM, "pvc-1")
    assert caught.value.state is ProvisioningState.NO_CHANGE
    assert text in caught.value.text


def test_secret_namespace_template_ignores_annotations() -> None:
    """The namespace is the class's word alone: a claim's annotations are its user's to write."""
    tokens = named("s", "${pvc.annotations['namespace']}")
    with pytest.raises(ProvisioningFailure, match="cannot resolve"):
        resolve_secret(PROVISIONER, tokens, a_claim(annotations={"namespace": "kube-system"}), "v")


def test_every_purpose_has_keys_of_its_own() -> None:
    keys = [key for purpose in PURPOSES for pair in purpose.pairs for key in pair]
    assert len(keys) == len(set(keys))
