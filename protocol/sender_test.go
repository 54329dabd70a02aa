package protocol

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestASenderFits(t *testing.T) {
	if got := FitSender("operator/ann"); got != "operator/ann" {
		t.Errorf("a short one is %s", got)
	}
	a, b := FitSender(strings.Repeat("ä", 70)+"a"), FitSender(strings.Repeat("ä", 70)+"b")
	if utf8.RuneCountInString(a) != MaxSenderLength || a == b || !strings.HasPrefix(a, "ä") {
		t.Errorf("long ones are %s and %s", a, b)
	}
}
