package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgressIsShownAfterASecond(t *testing.T) {
	var shown bytes.Buffer
	now := time.Unix(0, 0)
	p := &progress{w: &shown, what: "storing plan.txt", total: 4 << 20, now: func() time.Time { return now }, began: now}
	read := func(n int64) {
		t.Helper()
		if _, err := io.CopyN(io.Discard, p.reader(strings.NewReader(strings.Repeat("x", int(n)))), n); err != nil {
			t.Fatal(err)
		}
	}
	read(1 << 20)
	if shown.Len() > 0 {
		t.Errorf("at once: %q", shown.String())
	}
	now = now.Add(2 * time.Second)
	read(1 << 20)
	if got := shown.String(); !strings.HasPrefix(got, "\r\x1b[Kstoring plan.txt, ") || strings.Count(got, "\r") != 1 {
		t.Errorf("after two seconds: %q", got)
	}
	now = now.Add(progressEvery)
	read(1)
	if got := shown.String(); !strings.HasSuffix(got, "50 % of 4.0 MiB, 0.9 MiB/s") {
		t.Errorf("then: %q", got)
	}
	p.end()
	if got := shown.String(); !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("the line stays: %q", got)
	}
}

func TestProgressIsForTerminals(t *testing.T) {
	var pipe bytes.Buffer
	p := newProgress(&pipe, "copying", 0)
	p.began = p.began.Add(-time.Hour)
	p.at("copying", 1<<20)
	p.end()
	if pipe.Len() > 0 {
		t.Errorf("a pipe is told %q", pipe.String())
	}
}
