from dataclasses import dataclass

import pytest

from mooring.api.health import Answer, Check, Health, readiness


def well() -> str | None:
    return None


def ill() -> str | None:
    return "cannot reach 10.0.0.1"


@pytest.mark.parametrize(
    ("checks", "verbose", "exclude", "want"),
    [
        pytest.param({}, False, (), "ok", id="nothing but ping"),
        pytest.param({}, True, (), "[+]ping ok\nreadyz check passed\n", id="ping in many words"),
        pytest.param({"scheduler": well}, False, (), "ok", id="all is well"),
        pytest.param(
            {"scheduler": well, "etcd": well},
            True,
            (),
            "[+]ping ok\n[+]scheduler ok\n[+]etcd ok\nreadyz check passed\n",
            id="all is well, in many words",
        ),
        pytest.param({"etcd": ill}, False, ("etcd",), "ok", id="what fails is excluded"),
        pytest.param(
            {"etcd": ill},
            True,
            ("etcd",),
            "[+]ping ok\n[+]etcd excluded: ok\nreadyz check passed\n",
            id="what fails is excluded, in many words",
        ),
        pytest.param(
            {},
            True,
            ("zebra", 'e"tcd'),
            "[+]ping ok\n"
            'warn: some health checks cannot be excluded: no matches for "e\\"tcd","zebra"\n'
            "readyz check passed\n",
            id="what is excluded is unknown",
        ),
    ],
)
def test_answers_that_pass(checks: dict[str, Check], verbose: bool, exclude: tuple[str, ...], want: str) -> None:
    assert Health("readyz", checks).answer(verbose=verbose, exclude=exclude) == Answer(True, want, {})


@pytest.mark.parametrize("verbose", [False, True])
def test_failure_lists_checks_without_reasons(verbose: bool) -> None:
    answer = Health("livez", {"scheduler": well, "etcd": ill}).answer(verbose=verbose)
    assert not answer.healthy
    assert answer.text == "[+]ping ok\n[+]scheduler ok\n[-]etcd failed: reason withheld\nlivez check failed\n"
    assert answer.failures == {"etcd": "cannot reach 10.0.0.1"}


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("ping", Answer(True, "ok", {}), id="ping"),
        pytest.param("scheduler", Answer(True, "ok", {}), id="a check that passes"),
        pytest.param(
            "etcd",
            Answer(False, "internal server error: cannot reach 10.0.0.1\n", {"etcd": "cannot reach 10.0.0.1"}),
            id="a check that fails",
        ),
        pytest.param("zebra", None, id="no such check"),
    ],
)
def test_a_check_by_itself(name: str, want: Answer | None) -> None:
    assert Health("readyz", {"scheduler": well, "etcd": ill}).answer_one(name) == want


@dataclass
class Part:
    name: str
    ready: bool = False

    async def run(self) -> None:
        """Never."""


def test_process_is_ready_when_all_components_are() -> None:
    scheduler, agent = Part("scheduler"), Part("node-agent")
    health = Health("readyz", readiness([scheduler, agent]))
    scheduler.ready = True
    assert health.answer().failures == {"node-agent": "not ready"}
    agent.ready = True
    assert health.answer() == Answer(True, "ok", {})
    scheduler.ready = False
    assert health.answer().failures == {"scheduler": "not ready"}


def test_standby_is_ready_and_new_leader_is_not() -> None:
    leads = False
    health = Health("readyz", readiness([Part("scheduler")], leads=lambda: leads))
    assert health.answer().healthy
    leads = True
    assert not health.answer().healthy


def test_components_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two components have the name scheduler"):
        readiness([Part("scheduler"), Part("scheduler")])
