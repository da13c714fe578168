import pytest

from mooring.scheduler.framework.interface import Filter, Plugin, PreFilter, Score
from mooring.scheduler.registry import DEFAULT, KUBE_SCHEDULER
from support.builders import a_pod

#: kube-scheduler's default order. Unsupported is ours and comes first: it rejects the pod on every node. So is
#: VolumePreferredAffinity, for an annotation that Kubernetes does not know.
DOCUMENTED = [
    "Unsupported",
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "VolumePreferredAffinity",
    "PodTopologySpread",
    "InterPodAffinity",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "NodeDeclaredFeatures",
]
#: kube-scheduler's, but for VolumeBinding's, which is 1 there.
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "InterPodAffinity": 2,
    "VolumeBinding": 3,
    "VolumePreferredAffinity": 2,
    "PodTopologySpread": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def test_plugins_are_asked_in_the_documented_order() -> None:
    assert [plugin.name for plugin in DEFAULT.plugins] == DOCUMENTED


def test_weights() -> None:
    assert {plugin.name: plugin.weight for plugin in DEFAULT.plugins if isinstance(plugin, Score)} == WEIGHTS


def test_kube_schedulers_scoring_has_its_weights() -> None:
    weights = {plugin.name: KUBE_SCHEDULER.weight(plugin) for plugin in KUBE_SCHEDULER.scorers}
    assert weights == WEIGHTS | {"VolumeBinding": 1}
    assert [plugin.name for plugin in KUBE_SCHEDULER.plugins] == DOCUMENTED


@pytest.mark.req("T26.declared")
@pytest.mark.parametrize("plugin", DEFAULT.plugins, ids=lambda plugin: plugin.name)
def test_rejecting_plugins_register_events(plugin: Plugin) -> None:
    rejects = isinstance(plugin, PreFilter | Filter)
    assert bool(plugin.events_to_register) == rejects
    assert all(set(hint.actions) <= {"add", "update", "delete"} for hint in plugin.events_to_register)


@pytest.mark.parametrize("plugin", DEFAULT.plugins, ids=lambda plugin: plugin.name)
def test_every_plugin_acts_somewhere(plugin: Plugin) -> None:
    points = (DEFAULT.prefilters, DEFAULT.filters, DEFAULT.scorers, (DEFAULT.reserver, DEFAULT.preemptor))
    assert any(plugin is one for point in points for one in point)


@pytest.mark.req("T28.skipped")
def test_plugins_that_only_look_at_volumes_are_not_asked_about_pods_without() -> None:
    asked = [plugin.name for plugin in DEFAULT.for_pod(a_pod()).plugins]

    skipped = {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "VolumePreferredAffinity"}
    assert asked == [name for name in DOCUMENTED if name not in skipped]
    assert DEFAULT.for_pod(a_pod(claims=["claim-1"])) is DEFAULT
