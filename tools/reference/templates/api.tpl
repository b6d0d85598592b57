{{- define "gvList" -}}
# API and configuration files

Generated from the Go types by `make reference`. The served API is `tenantry.io/v1alpha1`;
`config.tenantry.io/v1alpha1` are files that processes read when they start.
{{ range . }}
{{ template "gvDetails" . }}
{{- end }}
{{- end -}}

{{- define "gvDetails" }}
## {{ .GroupVersionString }}

{{ .Doc }}
{{ $gv := . }}
Resources:
{{- range .SortedKinds }}
{{ $gv.TypeForKind . | markdownRenderTypeLink }}
{{- end }}
{{ range .SortedTypes }}{{ template "type" . }}{{ end }}
{{- end -}}

{{- define "type" }}
{{- if markdownShouldRenderType . }}
### {{ .Name }}

{{ .Doc }}
{{ if .IsAlias }}
It is a {{ markdownRenderTypeLink .UnderlyingType }}.
{{ end }}
{{- with index .Markers "kubebuilder:validation:XValidation" }}
Rules:
{{ range . }}
- {{ .Message }}
{{- end }}
{{ end }}
{{- if .Members }}
| Field | Description | Default | Validation |
| --- | --- | --- | --- |
{{- if .GVK }}
| `apiVersion` _string_ | `{{ .GVK.Group }}/{{ .GVK.Version }}` | | |
| `kind` _string_ | `{{ .GVK.Kind }}` | | |
{{- end }}
{{- range .Members }}
| `{{ .Name }}` _{{ markdownRenderType .Type }}_ | {{ template "type_members" . }} | {{ markdownRenderDefault .Default }} | {{ template "validation" . }} |
{{- end }}
{{ end }}
{{- if .EnumValues }}
| Value | Description |
| --- | --- |
{{- range .EnumValues }}
| `{{ .Name }}` | {{ markdownRenderFieldDoc .Doc }} |
{{- end }}
{{ end }}
{{- if .References }}
Appears in
{{- range .SortedReferences }}
{{ markdownRenderTypeLink . }}
{{- end }}
{{ end }}
{{- end }}
{{- end -}}

{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}
As every object of Kubernetes has it.
{{- else -}}
{{ markdownRenderFieldDoc .Doc }}
{{- end -}}
{{- end -}}

{{- define "validation" -}}
{{- range .Validation -}} {{ markdownRenderFieldDoc . }} <br />{{ end }}
{{- if not (index .Type.Markers "kubebuilder:validation:XValidation") -}}
{{- range index .Markers "kubebuilder:validation:XValidation" -}} {{ markdownRenderFieldDoc .Message }} <br />{{ end }}
{{- end -}}
{{- end -}}
