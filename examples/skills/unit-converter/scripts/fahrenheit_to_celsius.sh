#!/bin/sh
f=${AIBRIDGE_PARAM_FAHRENHEIT:-$(sed -n 's/.*"fahrenheit" *: *\([-+.0-9eE]*\).*/\1/p')}
awk -v f="${f:?fahrenheit is missing}" 'BEGIN { printf "{\"celsius\": %.12g}\n", (f - 32) * 5 / 9 }'
