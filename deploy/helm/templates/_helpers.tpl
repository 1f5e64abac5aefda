{{- define "aerobee.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name }}{{ end -}}
{{- end }}

{{- define "aerobee.fullname" -}}
{{- include "aerobee.name" . | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- /* Labels that choose the pods of a part: (list . "broker") */ -}}
{{- define "aerobee.selector" -}}
app.kubernetes.io/name: aerobee
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "aerobee.labels" -}}
{{ include "aerobee.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "aerobee.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Every nameserver by the name of its pod: a Service's one address would hide all but one. */ -}}
{{- define "aerobee.namesrvAddr" -}}
{{- $name := include "aerobee.fullname" . -}}
{{- $addresses := list -}}
{{- range $ordinal := until (int .Values.namesrv.replicas) -}}
{{- $addresses = append $addresses (printf "%s-namesrv-%d.%s-namesrv.%s.svc.%s:9876" $name $ordinal $name $.Release.Namespace $.Values.clusterDomain) -}}
{{- end -}}
{{- join ";" $addresses -}}
{{- end }}

{{- /* A key as a variable: brokerIP1 is AEROBEE_BROKERIP1, which is one with AEROBEE_BROKER_IP1. */ -}}
{{- define "aerobee.settings" -}}
{{- range $key, $value := . }}
- name: AEROBEE_{{ $key | replace "." "_" | upper }}
  value: {{ if kindIs "float64" $value }}{{ printf "%v" (ternary (int64 $value) $value (eq (float64 (int64 $value)) $value)) | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end }}

{{- define "aerobee.podSecurity" -}}
runAsUser: 3000
runAsGroup: 3000
runAsNonRoot: true
fsGroup: 3000
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "aerobee.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* Files of secrets that a server and its calls use; none may be read by every user. */ -}}
{{- define "aerobee.secretVariables" -}}
{{- if .Values.access.enabled }}
- name: AEROBEE_AUTHENTICATION_ENABLED
  value: "true"
- name: AEROBEE_AUTHORIZATION_ENABLED
  value: "true"
- name: AEROBEE_AUTHENTICATION_METADATA_PROVIDER
  value: org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
- name: AEROBEE_AUTHORIZATION_METADATA_PROVIDER
  value: org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider
- name: AEROBEE_INIT_AUTHENTICATION_USER_FILE
  value: /run/aerobee/access/initAuthenticationUser
- name: AEROBEE_INNER_CLIENT_AUTHENTICATION_CREDENTIALS_FILE
  value: /run/aerobee/access/innerClientAuthenticationCredentials
{{- end }}
{{- if .Values.tls.enabled }}
- name: AEROBEE_TLS_SERVER_MODE
  value: enforcing
- name: AEROBEE_TLS_SERVER_CERT_PATH
  value: /run/aerobee/tls/tls.crt
- name: AEROBEE_TLS_SERVER_KEY_PATH
  value: /run/aerobee/tls/tls.key
{{- end }}
{{- end }}

{{- define "aerobee.secretMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.access.enabled }}
- name: access
  mountPath: /run/aerobee/access
  readOnly: true
{{- end }}
{{- if .Values.tls.enabled }}
- name: tls
  mountPath: /run/aerobee/tls
  readOnly: true
{{- end }}
{{- end }}

{{- define "aerobee.secretVolumes" -}}
- name: tmp
  emptyDir: {}
{{- if .Values.access.enabled }}
- name: access
  secret:
    secretName: {{ required "access.existingSecret: a Secret with initAuthenticationUser and innerClientAuthenticationCredentials" .Values.access.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- if .Values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ required "tls.existingSecret: a Secret of type kubernetes.io/tls" .Values.tls.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "aerobee.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
