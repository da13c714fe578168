from mooring.scheduler.extender.metrics import MAX_CACHED_PODS, CallMonitor
from support.builders import a_pod

WITHIN = 300.0


def a_contact() -> CallMonitor:
    return CallMonitor({"default-scheduler"}, within=WITHIN, now=0.0)


def placed(contact: CallMonitor, name: str, *, scheduler: str = "default-scheduler") -> None:
    contact.observe(a_pod(name=name, scheduler=scheduler), a_pod(name=name, scheduler=scheduler, node="n1"))


def test_no_warning_without_bound_pods() -> None:
    assert a_contact().idle_warning(10 * WITHIN) is None


def test_pods_that_got_a_node_unasked_give_it_away() -> None:
    contact = a_contact()
    placed(contact, "a")
    placed(contact, "b")
    assert contact.unasked == 2
    assert contact.idle_warning(WITHIN - 1) is None, "a start takes a while"
    assert contact.idle_warning(WITHIN) == (
        "no call from kube-scheduler yet, but 2 pods of default-scheduler were bound: check that its configuration "
        "lists this extender, and whether another replica is called"
    )


def test_a_call_ends_it() -> None:
    contact = a_contact()
    placed(contact, "a")
    assert contact.record_call("b-uid", WITHIN), "the first call of all is news"
    assert contact.idle_warning(WITHIN) is None
    placed(contact, "b")
    assert contact.unasked == 1, "this one was asked about"
    assert contact.idle_warning(9 * WITHIN) is None, "nothing has happened since"


def test_calls_that_stop_are_noticed_and_that_they_go_on_too() -> None:
    contact = a_contact()
    assert contact.record_call("a-uid", 10.0)
    assert not contact.record_call("a-uid", 20.0)
    placed(contact, "b")
    told = contact.idle_warning(20.0 + WITHIN)
    assert told is not None
    assert told.startswith("no call from kube-scheduler for 300 s, but 1 pods")
    assert contact.record_call("c-uid", 20.0 + WITHIN)


def test_what_does_not_count() -> None:
    contact = a_contact()
    placed(contact, "theirs", scheduler="another")
    contact.observe(None, a_pod(name="old", node="n1"))
    contact.observe(a_pod(name="moving", node="n1"), a_pod(name="moving", node="n1"))
    contact.observe(a_pod(name="gone"), None)
    assert contact.unasked == 0


def test_only_so_many_are_remembered() -> None:
    contact = a_contact()
    for number in range(MAX_CACHED_PODS + 1):
        contact.record_call(f"p{number}-uid", 0.0)
    placed(contact, "p0")
    placed(contact, f"p{MAX_CACHED_PODS}")
    assert contact.unasked == 1, "only the first was forgotten"
