{{/* Short name, at most 63 characters. */}}
{{- define "punctual.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of everything: the release, and the chart unless the release is called so. */}}
{{- define "punctual.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "punctual.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Name of cluster-scoped objects: two releases of one name may live in two namespaces. */}}
{{- define "punctual.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "punctual.fullname" .) | trunc 253 | trimSuffix "-" -}}
{{- end -}}

{{- define "punctual.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "punctual.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The labels that selectors use; they can never change. */}}
{{- define "punctual.selectorLabels" -}}
app.kubernetes.io/name: {{ include "punctual.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "punctual.labels" -}}
{{ include "punctual.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: punctual
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "punctual.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* What the operator may do in each namespace it works in. One list, used by the ClusterRole or by the Roles. */}}
{{- define "punctual.workRules" -}}
# Jobs run occurrences and reports: created suspended, released by a patch with a resourceVersion, deleted to cancel.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, delete, get, list, patch, watch]
# Events tell people what happened.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
# Pods prove that a run started and ended. They are only read.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
# Occurrences and report jobs are created for due instants and deleted by retention. Their spec is never changed.
- apiGroups: [punctual.dev]
  resources: [maintenanceoccurrences, reportjobs]
  verbs: [create, delete, get, list, watch]
# Every decision is one conditional write of a status.
- apiGroups: [punctual.dev]
  resources: [maintenanceoccurrences/status, maintenanceschedules/status, reportjobs/status, reportqueues/status, reportschedules/status]
  verbs: [update]
# Schedules and queues belong to their users: they are only read.
- apiGroups: [punctual.dev]
  resources: [maintenanceschedules, reportqueues, reportschedules]
  verbs: [get, list, watch]
{{- with .Values.httpProvider.credentialsSecrets }}
# Credentials for execution services (run.http). Only these names, and each Secret says by its annotation
# punctual.dev/allowed-url which addresses may see it.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ toJson . }}
  verbs: [get]
{{- end }}
{{- end -}}
