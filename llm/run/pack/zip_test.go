package pack

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/run/fault"
)

// entry is one of a zip that is made by hand.
type entry struct {
	name string
	text string
	mode fs.FileMode
}

func handmade(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// overlapping is a zip whose two entries are the same bytes.
func overlapping(t testing.TB) []byte {
	t.Helper()
	data := handmade(t, entry{name: "a", text: strings.Repeat("x", 1000)}, entry{name: "b", text: strings.Repeat("x", 1000)})
	at := bytes.LastIndex(data, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(data[at+42:], 0) // b begins where a does
	return data
}

// boasting is a zip whose entry says that it is small and is not.
func boasting(t testing.TB, size int) []byte {
	t.Helper()
	var packed, b bytes.Buffer
	fw, _ := flate.NewWriter(&packed, 9)
	text := make([]byte, size)
	_, _ = fw.Write(text)
	_ = fw.Close()
	w := zip.NewWriter(&b)
	f, err := w.CreateRaw(&zip.FileHeader{Name: "a", Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(text), CompressedSize64: uint64(packed.Len()), UncompressedSize64: 10})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write(packed.Bytes())
	_ = w.Close()
	return b.Bytes()
}

func TestBadZipsAreRefused(t *testing.T) {
	many := make([]entry, 50)
	for i := range many {
		many[i] = entry{name: fmt.Sprint("f", i), text: strings.Repeat("x", 1000)}
	}
	var b strings.Builder
	for i := range 40_000 {
		fmt.Fprint(&b, i*i%7919, " ")
	}
	numbers := b.String()[:160_000]
	encrypted := handmade(t, entry{name: "a", text: "x"})
	encrypted[bytes.Index(encrypted, []byte("PK\x01\x02"))+8] |= 1
	strange := handmade(t, entry{name: "a", text: "x"})
	strange[bytes.Index(strange, []byte("PK\x01\x02"))+10] = 99
	whole := handmade(t, entry{name: "a", text: "content of a"})
	damagedData := bytes.Clone(whole)
	damagedData[35] ^= 0xff
	limits := Limits{Zip: 1 << 20, Entries: 100, File: 200_000, Total: 300_000, Ratio: 200}
	few := limits
	few.Entries = 10

	for name, c := range map[string]struct {
		data   []byte
		limits Limits
		code   fault.Code
		want   string
	}{
		"nothing":               {nil, limits, fault.PackageInvalid, "no zip"},
		"text":                  {[]byte("hello"), limits, fault.PackageInvalid, "no zip"},
		"half":                  {whole[:len(whole)/2], limits, fault.PackageInvalid, "no zip"},
		"damaged":               {damagedData, limits, fault.PackageInvalid, "damaged"},
		"empty":                 {handmade(t), limits, fault.PackageInvalid, "bmad.json: is missing"},
		"larger than allowed":   {make([]byte, 2<<20), limits, fault.PackageLimit, "more than"},
		"too many entries":      {handmade(t, many...), few, fault.PackageLimit, "10 entries"},
		"a large file":          {handmade(t, entry{name: "a", text: strings.Repeat("x", 200_001)}), limits, fault.PackageLimit, "a has more than"},
		"many large files":      {handmade(t, entry{name: "a", text: numbers}, entry{name: "b", text: numbers}), limits, fault.PackageLimit, "unpacks to more than 300000"},
		"a bomb":                {handmade(t, entry{name: "a", text: strings.Repeat("\x00", 150_000)}), limits, fault.PackageLimit, "200 times"},
		"a bomb that lies":      {boasting(t, 10_000_000), Limits{}, fault.PackageInvalid, "damaged"},
		"a small lie":           {boasting(t, 50_000), limits, fault.PackageInvalid, "damaged"},
		"overlapping entries":   {overlapping(t), limits, fault.PackageInvalid, "overlap"},
		"encrypted":             {encrypted, limits, fault.PackageInvalid, "encrypted"},
		"unknown compression":   {strange, limits, fault.PackageInvalid, "compressed in a way"},
		"a way out":             {handmade(t, entry{name: "../evil.txt", text: "x"}), limits, fault.PackageInvalid, "../evil.txt"},
		"a way out within":      {handmade(t, entry{name: "a/../../evil.txt", text: "x"}), limits, fault.PackageInvalid, ".."},
		"an absolute path":      {handmade(t, entry{name: "/etc/passwd", text: "x"}), limits, fault.PackageInvalid, "plain relative"},
		"a drive":               {handmade(t, entry{name: "C:/evil", text: "x"}), limits, fault.PackageInvalid, "colons"},
		"backslashes":           {handmade(t, entry{name: `a\..\..\evil`, text: "x"}), limits, fault.PackageInvalid, "backslashes"},
		"NUL":                   {handmade(t, entry{name: "a\x00b", text: "x"}), limits, fault.PackageInvalid, "control"},
		"a device":              {handmade(t, entry{name: "steps/aux.md", text: "x"}), limits, fault.PackageInvalid, "device"},
		"a dot":                 {handmade(t, entry{name: "./a", text: "x"}), limits, fault.PackageInvalid, "plain relative"},
		"no name":               {handmade(t, entry{name: "", text: "x"}), limits, fault.PackageInvalid, "plain relative"},
		"a name not in UTF-8":   {handmade(t, entry{name: "a\xff", text: "x"}), limits, fault.PackageInvalid, "UTF-8"},
		"a link":                {handmade(t, entry{name: "a", text: "/etc/passwd", mode: fs.ModeSymlink | 0o777}), limits, fault.PackageInvalid, "link"},
		"a pipe":                {handmade(t, entry{name: "a", mode: fs.ModeNamedPipe | 0o666}), limits, fault.PackageInvalid, "link or a device"},
		"a name twice":          {handmade(t, entry{name: "a", text: "x"}, entry{name: "a", text: "y"}), limits, fault.PackageInvalid, "twice"},
		"twins in case":         {handmade(t, entry{name: "Workflow.md", text: "x"}, entry{name: "workflow.md", text: "y"}), limits, fault.PackageInvalid, "some systems"},
		"twins in form":         {handmade(t, entry{name: "\u00e9.md", text: "x"}, entry{name: "e\u0301.md", text: "y"}), limits, fault.PackageInvalid, "some systems"},
		"twin folders":          {handmade(t, entry{name: "steps/a", text: "x"}, entry{name: "Steps/b", text: "y"}), limits, fault.PackageInvalid, "some systems"},
		"a file as a folder":    {handmade(t, entry{name: "a", text: "x"}, entry{name: "a/b", text: "y"}), limits, fault.PackageInvalid, "some systems"},
		"a folder as a file":    {handmade(t, entry{name: "a/b", text: "x"}, entry{name: "a", text: "y"}), limits, fault.PackageInvalid, "some systems"},
		"another package's zip": {handmade(t, entry{name: "workflow.yaml", text: "x"}), limits, fault.ClassicPackage, "workflow.yaml"},
	} {
		_, err := Read(c.data, c.limits)
		if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatSystemsAddToZipsIsLeftOut(t *testing.T) {
	entries := []entry{{name: "steps/", mode: fs.ModeDir | 0o755}, {name: "__MACOSX/._bmad.json", text: "x"}, {name: "steps/.DS_Store", text: "x"}}
	for name, text := range sample() {
		entries = append(entries, entry{name: name, text: text})
	}
	p, err := Read(handmade(t, entries...), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(p.Files()); got != len(sample()) {
		t.Errorf("there are %d files", got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(zipped(f, sample()))
	f.Add(overlapping(f))
	f.Add(boasting(f, 1000))
	f.Add(handmade(f, entry{name: "bmad.json", text: manifestText}, entry{name: "a/", mode: fs.ModeDir | 0o700}))
	limits := Limits{Zip: 1 << 20, Entries: 50, File: 100_000, Total: 200_000}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := unzip(data, limits.orDefaults())
		if err != nil {
			if code := fault.CodeOf(err); code != fault.PackageInvalid && code != fault.PackageLimit {
				t.Fatal(err)
			}
			return
		}
		total := 0
		for name, text := range files {
			if strings.HasPrefix(name, "/") || strings.Contains(name, "..") && strings.Contains("/"+name+"/", "/../") {
				t.Fatalf("a way out: %q", name)
			}
			total += len(text)
		}
		if total > 200_000 || len(files) > 50 {
			t.Fatalf("%d bytes in %d files", total, len(files))
		}
		_, _ = Load(files)
	})
}

func FuzzLoad(f *testing.F) {
	s := sample()
	f.Add([]byte(s["bmad.json"]), []byte(s["workflow.graph.json"]), []byte(s["agents.json"]), []byte(s["workflow.md"]), []byte(s["steps/ask.md"]))
	f.Fuzz(func(t *testing.T, manifest, graph, agents, workflow, step []byte) {
		files := make(map[string][]byte)
		for name, text := range s {
			files[name] = []byte(text)
		}
		files["bmad.json"], files["workflow.graph.json"], files["agents.json"], files["workflow.md"], files["steps/ask.md"] = manifest, graph, agents, workflow, step
		p, err := Load(files)
		if err != nil {
			if code := fault.CodeOf(err); code != fault.PackageInvalid && code != fault.ClassicPackage {
				t.Fatal(err)
			}
			return
		}
		for _, w := range p.Workflows {
			for _, n := range w.Graph.Nodes {
				if _, ok := w.Steps[n.ID]; !ok {
					t.Fatalf("node %q has no step", n.ID)
				}
			}
		}
	})
}
