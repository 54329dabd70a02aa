package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/aibridge/aibridge/commands"
)

// claimSchema is the version of records of claims, their first byte.
const claimSchema = 1

// A record of claims is the schema's byte and the claims. A claim is, lengths
// and numbers as varints: length and bytes of the principal, length and bytes
// of the request id, 32 bytes of hash, expiry in Unix milliseconds.

func beginClaims() []byte { return append(make([]byte, 0, 256), claimSchema) }

func appendClaim(record []byte, c commands.Claim) []byte {
	record = binary.AppendUvarint(record, uint64(len(c.Principal)))
	record = append(record, c.Principal...)
	record = binary.AppendUvarint(record, uint64(len(c.RequestID)))
	record = append(record, c.RequestID...)
	record = append(record, c.Hash[:]...)
	return binary.AppendVarint(record, c.Expires.UnixMilli())
}

// claimSize is an upper bound of the bytes that appendClaim adds.
func claimSize(c commands.Claim) int {
	return len(c.Principal) + len(c.RequestID) + len(c.Hash) + 3*binary.MaxVarintLen64
}

var errClaimCut = errors.New("record of claims is cut off")

// claimsOf yields the claims of a record, and an error as the last if there is
// something wrong with it.
func claimsOf(record []byte) iter.Seq2[commands.Claim, error] {
	return func(yield func(commands.Claim, error) bool) {
		if len(record) == 0 || record[0] == 0 {
			yield(commands.Claim{}, errors.New("not a record of claims"))
			return
		}
		if record[0] == sharedSchema {
			sharedClaims(record, yield)
			return
		}
		if record[0] > claimSchema {
			yield(commands.Claim{}, fmt.Errorf("written by a newer bridge: claim version %d, this one knows up to %d", record[0], sharedSchema))
			return
		}
		for rest := record[1:]; len(rest) > 0; {
			var c commands.Claim
			var err error
			if c, rest, err = cutClaim(rest); err != nil {
				yield(commands.Claim{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// sharedClaims yields the claims of a record of bridges that worked together.
func sharedClaims(record []byte, yield func(commands.Claim, error) bool) {
	_, items := itemsOf(record)
	for it, err := range items {
		if (err != nil || it.kind == itemClaim) && !yield(it.claim, err) {
			return
		}
	}
}

// cutClaim reads the claim that data begins with.
func cutClaim(data []byte) (c commands.Claim, rest []byte, err error) {
	if c.Principal, data, err = cutString(data); err != nil {
		return c, nil, err
	}
	if c.RequestID, data, err = cutString(data); err != nil {
		return c, nil, err
	}
	n := copy(c.Hash[:], data)
	if n < len(c.Hash) {
		return c, nil, errClaimCut
	}
	millis, size := binary.Varint(data[n:])
	if size <= 0 {
		return c, nil, errClaimCut
	}
	c.Expires = time.UnixMilli(millis)
	return c, data[n+size:], nil
}

func cutString(data []byte) (s string, rest []byte, err error) {
	length, size := binary.Uvarint(data)
	if size <= 0 || length > uint64(len(data)-size) {
		return "", nil, errClaimCut
	}
	end := size + int(length)
	return string(data[size:end]), data[end:], nil
}
