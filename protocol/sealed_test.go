package protocol

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func sealedExample() *Sealed {
	return &Sealed{Version: 1, Suite: SuiteX25519, KeyID: "k", ID: "i", At: 1, Reply: make([]byte, 32), Enc: make([]byte, 32), Ciphertext: make([]byte, 20)}
}

func TestSealedPayloadsAreReadBack(t *testing.T) {
	wire := sealedExample().Wrap()
	if !IsSealed(wire) {
		t.Fatalf("not recognised: %s", wire)
	}
	got, err := ParseSealed(wire, "params")
	if err != nil || got.CheckRequest("params") != nil || !bytes.Equal(got.Wrap(), wire) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSealedPayloadsOfAnotherShapeAreRefused(t *testing.T) {
	change := func(f func(*Sealed)) string { s := sealedExample(); f(s); return string(s.Wrap()) }
	whole := string(sealedExample().Wrap())
	for payload, param := range map[string]string{
		`{}`:                                    "params",
		`{"sealed":null}`:                       "params",
		`{"sealed":1}`:                          "params",
		whole + "{}":                            "params",
		whole[:len(whole)-1] + `,"pin":"1234"}`: "params",
		strings.Replace(whole, `"v":1`, `"v":1,"extra":1`, 1):      "params",
		change(func(s *Sealed) { s.Version = 2 }):                  "params.sealed.v",
		change(func(s *Sealed) { s.Suite = "none" }):               "params.sealed.suite",
		change(func(s *Sealed) { s.Enc = nil }):                    "params.sealed.enc",
		change(func(s *Sealed) { s.Ciphertext = []byte("x") }):     "params.sealed.ct",
		change(func(s *Sealed) { s.KeyID = "" }):                   "params.sealed.kid",
		change(func(s *Sealed) { s.ID = strings.Repeat("x", 65) }): "params.sealed.id",
		change(func(s *Sealed) { s.At = -1 }):                      "params.sealed.at",
		change(func(s *Sealed) { s.Reply = make([]byte, 31) }):     "params.sealed.reply",
	} {
		s, err := ParseSealed([]byte(payload), "params")
		if err == nil {
			err = s.CheckRequest("params")
		}
		if e := AsError(err); err == nil || e.Details["param_name"] != param {
			t.Errorf("%s: %v", payload, err)
		}
	}
	for _, payload := range []string{``, `[]`, `{"a":1,"sealed":{}}`, `"sealed"`} {
		if IsSealed([]byte(payload)) {
			t.Errorf("%s passes as sealed", payload)
		}
	}
}

func FuzzParseSealed(f *testing.F) {
	f.Add([]byte(sealedExample().Wrap()))
	f.Add([]byte(`{"sealed":{"v":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSealed(data, "params")
		if err == nil && !json.Valid(s.Wrap()) {
			t.Error("wraps as no JSON")
		}
	})
}
