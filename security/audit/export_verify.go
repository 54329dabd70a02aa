package audit

import (
	"bufio"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// An ExportReport says whether an export is as a bridge has signed it, and holds
// the findings of that bridge.
type ExportReport struct {
	OK       bool            `json:"ok"`          // the file and all chains in it are whole
	Bridge   string          `json:"bridge_id"`   // which made it
	At       time.Time       `json:"exported_at"` // when
	Key      string          `json:"signed_by"`   // the public key of that bridge, as the file says
	Entries  uint64          `json:"entries"`     // that are in the file
	Chains   []ChainReport   `json:"chains"`      // as the bridge found them
	Silent   []string        `json:"silent,omitempty"`
	Problems []ExportProblem `json:"problems"` // of the file, the first 100
}

// An ExportProblem is something that is wrong with an export.
type ExportProblem struct {
	Line uint64 `json:"line,omitempty"` // 0 for the file as a whole
	Text string `json:"text"`
}

// maxExportLine is more than a line of an export is long.
const maxExportLine = 256 << 10

// VerifyExport reads an export to its end. One of the keys must have signed it;
// without any the key is taken that the file names, which proves only that the file
// is whole. The heads are ends of chains that were noted elsewhere, by bridge, ""
// for that which made the export.
func VerifyExport(r io.Reader, keys []ed25519.PublicKey, heads map[string][]Head) (ExportReport, error) {
	v := &exportVerifier{keys: keys, heads: heads, seen: make(map[string]map[uint64]Head)}
	v.report.Problems, v.report.Chains = []ExportProblem{}, []ChainReport{}
	in := bufio.NewReaderSize(r, maxExportLine)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			v.end()
			return v.report, nil
		case errors.Is(err, io.EOF):
			v.number++
			v.problem("it ends within a line")
			v.end()
			return v.report, nil
		case errors.Is(err, bufio.ErrBufferFull):
			v.number++
			v.problem("it is too long for a line of an export: the file is none, or was changed")
			v.end()
			return v.report, nil
		case err != nil:
			return ExportReport{}, err
		}
		v.line(line[:len(line)-1])
	}
}

// ParseExportKey reads a public key as [Key.ExportKey] tells it.
func ParseExportKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("a key of exports is 44 characters of base64, as aibridge audit export shows it")
	}
	return key, nil
}

// An exportVerifier reads an export line by line. Behind a line that was changed it goes
// on from the hash that the line has, so that each change is reported once.
type exportVerifier struct {
	keys   []ed25519.PublicKey
	heads  map[string][]Head
	seen   map[string]map[uint64]Head // those of the noted heads' sequences, by bridge
	report ExportReport

	number uint64 // of the line that is read
	hash   [sha256.Size]byte
	ended  bool // the line that says how many there are was read
	signed bool // the signature was read
}

func (v *exportVerifier) problem(format string, args ...any) {
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, ExportProblem{v.number, fmt.Sprintf(format, args...)})
	}
}

func (v *exportVerifier) line(line []byte) {
	v.number++
	switch {
	case v.signed:
		v.problem("it stands behind the signature")
	case v.ended:
		v.signature(line)
	default:
		v.chained(line)
	}
}

// chained reads a line that has a hash.
func (v *exportVerifier) chained(line []byte) {
	hash, rest, ok := cutLine(line)
	if !ok {
		v.problem("it is no line of an export, or its hash was changed")
		return
	}
	fits := hashLine(v.hash, rest) == hash
	if !fits {
		v.problem("it is not what was exported, or lines before it are missing, were put in or stand elsewhere")
	}
	v.hash = hash
	var said exportLine
	if err := json.Unmarshal(append([]byte{'{'}, rest...), &said); err != nil {
		v.problem("it cannot be read: %v", err)
		return
	}
	v.take(&said)
}

// take notes the content of a line.
func (v *exportVerifier) take(said *exportLine) {
	switch {
	case said.Begin != nil:
		if said.Begin.Format != exportFormat {
			v.problem("its format is %q, and this program reads %q", said.Begin.Format, exportFormat)
		}
		v.report.Bridge, v.report.At, v.report.Key = said.Begin.Bridge, said.Begin.At, said.Begin.Key
		if key, err := ParseExportKey(said.Begin.Key); err == nil && len(v.keys) == 0 {
			v.keys = []ed25519.PublicKey{key}
		}
	case said.Entry != nil:
		v.report.Entries++
	case said.Head != nil:
		v.head(said.Head)
	case said.Chain != nil:
		v.report.Chains = append(v.report.Chains, *said.Chain)
	case said.End != nil:
		v.ended, v.report.Silent = true, said.End.Silent
		if said.End.Lines != v.number-1 {
			v.problem("%d lines were exported, and there are %d before this one", said.End.Lines, v.number-1)
		}
	}
}

// head keeps a head that may have to be compared with one that was noted.
func (v *exportVerifier) head(at *exportHead) {
	head, err := ParseHead(at.Head)
	if err != nil {
		v.problem("%v", err)
		return
	}
	for _, noted := range v.noted(at.Bridge) {
		if noted.Seq != head.Seq {
			continue
		}
		if v.seen[at.Bridge] == nil {
			v.seen[at.Bridge] = make(map[uint64]Head)
		}
		v.seen[at.Bridge][head.Seq] = head
	}
}

// noted are the heads that were noted elsewhere of a bridge.
func (v *exportVerifier) noted(bridge string) []Head {
	if bridge == v.report.Bridge {
		return slices.Concat(v.heads[bridge], v.heads[""])
	}
	return v.heads[bridge]
}

// signature reads the last line.
func (v *exportVerifier) signature(line []byte) {
	v.signed = true
	var said struct {
		Signature string `json:"signature"`
	}
	err := json.Unmarshal(line, &said)
	if err != nil || string(line) != fmt.Sprintf("{\"signature\":%q}", said.Signature) {
		v.problem("it is no signature")
		return
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(said.Signature)
	if err != nil || !slices.ContainsFunc(v.keys, func(k ed25519.PublicKey) bool { return ed25519.Verify(k, signed(v.hash), signature) }) {
		v.problem("the signature was not made with this key, or not for this file")
	}
}

// end reports the faults that show only at the end.
func (v *exportVerifier) end() {
	v.number = 0
	if !v.signed {
		v.problem("it is cut off: the signature is missing")
	}
	for _, bridge := range slices.Sorted(maps.Keys(v.heads)) {
		v.compare(cmp.Or(bridge, v.report.Bridge), v.heads[bridge])
	}
	v.report.OK = len(v.report.Problems) == 0 && !slices.ContainsFunc(v.report.Chains, func(c ChainReport) bool { return !c.OK })
}

// compare holds the heads that were noted elsewhere against those in the file.
func (v *exportVerifier) compare(bridge string, noted []Head) {
	i := slices.IndexFunc(v.report.Chains, func(c ChainReport) bool { return c.Bridge == bridge })
	if i < 0 {
		v.problem("there is no chain of bridge %s, of which a head was noted", bridge)
		return
	}
	for _, head := range noted {
		switch found, ok := v.seen[bridge][head.Seq]; {
		case head.Seq > v.report.Chains[i].Last:
			v.problem("entries %d to %d of bridge %s are missing at the end", v.report.Chains[i].Last+1, head.Seq, bridge)
		case head.Seq < v.report.Chains[i].First: // which retention has taken
		case !ok || found != head:
			v.problem("entry %d of bridge %s, or one before it, is not what it was when its hash was noted", head.Seq, bridge)
		}
	}
}
