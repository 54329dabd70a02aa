package tools

import (
	"strings"
	"time"
)

// The forms of ISO 8601 that are understood: dates, and dates with a time of
// day, in the extended and in the basic format.
var (
	dateLayouts = [...]string{"2006-01-02", "20060102", "2006-002", "2006-01"}
	timeLayouts = [...]string{
		"15:04:05", "15:04", "15", "150405", "1504",
		"15:04:05Z07:00", "15:04Z07:00", "15Z07:00", "150405Z07:00", "1504Z07:00",
		"15:04:05Z0700", "15:04Z0700", "150405Z0700", "1504Z0700",
		"15:04:05Z07", "15:04Z07", "15Z07", "150405Z07", "1504Z07",
	}
)

// maxTimestamp is the longest text that is looked at.
const maxTimestamp = 64

// isTimestamp reports whether a text is a point in time after ISO 8601.
func isTimestamp(text string) bool {
	if len(text) > maxTimestamp {
		return false
	}
	if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return true
	}
	date, clock, timed := strings.Cut(strings.ToUpper(text), "T")
	if !parses(dateLayouts[:], date) {
		return false
	}
	return !timed || parses(timeLayouts[:], strings.Replace(clock, ",", ".", 1))
}

func parses(layouts []string, text string) bool {
	for _, layout := range layouts {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}
