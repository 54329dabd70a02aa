package claimlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/aibridge/aibridge/commands"
)

const (
	recordVersion = 1
	headerSize    = 4 + 4                 // CRC and length
	fixedSize     = 1 + 8 + 32 + 2        // version, expiry, hash, length of the principal
	maxText       = math.MaxUint16        // of principal and request id each
	maxPayload    = fixedSize + 2*maxText // of a record, its header not counted
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errBadRecord = errors.New("not a record, or a damaged one")

// A newerError says that a record is whole but from a later version.
type newerError struct{ version byte }

func (e newerError) Error() string {
	return fmt.Sprintf("written by a newer bridge: record version %d, this one knows %d", e.version, recordVersion)
}

func recordSize(c commands.Claim) int {
	return headerSize + fixedSize + len(c.Principal) + len(c.RequestID)
}

// appendRecord encodes a claim whose texts are not longer than maxText.
func appendRecord(dst []byte, c commands.Claim) []byte {
	begin := len(dst)
	dst = append(dst, make([]byte, headerSize)...) // filled in at the end
	dst = append(dst, recordVersion)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Expires.UnixMilli()))
	dst = append(dst, c.Hash[:]...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(c.Principal)))
	dst = append(dst, c.Principal...)
	dst = append(dst, c.RequestID...)
	record := dst[begin:]
	binary.LittleEndian.PutUint32(record[4:], uint32(len(record)-headerSize))
	binary.LittleEndian.PutUint32(record, crc32.Checksum(record[4:], castagnoli))
	return dst
}

// cutRecord decodes the record that data begins with and returns its size.
func cutRecord(data []byte) (c commands.Claim, size int, err error) {
	if len(data) < headerSize {
		return c, 0, errBadRecord
	}
	length := int(binary.LittleEndian.Uint32(data[4:]))
	if length < 1 || length > maxPayload || length > len(data)-headerSize {
		return c, 0, errBadRecord
	}
	size = headerSize + length
	if crc32.Checksum(data[4:size], castagnoli) != binary.LittleEndian.Uint32(data) {
		return c, 0, errBadRecord
	}
	c, err = decodePayload(data[headerSize:size])
	return c, size, err
}

func decodePayload(p []byte) (c commands.Claim, err error) {
	if version := p[0]; version > recordVersion {
		return c, newerError{version}
	}
	if p[0] != recordVersion || len(p) < fixedSize {
		return c, errBadRecord
	}
	c.Expires = time.UnixMilli(int64(binary.LittleEndian.Uint64(p[1:])))
	copy(c.Hash[:], p[9:])
	texts, principal := p[fixedSize:], int(binary.LittleEndian.Uint16(p[fixedSize-2:]))
	if principal > len(texts) {
		return c, errBadRecord
	}
	c.Principal, c.RequestID = string(texts[:principal]), string(texts[principal:])
	return c, nil
}

// readRecords calls each for the claims that data begins with. It returns the
// bytes they take and, if those are not all, what is wrong with the next.
func readRecords(data []byte, each func(commands.Claim)) (good int, err error) {
	for good < len(data) {
		c, size, err := cutRecord(data[good:])
		if err != nil {
			return good, err
		}
		each(c)
		good += size
	}
	return good, nil
}

// torn reports whether what data begins with can be a write that was cut short:
// nothing behind it is a record, and it is not a record of its full length with
// other content.
func torn(data []byte) bool {
	if len(data) >= headerSize {
		length := int(binary.LittleEndian.Uint32(data[4:]))
		// What a file system had no time to write is zeros.
		if length >= fixedSize && length <= len(data)-headerSize && data[headerSize+length-1] != 0 {
			return false
		}
	}
	for at := 1; at < len(data); at++ {
		var newer newerError
		if _, _, err := cutRecord(data[at:]); err == nil || errors.As(err, &newer) {
			return false
		}
	}
	return true
}
