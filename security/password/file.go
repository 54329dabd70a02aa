package password

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"maps"
	"math/bits"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of the file, which is read whole.
const (
	mostFile  = 64 << 20
	lookEvery = 5 * time.Second
)

// A user is a line of the file.
type user struct {
	hash Hash
	mark string // of the line: a changed password has another
}

// A file has the users of a password file.
type file struct {
	path  string
	users atomic.Pointer[users]
	stamp stamp
}

// users are those of one state of the file.
type users struct {
	named  map[string]user
	hashes []Hash // of all users, by the cost of a check
}

// A stamp identifies a state of the file.
type stamp struct {
	at   time.Time
	size int64
}

// A Fault is a line of a password file that cannot be used.
type Fault struct {
	Line int
	User string // "" if the line has none
	Why  error
}

// Parse reads a password file as mosquitto has it. It returns the users and the
// lines that cannot be used.
func Parse(r io.Reader) (users map[string]Hash, faults []Fault, err error) {
	users = make(map[string]Hash)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, text, ok := strings.Cut(line, ":")
		var hash Hash
		why := errors.New("there is no user name and no hash")
		if ok {
			hash, why = ParseHash(strings.TrimSpace(text))
		}
		if reason := protocol.AgentID("").Rule().Check(name); ok && why == nil && reason != "" {
			why = fmt.Errorf("the user name, which is the id of the client, %s", reason)
		}
		if why == nil && (name == reservedKey || name == reservedToken) {
			why = errors.New("this user name is for keys and tokens of the bridge")
		}
		if why != nil {
			faults = append(faults, Fault{n, name, why})
			continue
		}
		users[name] = hash
	}
	return users, faults, lines.Err()
}

// User names with a meaning of their own, see package security.
const (
	reservedKey   = "apikey"
	reservedToken = "jwt"
)

func openFile(path string, log *slog.Logger) (*file, error) {
	f := &file{path: path}
	if _, err := f.load(log); err != nil {
		return nil, err
	}
	return f, nil
}

// load reads the file if it has changed, and reports whether it had.
func (f *file) load(log *slog.Logger) (changed bool, err error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return false, err
	}
	now := stamp{info.ModTime(), info.Size()}
	if f.users.Load() != nil && now == f.stamp {
		return false, nil
	}
	if now.size > mostFile {
		return false, fmt.Errorf("it has more than %d MiB", mostFile>>20)
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return false, err
	}
	hashes, faults, err := Parse(bytes.NewReader(text))
	if err != nil {
		return false, err
	}
	for _, fault := range faults {
		log.Warn("a line of the password file is not used", "line", fault.Line, "user", fault.User, "reason", fault.Why)
	}
	f.users.Store(newUsers(hashes))
	f.stamp = now
	return true, nil
}

func newUsers(hashes map[string]Hash) *users {
	u := &users{named: make(map[string]user, len(hashes)), hashes: slices.SortedFunc(maps.Values(hashes), Hash.cheaper)}
	for name, hash := range hashes {
		sum := sha256.Sum256(append(append([]byte(name+":"), hash.salt...), hash.sum...))
		u.named[name] = user{hash, hex.EncodeToString(sum[:8])}
	}
	return u
}

// follow reads the file when it changes, until ctx ends. One that cannot be read
// leaves the users as they were.
func (f *file) follow(ctx context.Context, changed func(), log *slog.Logger) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		news, err := f.load(log)
		switch {
		case err != nil && err.Error() != told:
			log.Error("the password file cannot be read: its users stay as they were", "error", err)
			told = err.Error()
		case err == nil:
			told = ""
		}
		if news {
			changed()
		}
	}
}

// nobody is the hash that passwords are checked against while the file has no users.
var nobody = Hash{iterations: 1000, salt: make([]byte, 12), sum: make([]byte, sha512.Size)}

// decoys is the seed by which unknown user names are given a hash.
var decoys = maphash.MakeSeed()

// decoy is the hash that is checked for an unknown user: that of some user, always
// the same for a name. So a check takes as long as for a known user, and even with
// hashes of several costs it reveals nothing: each cost is as frequent among decoys
// as among users.
func (u *users) decoy(name string) Hash {
	if len(u.hashes) == 0 {
		return nobody
	}
	place, _ := bits.Mul64(maphash.String(decoys, name), uint64(len(u.hashes)))
	return u.hashes[place]
}

// verify is the user, if the password is right. known is whether there is one.
func (f *file) verify(name, password string) (u user, known, right bool) {
	all := f.users.Load()
	u, known = all.named[name]
	if !known {
		all.decoy(name).Matches(password)
		return u, false, false
	}
	return u, true, u.hash.Matches(password)
}
