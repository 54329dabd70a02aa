package redact

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

const (
	digits  = "0123456789"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters = upper + "abcdefghijklmnopqrstuvwxyz"
)

// kinds are the finders of well-known values, by name. They match the usual forms, and
// a bare integer only if its digits identify it, as by a checksum. The map is never
// changed.
var kinds = map[string]func(text string) []span{
	"email": form{of: charset(letters + digits + "._%+-@"), least: 6, pattern: regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`)}.find,
	"phone": phones,
	"card":  form{of: numeric, least: 14, pattern: regexp.MustCompile(`\d{3,}(?:[ -]\d{3,})*`), within: cardsAmong}.find,
	"iban":  form{of: charset(upper + digits + " "), least: 15, pattern: regexp.MustCompile(`[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b`), apart: true}.find,
	"ip":    addresses,
	"key": form{
		of: charset(letters + digits + "_.-"), least: 18, apart: true,
		pattern: regexp.MustCompile(`(?:sk|pk|ghp|gho|glpat|xox[bp]|AKIA|AIza|abk)[-_]?[A-Za-z0-9_.-]{16,}`),
	}.find,
	"national_id": form{
		of: charset(digits + "xX"), least: 18, apart: true, check: isResidentID,
		pattern: regexp.MustCompile(`[1-9]\d{5}(?:18|19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx]`),
	}.find,
}

// Kinds are the kinds of values that have a rule, in order.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// A form is the pattern of a kind of value. Most of a text matches none: patterns are
// tried only where enough of their characters stand in a row.
type form struct {
	of      *[256]bool // characters of the values
	least   int        // least number of characters
	pattern *regexp.Regexp
	apart   bool                                 // must not be part of a longer word or number
	check   func(value string) bool              // a check beyond the pattern; nil for none
	within  func(text string, match span) []span // values in a match; nil if the match is the value
}

func charset(chars string) *[256]bool {
	var set [256]bool
	for i := range len(chars) {
		set[chars[i]] = true
	}
	return &set
}

var numeric = charset(digits + " ()+-./")

// find returns the values of the form in a text.
func (f form) find(text string) (found []span) {
	for at := 0; at < len(text); at++ {
		begin := at
		for at < len(text) && f.of[text[at]] {
			at++
		}
		if at-begin >= f.least {
			found = f.among(text, span{begin, at}, found)
		}
	}
	return found
}

// among adds the values in a part of a text to found.
func (f form) among(text string, part span, found []span) []span {
	for part.from < part.to {
		at := f.pattern.FindStringIndex(text[part.from:part.to])
		if at == nil {
			break
		}
		s := span{part.from + at[0], part.from + at[1]}
		switch {
		case f.within != nil:
			found = append(found, f.within(text, s)...)
		case (!f.apart || standsApart(text, s)) && (f.check == nil || f.check(text[s.from:s.to])):
			found = append(found, s)
		default: // no value begins inside a word
			for s.to = s.from + 1; s.to < part.to && wordy(text[s.to-1]); s.to++ {
			}
		}
		part.from = s.to
	}
	return found
}

// standsApart reports whether a span is neither part of a word nor of a number
// with points in it.
func standsApart(text string, s span) bool {
	before, behind := text[:s.from], text[s.to:]
	switch n := len(before); {
	case n > 0 && wordy(before[n-1]), n > 1 && before[n-1] == '.' && digit(before[n-2]):
		return false
	}
	return behind == "" || !wordy(behind[0]) && !(len(behind) > 1 && behind[0] == '.' && digit(behind[1]))
}

func digit(b byte) bool { return '0' <= b && b <= '9' }

func wordy(b byte) bool { return digit(b) || 'a' <= b|0x20 && b|0x20 <= 'z' || b == '_' }

// phones finds numbers in international form, Chinese ones of mobiles and
// landlines, and North American ones that are written in groups.
func phones(text string) (found []span) {
	for _, f := range phoneForms {
		found = append(found, f.find(text)...)
	}
	return found
}

var phoneForms = []form{
	{of: numeric, least: 9, pattern: regexp.MustCompile(`\+\d[\d ()./-]{6,18}\d\b`)},
	{of: numeric, least: 11, apart: true, pattern: regexp.MustCompile(`(?:(?:\+|00)?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}`)},
	{of: numeric, least: 11, apart: true, pattern: regexp.MustCompile(`\(?0[1-9]\d{1,2}\)?[ -]\d{7,8}`)},
	{of: numeric, least: 12, apart: true, pattern: regexp.MustCompile(`(?:\+?1[-. ]?)?(?:\([2-9]\d\d\)[-. ]?|[2-9]\d\d[-. ])[2-9]\d\d[-. ]\d{4}`)},
}

// isResidentID checks the last digit of a Chinese resident identity number.
func isResidentID(id string) bool {
	sum := 0
	for i, weight := range []int{7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2} {
		sum += int(id[i]-'0') * weight
	}
	return strings.ToUpper(id)[17] == "10X98765432"[sum%11]
}

// maxCardGroups is the number of groups that a card's number is written in at most.
const maxCardGroups = 5

// cardsAmong are the numbers of payment cards among groups of digits.
func cardsAmong(text string, match span) (found []span) {
	groups := groupsOf(text, match)
	for i := 0; i < len(groups); i++ {
		for j := min(i+maxCardGroups, len(groups)) - 1; j >= i; j-- { // the longest first
			s := span{groups[i].from, groups[j].to}
			if standsApart(text, s) && isCard(ungrouped.Replace(text[s.from:s.to])) {
				found = append(found, s)
				i = j
				break
			}
		}
	}
	return found
}

// groupsOf are the groups of digits in a part of a text.
func groupsOf(text string, part span) (groups []span) {
	begin := part.from
	for i := part.from; i <= part.to; i++ {
		if i == part.to || !digit(text[i]) {
			groups = append(groups, span{begin, i})
			begin = i + 1
		}
	}
	return groups
}

var ungrouped = strings.NewReplacer(" ", "", "-", "")

// issuers are the prefixes of card numbers by issuer, with the lengths of their
// numbers.
var issuers = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`4\d{15}(?:\d{3})?`,                                                 // Visa
	`5[1-5]\d{14}`, `2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}`, // Mastercard
	`3[47]\d{13}`,              // American Express
	`3(?:0[0-5]|[68]\d)\d{11}`, // Diners Club
	`35\d{14}`,                 // JCB
	`6(?:011|5\d\d|4[4-9]\d)\d{12}(?:\d{3})?`, // Discover
	`62\d{14,17}`,                   // UnionPay
	`(?:50|5[6-9]|6[037])\d{12,17}`, // Maestro
}, "|") + `)$`)

// isCard checks the issuer and the last digit.
func isCard(number string) bool {
	if len(number) > 19 || !issuers.MatchString(number) {
		return false
	}
	sum := 0
	for i := range len(number) {
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

var (
	ipv4 = form{of: charset(digits + "."), least: 7, apart: true, check: isAddress, pattern: regexp.MustCompile(`(?:\d{1,3}\.){3}\d{1,3}`)}
	ipv6 = form{of: charset(digits + "abcdefABCDEF:."), least: 3, within: ipv6Within, pattern: regexp.MustCompile(`(?:[0-9A-Fa-f]{0,4}:){2,8}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4})`)}
)

// addresses finds the addresses of the Internet Protocol, of both versions.
func addresses(text string) []span { return append(ipv4.find(text), ipv6.find(text)...) }

// ipv6Within is the address of version 6 in a match. A colon before or behind
// one is not part of it, and a word without a digit is a word.
func ipv6Within(text string, s span) []span {
	if word := text[s.from:s.to]; strings.HasPrefix(word, ":") && !strings.HasPrefix(word, "::") {
		s.from++
	}
	if word := text[s.from:s.to]; strings.HasSuffix(word, ":") && !strings.HasSuffix(word, "::") {
		s.to--
	}
	if word := text[s.from:s.to]; !standsApart(text, s) || !strings.ContainsAny(word, digits) || !isAddress(word) {
		return nil
	}
	return []span{s}
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}
