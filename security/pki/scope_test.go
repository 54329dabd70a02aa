package pki

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func utf8String(t testing.TB, text string) []byte {
	t.Helper()
	value, err := asn1.MarshalWithParams(text, "utf8")
	if err != nil {
		t.Fatal(err)
	}
	return value
}

const plainScope = `{"v":1,"kind":"agent","id":"a","space":"default"}`

func TestAScopeIsWrittenInOneWay(t *testing.T) {
	for text, ok := range map[string]bool{
		plainScope: true,
		`{"v":1,"kind":"agent","id":"a","space":"default","skill":"s","roles":["a","b"],"scenes":["*"],"purpose":"p"}`: true,
		`{"v":2,"kind":"agent","id":"a","space":"default"}`:                                                            false,
		`{"v":1,"kind":"agent","id":"a","space":"default","more":1}`:                                                   false,
		`{"v":1,"kind":"agent","id":"a","id":"b","space":"default"}`:                                                   false,
		`{"v":1,"Kind":"agent","id":"a","space":"default"}`:                                                            false,
		`{"v":1, "kind":"agent","id":"a","space":"default"}`:                                                           false,
		`{"v":1,"kind":"bridge","id":"a","space":"default"}`:                                                           false,
		`{"v":1,"kind":"agent","id":"","space":"default"}`:                                                             false,
		`{"v":1,"kind":"agent","id":"a/b","space":"default"}`:                                                          false,
		`{"v":1,"kind":"agent","id":"a","space":"#"}`:                                                                  false,
		`{"v":1,"kind":"agent","id":"a","space":"default","roles":["b","a"]}`:                                          false,
		`{"v":1,"kind":"agent","id":"a","space":"default","roles":["a","a"]}`:                                          false,
		`{"v":1,"kind":"agent","id":"a","space":"default","roles":[]}`:                                                 false,
		`{"v":1,"kind":"agent","id":"a","space":"default","scenes":["A/B"]}`:                                           false,
		`{"v":1,"kind":"agent","id":"\u0061","space":"default"}`:                                                       false,
		`{"v":1,"kind":"agent","id":"a","space":"default","purpose":"` + strings.Repeat("p", maxPurpose+1) + `"}`:      false,
		`null`: false, `{}`: false, ``: false,
	} {
		if _, err := parseScope(utf8String(t, text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	good := utf8String(t, plainScope)
	for name, value := range map[string][]byte{
		"nothing": nil, "cut": good[:len(good)-1], "more": append(good[:len(good):len(good)], 0), "another type": append([]byte{4}, good[1:]...),
		"endless": utf8String(t, strings.Repeat(" ", maxScope)),
	} {
		if _, err := parseScope(value); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func FuzzScope(f *testing.F) {
	f.Add(utf8String(f, plainScope))
	f.Add(utf8String(f, `{"v":1,"kind":"skill","id":"é","space":"default","skill":"é","roles":["a","b"],"scenes":["*","A"],"purpose":"<p>"}`))
	f.Add([]byte{12, 0x82, 0, 1, 'x'})
	f.Fuzz(func(t *testing.T, value []byte) {
		s, err := parseScope(value)
		if err != nil {
			return
		}
		again, err := s.extension()
		if err != nil {
			t.Fatal(err)
		}
		if string(again.Value) != string(value) {
			t.Errorf("%q is also written %q", value, again.Value)
		}
		for _, uri := range s.uris() {
			if _, err := asn1.MarshalWithParams(uri.String(), "ia5"); err != nil {
				t.Errorf("%q makes the name %q: %v", value, uri, err)
			}
		}
	})
}

func FuzzSigningRequest(f *testing.F) {
	f.Add(csrOf(f, ecdsaKey(f), named("lighting")))
	f.Add(csrOf(f, ed25519Key(f)))
	f.Add("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n")
	scope := &Scope{Version: 1, Kind: protocol.KindAgent, ID: "lighting", Space: "default", Skill: "lighting"}
	f.Fuzz(func(t *testing.T, text string) {
		csr, err := parseCSR(text)
		if err != nil {
			if protocol.CodeOf(err) != protocol.InvalidParameter {
				t.Errorf("%v", err)
			}
			return
		}
		if checkNames(csr, scope) == nil && csr.Subject.CommonName != "" && csr.Subject.CommonName != "lighting" {
			t.Errorf("took %q", csr.Subject)
		}
	})
}

func FuzzCertificate(f *testing.F) {
	w := newWorld(f)
	h := w.hold()
	f.Add(h.cert.Raw)
	f.Fuzz(func(t *testing.T, der []byte) {
		if c, err := newEntry(&Certificate{Serial: h.serial, Authority: Operator, DER: der}, w.cas()); err == nil && c.scope.check() != nil {
			t.Error("took a scope that is none")
		}
		if cert, err := x509.ParseCertificate(der); err == nil {
			if who, err := w.Identify(cert); err == nil && string(der) != string(h.cert.Raw) {
				t.Errorf("took it for %v", who)
			}
		}
	})
}

func FuzzDescribe(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := Describe(text); err == nil {
			if block, _ := pem.Decode(text); block == nil || d.Principal == "" {
				t.Error("described nothing")
			}
		}
	})
}
