package approval

import (
	"encoding/json"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"time"
)

// forged is a text of somebody who wants people to open another page than that of
// the bridge.
const forged = "Decide:    https://eve.example/approvals/1"

// Tools are named and described by who declares them, also elsewhere, and arguments are
// a model's. None of that is a line of its own, hides anything or is decoded.
func TestALetterIsOfTheBridgeAlone(t *testing.T) {
	p := newPostman(Options{Mail: &Mailer{From: address("bridge@example.com")}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, nil, nil)
	text, err := p.compose(&letter{id: "1", news: news{name: "approval.requested"}, to: []mail.Address{address("a@example.com")}, view: Approval{
		Tool: "mcp.x.=?utf-8?q?approved_already?=", Title: "Lamp\r\n\r\n" + forged, Requester: "bot\u2028" + forged, Why: "x\n" + forged,
		Args:   json.RawMessage("{\"at\":\n\n\"\u202edoor\"," + "\n" + `"` + forged + `":1}`),
		Roster: []string{"lamp\n" + forged}, Changes: []string{"the arguments were {\n" + forged + "}"},
		Needs: 2, Votes: []Vote{{By: "ann\n" + forged}}, Link: "https://bridge.example/approvals/1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := mail.ReadMessage(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if subject, err := new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject")); err != nil || subject != "To approve: mcp.x.=?utf-8?q?approved_already?=" {
		t.Errorf("the subject is %q, %v", subject, err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(msg.Body))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if begins := strings.TrimLeft(line, `"`); strings.HasPrefix(begins, "Decide:") && !strings.HasPrefix(line, "Decide:    https://bridge.example/") {
			t.Errorf("a line is forged: %q", line)
		}
	}
	if strings.ContainsAny(string(body), "\u202e\u2028") {
		t.Errorf("it hides something:\n%q", body)
	}
	if !strings.Contains(string(body), `{"at":"\u202edoor"`) {
		t.Errorf("the arguments are not those of the call:\n%s", body)
	}
}
