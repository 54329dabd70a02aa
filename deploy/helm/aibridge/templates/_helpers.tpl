{{- define "aibridge.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "aibridge.selector" -}}
app.kubernetes.io/name: aibridge
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "aibridge.labels" -}}
{{ include "aibridge.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "aibridge.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "aibridge.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{/* The domain that pods have a name in. */}}
{{- define "aibridge.peers" -}}
{{ include "aibridge.name" . }}-peers.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "aibridge.hosts" -}}
{{- $name := include "aibridge.name" . -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- if .Values.ingress.host }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end -}}
{{- concat $hosts .Values.hosts | uniq | toJson -}}
{{- end }}

{{/* "formed", "external" or "alone": where the state is. */}}
{{- define "aibridge.state" -}}
{{- $n := int .Values.replicas -}}
{{- if .Values.nats.url -}}external
{{- else if gt $n 1 -}}
{{- if lt $n (int .Values.cluster.voters) }}{{ fail (printf "replicas: %d bridges cannot keep the state of a cluster; have 1, or at least cluster.voters (%d), or set nats.url" $n (int .Values.cluster.voters)) }}{{ end -}}
{{- if not .Values.cluster.keySecret }}{{ fail "cluster.keySecret: is needed by more than one bridge; aibridge cluster init cluster.key && kubectl create secret generic NAME --from-file=cluster.key" }}{{ end -}}
formed
{{- else -}}alone
{{- end -}}
{{- end }}

{{- define "aibridge.tlsSecret" -}}
{{- if .Values.tls.secret }}{{ .Values.tls.secret }}{{ else if .Values.tls.certManager.enabled }}{{ include "aibridge.name" . }}-tls{{ end -}}
{{- end }}

{{/* Whether several bridges work, so that each must be told where it is reached. */}}
{{- define "aibridge.several" -}}
{{- if gt (int .Values.replicas) 1 }}yes{{ end -}}
{{- end }}

{{/* The settings that the chart says, under those of .Values.config. */}}
{{- define "aibridge.config" -}}
{{- $state := include "aibridge.state" . -}}
{{- $peers := include "aibridge.peers" . -}}
{{- $name := include "aibridge.name" . -}}
{{- $c := dict "http" ":9010" "ws" ":9011" "mqtts" ":8883" "drain_seconds" (int .Values.drainSeconds) "hosts" (include "aibridge.hosts" . | fromJsonArray) "log" (dict "format" "json") -}}
{{- $_ := set $c "mqtt" (ternary ":1883" "off" (gt (int .Values.service.ports.mqtt) 0)) -}}
{{- $tls := dict "only" .Values.tls.only -}}
{{- if include "aibridge.tlsSecret" . }}{{ $tls = merge $tls (dict "cert" "/etc/aibridge/tls/tls.crt" "key" "/etc/aibridge/tls/tls.key") }}{{ end -}}
{{- $_ := set $c "tls" $tls -}}
{{- $cluster := dict -}}
{{- if include "aibridge.several" . -}}
{{- $cluster = dict "working" "all" "drain_window_seconds" (int .Values.cluster.drainWindowSeconds) -}}
{{- if .Values.cluster.relay }}{{ $_ := set $cluster "relay" ":6223" }}{{ end -}}
{{- $_ := set $c "vfs" (dict "store" "nats") -}}
{{- end -}}
{{- if eq $state "formed" -}}
{{- $join := list -}}
{{- range $i := until (int .Values.cluster.voters) }}{{ $join = append $join (printf "%s-%d.%s:6222" $name $i $peers) }}{{ end -}}
{{- $cluster = merge $cluster (dict "join" $join "listen" ":6222" "key" "/etc/aibridge/cluster/cluster.key") -}}
{{- end -}}
{{- if $cluster }}{{ $_ := set $c "cluster" $cluster }}{{ end -}}
{{- if eq $state "external" -}}
{{- $nats := dict "url" .Values.nats.url "replicas" (int .Values.nats.replicas) -}}
{{- if .Values.nats.credentials }}{{ $_ := set $nats "credentials" "/etc/aibridge/nats/bridge.creds" }}{{ end -}}
{{- if .Values.nats.ca }}{{ $_ := set $nats "ca" "/etc/aibridge/nats/ca.crt" }}{{ end -}}
{{- if .Values.nats.clientCertificate }}{{ $nats = merge $nats (dict "cert" "/etc/aibridge/nats/tls.crt" "key" "/etc/aibridge/nats/tls.key") }}{{ end -}}
{{- $_ := set $c "nats" $nats -}}
{{- end -}}
{{- mergeOverwrite $c .Values.config | toYaml -}}
{{- end }}

{{/* resources.limits.memory in bytes, less what Go does not count. */}}
{{- define "aibridge.memoryLimit" -}}
{{- $text := .Values.resources.limits.memory | toString -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- if not (hasKey $units $unit) }}{{ fail (printf "resources.limits.memory: %s is not in bytes, k, M, G, Ki, Mi or Gi" $text) }}{{ end -}}
{{- divf (mulf (regexFind "^[0-9.]+" $text | float64) (get $units $unit) .Values.memoryLimitPercent) 100 | floor | int64 -}}
{{- end }}
