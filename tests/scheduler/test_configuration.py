"""KubeSchedulerConfiguration: what is followed, what is accepted because it changes nothing, what is refused."""

from typing import Any

import pytest

from mooring.control.election import ElectionSettings
from mooring.scheduler.configuration import API_VERSION, FOREIGN_PLUGINS, KIND, ConfigurationError, read
from mooring.scheduler.queue import PodBackoff
from mooring.scheduler.registry import DEFAULT

HEAD = {"apiVersion": API_VERSION, "kind": KIND}


def plugins(**sets: list[dict[str, Any]]) -> dict[str, Any]:
    return {"profiles": [{"plugins": {"multiPoint": sets}}]}


def names(document: dict[str, Any], profile: str = "default-scheduler") -> list[str]:
    return [plugin.name for plugin in read(HEAD | document).profiles[profile].plugins]


def test_an_empty_file_is_the_default() -> None:
    configuration = read(HEAD)
    assert list(configuration.profiles) == ["default-scheduler"]
    assert names({}) == [plugin.name for plugin in DEFAULT.plugins]
    assert configuration.election == ElectionSettings()
    assert configuration.bind_timeout == 600.0


def test_what_is_supported_is_followed() -> None:
    args = {"apiVersion": API_VERSION, "kind": "VolumeBindingArgs", "bindTimeoutSeconds": 30}
    configuration = read(
        HEAD
        | {
            "clientConnection": {"kubeconfig": "/etc/scheduler.conf"},
            "leaderElection": {
                "leaderElect": True,
                "leaseDuration": "30s",
                "renewDeadline": "20s",
                "retryPeriod": "500ms",
                "resourceLock": "leases",
                "resourceName": "mine",
                "resourceNamespace": "storage",
            },
            "profiles": [
                {"schedulerName": "one", "pluginConfig": [{"name": "VolumeBinding", "args": args}]},
                {"schedulerName": "two", "pluginConfig": [{"name": "VolumeBinding", "args": args}]},
            ],
        }
    )
    assert list(configuration.profiles) == ["one", "two"]
    assert configuration.kubeconfig == "/etc/scheduler.conf"
    assert configuration.election == ElectionSettings(True, 30.0, 20.0, 0.5, "mine", "storage")
    assert configuration.bind_timeout == 30.0


def test_what_asks_for_what_happens_anyway_is_accepted() -> None:
    read(
        HEAD
        | {
            "percentageOfNodesToScore": 0,
            "enableProfiling": False,
            "extenders": None,
            "profiles": [{"percentageOfNodesToScore": 100, "plugins": {"filter": {}}}],
        }
    )


def test_plugins_can_be_disabled() -> None:
    left = names(plugins(disabled=[{"name": "NodeUnschedulable"}, {"name": "DynamicResources"}]))
    assert left == [plugin.name for plugin in DEFAULT.plugins if plugin.name != "NodeUnschedulable"]


def test_all_can_be_disabled_but_what_protects_pods() -> None:
    chosen = plugins(disabled=[{"name": "*"}], enabled=[{"name": "VolumeBinding"}, {"name": "NodeName"}])
    assert names(chosen) == ["Unsupported", "VolumeBinding", "NodeName"]


def test_enabling_what_is_enabled_changes_nothing() -> None:
    weight = next(plugin.weight for plugin in DEFAULT.scorers if plugin.name == "TaintToleration")
    assert names(plugins(enabled=[{"name": "TaintToleration", "weight": weight}])) == names({})


def test_weights_can_be_set() -> None:
    document = HEAD | plugins(enabled=[{"name": "TaintToleration", "weight": 9}])
    profile = read(document).profiles["default-scheduler"]
    weights = {plugin.name: profile.weight(plugin) for plugin in profile.scorers}
    assert weights == {plugin.name: plugin.weight for plugin in DEFAULT.scorers} | {"TaintToleration": 9}


def test_backoff_can_be_set() -> None:
    assert read(HEAD).backoff == PodBackoff(1.0, 10.0)
    document = HEAD | {"podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 60}
    assert read(document).backoff == PodBackoff(2.0, 60.0)


def test_the_default_plugins_are_not_called_foreign() -> None:
    assert FOREIGN_PLUGINS.isdisjoint(plugin.name for plugin in DEFAULT.plugins)
    read(HEAD | plugins(disabled=[{"name": name} for name in sorted(FOREIGN_PLUGINS)]))


REFUSED = [
    pytest.param({"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, "apiVersion: ", id="an older version"),
    pytest.param({"kind": "KubeProxyConfiguration"}, "kind: ", id="another kind"),
    pytest.param({"frobnicate": 1}, "unknown field `frobnicate`", id="an unknown field"),
    pytest.param({"parallelism": 16}, "parallelism: 16 is not supported: remove it", id="parallelism"),
    pytest.param({"extenders": [{"urlPrefix": "x"}]}, "extenders: ", id="extenders"),
    pytest.param({"enableProfiling": True}, "enableProfiling: true is not supported", id="profiling"),
    pytest.param({"percentageOfNodesToScore": 50}, "percentageOfNodesToScore: 50 is not", id="sampling"),
    pytest.param({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: must be", id="no backoff"),
    pytest.param({"podInitialBackoffSeconds": 20}, "podMaxBackoffSeconds: must be", id="a first beyond the longest"),
    pytest.param({"podInitialBackoffSeconds": True}, "podInitialBackoffSeconds: Expected", id="no number"),
    pytest.param({"clientConnection": {"qps": 100}}, "clientConnection.qps: 100 is not", id="client limits"),
    pytest.param({"leaderElection": {"resourceLock": "endpoints"}}, "resourceLock: ", id="another lock"),
    pytest.param({"leaderElection": {"leaseDuration": "15"}}, "leaderElection.leaseDuration: ", id="no unit"),
    pytest.param({"leaderElection": {"leaderElect": "yes"}}, "leaderElection.leaderElect: ", id="no boolean"),
    pytest.param({"profiles": [{"schedulerName": ""}]}, "profiles[0].schedulerName: ", id="an empty name"),
    pytest.param({"profiles": [{}, {}]}, "profiles[1].schedulerName: ", id="one name twice"),
    pytest.param({"profiles": [{"colour": 1}]}, "profiles[0]: ", id="an unknown field of a profile"),
    *(
        pytest.param(
            {"profiles": [{"plugins": {point: {"disabled": [{"name": "*"}]}}}]},
            f"profiles[0].plugins.{point}: not supported",
            id=f"a single extension point: {point}",
        )
        for point in ("score", "placementGenerate", "placementScore", "podGroupPostFilter")
    ),
    pytest.param(
        plugins(enabled=[{"name": "DynamicResources"}]), "no plugin 'DynamicResources'; it has: ", id="a foreign one"
    ),
    pytest.param(plugins(disabled=[{"name": "Frob"}]), "multiPoint.disabled[0]: ", id="an unknown plugin"),
    pytest.param(plugins(disabled=[{"name": "Unsupported"}]), "cannot be disabled", id="what protects pods"),
    pytest.param(
        plugins(enabled=[{"name": "TaintToleration", "weight": -1}]), "enabled[0].weight: ", id="a negative weight"
    ),
    pytest.param(plugins(enabled=[{"name": "NodeName", "weight": 9}]), "it does not score", id="a needless weight"),
    pytest.param(
        {"profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": {}}]}]},
        "profiles[0].pluginConfig[0]: arguments of NodeAffinity are not supported",
        id="arguments of another plugin",
    ),
    pytest.param(
        {"profiles": [{"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": "soon"}}]}]},
        "profiles[0].pluginConfig[0].args.bindTimeoutSeconds: ",
        id="a timeout that is no number",
    ),
    pytest.param(
        {"profiles": [{"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": -1}}]}]},
        "must not be negative",
        id="a negative timeout",
    ),
    pytest.param(
        {"profiles": [{"pluginConfig": [{"name": "VolumeBinding"}, {"name": "VolumeBinding"}]}]},
        "configured twice",
        id="arguments twice",
    ),
    pytest.param(
        {
            "profiles": [
                {"schedulerName": "a"},
                {"schedulerName": "b", "pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}}]},
            ]
        },
        "must be the same in all profiles",
        id="two timeouts",
    ),
]


@pytest.mark.parametrize(("fields", "complaint"), REFUSED)
def test_the_rest_is_refused_by_name(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(HEAD | fields)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("document", [None, [], "words", {}])
def test_what_is_no_configuration_at_all_is_refused(document: object) -> None:
    with pytest.raises(ConfigurationError):
        read(document)
