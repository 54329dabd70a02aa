#!/bin/sh
printf '{"celsius": %s}\n' "$AIBRIDGE_PARAM_CELSIUS"
