"""Names, label keys and label values, with kube-apiserver's messages."""

from collections.abc import Callable

import pytest

from mooring.api import names

LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
PART_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

Check = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("check", "text"),
    [
        pytest.param(names.check_dns1123_label, "a", id="label of one letter"),
        pytest.param(names.check_dns1123_label, "1-a", id="label that starts with a digit"),
        pytest.param(names.check_dns1123_label, "a" * 63, id="longest label"),
        pytest.param(names.check_dns1123_subdomain, "a.b-c.9", id="subdomain"),
        pytest.param(names.check_dns1123_subdomain, "a" * 253, id="longest subdomain"),
        pytest.param(names.check_path_segment, "system:node: α", id="anything goes in a path segment"),
        pytest.param(names.check_path_segment, "...", id="three dots are a name"),
        pytest.param(names.check_qualified_name, "zone", id="key without prefix"),
        pytest.param(names.check_qualified_name, "topology.kubernetes.io/zone", id="key with prefix"),
        pytest.param(names.check_qualified_name, "a" * 253 + "/" + "B" * 63, id="longest key"),
        pytest.param(names.check_qualified_name, "A_b.c-9", id="key with every kind of character"),
        pytest.param(names.check_label_value, "", id="empty value"),
        pytest.param(names.check_label_value, "A_b.c-9", id="value with every kind of character"),
        pytest.param(names.check_label_value, "x" * 63, id="longest value"),
    ],
)
def test_allowed(check: Check, text: str) -> None:
    assert check(text) == []


@pytest.mark.parametrize(
    ("check", "text", "problems"),
    [
        pytest.param(names.check_dns1123_label, "", [LABEL_RULE], id="empty label"),
        pytest.param(names.check_dns1123_label, "A", [LABEL_RULE], id="capital in a label"),
        pytest.param(names.check_dns1123_label, "a-", [LABEL_RULE], id="label ends with a dash"),
        pytest.param(names.check_dns1123_label, "a\n", [LABEL_RULE], id="label with a line end"),
        pytest.param(names.check_dns1123_label, "a.b", ["must not contain dots"], id="dots in a label"),
        pytest.param(names.check_dns1123_label, "a" * 64, ["must be no more than 63 characters"], id="label too long"),
        pytest.param(
            names.check_dns1123_label,
            "A" * 64,
            ["must be no more than 63 characters", LABEL_RULE],
            id="label too long and wrong",
        ),
        pytest.param(
            names.check_dns1123_subdomain, "#%123-invalid-name", [SUBDOMAIN_RULE], id="the provisioner's probe"
        ),
        pytest.param(names.check_dns1123_subdomain, "a..b", [SUBDOMAIN_RULE], id="empty part of a subdomain"),
        pytest.param(
            names.check_dns1123_subdomain,
            "a" * 254,
            ["must be no more than 253 characters"],
            id="subdomain too long",
        ),
        pytest.param(names.check_path_segment, ".", ["may not be '.'"], id="dot"),
        pytest.param(names.check_path_segment, "..", ["may not be '..'"], id="two dots"),
        pytest.param(
            names.check_path_segment,
            "a/b%",
            ["may not contain '/'", "may not contain '%'"],
            id="slash and percent",
        ),
        pytest.param(
            names.check_qualified_name,
            "",
            ["name part must be non-empty", f"name part {PART_RULE}"],
            id="empty key",
        ),
        pytest.param(names.check_qualified_name, "-a", [f"name part {PART_RULE}"], id="key starts with a dash"),
        pytest.param(
            names.check_qualified_name,
            "a" * 64,
            ["name part must be no more than 63 bytes"],
            id="name part too long",
        ),
        pytest.param(names.check_qualified_name, "/a", ["prefix part must be non-empty"], id="empty prefix"),
        pytest.param(names.check_qualified_name, "A/a", [f"prefix part {SUBDOMAIN_RULE}"], id="prefix with capitals"),
        pytest.param(
            names.check_qualified_name,
            "a" * 254 + "/a",
            ["prefix part must be no more than 253 bytes"],
            id="prefix too long",
        ),
        pytest.param(
            names.check_qualified_name,
            "a/b/c",
            [
                f"a valid label key {PART_RULE} with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyName')"
            ],
            id="two slashes",
        ),
        pytest.param(names.check_label_value, "a b", [VALUE_RULE], id="value with a space"),
        pytest.param(names.check_label_value, "é", [VALUE_RULE], id="value with an accent"),
        pytest.param(names.check_label_value, "a\n", [VALUE_RULE], id="value with a line end"),
        pytest.param(names.check_label_value, "x" * 64, ["must be no more than 63 bytes"], id="value too long"),
    ],
)
def test_refused(check: Check, text: str, problems: list[str]) -> None:
    assert check(text) == problems


def test_long_hostile_names_are_refused_in_linear_time() -> None:
    hostile = "a-" * 200_000
    for check in (names.check_dns1123_label, names.check_dns1123_subdomain, names.check_qualified_name):
        assert check(hostile)
