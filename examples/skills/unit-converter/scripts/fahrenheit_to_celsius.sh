#!/bin/sh
awk -v f="$AIBRIDGE_PARAM_FAHRENHEIT" 'BEGIN { printf "{\"celsius\": %.12g}\n", (f - 32) * 5 / 9 }'
