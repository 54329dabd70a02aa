package condition

import (
	"cmp"
	"strconv"
	"strings"
)

// A number is a decimal number. Whole ones of 64 bits, such as times in nanoseconds,
// are compared to the last digit.
type number struct {
	float float64
	whole int64
	exact bool // whole is the number
}

// longestNumber bounds the digits that are read of a value.
const longestNumber = 64

// parseNumber reads a number in decimal notation. Hexadecimal ones, infinities and what
// is too large are none.
func parseNumber(text string) (n number, ok bool) {
	if len(text) > longestNumber || strings.Trim(text, "0123456789+-.eE") != "" {
		return number{}, false
	}
	if !strings.ContainsAny(text, ".eE") {
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			return number{float: float64(whole), whole: whole, exact: true}, true
		}
	}
	float, err := strconv.ParseFloat(text, 64)
	return number{float: float}, err == nil
}

func (n number) compare(o number) int {
	if n.exact && o.exact {
		return cmp.Compare(n.whole, o.whole)
	}
	return cmp.Compare(n.float, o.float)
}
