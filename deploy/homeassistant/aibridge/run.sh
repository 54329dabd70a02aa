#!/bin/sh
# Starts the bridge with the options that were chosen in Home Assistant. Its data
# is in /data, which Supervisor keeps and backs up.
set -eu

options=${OPTIONS:-/data/options.json}
option() { jq -r "$1 // empty" "$options"; }

AIBRIDGE_HOSTS=$(option '.hosts | join(",")')
AIBRIDGE_LOG_LEVEL=$(option .log_level)
export AIBRIDGE_HOSTS AIBRIDGE_LOG_LEVEL
config=$(option .config)
[ -z "$config" ] || export AIBRIDGE_CONFIG="/config/$config"

# A container has its own loopback: the add-on's ports say what is reached.
exec aibridge serve --data /data/bridge --mqtt :1883 --mqtts :8883 --http :9010 --ws :9011
