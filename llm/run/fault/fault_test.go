package fault

import (
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestEveryCodeIsDocumentedWithItsCodeOfTheBridge(t *testing.T) {
	text, err := os.ReadFile("../../../docs/workflow-files.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([A-Za-z_]+)` \\| .* \\| ([0-9]{4}) \\|$").FindAllStringSubmatch(string(text), -1)
	documented := make(map[Code]protocol.Code)
	for _, row := range rows {
		documented[Code(row[1])] = protocol.Code(row[2])
	}
	for code, wire := range Codes() {
		if documented[code] != wire || !wire.Known() {
			t.Errorf("%s is %s, documented as %q", code, wire, documented[code])
		}
	}
	if len(documented) != len(Codes()) {
		t.Errorf("%d codes are documented, there are %d", len(documented), len(Codes()))
	}
}

func TestErrorsShowTheirCodeAndHideTheirCause(t *testing.T) {
	err := Wrap(Internal, io.ErrUnexpectedEOF, "the disk fails").With("n", 1)
	if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "EOF") {
		t.Errorf("the error is %v", err)
	}
	p := Errorf(InvalidTransition, "from %s", "a").With("to", "b").Protocol()
	if p.Code != protocol.InvalidState || p.Message != "E_INVALID_TRANSITION: from a" || p.Details["code"] != "E_INVALID_TRANSITION" || p.Details["to"] != "b" {
		t.Errorf("on the wire it is %+v", p)
	}
	if e := As(errors.New("open /home/secret: no")); e.Code != Internal || strings.Contains(e.Message, "secret") {
		t.Errorf("a foreign error became %v", e)
	}
	if e := As(protocol.Errorf(protocol.FileNotFound, "no %s", "x")); e.Code != NotFound || e.Message != "no x" {
		t.Errorf("an error of the protocol became %v", e)
	}
	if As(nil) != nil || CodeOf(nil) != "" {
		t.Error("no error became one")
	}
}
