{{- define "agentrun.image" -}}
{{ required "image.registry is empty: set it to the registry that holds the agentrun images, for example --set image.registry=registry.example.com/agentrun" .Values.image.registry }}/{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}

{{- define "agentrun.toolServerImage" -}}
{{ required "image.registry is empty: set it to the registry that holds the agentrun images" .Values.image.registry }}/{{ .Values.toolServer.repository }}:{{ .Values.toolServer.tag }}
{{- end -}}

{{- define "agentrun.labels" -}}
app.kubernetes.io/part-of: agentrun
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "agentrun.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "agentrun.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "agentrun.brokerTokenVolume" -}}
- name: broker-token
  projected:
    sources:
      - serviceAccountToken:
          audience: agentrun-broker
          expirationSeconds: 600
          path: token
{{- end -}}

{{- define "agentrun.commonEnv" -}}
- {name: AGENTRUN_OPERATOR_NAMESPACE, value: {{ .Release.Namespace }}}
- {name: AGENTRUN_BROKER_URL, value: "https://agentrun-broker.{{ .Release.Namespace }}.svc"}
- {name: AGENTRUN_BROKER_TOKEN_PATH, value: /var/run/secrets/agentrun-broker/token}
{{- end -}}

{{- define "agentrun.sandboxEnv" -}}
- {name: AGENTRUN_TOOL_SERVER_IMAGE, value: {{ include "agentrun.toolServerImage" . }}}
- {name: AGENTRUN_TOOL_SERVER_MOUNT, value: {{ .Values.toolServer.mount }}}
- {name: AGENTRUN_SANDBOX_HOST_USERS, value: {{ .Values.sandbox.hostUsers | quote }}}
{{- end -}}

{{- define "agentrun.probes" -}}
readinessProbe: {httpGet: {path: /readyz, port: health}, periodSeconds: 2, failureThreshold: 3}
livenessProbe: {httpGet: {path: /healthz, port: health}, periodSeconds: 10, failureThreshold: 6}
{{- end -}}
