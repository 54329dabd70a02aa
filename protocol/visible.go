package protocol

import "unicode"

// Hidden reports whether a character shows nothing by itself, or changes how
// others show: what Unicode calls format characters and default ignorable
// ones, such as U+202E, which turns the direction, the zero-width space and the
// soft hyphen. Two names that differ in one look the same.
func Hidden(c rune) bool {
	return c >= 0xad && (unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector))
}

// Misleading is [Hidden] for texts that people read and write as they like,
// such as names for display: what some scripts and emoji need to look right may
// be in them, the joiners and the sixteen common variation selectors.
func Misleading(c rune) bool {
	const nonJoiner, joiner, selector1, selector16 = 0x200c, 0x200d, 0xfe00, 0xfe0f
	switch {
	case c == nonJoiner || c == joiner || c >= selector1 && c <= selector16:
		return false
	}
	return Hidden(c)
}

// CheckText says why a text for people is refused, "" if it is not: it has
// control characters or [Misleading] ones. A text of several
// lines may have line ends and tabs.
func CheckText(text string, lines bool) string {
	for _, c := range text {
		switch {
		case c >= ' ' && c < 0x7f, lines && (c == '\n' || c == '\t'):
		case unicode.IsControl(c):
			return controlReason(c)
		case Misleading(c):
			return hiddenReason(c)
		}
	}
	return ""
}
