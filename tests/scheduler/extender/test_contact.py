from builders import a_pod
from mooring.scheduler.extender.contact import REMEMBERED, Contact

WITHIN = 300.0


def a_contact() -> Contact:
    return Contact({"default-scheduler"}, within=WITHIN, now=0.0)


def placed(contact: Contact, name: str, *, scheduler: str = "default-scheduler") -> None:
    contact.observe(a_pod(name=name, scheduler=scheduler), a_pod(name=name, scheduler=scheduler, node="n1"))


def test_nobody_calls_and_nobody_has_to() -> None:
    assert a_contact().silence(10 * WITHIN) is None


def test_pods_that_got_a_node_unasked_give_it_away() -> None:
    contact = a_contact()
    placed(contact, "a")
    placed(contact, "b")
    assert contact.unasked == 2
    assert contact.silence(WITHIN - 1) is None, "a start takes a while"
    assert contact.silence(WITHIN) == (
        "no kube-scheduler has called yet, but 2 pods of default-scheduler got their nodes: is this extender in the "
        "extenders of its configuration, and is another replica called?"
    )


def test_a_call_ends_it() -> None:
    contact = a_contact()
    placed(contact, "a")
    assert contact.asked("b-uid", WITHIN), "the first call of all is news"
    assert contact.silence(WITHIN) is None
    placed(contact, "b")
    assert contact.unasked == 1, "this one was asked about"
    assert contact.silence(9 * WITHIN) is None, "nothing has happened since"


def test_calls_that_stop_are_noticed_and_that_they_go_on_too() -> None:
    contact = a_contact()
    assert contact.asked("a-uid", 10.0)
    assert not contact.asked("a-uid", 20.0)
    placed(contact, "b")
    told = contact.silence(20.0 + WITHIN)
    assert told is not None
    assert told.startswith("no kube-scheduler has called for 300 s, but 1 pods")
    assert contact.asked("c-uid", 20.0 + WITHIN)


def test_what_does_not_count() -> None:
    contact = a_contact()
    placed(contact, "theirs", scheduler="another")
    contact.observe(None, a_pod(name="old", node="n1"))
    contact.observe(a_pod(name="moving", node="n1"), a_pod(name="moving", node="n1"))
    contact.observe(a_pod(name="gone"), None)
    assert contact.unasked == 0


def test_only_so_many_are_remembered() -> None:
    contact = a_contact()
    for number in range(REMEMBERED + 1):
        contact.asked(f"p{number}-uid", 0.0)
    placed(contact, "p0")
    placed(contact, f"p{REMEMBERED}")
    assert contact.unasked == 1, "only the first was forgotten"
