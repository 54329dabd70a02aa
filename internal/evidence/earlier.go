package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
)

// Earlier versions kept claims in files NUMBER.claims, a record after the other
// and at the end a seal if the file was whole on disk. A record is, numbers
// little-endian: CRC-32C of all that follows, length of all that follows that,
// version, expiry in Unix ms (8 bytes), hash (32), length of the principal (2),
// the principal, the request id.
const (
	earlierSuffix = ".claims"
	earlierSeal   = "aibridge claims\n"
	earlierHead   = 4 + 4
	earlierFixed  = 1 + 8 + 32 + 2
)

// earlierClaims reads the claims of an earlier version, whose files may be missing.
func earlierClaims(dir string, life time.Duration) (claims []commands.Claim, err error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: claims of an earlier version: %w", err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), earlierSuffix) {
			continue
		}
		path := filepath.Join(dir, f.Name())
		info, err := f.Info()
		if err == nil && time.Since(info.ModTime()) >= doubt {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("evidence: claims of an earlier version: %w", err)
		}
		found, err := readEarlier(data)
		if err != nil && time.Since(info.ModTime()) < life {
			return nil, fmt.Errorf("evidence: %s: %w; move the file away to start without the claims in it, whose commands might then run twice", path, err)
		}
		claims = append(claims, found...)
	}
	return claims, nil
}

// readEarlier reads one file. A record that was cut off is passed over, unless another
// follows it.
func readEarlier(data []byte) (claims []commands.Claim, err error) {
	data, sealed := bytes.CutSuffix(data, []byte(earlierSeal))
	for at := 0; at < len(data); {
		c, size, ok := cutEarlier(data[at:])
		if ok {
			claims, at = append(claims, c), at+size
			continue
		}
		for next := at + 1; next < len(data); next++ {
			if _, _, ok := cutEarlier(data[next:]); ok {
				sealed = true
			}
		}
		if sealed {
			return claims, fmt.Errorf("offset %d: %w", at, errBadRecord)
		}
		return claims, nil
	}
	return claims, nil
}

func cutEarlier(data []byte) (c commands.Claim, size int, ok bool) {
	if len(data) < earlierHead+earlierFixed {
		return c, 0, false
	}
	length := int(binary.LittleEndian.Uint32(data[4:]))
	if length < earlierFixed || length > len(data)-earlierHead {
		return c, 0, false
	}
	size = earlierHead + length
	body := data[earlierHead:size]
	principal := int(binary.LittleEndian.Uint16(body[earlierFixed-2:]))
	if crc32.Checksum(data[4:size], castagnoli) != binary.LittleEndian.Uint32(data) || body[0] != 1 || principal > len(body)-earlierFixed {
		return c, 0, false
	}
	c.Expires = time.UnixMilli(int64(binary.LittleEndian.Uint64(body[1:])))
	copy(c.Hash[:], body[9:])
	texts := body[earlierFixed:]
	c.Principal, c.RequestID = string(texts[:principal]), string(texts[principal:])
	return c, size, true
}
