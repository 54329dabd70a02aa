package vfstest

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

func TestMemoryKeepsThePromises(t *testing.T) {
	Run(t, func(*testing.T) vfs.Files { return NewMemory() })
}

func TestFaultyFilesWithoutFaultKeepThePromises(t *testing.T) {
	Run(t, func(*testing.T) vfs.Files { return NewFaulty(NewMemory()) })
}

func TestFaultsShow(t *testing.T) {
	memory := NewMemory()
	files := NewFaulty(memory)
	ctx := t.Context()
	put := func() error {
		_, err := files.Put(ctx, g, "f", strings.NewReader("content"+time.Now().String()), unknown)
		return err
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	for fault, want := range map[Fault]protocol.Code{
		Outage: protocol.VFSUnavailable, Full: protocol.NoSpace, Denied: protocol.VFSPermission,
		Cut: protocol.VFSUnavailable, Forgets: protocol.VFSUnavailable, Slow: "",
	} {
		files.Fail(fault)
		if err := put(); protocol.CodeOf(err) != want {
			t.Errorf("fault %d: %v, want %q", fault, err, want)
		}
	}
	files.Fail(Hang)
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := files.Stat(short, g, "f"); protocol.CodeOf(err) != protocol.VFSUnavailable {
		t.Errorf("hanging: %v", err)
	}
	for _, fault := range []Fault{Cut, Garbage} {
		files.Fail(fault)
		r, f, err := files.Open(ctx, g, "f", 0)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err == nil && int64(len(data)) == f.Size && strings.HasPrefix(string(data), "content") {
			t.Errorf("fault %d does not show", fault)
		}
	}
	files.Fail(Healthy)
	memory.Wipe()
	if _, err := files.Stat(ctx, g, "f"); protocol.CodeOf(err) != protocol.FileNotFound {
		t.Errorf("after a wipe: %v", err)
	}
}

func TestMemoryHasAQuota(t *testing.T) {
	memory := NewMemory()
	memory.Quota = 10
	put := func(path, text string) error {
		_, err := memory.Put(t.Context(), g, path, strings.NewReader(text), unknown)
		return err
	}
	if err := put("a", "12345678"); err != nil {
		t.Fatal(err)
	}
	if err := put("b", "123"); protocol.CodeOf(err) != protocol.NoSpace {
		t.Fatalf("over the quota: %v", err)
	}
	if err := put("a", "1"); err != nil {
		t.Fatal(err)
	}
	if err := put("b", "123"); err != nil {
		t.Fatal(err)
	}
}
