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
