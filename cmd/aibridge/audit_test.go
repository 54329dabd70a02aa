package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestAuditEntriesAreShownOneALine(t *testing.T) {
	raw := []json.RawMessage{json.RawMessage(`{"seq":7,"time":"2026-01-02T03:04:05.678Z","event":"skill.invoke","code":"2003","principal":"alice",` +
		`"acts_for":"bob","resource":"skill/a\u001b[2J","door":"mqtt","address":"192.0.2.1","reason":"no\nway","params":{"skill_id":"a"},"late":true}`)}
	var out bytes.Buffer
	if err := writeEntries(&out, raw, asTable); err != nil {
		t.Fatal(err)
	}
	line := out.Bytes()
	if n := bytes.Count(line, []byte("\n")); n != 1 {
		t.Errorf("%d lines: %q", n, line)
	}
	if bytes.ContainsRune(line, 0x1b) {
		t.Errorf("steers the terminal: %q", line)
	}
	for _, part := range []string{"7 ", "2003", "skill.invoke", "by alice for bob", "mqtt 192.0.2.1", `{"skill_id":"a"}`, "[late]"} {
		if !bytes.Contains(line, []byte(part)) {
			t.Errorf("%q lacks %q", line, part)
		}
	}
	if cluster := (auditEntry{Seq: 7, Bridge: "b"}).String(); !strings.HasPrefix(cluster, "b:7 ") {
		t.Errorf("in a cluster %q", cluster)
	}
	out.Reset()
	if err := writeEntries(&out, raw, asJSON); err != nil || out.String() != string(raw[0])+"\n" {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestPointsInTime(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"90m":                  now.Add(-90 * time.Minute),
		"2026-01-02T03:04:05Z": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"2026-01-02":           time.Date(2026, 1, 2, 0, 0, 0, 0, time.Local),
	} {
		if got, err := pointInTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	if _, err := pointInTime("yesterday", now); err == nil {
		t.Error("yesterday is understood")
	}
}
