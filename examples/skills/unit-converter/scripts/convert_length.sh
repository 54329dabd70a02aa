#!/bin/sh
# The units were checked against skill.yaml before this script was started.
set -u
awk -v value="$AIBRIDGE_PARAM_VALUE" -v from="$AIBRIDGE_PARAM_FROM" -v to="$AIBRIDGE_PARAM_TO" '
BEGIN {
	metres["mm"] = 0.001;  metres["cm"] = 0.01;   metres["m"] = 1;       metres["km"] = 1000
	metres["in"] = 0.0254; metres["ft"] = 0.3048; metres["yd"] = 0.9144; metres["mi"] = 1609.344
	printf "{\"value\": %.12g, \"unit\": \"%s\"}\n", value * metres[from] / metres[to], to
}'
