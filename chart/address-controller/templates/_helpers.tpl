{{/*
Every object is named by the release. Helm keeps release names to 53 characters, which leaves room
for a suffix within the 63 of a label.
*/}}
{{- define "address-controller.name" -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{/*
What the Deployment selects its pods by. It must not change: a selector is immutable, and existing
Deployments of this controller have this one.
*/}}
{{- define "address-controller.selectorLabels" -}}
app: address-controller
{{- end -}}

{{/*
What every object carries.
*/}}
{{- define "address-controller.labels" -}}
{{ include "address-controller.selectorLabels" . }}
app.kubernetes.io/name: address-controller
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}
