"""What `mooring timeline` learns from a scheduler over HTTP, and what it says when it learns nothing."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.commands.timeline import AttemptHistory, attempts_beside
from mooring.cli.main import main
from mooring.client.access import Access
from support.builders import pod_body

ATTEMPT = {
    "at": 1_767_323_045.25,
    "podUid": "pod-1",
    "number": 1,
    "considered": 1,
    "result": "unschedulable",
    "objections": [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 1, "examples": ["n1"]}],
}


class Scheduler(http.server.BaseHTTPRequestHandler):
    """Answers for one pod; what it is asked otherwise it does not know."""

    def do_GET(self) -> None:
        known = self.path == "/debug/attempts?pod=default/web" or self.path == "/debug/attempts?pod=default%2Fweb"
        answer = json.dumps({"pod": "default/web", "attempts": [ATTEMPT]}) if known else "404 page not found\n"
        if self.path.startswith("/odd"):
            answer, known = "{}", True
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        """Discard the access log."""


@pytest.fixture
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scheduler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def timeline(tmp_path: Path, *flags: str, pod: str = "web") -> Result:
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump(pod_body(name=pod)))
    return CliRunner().invoke(main, ["story", f"pod/{pod}", "-f", str(file), *flags])


def test_attempts_are_in_text_and_json_output(tmp_path: Path, url: str) -> None:
    done = timeline(tmp_path, "--scheduler-url", f"{url}/")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == (
        "2026-01-02 03:04:05  pod/default/web  scheduler: attempt 1 (of an earlier object with this name): "
        "no feasible node of 1: n1 (Insufficient cpu)"
    )
    assert done.stderr == ""
    shown = json.loads(timeline(tmp_path, "--scheduler-url", url, "-o", "json").stdout)
    assert shown["attempts"][0]["attempts"][0]["objections"] == ATTEMPT["objections"]
    assert shown["notes"] == []


@pytest.mark.parametrize(
    ("suffix", "pod", "why"),
    [
        pytest.param("", "other", "/debug/attempts not found at {url}", id="another kind of scheduler"),
        pytest.param("/odd", "web", "the answer cannot be read: Object missing required field `pod`", id="nonsense"),
    ],
)
def test_scheduler_without_attempts_is_a_one_line_note(
    tmp_path: Path, url: str, suffix: str, pod: str, why: str
) -> None:
    done = timeline(tmp_path, "--scheduler-url", f"{url}{suffix}", "-o", "json", pod=pod)
    assert done.exit_code == 0
    note = f"scheduling attempts are not shown: {why.format(url=url)}"
    assert done.stderr == f"note: {note}\n"
    assert json.loads(done.stdout)["notes"] == [note]


def test_unreachable_scheduler_is_a_one_line_note(tmp_path: Path) -> None:
    done = timeline(tmp_path, "--scheduler-url", "http://127.0.0.1:1")
    assert done.exit_code == 0
    assert done.stderr == ("note: scheduling attempts are not shown: no scheduler answers at http://127.0.0.1:1\n")


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    done = timeline(tmp_path, "--scheduler-url", "localhost:10251")
    assert done.exit_code == 2
    assert done.stderr == (
        "Error: --scheduler-url 'localhost:10251' is not a URL: write it like http://127.0.0.1:10251.\n"
    )


def test_dump_files_need_no_scheduler(tmp_path: Path) -> None:
    done = timeline(tmp_path)
    assert (done.exit_code, done.stderr) == (0, "")


def test_an_api_server_without_a_scheduler_in_it_says_where_to_look(url: str) -> None:
    found = attempts_beside(Access(url), ["default/other"])
    assert found == AttemptHistory(
        missing="scheduling attempts are not shown: the API server's process has no scheduler; "
        "set --scheduler-url to the URL of mooring scheduler"
    )
    assert [kept.pod for kept in attempts_beside(Access(url), ["default/web"]).kept] == ["default/web"]
