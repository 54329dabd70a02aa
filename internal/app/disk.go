package app

import (
	"context"

	"github.com/aibridge/aibridge/internal/diskspace"
	"github.com/aibridge/aibridge/vfs"
)

// Disk says how much room a bridge leaves.
type Disk struct {
	ReserveMiB int `yaml:"reserve_mib" doc:"room in MiB below which nothing new is stored, but at most a tenth of the disk; 0 for none"`
}

func defaultDisk() Disk { return Disk{ReserveMiB: 256} }

func (d Disk) check(fail func(format string, args ...any)) {
	if d.ReserveMiB < 0 || d.ReserveMiB > 1<<30 {
		fail("disk.reserve_mib: %d is not within 0 and %d", d.ReserveMiB, 1<<30)
	}
}

// watchDisk begins to watch the room of the data.
func (a *App) watchDisk() {
	folders := []string{a.config.Data}
	if !a.config.inNATS() {
		folders = append(folders, a.config.vfsDir())
	}
	a.disk = diskspace.New(diskspace.Options{
		Folders:    folders,
		Reserve:    int64(a.config.Disk.ReserveMiB) << 20,
		Look:       a.look,
		Log:        a.log,
		Registerer: a.metrics,
	})
	a.run("room on the disk", a.disk.Run)
}

// reservedBlobs are contents of files that leave the disk its reserve.
type reservedBlobs struct {
	vfs.Blobs
	disk *diskspace.Watch
}

// New implements [vfs.Blobs].
func (b reservedBlobs) New(ctx context.Context) (vfs.Blob, error) {
	if err := b.disk.Check(); err != nil {
		return nil, err
	}
	blob, err := b.Blobs.New(ctx)
	if err != nil {
		return nil, err
	}
	return reservedBlob{blob, b.disk}, nil
}

// Room implements [vfs.Blobs].
func (b reservedBlobs) Room() int64 { return b.disk.Beyond() }

type reservedBlob struct {
	vfs.Blob
	disk *diskspace.Watch
}

// Write implements [io.Writer].
func (b reservedBlob) Write(p []byte) (int, error) {
	if err := b.disk.Check(); err != nil {
		return 0, err
	}
	return b.Blob.Write(p)
}
