package audit

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/internal/smalldisk"
)

// TestALineThatAFullDiskCutsOffSpoilsNoOther fills the disk when there is room
// for some of a line.
func TestALineThatAFullDiskCutsOffSpoilsNoOther(t *testing.T) {
	smalldisk.Run(t, 4<<20, func(t *testing.T, d *smalldisk.Disk) {
		path := filepath.Join(d.Dir, "spool")
		s, _, err := openSpool(path)
		if err != nil {
			t.Fatal(err)
		}
		write := func(n int) {
			s.add(fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, n, bytes.Repeat([]byte("x"), 3000)))
			s.write()
		}
		write(1)
		d.Fill(t)
		if write(2); s.fail == nil {
			t.Fatal("the disk has room for all of it")
		}
		d.Free(t)
		write(3)
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		again, left, err := openSpool(path)
		if err != nil {
			t.Fatal(err)
		}
		defer again.close()
		if len(left.entries) != 2 || left.damaged != 0 || !bytes.HasPrefix(left.entries[1], []byte(`{"n":3,`)) {
			t.Errorf("%d entries, %d damaged", len(left.entries), left.damaged)
		}
	})
}
