"""The generator of the field table, on small sources."""

from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[3]

PROTO = """\
/*
A licence: message Nothing {
*/

syntax = "proto2";

package k8s.io.api.demo.v1;

import "k8s.io/apimachinery/pkg/api/resource/generated.proto";

option go_package = "k8s.io/api/demo/v1";

// Ship is a kind.
message Ship {
  // Where it lies.
  // +optional
  optional Berth berth = 1;

  // +patchMergeKey=name
  // +patchStrategy=merge
  repeated Rope ropes = 2;

  map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> holds = 3;

  repeated int64 logs = 5;

  optional Flags flags = 6;
}

message Berth {
  optional string name = 1;
}

message Rope {
  optional string name = 1;
}

message Flags {
  // items, if empty, will result in an empty slice

  repeated string items = 1;
}

"""
TYPES = """\
package v1

type Ship struct {
\tmetav1.TypeMeta `json:",inline"`
\t// A comment.
\tBerth `json:",inline" protobuf:"bytes,1,opt,name=berth"`
\t// Was: Old string `json:"old" protobuf:"bytes,4,opt,name=old"`
\tRopes []Rope `json:"ropes,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,2,rep,name=ropes"`
\tHolds ResourceList `json:"holds" protobuf:"bytes,3,rep,name=holds"`
\tLogs []int64 `json:"logs,omitempty" protobuf:"varint,5,rep,name=logs"`
\tFlags Flags `json:"signals,omitempty" protobuf:"bytes,6,opt,name=flags"`
}

type Berth struct {
\tName *string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
}

type Rope struct {
\tName string `json:"name" protobuf:"bytes,1,opt,name=name"`
}

type Flags []string
"""
REGISTER = 'package v1\n\nconst GroupName = "demo.example"\n'


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The generator's modules; they live beside the package, not in it."""
    monkeypatch.syspath_prepend(ROOT)
    from tools.generate_fields import protos, rows, structs

    return SimpleNamespace(protos=protos, structs=structs, rows=rows)


class DemoPackage:
    """The demo package on disk, with parts replaced."""

    def __init__(self, generator: SimpleNamespace, directory: Path) -> None:
        self._generator = generator
        self._directory = directory

    def read(self, proto: str = PROTO, types: str = TYPES):  # noqa: ANN201
        (self._directory / "generated.proto").write_text(proto)
        (self._directory / "types.go").write_text(types)
        (self._directory / "register.go").write_text(REGISTER)
        return self._generator.rows.Sources(
            messages=self._generator.protos.read_messages(self._directory / "generated.proto"),
            packages={"k8s.io.api.demo.v1": self._generator.structs.read_package(self._directory)},
        )


@pytest.fixture
def sources(generator: SimpleNamespace, tmp_path: Path) -> DemoPackage:
    return DemoPackage(generator, tmp_path)


def test_both_sources_become_rows(generator: SimpleNamespace, sources: DemoPackage) -> None:
    read = sources.read()
    assert generator.rows.kinds_of(read.packages["k8s.io.api.demo.v1"]) == ("Ship",)
    assert read.packages["k8s.io.api.demo.v1"].group == "demo.example"
    assert generator.rows.rows_for(read, ["k8s.io.api.demo.v1.Ship"]) == {
        "demo/v1.Berth": [["name", 1, "string", "op"]],
        "demo/v1.Rope": [["name", 1, "string"]],
        "demo/v1.Ship": [
            ["apiVersion", 0, "string", "o"],
            ["kind", 0, "string", "o"],
            ["", 1, "demo/v1.Berth", "i"],
            ["ropes", 2, "[]demo/v1.Rope", "o", "merge", "name"],
            ["holds", 3, "{}quantity"],
            ["logs", 5, "[]int64", "o"],
            ["signals", 6, "strings", "o"],
        ],
    }
    assert read.remarks == []


def test_tag_overrides_comment_and_reports_the_difference(generator: SimpleNamespace, sources: DemoPackage) -> None:
    read = sources.read(proto=PROTO.replace("+patchStrategy=merge", "+patchStrategy=replace"))
    rows = generator.rows.rows_for(read, ["k8s.io.api.demo.v1.Ship"])
    assert rows["demo/v1.Ship"][3][-2:] == ["merge", "name"]
    assert [remark.partition(":")[0] for remark in read.remarks] == ["demo/v1.Ship.ropes"]


@pytest.mark.parametrize(
    ("proto", "types", "why"),
    [
        pytest.param(
            PROTO.replace("repeated int64 logs = 5", "repeated int64 logs = 7"),
            TYPES,
            r"fields \[5, 7\] are not in both",
            id="numbers differ",
        ),
        pytest.param(PROTO, TYPES.replace("type Berth struct", "type Quay struct"), "no Go struct", id="no struct"),
        pytest.param(
            PROTO.replace("int64 logs", "double logs"), TYPES, "double is neither a scalar", id="a scalar not known"
        ),
        pytest.param(
            PROTO.replace("optional string name", "optional Ship name"),
            TYPES,
            "Ship contains itself",
            id="a type inside itself",
        ),
    ],
)
def test_what_does_not_agree_is_refused(
    generator: SimpleNamespace, sources: DemoPackage, proto: str, types: str, why: str
) -> None:
    read = sources.read(proto, types)
    with pytest.raises(generator.rows.Disagreement, match=why):
        generator.rows.rows_for(read, ["k8s.io.api.demo.v1.Ship"])


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("  oneof either {", id="inside a message"),
        pytest.param("}\nenum Colour {", id="outside of messages"),
    ],
)
def test_syntax_it_does_not_know_is_refused(sources: DemoPackage, line: str) -> None:
    with pytest.raises(SyntaxError, match="is not understood"):
        sources.read(proto=PROTO.replace("  optional Berth berth = 1;", line))


def test_the_text_is_sorted_and_has_a_line_per_type(generator: SimpleNamespace) -> None:
    text = generator.rows.render("v1.2.3", {"b/v1": {"B": "b/v1.B"}, "a/v1": {}}, {"b/v1.B": [["x", 1, "bool"]]})
    assert text.splitlines() == [
        '{"version":"v1.2.3",',
        '"kinds":{',
        '"a/v1":{},',
        '"b/v1":{"B":"b/v1.B"}',
        "},",
        '"types":{',
        '"b/v1.B":[["x",1,"bool"]]',
        "}}",
    ]
