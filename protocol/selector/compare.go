package selector

import (
	"cmp"
	"strconv"
	"strings"
)

// compare orders two values: numbers of reported state as numbers, everything
// else as versions, in which 1.10 comes after 1.9 and 2.0-rc1 before 2.0. ok is
// false for values that have no order.
func compare(a, b string, numbers bool) (order int, ok bool) {
	if numbers {
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		if errX == nil && errY == nil && x == x && y == y { // NaN has no order
			return cmp.Compare(x, y), true
		}
	}
	if !isVersion(a) || !isVersion(b) {
		return 0, false
	}
	return compareVersions(a, b), true
}

// isVersion reports whether a value can be ordered: it begins with a digit, after
// a v if need be.
func isVersion(s string) bool {
	s = strings.TrimPrefix(s, "v")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

// compareVersions orders versions by their numbers, and a pre-release before its
// release. What follows a plus does not count.
func compareVersions(a, b string) int {
	a, _, _ = strings.Cut(strings.TrimPrefix(a, "v"), "+")
	b, _, _ = strings.Cut(strings.TrimPrefix(b, "v"), "+")
	a, preA, _ := strings.Cut(a, "-")
	b, preB, _ := strings.Cut(b, "-")
	if order := compareParts(a, b); order != 0 {
		return order
	}
	switch {
	case preA == preB:
		return 0
	case preA == "":
		return 1
	case preB == "":
		return -1
	}
	return compareParts(preA, preB)
}

// compareParts orders what dots divide. A missing part is before every other,
// but for zero, which it equals.
func compareParts(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if order := comparePart(x, y); order != 0 {
			return order
		}
	}
	return 0
}

func comparePart(x, y string) int {
	nx, digitsX := digits(x)
	ny, digitsY := digits(y)
	switch {
	case digitsX && digitsY:
		return cmp.Or(cmp.Compare(len(nx), len(ny)), cmp.Compare(nx, ny))
	case digitsX:
		return -1
	case digitsY:
		return 1
	}
	return cmp.Compare(x, y)
}

// digits is a number without leading zeros, of any length.
func digits(s string) (string, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return "", false
		}
	}
	return strings.TrimLeft(s, "0"), true
}
