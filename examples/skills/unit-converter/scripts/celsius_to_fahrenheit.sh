#!/bin/sh
# Parameters that are plain values arrive as variables; the result is printed as JSON.
awk -v c="$AIBRIDGE_PARAM_CELSIUS" 'BEGIN { printf "{\"fahrenheit\": %.12g}\n", c * 9 / 5 + 32 }'
