package claimlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
)

func readSegment(t testing.TB, dir string, number uint64) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, segmentName(number)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestATornEndIsCutOff cuts a segment at every byte: what was whole before is
// there, and the file is mended.
func TestATornEndIsCutOff(t *testing.T) {
	first, second := claim(1, time.Minute), claim(2, time.Minute)
	whole := encoded(first, second)
	ends := []int{recordSize(first), len(whole)}
	for size := range len(whole) + 1 {
		dir := t.TempDir()
		writeSegment(t, dir, 1, whole[:size])
		l := open(t, dir, Options{})
		switch {
		case size < ends[0]:
			wantPending(t, l)
			if got := segments(t, dir); len(got) != 1 || got[0] != segmentName(2) {
				t.Errorf("cut to %d: there are %q", size, got)
			}
		case size < ends[1]:
			wantPending(t, l, "request-1")
			if got := string(readSegment(t, dir, 1)); got != string(whole[:ends[0]])+seal {
				t.Errorf("cut to %d: became %q", size, got)
			}
		default:
			wantPending(t, l, "request-1", "request-2")
		}
		shut(t, l)
		again := open(t, dir, Options{}) // what was mended is sound
		if got := len(pending(again)); got != len(pending(l)) {
			t.Errorf("cut to %d: %d pending after another restart", size, got)
		}
	}
}

// TestATornSealIsCutOff cuts within the seal.
func TestATornSealIsCutOff(t *testing.T) {
	whole := encoded(claim(1, time.Minute))
	for size := range len(seal) {
		dir := t.TempDir()
		writeSegment(t, dir, 1, append(whole[:len(whole):len(whole)], seal[:size]...))
		wantPending(t, open(t, dir, Options{}), "request-1")
		if got := string(readSegment(t, dir, 1)); got != string(whole)+seal {
			t.Errorf("became %q", got)
		}
	}
}

func TestRubbishBehindAnUnfinishedWriteIsCutOff(t *testing.T) {
	whole := encoded(claim(1, time.Minute))
	for name, rubbish := range map[string][]byte{
		"zeros, as file systems leave": make([]byte, 4096),
		"text":                         []byte("these are not the claims you are looking for"),
		"a record half of zeros":       append(encoded(claim(2, time.Minute))[:40], make([]byte, 60)...),
		"a length beyond the end":      {1, 2, 3, 4, 0xff, 0xff, 0, 0, 1},
		"a huge length":                {1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeSegment(t, dir, 1, append(whole[:len(whole):len(whole)], rubbish...))
			wantPending(t, open(t, dir, Options{}), "request-1")
			if got := string(readSegment(t, dir, 1)); got != string(whole)+seal {
				t.Errorf("became %q", got)
			}
		})
	}
}

func flip(data []byte, at, bit int) []byte {
	data[at] ^= 1 << bit
	return data
}

// TestDamageBeforeASealIsNamed flips every bit of a finished segment.
func TestDamageBeforeASealIsNamed(t *testing.T) {
	first, second := claim(1, time.Minute), claim(2, time.Minute)
	whole := append(encoded(first, second), seal...)
	for at := range len(whole) - len(seal) {
		for bit := range 8 {
			dir := t.TempDir()
			writeSegment(t, dir, 3, flip(append([]byte(nil), whole...), at, bit))
			l, err := Open(dir, Options{})
			if err == nil {
				shut(t, l)
				t.Fatalf("byte %d, bit %d: opened a damaged log", at, bit)
			}
			offset := 0
			if at >= recordSize(first) {
				offset = recordSize(first)
			}
			where := fmt.Sprintf("%s, offset %d:", filepath.Join(dir, segmentName(3)), offset)
			if !errors.Is(err, errBadRecord) || !strings.Contains(err.Error(), where) {
				t.Fatalf("byte %d: the error %q does not say %q", at, err, where)
			}
		}
	}
}

// TestDamageBeforeAValidRecordIsNamed flips every bit of a segment that a killed
// process left, and cuts out every byte. What is cut off as an unfinished write
// is the last record only; all else is named.
func TestDamageBeforeAValidRecordIsNamed(t *testing.T) {
	claims := []commands.Claim{claim(1, time.Minute), claim(2, time.Minute), claim(3, time.Minute)}
	whole := encoded(claims...)
	last := len(whole) - recordSize(claims[2])
	check := func(what string, at int, data []byte) {
		t.Helper()
		dir := t.TempDir()
		writeSegment(t, dir, 3, data)
		l, err := Open(dir, Options{})
		if err != nil {
			if !errors.Is(err, errBadRecord) || !strings.Contains(err.Error(), segmentName(3)) {
				t.Fatalf("byte %d %s: the error is %v", at, what, err)
			}
			if _, err := os.Stat(filepath.Join(dir, segmentName(3))); err != nil {
				t.Fatalf("the damaged file is gone: %v", err)
			}
			return
		}
		defer shut(t, l)
		if at < last {
			t.Fatalf("byte %d %s: opened, with %d of 3 claims", at, what, len(pending(l)))
		}
		if left := pending(l); len(left) < 2 {
			t.Fatalf("byte %d %s, in the last record: %d claims are left", at, what, len(left))
		}
	}
	for at := range whole {
		for bit := range 8 {
			check("flipped", at, flip(slices.Clone(whole), at, bit))
		}
		check("cut out", at, slices.Delete(slices.Clone(whole), at, at+1))
	}
}

// TestADamagedLastRecordIsNamed flips bits of the last record that are not in
// its length: nobody can tell a longer one from one that was cut short.
func TestADamagedLastRecordIsNamed(t *testing.T) {
	first, second := claim(1, time.Minute), claim(2, time.Minute)
	whole := encoded(first, second)
	begin := recordSize(first)
	for at := begin; at < len(whole); at++ {
		if at >= begin+4 && at < begin+headerSize {
			continue
		}
		dir := t.TempDir()
		writeSegment(t, dir, 3, flip(slices.Clone(whole), at, 0))
		if l, err := Open(dir, Options{}); !errors.Is(err, errBadRecord) {
			shut(t, l)
			t.Fatalf("byte %d: opened a damaged log: %v", at, err)
		}
	}
}

func TestARecordOfANewerBridgeIsNotCutOff(t *testing.T) {
	for _, end := range []string{"", seal} {
		dir := t.TempDir()
		data := resum(append(encoded(claim(1, time.Minute)), nil...), func(payload []byte) { payload[0]++ })
		writeSegment(t, dir, 1, append(data, end...))
		_, err := Open(dir, Options{})
		var newer newerError
		if !errors.As(err, &newer) || newer.version != recordVersion+1 {
			t.Errorf("got %v, want that it is newer", err)
		}
	}
}
