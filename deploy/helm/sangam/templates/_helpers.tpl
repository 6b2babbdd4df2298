{{/* What names begin with: the release's name when it tells what this is. */}}
{{- define "sangam.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select: they never change. */}}
{{- define "sangam.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sangam.labels" -}}
{{ include "sangam.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: sangam
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Neither TLS nor the word that it is to be without: say so here, not in the logs of pods that do not start. */}}
{{- define "sangam.checkValues" -}}
{{- if and (not .Values.tls.enabled) (not .Values.insecure.allowRemote) -}}
{{- fail "tls.enabled is false: the daemons would refuse to listen. Set tls.enabled=true (needs cert-manager), or insecure.allowRemote=true to go without encryption and authentication." -}}
{{- end -}}
{{- if and .Values.tls.enabled .Values.insecure.allowRemote -}}
{{- fail "tls.enabled and insecure.allowRemote exclude one another." -}}
{{- end -}}
{{- end -}}

{{- define "sangam.image" -}}
{{- $tag := .root.Values.image.tag | default .root.Chart.AppVersion -}}
{{- if .cuda -}}
{{- printf "%s:%s-cuda" .root.Values.image.repository $tag -}}
{{- else -}}
{{- printf "%s:%s" .root.Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{/* The pod's template of a role: dict root, role, program, port, resources, optional nodeSelector, tolerations, cuda, runtimeClassName, dataClaim */}}
{{- define "sangam.podTemplate" -}}
{{- $fullname := include "sangam.fullname" .root -}}
metadata:
  labels:
    {{- include "sangam.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
  annotations:
    kubectl.kubernetes.io/default-container: {{ .program }}
    # The autoscaler may move it: nothing that matters lies there.
    cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: tmp
    # Daemons restart when their configuration changes.
    checksum/config: {{ include (print .root.Template.BasePath "/config.yaml") .root | sha256sum }}
spec:
  serviceAccountName: {{ $fullname }}-{{ .role }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add .root.Values.drainTimeoutSeconds 30 }}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- with .nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if ne .role "coordinator" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "sangam.selectorLabels" .root | nindent 10 }}
          app.kubernetes.io/component: {{ .role }}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "sangam.selectorLabels" .root | nindent 16 }}
                app.kubernetes.io/component: {{ .role }}
  {{- end }}
  containers:
    - name: {{ .program }}
      image: {{ include "sangam.image" . }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command:
        - /usr/local/bin/{{ .program }}
      args:
        - --config=/etc/sangam/{{ .role }}.conf
        - --name=$(POD_NAME)
        {{- if ne .role "coordinator" }}
        # A name and no address: it is the same after a restart.
        - --advertise=$(POD_NAME).{{ $fullname }}-{{ .role }}.$(POD_NAMESPACE).svc:{{ .port }}
        {{- end }}
        {{- if .root.Values.tls.enabled }}
        - --tls_cert=/etc/sangam-tls/tls.crt
        - --tls_key=/etc/sangam-tls/tls.key
        - --tls_ca=/etc/sangam-tls/ca.crt
        {{- else }}
        - --insecure_allow_remote
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- if ne .role "coordinator" }}
        - name: POD_NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
        {{- end }}
        {{- if .cuda }}
        # The root file system is read-only; the driver keeps what it translates from PTX.
        - name: CUDA_CACHE_PATH
          value: /tmp/.nv
        {{- else }}
        # Without it a thread for each core of the node.
        - name: SANGAM_THREADS
          valueFrom:
            resourceFieldRef:
              resource: requests.cpu
        {{- end }}
      ports:
        - name: grpc
          containerPort: {{ .port }}
          protocol: TCP
        - name: admin
          containerPort: 9090
          protocol: TCP
      startupProbe:
        httpGet:
          path: /livez
          port: admin
        periodSeconds: 5
        failureThreshold: 60
      readinessProbe:
        httpGet:
          path: /readyz
          port: admin
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      livenessProbe:
        httpGet:
          path: /livez
          port: admin
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      resources:
        {{- toYaml .resources | nindent 8 }}
      securityContext:
        runAsNonRoot: true
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop:
            - ALL
      volumeMounts:
        - name: config
          mountPath: /etc/sangam
          readOnly: true
        - name: tmp
          mountPath: /tmp
        {{- if eq .role "coordinator" }}
        - name: state
          mountPath: /var/lib/sangam
        - name: data
          mountPath: /data
        {{- end }}
        {{- if .root.Values.tls.enabled }}
        - name: tls
          mountPath: /etc/sangam-tls
          readOnly: true
        {{- end }}
        {{- if .dataClaim }}
        - name: data
          mountPath: /data
          readOnly: true
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ $fullname }}-config
    - name: tmp
      emptyDir:
        sizeLimit: {{ ternary "1Gi" "64Mi" .cuda }}
    {{- if .root.Values.tls.enabled }}
    - name: tls
      secret:
        secretName: {{ $fullname }}-{{ .role }}-tls
        # 0440
        defaultMode: 288
    {{- end }}
    {{- with .dataClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ . }}
        readOnly: true
    {{- end }}
{{- end -}}
