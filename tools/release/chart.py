"""The Helm chart, made from the manifests of `deploy/`, so that both install the same objects.

Each component of `deploy/components` becomes one template behind a switch of `values.yaml`. What `kubectl apply -k`
leaves to an overlay is a value here: image, replicas and the scheduler's name; the namespace is the release's.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

COMPONENTS: Final = "deploy/components/"
NAMESPACE: Final = "mooring-system"
#: Installed unless switched off; the same as `deploy/default`.
DEFAULT: Final = frozenset({"scheduler", "coordinator", "zone-policy", "network-policy"})

_VALUES: Final = """\
image:
  # Repository of the image that you build from the image context of the release.
  repository: mooring
  tag: "{version}"
  # Digest of the image, sha256:...; goes before the tag.
  digest: ""

# Of every Deployment; one of them leads, the others stand by.
replicas: 2

# The schedulerName of pods that Mooring schedules.
schedulerName: mooring-scheduler

components:
"""
_IMAGE: Final = """\
{{- define "mooring.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end -}}
"""
_NOTES: Final = """\
Mooring {{ .Chart.AppVersion }} is installed in the namespace {{ .Release.Namespace }}.
{{- if .Values.components.scheduler }}

Pods with this field are scheduled by Mooring; all others keep their scheduler:

    spec:
      schedulerName: {{ .Values.schedulerName }}
{{- end }}

Before you uninstall a release that holds volumes, drain it: see the page on installation, `mooring docs install`.
"""
#: Replaced in every manifest, in this order. Text of the manifests that looks like a template is escaped first.
_REPLACEMENTS: Final = (
    (re.compile(r"\{\{"), '{{ "{{" }}'),
    (re.compile(rf"(?m)^(\s*(?:- )?namespace: ){NAMESPACE}$"), r"\1{{ .Release.Namespace }}"),
    (re.compile(r"(?m)^(\s*image: )mooring$"), r'\1{{ include "mooring.image" . }}'),
    (re.compile(r"(?m)^(  replicas: )2$"), r"\1{{ .Values.replicas }}"),
    (re.compile(r"--scheduler-name=mooring-scheduler"), "--scheduler-name={{ .Values.schedulerName }}"),
)


def chart_files(deploy: Mapping[str, bytes], version: str) -> dict[str, bytes]:
    """Files of the chart by path, from the tracked files below `deploy`."""
    manifests = dict(_manifests(deploy))
    switches = {component: component in DEFAULT for component in sorted(manifests)}
    files = {
        "Chart.yaml": _chart(version),
        "values.yaml": _VALUES.format(version=version)
        + "".join(f"  {camel(name)}: {str(on).lower()}\n" for name, on in switches.items()),
        "values.schema.json": json.dumps(_schema(switches), indent=2) + "\n",
        "templates/_image.tpl": _IMAGE,
        "templates/NOTES.txt": _NOTES,
    }
    for component, text in manifests.items():
        condition = f"{{{{- if .Values.components.{camel(component)} }}}}\n"
        files[f"templates/{component}.yaml"] = f"{condition}{text}{{{{- end }}}}\n"
    return {name: text.encode() for name, text in files.items()}


def camel(name: str) -> str:
    """`zone-policy` as `zonePolicy`, which needs no quotes in a template."""
    first, *others = name.split("-")
    return first + "".join(map(str.capitalize, others))


def _manifests(deploy: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Component and the text of its objects, as a template."""
    parts: dict[str, list[str]] = {}
    for name, content in sorted(deploy.items()):
        path = PurePosixPath(name)
        if name.startswith(COMPONENTS) and path.name != "kustomization.yaml":
            text = content.decode()
            for pattern, replacement in _REPLACEMENTS:
                text = pattern.sub(replacement, text)
            parts.setdefault(path.parent.name, []).append(text if text.endswith("\n") else text + "\n")
    for component, texts in parts.items():
        yield component, "---\n".join(texts)


def _chart(version: str) -> str:
    return (
        "apiVersion: v2\nname: mooring\ntype: application\n"
        "description: Schedules pods together with their volumes.\n"
        f'version: {version}\nappVersion: "{version}"\nkubeVersion: ">=1.34.0-0"\n'
    )


def _schema(switches: Mapping[str, bool]) -> dict[str, Any]:
    """A value that is misspelt or of a wrong type is an error."""
    text, switch = {"type": "string"}, {"type": "boolean"}

    def closed(properties: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": False, "properties": dict(properties)}

    digest = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
    return {"$schema": "http://json-schema.org/draft-07/schema#"} | closed(
        {
            "image": closed({"repository": text, "tag": text, "digest": digest}),
            "replicas": {"type": "integer", "minimum": 1},
            "schedulerName": text,
            "components": closed({camel(name): switch for name in switches}),
            # Helm passes these along to every chart.
            "global": {"type": "object"},
        }
    )
