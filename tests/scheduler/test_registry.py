import pytest

from builders import a_pod
from mooring.scheduler.contract import Filter, Plugin, PreFilter, Score
from mooring.scheduler.registry import DEFAULT

#: kube-scheduler's default order; Unsupported is ours and comes first, so that nobody looks for a place in vain.
DOCUMENTED = [
    "Unsupported",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "NodeDeclaredFeatures",
]
#: kube-scheduler's, where VolumeBinding does not score.
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "InterPodAffinity": 2,
    "VolumeBinding": 3,
    "PodTopologySpread": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def test_plugins_are_asked_in_the_documented_order() -> None:
    assert [plugin.name for plugin in DEFAULT.plugins] == DOCUMENTED


def test_weights() -> None:
    assert {plugin.name: plugin.weight for plugin in DEFAULT.plugins if isinstance(plugin, Score)} == WEIGHTS


@pytest.mark.req("T26.declared")
@pytest.mark.parametrize("plugin", DEFAULT.plugins, ids=lambda plugin: plugin.name)
def test_every_plugin_says_what_could_change_its_mind(plugin: Plugin) -> None:
    rejects = isinstance(plugin, PreFilter | Filter)
    assert bool(plugin.wakes_on) == rejects
    assert all(hint.what <= {"add", "update", "delete"} for hint in plugin.wakes_on)


@pytest.mark.parametrize("plugin", DEFAULT.plugins, ids=lambda plugin: plugin.name)
def test_every_plugin_acts_somewhere(plugin: Plugin) -> None:
    points = (DEFAULT.prefilters, DEFAULT.filters, DEFAULT.scorers, DEFAULT.reservers, (DEFAULT.preemptor,))
    assert any(plugin is one for point in points for one in point)


@pytest.mark.req("T28")
def test_plugins_that_only_look_at_volumes_are_not_asked_about_pods_without() -> None:
    asked = [plugin.name for plugin in DEFAULT.concerning(a_pod()).plugins]

    skipped = {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}
    assert asked == [name for name in DOCUMENTED if name not in skipped]
    assert DEFAULT.concerning(a_pod(claims=["claim-1"])) is DEFAULT
