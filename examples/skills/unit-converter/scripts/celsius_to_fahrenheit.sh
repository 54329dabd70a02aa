#!/bin/sh
# Parameters arrive as JSON on standard input, and plain values as variables
# too; the result is printed as JSON.
c=${AIBRIDGE_PARAM_CELSIUS:-$(sed -n 's/.*"celsius" *: *\([-+.0-9eE]*\).*/\1/p')}
awk -v c="${c:?celsius is missing}" 'BEGIN { printf "{\"fahrenheit\": %.12g}\n", c * 9 / 5 + 32 }'
