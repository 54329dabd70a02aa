//go:build unix

package natsd

import (
	"syscall"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/smalldisk"
)

func TestServersAreOpenedAnewWhenThereAreDescriptorsAgain(t *testing.T) {
	smalldisk.Run(t, 64<<20, func(t *testing.T, d *smalldisk.Disk) {
		s := start(t, Options{Dir: d.Dir})
		flow := newWriter(t, s, "flow")
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		none := limit
		none.Cur = 3
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
			t.Fatal(err)
		}
		eventually.Holds(t, "a server notices", func() bool { return flow.write(1<<20) != nil && s.Check() != nil })
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		eventually.Holds(t, "everything is stored again", func() bool { return s.Check() == nil && flow.write(1000) == nil })
		flow.whole(t)
	})
}
