package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/remote"
)

// TestSpeedOfFiles measures how fast a folder is kept the same as files of a
// bridge, over HTTP on loopback, side by side with rsync and cp on the same
// trees and the same disk:
//
//	AIBRIDGE_SPEED=1 go test ./internal/app -run TestSpeedOfFiles -v
//
// Both sides run in this process, so both have to do with the memory shown.
// AIBRIDGE_SPEED=10 measures a tenth.
func TestSpeedOfFiles(t *testing.T) {
	part, err := strconv.Atoi(os.Getenv("AIBRIDGE_SPEED"))
	if err != nil || part < 1 {
		t.Skip("AIBRIDGE_SPEED is not set")
	}
	t.Logf("%d processors, load %s", runtime.NumCPU(), load())
	t.Run("live files", func(t *testing.T) { speedOfLiveFiles(t, 3_000, 100_000/part) })
	t.Run("restored files", func(t *testing.T) { speedOfRestore(t, 30_000/part) })
	if _, err := exec.LookPath("rsync"); err != nil {
		t.Skip("rsync is not installed")
	}
	t.Run("small files", func(t *testing.T) { speedOfSmallFiles(t, 10_000/part) })
	t.Run("unchanged tree", func(t *testing.T) { speedOfUnchangedTree(t, 100_000/part) })
	t.Run("large file", func(t *testing.T) { speedOfLargeFile(t, 1<<30/int64(part)) })
}

func load() string {
	data, _ := os.ReadFile("/proc/loadavg")
	return string(data[:min(len(data), 14)])
}

// syncedTree is an engine between a folder and a new bridge.
func syncedTree(t *testing.T, dir string) *mirror.Engine {
	t.Helper()
	return treeAt(t, bridgetest.Start(t), dir)
}

// treeAt is an engine between a folder and a bridge.
func treeAt(t *testing.T, n *bridgetest.Node, dir string) *mirror.Engine {
	t.Helper()
	files, err := remote.New(remote.Options{URL: n.HTTPURL("/vfs")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	link := mirror.NewBreaker(func(ctx context.Context) error { _, err := files.Usage(ctx); return err }, mirror.BreakerOptions{Timeout: time.Minute})
	engine, err := mirror.Open(mirror.Options{Dir: dir, Remote: mirror.NewRemoteFolder(files, "speed", ""), Breaker: link, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}

// makeTree makes files of 1 KiB, a hundred in a folder.
func makeTree(t *testing.T, dir string, count int) {
	t.Helper()
	content := make([]byte, 1024)
	for i := range count {
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Join(dir, fmt.Sprint("d", i/100)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		copy(content, fmt.Sprintf("file %d", i))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("d", i/100), fmt.Sprint("f", i)), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// timed is the time that something takes, once what was written before is on the
// disk.
func timed(t *testing.T, do func() error) time.Duration {
	t.Helper()
	if err := exec.Command("sync").Run(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

func rsync(args ...string) func() error {
	return exec.Command("rsync", args...).Run
}

func speedOfSmallFiles(t *testing.T, count int) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	makeTree(t, src, count)
	plain := timed(t, rsync("-a", src+"/", filepath.Join(dir, "plain")))
	durable := timed(t, rsync("-a", "--fsync", src+"/", filepath.Join(dir, "durable")))
	engine := syncedTree(t, src)
	ours := timed(t, func() error { return engine.Sync(t.Context()) })
	report(t, engine, count)
	t.Logf("%d files of 1 KiB: %.2fs, %.0f files/s · rsync -a %.2fs (ratio %.2f) · rsync -a --fsync, as durable as this, %.2fs (ratio %.2f)",
		count, ours.Seconds(), float64(count)/ours.Seconds(), plain.Seconds(), plain.Seconds()/ours.Seconds(), durable.Seconds(), durable.Seconds()/ours.Seconds())
}

// speedOfRestore fetches files into an empty folder that another one has sent.
func speedOfRestore(t *testing.T, count int) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	makeTree(t, src, count)
	n := bridgetest.Start(t)
	there, back := treeAt(t, n, src), treeAt(t, n, dst)
	sent := timed(t, func() error { return there.Sync(t.Context()) })
	report(t, there, count)
	ours := timed(t, func() error { return back.Sync(t.Context()) })
	report(t, back, count)
	t.Logf("%d files of 1 KiB: sent in %.2fs, fetched into an empty folder in %.2fs, %.0f files/s",
		count, sent.Seconds(), ours.Seconds(), float64(count)/ours.Seconds())
}

func speedOfUnchangedTree(t *testing.T, count int) {
	dir := t.TempDir()
	src, copied := filepath.Join(dir, "src"), filepath.Join(dir, "copied")
	makeTree(t, src, count)
	if err := rsync("-a", src+"/", copied)(); err != nil {
		t.Fatal(err)
	}
	engine := syncedTree(t, src)
	first := timed(t, func() error { return engine.Sync(t.Context()) })
	report(t, engine, count)
	// What was written the first time is compared once with what is there now.
	second := timed(t, func() error { return engine.Sync(t.Context()) })
	theirs := timed(t, rsync("-a", src+"/", copied))
	ours := timed(t, func() error { return engine.Sync(t.Context()) })
	t.Logf("%d files, nothing changed: %.3fs (first time %.1fs, then %.1fs to list everything) · rsync -a %.3fs (ratio %.2f)",
		count, ours.Seconds(), first.Seconds(), second.Seconds(), theirs.Seconds(), theirs.Seconds()/ours.Seconds())
}

// speedOfLiveFiles writes files into the disk of a Cap of a running bridge, and
// moves a folder of more there.
func speedOfLiveFiles(t *testing.T, written, moved int) {
	n := bridgetest.Start(t)
	files, err := remote.New(remote.Options{URL: n.HTTPURL("/vfs")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	must(t, n.Caller(t, "owner"), "cap.declare", `{"cap_id":"live","cap_name":"Live","skill_id":"owner","sync_enabled":true,"max_members":2}`)
	arrived := func(folder string, count int) func() error {
		return func() error {
			for there := 0; there < count; time.Sleep(time.Duration(count) * 10 * time.Microsecond) {
				there = 0
				for cursor := ""; ; {
					page, next, err := files.List(t.Context(), vfs.MirrorGroup, "live/"+folder, cursor, vfs.MaxLimit, false)
					if err != nil {
						return err
					}
					if there += len(page); next == "" {
						break
					}
					cursor = next
				}
			}
			return nil
		}
	}
	if err := arrived("", 3)(); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(n.Config.Data, "caps", "default", "live", "disk")
	one := timed(t, func() error {
		makeTree(t, filepath.Join(disk, "written"), written)
		return arrived("disk/written/", written)()
	})
	aside := filepath.Join(n.Config.Data, "aside")
	makeTree(t, aside, moved)
	many := timed(t, func() error {
		if err := os.Rename(aside, filepath.Join(disk, "moved")); err != nil {
			return err
		}
		return arrived("disk/moved/", moved)()
	})
	t.Logf("while the bridge runs: %d files written one by one %.2fs, %.0f files/s · %d moved in %.1fs, %.0f files/s",
		written, one.Seconds(), float64(written)/one.Seconds(), moved, many.Seconds(), float64(moved)/many.Seconds())
}

func speedOfLargeFile(t *testing.T, size int64) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	if err := os.Mkdir(src, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(src, "large"))
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.NewChaCha8([32]byte{1})
	buf := make([]byte, 1<<20)
	for range size >> 20 {
		_, _ = dice.Read(buf)
		if _, err := file.Write(buf); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copied")
	theirs := timed(t, exec.Command("sh", "-c", `cp "$1" "$2" && sync "$2"`, "sh", file.Name(), copied).Run)
	engine := syncedTree(t, src)
	peak := watchHeap()
	ours := timed(t, func() error { return engine.Sync(t.Context()) })
	most := peak()
	report(t, engine, 1)
	t.Logf("%d MiB in one file: %.2fs, %.0f MiB/s, at most %d MiB of heap at both ends together · cp and fsync %.2fs (ratio %.2f)",
		size>>20, ours.Seconds(), float64(size>>20)/ours.Seconds(), most>>20, theirs.Seconds(), theirs.Seconds()/ours.Seconds())

	// A byte in the middle changes.
	if file, err = os.OpenFile(file.Name(), os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("changed"), size/2); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	theirs = timed(t, rsync("-a", "--no-whole-file", "--fsync", file.Name(), copied))
	ours = timed(t, func() error { return engine.Sync(t.Context()) })
	report(t, engine, 1)
	t.Logf("7 bytes of it changed: %.2fs · rsync --no-whole-file --fsync %.2fs (ratio %.2f)", ours.Seconds(), theirs.Seconds(), theirs.Seconds()/ours.Seconds())
}

// report fails if not everything is synced.
func report(t *testing.T, engine *mirror.Engine, count int) {
	t.Helper()
	files, _ := engine.Files("", count+1)
	if st := engine.Status(); st.Standing != mirror.Synced || len(files) != count {
		t.Fatalf("%+v, %d files", st, len(files))
	}
}

// watchHeap samples how much memory is in use, until it is asked for the most.
func watchHeap() func() uint64 {
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		var peak uint64
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse+m.StackInuse)
			select {
			case <-ticker.C:
			case <-done:
				most <- peak
				return
			}
		}
	}()
	return func() uint64 { close(done); return <-most }
}
