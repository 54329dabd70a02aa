package tools

import "testing"

func TestTimestampsAreISO8601(t *testing.T) {
	for text, want := range map[string]bool{
		"2026-01-02T03:04:05Z":          true,
		"2026-01-02T03:04:05.678+02:00": true,
		"2026-01-02T03:04:05,678Z":      true,
		"2026-01-02t03:04:05z":          true,
		"2026-01-02T03:04:05":           true,
		"2026-01-02T03:04":              true,
		"2026-01-02T03":                 true,
		"2026-01-02T03:04Z":             true,
		"2026-01-02T03:04:05+0200":      true,
		"2026-01-02T03:04:05+02":        true,
		"20260102T030405Z":              true,
		"20260102T0304+0200":            true,
		"20260102":                      true,
		"2026-01-02":                    true,
		"2026-01":                       true,
		"2026-032":                      true,
		"2026032":                       true,
		"2026-W53":                      true,
		"2026-W53-7":                    true,
		"2026W537T10:00Z":               true,
		"2024-02-29":                    true,

		"":                         false,
		"now":                      false,
		"tomorrow at noon":         false,
		"2026-02-30":               false,
		"2026-13-01":               false,
		"2025-02-29":               false,
		"2026-400":                 false,
		"2025-W53":                 false,
		"2026-W00":                 false,
		"2026-W+1":                 false,
		"2026-W10-8":               false,
		"2026-W107":                false,
		"2026W10-7":                false,
		"2026-W1":                  false,
		"W10":                      false,
		"2026-01-02T25:00":         false,
		"2026-01-02 03:04:05":      false,
		"2026-01-02T":              false,
		"02.01.2026":               false,
		"01/02/2026":               false,
		"1767322800":               false,
		"2026-01-02T03:04:05Zulu":  false,
		"Fri, 02 Jan 2026 03:04 Z": false,
		"2026-01-02T03:04:05.0000000000000000000000000000000000000000000000Z": false,
	} {
		if got := isTimestamp(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
