#!/bin/sh
set -eu
station=$AIBRIDGE_PARAM_STATION samples=$AIBRIDGE_PARAM_SAMPLES
readings=
for i in $(seq "$samples"); do
	reading=$(scripts/sensor "$station")
	readings="$readings ${reading% *}"
	echo "::progress $((100 * i / samples)) reading $i of $samples" >&2
	[ "$i" -eq "$samples" ] || sleep "$AIBRIDGE_PARAM_INTERVAL_SECONDS"
done
echo "$readings" | awk -v station="$station" '{
	for (i = 1; i <= NF; i++) sum += $i
	printf "{\"station\": \"%s\", \"samples\": %d, \"mean_celsius\": %.2f}\n", station, NF, sum / NF
}'
