package direct

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// A greeting is the first message of either side of a line: the dialling side sends its
// bridge and epoch, and the other side answers with its own epoch, or with the reason
// of a refusal.
type greeting struct {
	epoch uint64
	text  string // id of the dialling bridge; of the answer, the reason of a refusal, "" for none
}

const (
	greetingVersion = 1
	mostText        = 255 // bytes of an id or a reason
)

// An otherVersion is the error of a greeting in another version of the protocol.
type otherVersion byte

func (v otherVersion) Error() string {
	return fmt.Sprintf("it speaks version %d of direct lines, and this bridge version %d", byte(v), greetingVersion)
}

// append encodes the greeting: version, epoch, and the text behind its length.
func (g greeting) append(dst []byte) []byte {
	text := g.text[:min(len(g.text), mostText)]
	dst = binary.LittleEndian.AppendUint64(append(dst, greetingVersion), g.epoch)
	return append(append(dst, byte(len(text))), text...)
}

// readGreeting reads one, and not a byte behind it.
func readGreeting(from io.Reader) (g greeting, err error) {
	var head [10]byte
	if _, err := io.ReadFull(from, head[:1]); err != nil {
		return g, err
	}
	if head[0] != greetingVersion {
		return g, otherVersion(head[0])
	}
	if _, err := io.ReadFull(from, head[1:]); err != nil {
		return g, err
	}
	text := make([]byte, head[9])
	if _, err := io.ReadFull(from, text); err != nil {
		return g, err
	}
	return greeting{binary.LittleEndian.Uint64(head[1:]), string(text)}, nil
}

// certified is the name that a bridge has in its certificate. Ids may have
// characters that host names have not.
func certified(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16]) + ".bridge.aibridge"
}

// A frame on a line is its length in four bytes, least significant first, and its
// content. An empty frame is a beat: a sign of life of its sender.
const (
	mostFrame = 64 << 10
	headBytes = 4
)

var errFrame = errors.New("a frame is larger than 64 KiB")
