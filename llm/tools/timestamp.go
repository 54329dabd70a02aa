package tools

import (
	"strconv"
	"strings"
	"time"
)

// The supported forms of ISO 8601: dates, and dates with a time of day, in the extended
// and in the basic format.
var (
	dateLayouts = [...]string{"2006-01-02", "20060102", "2006-002", "2006002", "2006-01"}
	timeLayouts = [...]string{
		"15:04:05", "15:04", "15", "150405", "1504",
		"15:04:05Z07:00", "15:04Z07:00", "15Z07:00", "150405Z07:00", "1504Z07:00",
		"15:04:05Z0700", "15:04Z0700", "150405Z0700", "1504Z0700",
		"15:04:05Z07", "15:04Z07", "15Z07", "150405Z07", "1504Z07",
	}
)

// maxTimestamp is the length of the longest accepted text.
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
	if !parses(dateLayouts[:], date) && !isWeekDate(date) {
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

// isWeekDate reports whether a text is a week of a year, or a day of one:
// 2026-W03-5.
func isWeekDate(text string) bool {
	year, week, ok := strings.Cut(text, "W")
	extended := strings.HasSuffix(year, "-")
	first, err := time.Parse("2006", strings.TrimSuffix(year, "-"))
	if !ok || err != nil {
		return false
	}
	day := "1"
	if len(week) > 2 {
		week, day = week[:2], week[2:]
		if extended != strings.HasPrefix(day, "-") {
			return false
		}
		day = strings.TrimPrefix(day, "-")
	}
	n, err := strconv.Atoi(week)
	_, last := first.AddDate(0, 11, 27).ISOWeek() // the 28th of December is always in the last week
	return err == nil && len(week) == 2 && "01" <= week && n <= last && len(day) == 1 && "1" <= day && day <= "7"
}
