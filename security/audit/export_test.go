package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// exported is an export of two chains by the bridge of the first, with their heads.
func exported(t testing.TB) (file []byte, key *Key, heads map[string]Head) {
	t.Helper()
	trail, other := openTrail(t, &memoryLog{}, func(o *Options) { o.BridgeID = "a" }), newWriter(t, testKey(t, 2))
	defer shut(t, trail)
	record := func(all ...Entry) Head {
		for _, e := range all {
			trail.Record(t.Context(), e)
		}
		if err := trail.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		return trail.Head()
	}
	heads = map[string]Head{"b": other.write(t, at(1, "agent.register"), at(2, "agent.register"))}
	heads["early"] = record(at(3, "key.created"))
	heads["a"] = record(at(4, "policy.changed"), closes("b", other.key, heads["b"]))
	s := NewService(trail, &others{chains: []Chain{{Bridge: "b", Log: other.log, Key: other.key}}})
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), trail.o.Key, heads
}

func publicKey(t testing.TB, k *Key) ed25519.PublicKey {
	t.Helper()
	key, err := ParseExportKey(k.ExportKey())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func verifyFile(t testing.TB, file []byte, key *Key, heads map[string][]Head) ExportReport {
	t.Helper()
	report, err := VerifyExport(bytes.NewReader(file), []ed25519.PublicKey{publicKey(t, key)}, heads)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestAnExportVerifiesFromItsFileAlone(t *testing.T) {
	t.Parallel()
	file, key, heads := exported(t)
	report := verifyFile(t, file, key, map[string][]Head{"": {heads["a"]}, "a": {heads["early"]}, "b": {heads["b"]}})
	if !report.OK || report.Bridge != "a" || report.Entries != 6 || len(report.Chains) != 2 || report.Chains[1].State != ChainClosed || report.Chains[1].ClosedBy != "a" {
		t.Errorf("it says %+v", report)
	}
	if bytes.Contains(file, bytes.Repeat([]byte{1}, KeySize)) {
		t.Error("the key is in it")
	}
	for name, noted := range map[string]map[string][]Head{
		"a head that never was":        {"a": {{Seq: heads["early"].Seq, Hash: heads["a"].Hash}}},
		"one behind the end":           {"b": {{Seq: 9, Hash: heads["b"].Hash}}},
		"one of a chain that is gone":  {"c": {heads["a"]}},
		"one of another bridge's head": {"": {heads["b"]}},
	} {
		if report := verifyFile(t, file, key, noted); report.OK || len(report.Problems) != 1 {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

// TestAnExportSaysWhatItsBridgeFound exports a chain in which an entry was changed.
func TestAnExportSaysWhatItsBridgeFound(t *testing.T) {
	t.Parallel()
	log := &memoryLog{}
	trail := openTrail(t, log)
	defer shut(t, trail)
	trail.Record(t.Context(), at(1, "agent.register"))
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.groups[0] = sum(log.groups, 0, func(g []byte) { g[len(g)-40] ^= 1 })[0]
	s := NewService(trail, nil)
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if report := verifyFile(t, out.Bytes(), trail.o.Key, nil); report.OK || len(report.Problems) != 0 || len(report.Chains) != 1 || len(report.Chains[0].Problems) == 0 {
		t.Errorf("it says %+v", report)
	}
}

// TestEachByteOfAnExportCounts flips bits of every byte of a small export, cuts it off at every
// place, and takes out, repeats and exchanges lines.
func TestEachByteOfAnExportCounts(t *testing.T) {
	t.Parallel()
	file, key, _ := exported(t)
	if report := verifyFile(t, file, key, nil); !report.OK {
		t.Fatalf("untouched it says %+v", report)
	}
	for i := range file {
		line := uint64(bytes.Count(file[:i], []byte{'\n'}) + 1)
		for _, bit := range []int{i % 8, 5} { // the latter makes other letters of letters
			changed := bytes.Clone(file)
			changed[i] ^= 1 << bit
			report := verifyFile(t, changed, key, nil)
			near := slices.ContainsFunc(report.Problems, func(p ExportProblem) bool { return p.Line == 0 || p.Line >= line && p.Line <= line+1 })
			if report.OK || !near {
				t.Fatalf("bit %d of byte %d, in line %d: %+v", bit, i, line, report)
			}
		}
		if report := verifyFile(t, file[:i], key, nil); report.OK {
			t.Fatalf("cut off at byte %d: %+v", i, report)
		}
	}
	lines := slices.Collect(bytes.Lines(file))
	for i := range lines {
		for name, changed := range map[string][][]byte{
			"taken out": slices.Delete(slices.Clone(lines), i, i+1),
			"repeated":  slices.Insert(slices.Clone(lines), i, lines[i]),
			"exchanged": slices.Concat(lines[:i], lines[min(i+1, len(lines)):min(i+2, len(lines))], lines[i:i+1], lines[min(i+2, len(lines)):]),
		} {
			text := bytes.Join(changed, nil)
			if report := verifyFile(t, text, key, nil); report.OK != bytes.Equal(text, file) {
				t.Errorf("line %d %s: %+v", i+1, name, report)
			}
		}
	}
}

// TestWhoHasNoKeyMakesNoExport writes an export anew, as somebody would who knows all but
// the secret.
func TestWhoHasNoKeyMakesNoExport(t *testing.T) {
	t.Parallel()
	file, key, _ := exported(t)
	changed := rechained(bytes.Replace(file, []byte("policy.changed"), []byte("policy.listing"), 1))
	report := verifyFile(t, changed, key, nil)
	if report.OK || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Text, "signature") {
		t.Errorf("of what was written anew it says %+v", report)
	}
	if report := verifyFile(t, rechained(file), key, nil); !report.OK {
		t.Errorf("the same lines, chained again: %+v", report)
	}
	if report := verifyFile(t, file, testKey(t, 2), nil); report.OK {
		t.Error("the key of another bridge fits")
	}
}

// rechained makes the hashes of an export anew. The signature stays.
func rechained(file []byte) []byte {
	var out bytes.Buffer
	var hash [32]byte
	for line := range bytes.Lines(file) {
		if _, rest, ok := cutLine(bytes.TrimSuffix(line, []byte{'\n'})); ok {
			hash = hashLine(hash, rest)
			fmt.Fprintf(&out, "%s%x%s%s\n", linePrefix, hash, lineInfix, rest)
			continue
		}
		out.Write(line)
	}
	return out.Bytes()
}

// TestAnExportOfTodayIsReadTomorrow reads a file that stays.
func TestAnExportOfTodayIsReadTomorrow(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/export-1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	report := verifyFile(t, file, testKey(t, 1), nil)
	if !report.OK || report.Entries != 6 {
		t.Errorf("it says %+v", report)
	}
}

func FuzzExport(f *testing.F) {
	file, key, _ := exported(f)
	f.Add(file)
	f.Add([]byte("{}\n"))
	keys := []ed25519.PublicKey{publicKey(f, key)}
	f.Fuzz(func(t *testing.T, data []byte) {
		report, err := VerifyExport(bytes.NewReader(data), keys, map[string][]Head{"": {{Seq: 1}}})
		if err != nil || report.OK {
			t.Errorf("%v %+v", err, report)
		}
		if _, err := json.Marshal(report); err != nil {
			t.Error(err)
		}
	})
}

func TestAKeyOfExportsIsNothingElse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", base64.StdEncoding.EncodeToString([]byte("short")), " " + testKey(t, 1).ExportKey()} {
		if _, err := ParseExportKey(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
