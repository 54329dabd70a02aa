package servertls

import (
	"crypto/tls"
	"errors"
	"os"
	"sync"
	"time"
)

// files are a server certificate and its key, which may be renewed
// while the bridge runs.
type files struct {
	cert, key string

	mu     sync.Mutex
	pair   *tls.Certificate
	stamp  [2]time.Time // of the files that pair was read from
	looked time.Time
}

// lookEvery is the interval at which the files are looked at.
const lookEvery = 10 * time.Second

// get is the certificate. When the files cannot be read, or do not belong
// together because one of them is still to be replaced, the old one stays.
func (f *files) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pair != nil && time.Since(f.looked) < lookEvery {
		return f.pair, nil
	}
	f.looked = time.Now()
	stamp, err := f.stamps()
	if err == nil && (f.pair == nil || stamp != f.stamp) {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(f.cert, f.key); err == nil {
			f.pair, f.stamp = &pair, stamp
		}
	}
	if f.pair == nil {
		return nil, err
	}
	return f.pair, nil
}

func (f *files) stamps() ([2]time.Time, error) {
	cert, err := os.Stat(f.cert)
	key, err2 := os.Stat(f.key)
	if err = errors.Join(err, err2); err != nil {
		return [2]time.Time{}, err
	}
	return [2]time.Time{cert.ModTime(), key.ModTime()}, nil
}
