package mount

import (
	"context"
	"io"
)

// Guard returns a mount that calls may before every read or write, and fails with its
// error.
func Guard(fs FS, may func(ctx context.Context, write bool) error) FS { return &guarded{fs, may} }

type guarded struct {
	fs  FS
	may func(ctx context.Context, write bool) error
}

// Stat implements [FS].
func (g *guarded) Stat(ctx context.Context, path string) (Info, error) {
	if err := g.may(ctx, false); err != nil {
		return Info{}, err
	}
	return g.fs.Stat(ctx, path)
}

// Open implements [FS].
func (g *guarded) Open(ctx context.Context, path string) (io.ReadCloser, Info, error) {
	if err := g.may(ctx, false); err != nil {
		return nil, Info{}, err
	}
	return g.fs.Open(ctx, path)
}

// List implements [FS].
func (g *guarded) List(ctx context.Context, dir string, yield func(Info) bool) error {
	if err := g.may(ctx, false); err != nil {
		return err
	}
	return g.fs.List(ctx, dir, yield)
}

// Walk implements [FS].
func (g *guarded) Walk(ctx context.Context, dir string, enter func(path string) bool, yield func(Entry) bool) error {
	if err := g.may(ctx, false); err != nil {
		return err
	}
	return g.fs.Walk(ctx, dir, enter, yield)
}

// Write implements [FS].
func (g *guarded) Write(ctx context.Context, path string, data []byte, o WriteOptions) error {
	if err := g.may(ctx, true); err != nil {
		return err
	}
	return g.fs.Write(ctx, path, data, o)
}

// Append implements [FS].
func (g *guarded) Append(ctx context.Context, path string, data []byte) error {
	if err := g.may(ctx, true); err != nil {
		return err
	}
	return g.fs.Append(ctx, path, data)
}

// Close closes the guarded mount.
func (g *guarded) Close() error {
	if c, ok := g.fs.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
