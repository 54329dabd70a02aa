package password

import (
	"cmp"
	"crypto/pbkdf2"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// A Hash is a password as mosquitto_passwd stores it: $6$ (SHA-512, salted once)
// or $7$ (PBKDF2 with SHA-512).
type Hash struct {
	iterations int // 0 for $6$
	salt, sum  []byte
}

// The most work that a line of the file may ask for at each attempt, and the
// least that is safe against reading it: a salt.
const (
	mostIterations = 1_000_000
	leastSalt      = 8
	mostSum        = 128
)

var (
	errOtherHash  = errors.New("a hash of a kind that is not known here: mosquitto_passwd writes $6$ and $7$; set the password anew with mosquitto_passwd -H sha512-pbkdf2")
	errBrokenHash = errors.New("the hash is not as mosquitto_passwd writes it")
)

// ParseHash reads a hash.
func ParseHash(text string) (Hash, error) {
	parts := strings.Split(text, "$")
	if len(parts) < 2 || parts[0] != "" {
		return Hash{}, errors.New("there is a password in the clear, or none; hash the file with mosquitto_passwd -U")
	}
	var h Hash
	var salt, sum string
	switch {
	case parts[1] == "6" && len(parts) == 4:
		salt, sum = parts[2], parts[3]
	case parts[1] == "7" && len(parts) == 5:
		n, err := strconv.Atoi(parts[2])
		if err != nil || n < 1 || n > mostIterations {
			return Hash{}, errBrokenHash
		}
		h.iterations, salt, sum = n, parts[3], parts[4]
	case parts[1] == "6", parts[1] == "7":
		return Hash{}, errBrokenHash
	default:
		return Hash{}, errOtherHash
	}
	var err, err2 error
	h.salt, err = base64.StdEncoding.DecodeString(salt)
	h.sum, err2 = base64.StdEncoding.DecodeString(sum)
	if err != nil || err2 != nil || len(h.salt) < leastSalt || len(h.sum) < sha512.Size || len(h.sum) > mostSum || h.iterations == 0 && len(h.sum) != sha512.Size {
		return Hash{}, errBrokenHash
	}
	return h, nil
}

// cheaper orders hashes by the cost of a check.
func (h Hash) cheaper(other Hash) int {
	return cmp.Or(cmp.Compare(h.iterations, other.iterations), cmp.Compare(len(h.sum), len(other.sum)))
}

// Matches reports whether the hash is of a password.
func (h Hash) Matches(password string) bool {
	sum := make([]byte, 0, sha512.Size)
	if h.iterations == 0 {
		d := sha512.New()
		d.Write([]byte(password))
		d.Write(h.salt)
		sum = d.Sum(sum)
	} else {
		var err error
		if sum, err = pbkdf2.Key(sha512.New, password, h.salt, h.iterations, len(h.sum)); err != nil {
			return false
		}
	}
	return subtle.ConstantTimeCompare(sum, h.sum) == 1
}
