{{- define "tenantry.image" -}}
{{- $image := .Values.image -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "tenantry.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* The namespaces that the operator works in, divided by spaces. */ -}}
{{- define "tenantry.namespaces" -}}
{{- join " " (.Values.namespaces | default (list .Release.Namespace)) -}}
{{- end }}

{{- /* Nothing, and an error if a ControlPlane is in none of these namespaces. */ -}}
{{- define "tenantry.looksAfter" -}}
{{- $namespaces := include "tenantry.namespaces" (first .) -}}
{{- if not (has (first (splitList "/" (last .))) (splitList " " $namespaces)) -}}
{{- fail (printf "defaultControlPlane: %q is in none of the namespaces that the operator works in (%s): add its namespace to namespaces" (last .) $namespaces) -}}
{{- end -}}
{{- end }}
