package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestTheBridgesOfAClusterAreATable(t *testing.T) {
	var out bytes.Buffer
	result := `{"bridge_id":"a","members":[
		{"id":"a","epoch":7,"state":"working","ready":true,"age_ms":120,"started_at":0,"version":"1.0","addresses":{"mqtt":"10.0.0.1:1883"}},
		{"id":"b\u001b","epoch":9,"state":"working","ready":false,"why":"the disk is full","version":"1.0"}],
		"parts":[{"name":"nats","ok":true},{"name":"disk","ok":false,"why":"no room"}]}`
	if err := writeCluster(&out, json.RawMessage(result)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines:\n%s", len(lines), &out)
	}
	for i, words := range [][]string{{"NODE", "LEASE"}, {"a ", " 7 ", "yes", "120ms", "10.0.0.1:1883"}, {"no: the disk is full", " - "}, {"disk of a does not work: no room"}} {
		for _, word := range words {
			if !strings.Contains(lines[i]+" ", word) {
				t.Errorf("line %d lacks %q: %s", i, word, lines[i])
			}
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("an id is printed raw")
	}
}
