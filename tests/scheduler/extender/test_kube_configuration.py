"""What kube-scheduler is told. That it takes it is seen in tests/conformance/test_extender.py."""

from mooring.scheduler.extender.kube_configuration import ClientFiles, kube_configuration
from mooring.scheduler.extender.settings import Mode

URL = "http://127.0.0.1:10264/"


def test_beside_kube_schedulers_own_volume_binding() -> None:
    assert kube_configuration(Mode.FILTER, URL, ["default-scheduler"], bind_timeout=600) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
        "extenders": [
            {
                "urlPrefix": URL,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "weight": 3,
                "nodeCacheCapable": True,
                "ignorable": True,
                "httpTimeout": "5s",
            }
        ],
    }


def test_in_the_place_of_it() -> None:
    document = kube_configuration(Mode.BIND, URL, ["a", "b"], bind_timeout=29.5)
    off = {"multiPoint": {"disabled": [{"name": "VolumeBinding"}]}}
    assert document["profiles"] == [{"schedulerName": name, "plugins": off} for name in ("a", "b")]
    assert document["percentageOfNodesToScore"] == 100
    judging, binding = document["extenders"]
    assert not judging["ignorable"], "without us nobody would look at volumes"
    assert "bindVerb" not in judging
    assert binding == {
        "urlPrefix": URL,
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "ignorable": False,
        "httpTimeout": "40s",
    }


def test_mutual_tls() -> None:
    files = ClientFiles("ca", "crt", "key")
    document = kube_configuration(Mode.BIND, "https://extender:1/", ["a"], bind_timeout=1, files=files)
    for entry in document["extenders"]:
        assert entry["enableHTTPS"] is True
        assert entry["tlsConfig"] == {"caFile": "ca", "certFile": "crt", "keyFile": "key"}
