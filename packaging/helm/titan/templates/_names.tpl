{{- define "titan.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "titan.account" -}}
{{ .Values.serviceAccount.name | default (ternary (include "titan.name" .) "default" .Values.serviceAccount.create) }}
{{- end -}}

{{- /* The lease of those that write the same statuses, as the program calls it. */ -}}
{{- define "titan.lease" -}}
{{- $name := regexReplaceAll "[^a-z0-9]" (lower .Values.controllerName) "-" | trunc 200 -}}
{{- with .Values.namespaces -}}
{{- $name = printf "%s-%s" $name (sortAlpha . | join "," | sha256sum | trunc 8) -}}
{{- end -}}
{{ trimAll "-" $name }}
{{- end -}}

{{- define "titan.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "titan.labels" -}}
{{ include "titan.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* What is read of one namespace, or of all. */ -}}
{{- define "titan.rules" -}}
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways, listenersets, httproutes, grpcroutes, tlsroutes, tcproutes, referencegrants, backendtlspolicies]
  verbs: [get, list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways/status, listenersets/status, httproutes/status, grpcroutes/status, tlsroutes/status, tcproutes/status, backendtlspolicies/status]
  verbs: [patch]
- apiGroups: [gateway.titan.test]
  resources: [titanpolicies]
  verbs: [get, list, watch]
- apiGroups: [gateway.titan.test]
  resources: [titanpolicies/status]
  verbs: [patch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, watch]
- apiGroups: [networking.k8s.io]
  resources: [ingresses/status]
  verbs: [patch]
# Secrets of the type kubernetes.io/tls, and those with the label gateway.titan.test/for-policies, are all that is read; RBAC
# knows neither types nor labels.
- apiGroups: [""]
  resources: [services, secrets, configmaps]
  verbs: [get, list, watch]
{{- end -}}

{{- /* What is in no namespace. */ -}}
{{- define "titan.clusterRules" -}}
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses]
  verbs: [get, list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses/status]
  verbs: [patch]
- apiGroups: [networking.k8s.io]
  resources: [ingressclasses]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
{{- end -}}
