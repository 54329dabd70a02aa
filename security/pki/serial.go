package pki

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"math/big"

	"github.com/aibridge/aibridge/protocol"
)

// newSerial makes a serial up: 64 random bits whose first digit is not zero,
// so that it has 16 digits however it is written.
func newSerial() protocol.Serial {
	var b [8]byte
	for b[0] < 0x10 {
		_, _ = rand.Read(b[:]) // never fails
	}
	return protocol.Serial(hex.EncodeToString(b[:]))
}

// number is a serial as it stands in a certificate.
func number(s protocol.Serial) *big.Int {
	n, _ := new(big.Int).SetString(string(s), 16)
	return n
}

// serialOf is the serial of a certificate, false if it is none of the form
// that the authorities issue.
func serialOf(n *big.Int) (protocol.Serial, bool) {
	if n == nil || n.Sign() <= 0 || n.BitLen() > 64 || n.BitLen() <= 60 {
		return "", false
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n.Uint64())
	return protocol.Serial(hex.EncodeToString(b[:])), true
}
