#!/bin/sh
set -eu
reading=$(scripts/sensor "$AIBRIDGE_PARAM_STATION")
printf '{"station": "%s", "celsius": %s, "humidity": %s}\n' "$AIBRIDGE_PARAM_STATION" "${reading% *}" "${reading#* }"
