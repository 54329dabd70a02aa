package audit

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// An export is a file of the trails of all bridges. The file and the public key of the
// bridge that made it are enough to verify it. It is lines of JSON:
//
//	{"hash":"…","begin":{…}}    which bridge made it, when, with which key
//	{"hash":"…","entry":{…}}    an entry, chain by chain
//	{"hash":"…","head":{…}}     the head of the chain there: SEQ:HASH, as it is noted elsewhere
//	{"hash":"…","chain":{…}}    behind the entries of a chain: what the bridge found when it verified it
//	{"hash":"…","end":{…}}      how many lines there are before this one
//	{"signature":"…"}           Ed25519, base64, over a domain and the hash of the line before
//
// The hash of a line is SHA-256, in lower case, over a domain, the hash of the line
// before it, zeros for the first, and what stands behind the comma after its own
// hash up to the end of the line.
const (
	exportFormat    = "aibridge audit export 1"
	lineDomain      = "aibridge audit export line\x00"
	signatureDomain = "aibridge audit export\x00"

	linePrefix = `{"hash":"`
	lineInfix  = `",`
	linesHead  = len(linePrefix) + 2*sha256.Size + len(lineInfix)
)

// An exportLine is one of an export, without its hash.
type exportLine struct {
	Begin *exportBegin `json:"begin,omitempty"`
	Entry *Entry       `json:"entry,omitempty"`
	Head  *exportHead  `json:"head,omitempty"`
	Chain *ChainReport `json:"chain,omitempty"`
	End   *exportEnd   `json:"end,omitempty"`
}

type exportBegin struct {
	Format string    `json:"format"`
	Bridge string    `json:"bridge_id"`
	At     time.Time `json:"at"`
	Key    string    `json:"key"`
}

type exportHead struct {
	Bridge string `json:"bridge_id"`
	Head   string `json:"head"`
}

type exportEnd struct {
	Lines  uint64   `json:"lines"`
	Silent []string `json:"silent,omitempty"`
}

// signer signs exports. It is derived from the secret of the key and reveals
// nothing of it, so that a verifier of exports cannot make one.
func (k *Key) signer() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k.exports) }

// ExportKey is the public key of the exports that are signed with this key.
func (k *Key) ExportKey() string {
	return base64.StdEncoding.EncodeToString(k.signer().Public().(ed25519.PublicKey))
}

// Export writes the trails of all bridges, up to now, and the findings of this
// bridge's verification of them. Sealed arguments stay sealed.
func (s *Service) Export(ctx context.Context, w io.Writer) error {
	verdict, err := s.VerifyAll(ctx, nil, VerifyParams{})
	if err != nil {
		return err
	}
	if verdict.Chains == nil { // the bridge is alone
		verdict.Chains = []ChainReport{{Bridge: s.trail.o.BridgeID, State: ChainLive, Report: verdict.Report}}
	}
	chains, err := s.all(ctx)
	if err != nil {
		return err
	}
	logs := make(map[string]Chain)
	for _, c := range chains {
		logs[c.Bridge] = c
	}
	key := s.trail.o.Key
	out := &exporter{to: bufio.NewWriterSize(w, 64<<10)}
	out.add(exportLine{Begin: &exportBegin{exportFormat, s.trail.o.BridgeID, s.trail.o.Now().UTC().Round(0), key.ExportKey()}})
	for _, report := range verdict.Chains {
		if c := logs[report.Bridge]; c.Log != nil {
			if err := out.chain(ctx, c, report.Last); err != nil {
				return err
			}
		}
		out.add(exportLine{Chain: &report})
	}
	return out.close(key, verdict.Silent)
}

// An exporter writes the lines of an export, and chains them.
type exporter struct {
	to    *bufio.Writer
	hash  [sha256.Size]byte
	lines uint64
	err   error // the first
}

// chain writes the entries of a chain up to the last that was verified.
func (x *exporter) chain(ctx context.Context, c Chain, last uint64) error {
	return c.Log.Read(ctx, func(_ uint64, data []byte) error {
		for _, g := range decodeBlock(data).groups {
			own := c.Key != nil && g.chain == c.Key.chain
			if own && g.last() > last {
				continue // it came later
			}
			for i, s := range g.entries {
				e, _ := decode(s, g.first+uint64(i)) // unreadable entries are in the verdict
				e.Bridge = c.Bridge
				x.add(exportLine{Entry: &e})
				if head, ok := g.headAt(e.Seq); ok && own {
					x.add(exportLine{Head: &exportHead{c.Bridge, head.String()}})
				}
			}
		}
		return errors.Join(x.err, ctx.Err())
	})
}

// add writes a line.
func (x *exporter) add(line exportLine) {
	text, err := json.Marshal(line)
	if x.err = errors.Join(x.err, err); x.err != nil {
		return
	}
	rest := text[1:] // behind the brace
	x.hash = hashLine(x.hash, rest)
	x.lines++
	_, x.err = fmt.Fprintf(x.to, "%s%x%s%s\n", linePrefix, x.hash, lineInfix, rest)
}

// close ends the export with the signature of all of it.
func (x *exporter) close(key *Key, silent []string) error {
	x.add(exportLine{End: &exportEnd{x.lines, silent}})
	if x.err != nil {
		return x.err
	}
	signature := ed25519.Sign(key.signer(), signed(x.hash))
	if _, err := fmt.Fprintf(x.to, "{\"signature\":%q}\n", base64.StdEncoding.EncodeToString(signature)); err != nil {
		return err
	}
	return x.to.Flush()
}

// hashLine is the hash of a line behind another.
func hashLine(previous [sha256.Size]byte, rest []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write([]byte(lineDomain))
	h.Write(previous[:])
	h.Write(rest)
	h.Sum(sum[:0])
	return sum
}

// signed are the bytes that a signature is over.
func signed(hash [sha256.Size]byte) []byte { return append([]byte(signatureDomain), hash[:]...) }

// cutLine splits a line into its hash and the part that is hashed.
func cutLine(line []byte) (hash [sha256.Size]byte, rest []byte, ok bool) {
	if len(line) <= linesHead || string(line[:len(linePrefix)]) != linePrefix || string(line[linesHead-len(lineInfix):linesHead]) != lineInfix {
		return hash, nil, false
	}
	text := line[len(linePrefix) : linesHead-len(lineInfix)]
	if _, err := hex.Decode(hash[:], text); err != nil || hex.EncodeToString(hash[:]) != string(text) {
		return hash, nil, false
	}
	return hash, line[linesHead:], true
}
