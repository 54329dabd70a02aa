package mount

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/protocol"
)

func TestPathsThatAreNoneAreViolations(t *testing.T) {
	m := Mounts{Project: Memory(nil), Pkg: Memory(nil)}
	for _, path := range []string{
		"", "/", "/etc/passwd", "etc/passwd", "./a", "../a", "C:\\x", "C:/x", "\\\\host\\share", "~/x", "file:///etc/passwd",
		"@", "@/", "@other/a", "@Project/a", "@project\\a", "project/a", "@@project/a", "@state/workflow.md", "%40project/a",
		"@project/..", "@project/../a", "@project/a/../b", "@project/a/..", "@pkg/../../x", "@project/a\x00b", "@project/\x00",
		"@project/a\nb", "@project/a:b", "@project/a::$DATA", `@project/a\b`, "@project/...", "@project/a.", "@project/a ", "@project/NUL",
		"@project/con.txt", "@project/dir/COM1", "@project/lpt¹.log", "@project/a\u202eb", "@project/\xff", "@project/" + strings.Repeat("x", 256),
		"@project/" + strings.Repeat("x/", 600),
	} {
		_, err := m.Resolve(path)
		if fault.CodeOf(err) != fault.Sandbox {
			t.Errorf("%q: %v", path, err)
		}
		if e := fault.As(err); len(e.Message) > 2*MaxPath+200 {
			t.Errorf("the message has %d bytes", len(e.Message))
		}
	}
	for path, want := range map[string]string{
		"@project": "@project", "@project/": "@project", "@project//a/./b/": "@project/a/b", "@pkg/steps/é 1.md": "@pkg/steps/é 1.md", "@project/.env": "@project/.env", "@project/a..b": "@project/a..b",
	} {
		p, err := m.Resolve(path)
		if err != nil || p.String() != want {
			t.Errorf("%q is %v, %v", path, p, err)
		}
	}
	for _, path := range []string{"@pkg/a", "@pkg", "@project", "@project/"} {
		if _, err := m.ResolveWritable(path); fault.CodeOf(err) != fault.Sandbox {
			t.Errorf("%q may be written: %v", path, err)
		}
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("@project/a/../b")
	f.Add("@state//./x")
	m := Mounts{Project: Memory(nil), Pkg: Memory(nil), State: Memory(nil)}
	f.Fuzz(func(t *testing.T, path string) {
		p, err := m.Resolve(path)
		if err != nil {
			if fault.CodeOf(err) != fault.Sandbox {
				t.Fatal(err)
			}
			return
		}
		if p.Path != "" && !filepath.IsLocal(p.Path) {
			t.Fatalf("%q is %q", path, p.Path)
		}
		if again, err := m.Resolve(p.String()); err != nil || again.Path != p.Path {
			t.Fatalf("%q is %q, and that %q, %v", path, p.Path, again.Path, err)
		}
	})
}

// fakeGroup is a group of the VFS in memory.
type fakeGroup struct {
	mu      sync.Mutex
	files   map[string][]byte
	version map[string]uint64
	page    int
	race    func() // called between a Stat and a Put
}

func (g *fakeGroup) Stat(_ context.Context, path string) (GroupFile, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text, ok := g.files[path]
	if !ok {
		return GroupFile{}, protocol.Errorf(protocol.FileNotFound, "group %q has no file %q", "secret-group", path)
	}
	return GroupFile{Path: path, Version: g.version[path], Size: int64(len(text)), SHA256: SumOf(text)}, nil
}

func (g *fakeGroup) Open(ctx context.Context, path string) (io.ReadCloser, GroupFile, error) {
	f, err := g.Stat(ctx, path)
	if err != nil {
		return nil, f, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return io.NopCloser(bytes.NewReader(g.files[path])), f, nil
}

func (g *fakeGroup) List(_ context.Context, prefix, cursor string) (files []GroupFile, next string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var paths []string
	for path := range g.files {
		if strings.HasPrefix(path, prefix) && path > cursor {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	if len(paths) > g.page {
		paths = paths[:g.page]
		next = paths[g.page-1]
	}
	for _, path := range paths {
		files = append(files, GroupFile{Path: path, Size: int64(len(g.files[path]))})
	}
	return files, next, nil
}

func (g *fakeGroup) Put(_ context.Context, path string, data []byte, ifVersion *uint64) (GroupFile, error) {
	if g.race != nil {
		race := g.race
		g.race = nil
		race()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if ifVersion != nil && *ifVersion != g.version[path] {
		return GroupFile{}, protocol.Errorf(protocol.RevisionConflict, "file %q has version %d", path, g.version[path])
	}
	g.files[path] = bytes.Clone(data)
	g.version[path]++
	return GroupFile{Path: path, Version: g.version[path]}, nil
}

// backends are all kinds of mounts, with the same files.
func backends(t *testing.T) map[string]FS {
	t.Helper()
	files := map[string][]byte{"a.md": []byte("a"), "b/c.md": []byte("cc"), "b/d/e.md": []byte("eee"), ".hidden/x": []byte("x"), "b-2": []byte("b")}
	dir := t.TempDir()
	g := &fakeGroup{files: map[string][]byte{"elsewhere/z.md": []byte("z")}, version: map[string]uint64{}, page: 2}
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, text, 0o644); err != nil {
			t.Fatal(err)
		}
		g.files["runs/1/"+name], g.version["runs/1/"+name] = text, 7
	}
	folder, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	return map[string]FS{"memory": Memory(files), "group": NewGroup(g, "runs/1"), "folder": folder}
}

func read(t *testing.T, f FS, path string) (string, error) {
	t.Helper()
	r, info, err := f.Open(t.Context(), path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if int64(len(text)) != info.Size {
		t.Errorf("%s has %d bytes, not %d", path, len(text), info.Size)
	}
	return string(text), err
}

func list(t *testing.T, f FS, dir string) (names []string) {
	t.Helper()
	if err := f.List(t.Context(), dir, func(i Info) bool {
		name := i.Path
		if i.Dir {
			name += "/"
		}
		names = append(names, name)
		return true
	}); err != nil {
		t.Errorf("list %q: %v", dir, err)
	}
	return names
}

func TestAllMountsReadAlike(t *testing.T) {
	for name, f := range backends(t) {
		t.Run(name, func(t *testing.T) {
			if text, err := read(t, f, "b/d/e.md"); text != "eee" || err != nil {
				t.Errorf("read %q, %v", text, err)
			}
			if got := list(t, f, ""); !slices.Equal(got, []string{".hidden/", "a.md", "b/", "b-2"}) && !slices.Equal(got, []string{".hidden/", "a.md", "b-2", "b/"}) {
				t.Errorf("the root holds %v", got)
			}
			if got := list(t, f, "b"); !slices.Equal(got, []string{"b/c.md", "b/d/"}) {
				t.Errorf("b holds %v", got)
			}
			var walked []string
			buf := make([]byte, 0, 2)
			if err := f.Walk(t.Context(), "", func(dir string) bool { return dir != ".hidden" }, func(e Entry) bool {
				text, err := e.Read(t.Context(), buf, 2)
				if err != nil {
					t.Error(err)
				}
				walked = append(walked, e.Path+"="+string(text))
				return true
			}); err != nil {
				t.Error(err)
			}
			slices.Sort(walked)
			if want := []string{"a.md=a", "b-2=b", "b/c.md=cc", "b/d/e.md=ee"}; !slices.Equal(walked, want) {
				t.Errorf("walked %v", walked)
			}
			walked = nil
			if err := f.Walk(t.Context(), "b/c.md", nil, func(e Entry) bool { walked = append(walked, e.Path); return false }); err != nil || len(walked) != 1 {
				t.Errorf("walked %v, %v", walked, err)
			}
			for _, path := range []string{"nobody", "b/nobody", "a.md/x", "b", ""} {
				if _, err := read(t, f, path); fault.CodeOf(err) != fault.NotFound {
					t.Errorf("read %q: %v", path, err)
				}
			}
			for _, dir := range []string{"nobody", "a.md", "b/c.md"} {
				err := f.List(t.Context(), dir, func(Info) bool { return true })
				if fault.CodeOf(err) != fault.NotFound {
					t.Errorf("list %q: %v", dir, err)
				}
			}
			if info, err := f.Stat(t.Context(), "b/d"); err != nil || !info.Dir {
				t.Errorf("stat: %v, %v", info, err)
			}
			if _, err := f.Stat(t.Context(), "b/x"); fault.CodeOf(err) != fault.NotFound {
				t.Errorf("stat: %v", err)
			}
		})
	}
}

func TestWritableMountsWriteAlike(t *testing.T) {
	for name, f := range backends(t) {
		if name == "memory" {
			if err := f.Write(t.Context(), "a.md", nil, WriteOptions{}); fault.CodeOf(err) != fault.Sandbox {
				t.Errorf("memory was written: %v", err)
			}
			continue
		}
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			sum, other := SumOf([]byte("a")), SumOf([]byte("b"))
			for _, c := range []struct {
				path string
				o    WriteOptions
				code fault.Code
			}{
				{"a.md", WriteOptions{Match: &other}, fault.PreconditionFailed},
				{"a.md", WriteOptions{Absent: true}, fault.PreconditionFailed},
				{"new/deep/file.md", WriteOptions{Match: &sum}, fault.PreconditionFailed},
				{"a.md", WriteOptions{Match: &sum}, ""},
				{"new/deep/file.md", WriteOptions{Absent: true}, ""},
				{"a.md", WriteOptions{}, ""},
			} {
				before, beforeErr := read(t, f, c.path)
				err := f.Write(ctx, c.path, []byte("written "+c.path), c.o)
				if fault.CodeOf(err) != c.code {
					t.Errorf("%s: %v", c.path, err)
				}
				after, afterErr := read(t, f, c.path)
				if c.code != "" && (before != after || (beforeErr == nil) != (afterErr == nil)) {
					t.Errorf("%s became %q, %v", c.path, after, afterErr)
				}
				if c.code == "" && after != "written "+c.path {
					t.Errorf("%s is %q, %v", c.path, after, afterErr)
				}
			}
			for range 3 {
				if err := f.Append(ctx, "logs/x.jsonl", []byte("line\n")); err != nil {
					t.Error(err)
				}
			}
			if text, _ := read(t, f, "logs/x.jsonl"); text != "line\nline\nline\n" {
				t.Errorf("appended %q", text)
			}
		})
	}
}

func TestAGroupNoticesWhoComesInBetween(t *testing.T) {
	g := &fakeGroup{files: map[string][]byte{"p/a": []byte("1")}, version: map[string]uint64{"p/a": 1}, page: 10}
	f := NewGroup(g, "p/")
	sum := SumOf([]byte("1"))
	change := func() { _, _ = g.Put(t.Context(), "p/a", []byte("2"), nil) }
	g.race = change
	if err := f.Write(t.Context(), "a", []byte("3"), WriteOptions{Match: &sum}); fault.CodeOf(err) != fault.PreconditionFailed {
		t.Errorf("the write came through: %v", err)
	}
	g.race = change
	if err := f.Append(t.Context(), "a", []byte("+")); err != nil || string(g.files["p/a"]) != "2+" {
		t.Errorf("appended %q, %v", g.files["p/a"], err)
	}
	_, _, err := f.Open(t.Context(), "nobody")
	if err == nil || strings.Contains(err.Error(), "secret-group") || strings.Contains(err.Error(), "p/") {
		t.Errorf("the error names the group: %v", err)
	}
}

func TestAFolderIsNeverLeft(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	outside, dir := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(secret, []byte("secret"), 0o600))
	must(os.WriteFile(filepath.Join(dir, "inside"), []byte("inside"), 0o600))
	for name, to := range map[string]string{"abs": secret, "rel": "../" + filepath.Base(outside) + "/secret", "dir": outside, "loop": "loop", "good": "inside", "gone": "nobody"} {
		must(os.Symlink(to, filepath.Join(dir, name)))
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err == nil {
		defer socket.Close()
	}
	f, err := OpenPrivateFolder(dir)
	must(err)
	defer f.Close()
	for _, path := range []string{"abs", "rel", "dir/secret", "loop", "socket"} {
		_, err := read(t, f, path)
		if code := fault.CodeOf(err); code != fault.Sandbox && !(path == "socket" && err != nil) {
			t.Errorf("read %s: %v", path, err)
		}
		err = f.Write(t.Context(), path, []byte("evil"), WriteOptions{})
		if fault.CodeOf(err) != fault.Sandbox {
			t.Errorf("write %s: %v", path, err)
		}
		if err := f.Append(t.Context(), path, []byte("evil")); fault.CodeOf(err) != fault.Sandbox {
			t.Errorf("append %s: %v", path, err)
		}
		if strings.Contains(err.Error(), outside) || strings.Contains(err.Error(), dir) {
			t.Errorf("the error names a place of the host: %v", err)
		}
	}
	if err := f.List(t.Context(), "dir", func(Info) bool { return true }); fault.CodeOf(err) != fault.Sandbox {
		t.Errorf("list: %v", err)
	}
	if err := f.Walk(t.Context(), "dir", nil, func(Entry) bool { return true }); fault.CodeOf(err) != fault.Sandbox {
		t.Errorf("walk: %v", err)
	}
	if text, err := os.ReadFile(secret); string(text) != "secret" || err != nil {
		t.Errorf("the secret is %q, %v", text, err)
	}
	if text, err := read(t, f, "good"); text != "inside" || err != nil {
		t.Errorf("a link that stays inside: %q, %v", text, err)
	}
	if err := f.Write(t.Context(), "good", []byte("x"), WriteOptions{}); fault.CodeOf(err) != fault.Sandbox {
		t.Errorf("a link was written: %v", err)
	}
	if _, err := read(t, f, "gone"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a link to nothing: %v", err)
	}
	if got := list(t, f, ""); !slices.Equal(got, []string{"inside"}) {
		t.Errorf("listed %v", got)
	}
}

func TestWritesLeaveNothingBehindAndKeepModes(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenPrivateFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.WriteFile(filepath.Join(dir, "run.sh"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"run.sh", "new.md"} {
		if err := f.Write(t.Context(), name, []byte("x"), WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Write(t.Context(), "new.md/x", []byte("x"), WriteOptions{}); err == nil {
		t.Error("a file became a folder")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), "folder", []byte("x"), WriteOptions{}); fault.CodeOf(err) != fault.PreconditionFailed {
		t.Errorf("a folder was replaced: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("there are %v, %v", entries, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for name, want := range map[string]os.FileMode{"run.sh": 0o755, "new.md": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
}

func TestWritersWithFoldersOfTheirOwnWaitForEachOther(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("folders cannot be locked there")
	}
	dir := t.TempDir()
	var wg sync.WaitGroup
	const writers, rounds = 4, 25
	for range writers {
		f, err := OpenFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer f.Close()
			for range rounds {
				increment(t, f)
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(filepath.Join(dir, "count"))
	if err != nil || len(text) != writers*rounds {
		t.Errorf("counted %d, %v", len(text), err)
	}
}

// increment makes a file one byte longer, however often others come first.
func increment(t *testing.T, f FS) {
	for {
		o := WriteOptions{Absent: true}
		text, err := read(t, f, "count")
		if err == nil {
			sum := SumOf([]byte(text))
			o = WriteOptions{Match: &sum}
		}
		err = f.Write(t.Context(), "count", []byte(text+"x"), o)
		if err == nil {
			return
		}
		if fault.CodeOf(err) != fault.PreconditionFailed {
			t.Error(err)
			return
		}
	}
}

func TestOneOfManyWritersWins(t *testing.T) {
	for name, f := range backends(t) {
		if name == "memory" {
			continue
		}
		sum := SumOf([]byte("a"))
		var wg sync.WaitGroup
		won := make(chan string, 20)
		for i := range 20 {
			wg.Go(func() {
				text := strings.Repeat("x", i)
				if f.Write(t.Context(), "a.md", []byte(text), WriteOptions{Match: &sum}) == nil {
					won <- text
				}
			})
		}
		wg.Wait()
		close(won)
		if text, _ := read(t, f, "a.md"); len(won) != 1 || text != <-won {
			t.Errorf("%s: %d writers won", name, len(won))
		}
	}
}
