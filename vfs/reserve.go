package vfs

import "context"

// A Reserve is the room that a disk keeps free.
type Reserve interface {
	// Check fails if nothing new may be stored.
	Check() error
	// Beyond is the number of bytes that may be stored before the reserve is reached; -1
	// if that is not known.
	Beyond() int64
}

// Reserved are contents of files that leave the disk its reserve.
func Reserved(blobs Blobs, disk Reserve) Blobs { return reservedBlobs{blobs, disk} }

type reservedBlobs struct {
	Blobs
	disk Reserve
}

// New implements [Blobs].
func (b reservedBlobs) New(ctx context.Context) (Blob, error) {
	if err := b.disk.Check(); err != nil {
		return nil, err
	}
	blob, err := b.Blobs.New(ctx)
	if err != nil {
		return nil, err
	}
	return reservedBlob{blob, b.disk}, nil
}

// Room implements [Blobs].
func (b reservedBlobs) Room() int64 { return b.disk.Beyond() }

type reservedBlob struct {
	Blob
	disk Reserve
}

// Write implements [io.Writer].
func (b reservedBlob) Write(p []byte) (int, error) {
	if err := b.disk.Check(); err != nil {
		return 0, err
	}
	return b.Blob.Write(p)
}
