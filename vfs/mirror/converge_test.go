package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// TestBothEndsConvergeAndNothingIsLost edits files on two devices and in the
// VFS at random, while the VFS fails in every way it can, engines are killed,
// journals lose their end and clocks jump. In the end everybody must have the
// same files, and every content that nobody replaced or deleted knowing it
// must be there, or be kept as the loser of a conflict that was reported.
//
// AIBRIDGE_CONVERGE=10m runs it that long, with seeds that are printed; with
// AIBRIDGE_SEED it begins at one of them.
func TestBothEndsConvergeAndNothingIsLost(t *testing.T) { stories(t, converge) }

// stories tells a story many times, with other dice.
func stories(t *testing.T, tell func(*rapid.T)) {
	duration, err := time.ParseDuration(os.Getenv("AIBRIDGE_CONVERGE"))
	if err != nil {
		rapid.Check(t, tell)
		return
	}
	seed, err := strconv.ParseUint(os.Getenv("AIBRIDGE_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().Unix())
	}
	first := seed
	for deadline := time.Now().Add(duration); time.Now().Before(deadline) && !t.Failed(); seed++ {
		if err := flag.Set("rapid.seed", strconv.FormatUint(seed, 10)); err != nil {
			t.Fatal(err)
		}
		rapid.MakeCheck(tell)(t)
	}
	t.Logf("%d stories of each of the seeds %d to %d", 100, first, seed-1)
}

// TestOneWriterIsNeverOverruled is the same with edits at one end only: on one
// of the devices, or in the VFS. Whatever goes wrong on the way, what it wrote
// last must be at all ends, without a conflict and without a deleted file that
// returns. A VFS that loses its files, or lists something else than it has, is
// no fault on the way; nor is a disk that loses what it has synced.
func TestOneWriterIsNeverOverruled(t *testing.T) {
	stories(t, oneWriter)
}

func FuzzBothEndsConverge(f *testing.F) { f.Fuzz(rapid.MakeFuzz(converge)) }

// A story is one run of the test above.
type story struct {
	t       *rapid.T
	vfs     *fake
	rule    Rule
	devices []*device
	now     time.Time
	dice    *rand.Rand // for what goes wrong inside calls

	mu     sync.Mutex
	mode   string
	tokens int
	live   map[string]bool // contents that nobody replaced knowing them
	lossy  bool            // a conflict may have gone unnoticed: the VFS's versions still have both contents
	inside bool            // an edit is being made inside a call
	calm   bool            // no answer is lost any more

	before map[string]string // contents by those that replaced them knowing them
	gone   map[string]string // contents that were removed, by device and path
	lied   bool              // the VFS has sent garbage, or lost what it had

	// The only one who edits: the number of a device, or of none for the VFS.
	writer int
	wanted map[string]string // what it wrote; nil if everybody edits
}

type device struct {
	name    string
	dir     string
	breaker *Breaker
	engine  *Engine
}

var (
	// Some are where others need a folder, and some differ only in case.
	storyPaths = []string{"a", "A", "b", "d", "d/x", "d/y", "D/y", "e/f", "e/f/g"}
	storyModes = []string{"good", "down", "flaky", "slow to answer", "hanging", "garbage"}
)

func converge(t *rapid.T) {
	s := newStory(t)
	defer s.end()
	for range rapid.IntRange(5, 60).Draw(t, "steps") {
		s.step()
	}
	s.settle()
	s.check()
}

func oneWriter(t *rapid.T) {
	s := newStory(t)
	defer s.end()
	s.writer = rapid.IntRange(0, len(s.devices)).Draw(t, "writer")
	s.wanted = make(map[string]string)
	for range rapid.IntRange(5, 60).Draw(t, "steps") {
		s.step()
	}
	s.settle()
	s.check()
	if got := s.vfs.all(); !maps.Equal(got, s.wanted) {
		t.Fatalf("the writer has\n%v, the VFS\n%v, %v", short(s.wanted), short(got), s.history())
	}
	for _, d := range s.devices {
		if losers := d.engine.Losers(); len(losers) > 0 {
			t.Fatalf("%s: a conflict with itself: %+v, %v", d.name, losers, s.history())
		}
	}
}

func newStory(t *rapid.T) *story {
	s := &story{before: make(map[string]string), gone: make(map[string]string), t: t, vfs: newFake(), now: time.Unix(1_800_000_000, 0), live: make(map[string]bool), mode: "good",
		rule: rapid.SampledFrom([]Rule{RemoteWins, LocalWins, LatestWins, KeepBoth}).Draw(t, "rule"),
		dice: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "dice"), 0))}
	s.vfs.now = s.clock
	s.vfs.fault, s.vfs.garbage = s.fault, s.garbage
	for _, name := range []string{"one", "two"} {
		dir, err := os.MkdirTemp("", "converge")
		if err != nil {
			t.Fatal(err)
		}
		d := &device{name: name, dir: dir}
		s.devices = append(s.devices, d)
		s.open(d)
	}
	return s
}

func (s *story) end() {
	for _, d := range s.devices {
		_ = d.engine.Close()
		_ = os.RemoveAll(d.dir)
	}
}

func (s *story) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *story) open(d *device) {
	d.breaker = NewBreaker(func(ctx context.Context) error {
		_, err := s.vfs.Instance(ctx)
		return err
	}, BreakerOptions{Timeout: 2 * time.Millisecond})
	engine, err := Open(Options{
		Dir: d.dir, Remote: s.vfs, Breaker: d.breaker, Rule: s.rule, Origin: d.name, Workers: 2,
		Patience: 5 * time.Millisecond, KeepAge: -1, Now: s.clock, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatalf("open %s: %v", d.name, err)
	}
	d.engine = engine
}

// step lets something happen.
func (s *story) step() {
	t := s.t
	d := rapid.SampledFrom(s.devices).Draw(t, "device")
	path := rapid.SampledFrom(storyPaths).Draw(t, "path")
	what := rapid.SampledFrom([]string{
		"sync", "sync", "sync", "write", "write", "remove", "engine write", "engine remove",
		"move", "write there", "remove there", "mode", "good again", "crash", "wipe", "clock", "time passes",
	}).Draw(t, "step")
	if s.wanted != nil {
		d, what = s.byWriter(d, what)
	}
	switch what {
	case "sync":
		_ = d.breaker.Probe(t.Context())
		_ = d.engine.Sync(t.Context())
	case "write":
		s.write(d, path)
	case "remove":
		s.remove(d, path)
	case "move":
		s.move(d, path, rapid.SampledFrom(storyPaths).Draw(t, "to"))
	case "engine write":
		s.engineWrite(d, path)
	case "engine remove":
		defer s.alone()()
		before, _ := s.visible(d, path)
		if _, err := d.engine.Remove(t.Context(), path); err == nil {
			s.replaced(before)
			s.want(path, "")
		}
	case "write there":
		s.writeThere(path)
	case "remove there":
		if before, there := s.vfs.content(path); there {
			s.replaced(before)
			s.vfs.remove(path)
			s.want(path, "")
		}
	case "mode":
		s.setMode(rapid.SampledFrom(storyModes).Draw(t, "mode"))
	case "good again":
		s.setMode("good")
	case "crash":
		s.crash(d, rapid.IntRange(0, 300).Draw(t, "lost bytes"))
	case "wipe":
		s.wipe(rapid.Bool().Draw(t, "tells"))
	case "clock":
		s.advance(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "jump")))
	case "time passes":
		s.advance(10 * time.Minute)
	}
}

// byWriter has edits made by the writer, where it is.
func (s *story) byWriter(d *device, what string) (*device, string) {
	there := s.writer == len(s.devices)
	if !there && !slices.Contains([]string{"sync", "crash"}, what) {
		d = s.devices[s.writer]
	}
	switch {
	case what == "wipe":
		what = "sync"
	case there && (what == "write" || what == "engine write" || what == "move"):
		what = "write there"
	case there && (what == "remove" || what == "engine remove"):
		what = "remove there"
	case !there && what == "write there":
		what = "write"
	case !there && what == "remove there":
		what = "remove"
	}
	return d, what
}

// want notes what the writer wrote, "" for a deletion.
func (s *story) want(path, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.wanted == nil:
	case content == "":
		delete(s.wanted, path)
	default:
		s.wanted[path] = content
	}
}

func (s *story) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *story) setMode(mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
}

// roll throws the dice.
func (s *story) roll(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dice.IntN(n) == 0
}

// fault is the fault of a call. Now and then somebody edits a file in
// the middle of one.
func (s *story) fault(call string, after bool) error {
	s.mu.Lock()
	mode := s.mode
	edit := !s.inside && s.dice.IntN(12) == 0
	lost := after && !s.calm && s.dice.IntN(8) == 0
	var at int
	if edit {
		s.inside, at = true, s.dice.IntN(len(s.devices)*len(storyPaths)*2)
	}
	s.mu.Unlock()
	if edit {
		d, path, what := s.devices[at%len(s.devices)], storyPaths[at/2%len(storyPaths)], "remove"
		if at >= len(s.devices)*len(storyPaths) {
			what = "write"
		}
		if s.wanted != nil {
			d, what = s.byWriter(d, what)
		}
		switch what {
		case "write":
			s.write(d, path)
		case "remove":
			s.remove(d, path)
		} // in the VFS others edit between calls
		s.mu.Lock()
		s.inside = false
		s.mu.Unlock()
	}
	if lost {
		return errDown
	}
	switch mode {
	case "down":
		return errDown
	case "flaky":
		if s.roll(5) {
			return errDown
		}
	case "slow to answer": // everything happens, but the answer gets lost
		if after {
			return errDown
		}
	case "hanging":
		if s.roll(3) {
			for _, d := range s.devices {
				d.breaker.open(errTooSlow) // as a check beside it would find
			}
			return errHang
		}
	}
	return nil
}

func (s *story) garbage(call string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted != nil && (call == "list" || call == "stat") {
		return false
	}
	lies := s.mode == "garbage" && s.dice.IntN(3) == 0
	s.lied = s.lied || lies
	return lies
}

func (s *story) token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
	if s.wanted != nil && s.dice.IntN(4) == 0 { // contents that return
		return []string{"on", "off"}[s.dice.IntN(2)]
	}
	token := fmt.Sprintf("content %d %s", s.tokens, strings.Repeat("x", s.dice.IntN(3)))
	if s.dice.IntN(8) == 0 {
		token += strings.Repeat("large", smallFile/5+1)
	}
	s.live[token] = true
	return token
}

// replaced notes that somebody replaced or deleted a content on purpose.
func (s *story) replaced(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, token)
}

func (s *story) visible(d *device, path string) (string, bool) {
	data, err := os.ReadFile(filepath.Join(d.dir, path))
	return string(data), err == nil
}

// write is the way of a program on the device: it takes the old file away and
// moves a new one to its place. So it knows for sure what it replaces, whatever
// the engine does at the same time.
func (s *story) write(d *device, path string) {
	token := s.token()
	s.mu.Lock()
	s.tokens++
	side := filepath.Join(d.dir, tree.Private, "side "+strconv.Itoa(s.tokens))
	s.mu.Unlock()
	if err := os.WriteFile(side, []byte(token), 0o644); err != nil {
		s.t.Fatal(err)
	}
	defer os.Remove(side)
	at := filepath.Join(d.dir, path)
	for range 100 {
		s.makeWay(d, path)
		s.remove(d, path)
		s.mu.Lock()
		s.before[token] = s.gone[d.name+" "+path]
		s.mu.Unlock()
		if os.MkdirAll(filepath.Dir(at), 0o755) != nil {
			continue // the engine was quicker
		}
		if os.Link(side, at) == nil {
			s.want(path, token)
			return
		}
	}
	s.replaced(token)
}

// makeWay removes what is in the way of a file, as a program does that wants to
// write it. A single writer also knows what some system would take for it.
func (s *story) makeWay(d *device, path string) {
	for other := range s.tree(d) {
		above, below := strings.HasPrefix(path, other+"/"), strings.HasPrefix(other, path+"/")
		if above || below || s.wanted != nil && other != path && twins(other, path) {
			s.remove(d, other)
		}
	}
	var dirs []string
	_ = filepath.WalkDir(filepath.Join(d.dir, path), func(at string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, at)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir) // unless there is something new in it
	}
}

// twins reports whether some system takes paths for one, or one for the
// folder of the other.
func twins(a, b string) bool {
	var names vfs.Collisions
	names.Add(a)
	return names.Check(b) != nil
}

func (s *story) remove(d *device, path string) {
	side := filepath.Join(d.dir, tree.Private, "aside "+strings.ReplaceAll(path, "/", "-"))
	if info, err := os.Lstat(filepath.Join(d.dir, path)); err != nil || !info.Mode().IsRegular() {
		return
	}
	if os.Rename(filepath.Join(d.dir, path), side) != nil {
		return
	}
	data, err := os.ReadFile(side)
	if err != nil { // it has become a folder
		_ = os.Rename(side, filepath.Join(d.dir, path))
		return
	}
	s.replaced(string(data))
	s.mu.Lock()
	s.gone[d.name+" "+path] = string(data)
	s.mu.Unlock()
	s.want(path, "")
	_ = os.Remove(side)
}

// move gives a file another name, as a program does.
func (s *story) move(d *device, from, to string) {
	if from == to || twins(from, to) {
		return
	}
	s.makeWay(d, to)
	s.remove(d, to)
	side := filepath.Join(d.dir, tree.Private, "moved "+strings.ReplaceAll(from, "/", "-"))
	at := filepath.Join(d.dir, to)
	if info, err := os.Lstat(filepath.Join(d.dir, from)); err != nil || !info.Mode().IsRegular() || os.Rename(filepath.Join(d.dir, from), side) != nil {
		return
	}
	defer os.Remove(side)
	data, err := os.ReadFile(side)
	if err != nil { // it has become a folder
		_ = os.Rename(side, filepath.Join(d.dir, from))
		return
	}
	s.want(from, "")
	for range 100 {
		if os.MkdirAll(filepath.Dir(at), 0o755) == nil && os.Link(side, at) == nil {
			s.want(to, string(data))
			return
		}
		s.makeWay(d, to)
		s.remove(d, to)
	}
	s.replaced(string(data))
}

func (s *story) engineWrite(d *device, path string) {
	defer s.alone()()
	if s.wanted != nil {
		s.makeWay(d, path)
	}
	token := s.token()
	before, _ := s.visible(d, path)
	if _, err := d.engine.Write(s.t.Context(), path, strings.NewReader(token)); err != nil {
		s.replaced(token) // was not acknowledged
		return
	}
	s.want(path, token)
	s.replaced(before)
}

// alone keeps a single writer from editing in the middle of its own edit: which
// of both comes last nobody could tell.
func (s *story) alone() (again func()) {
	if s.wanted == nil {
		return func() {}
	}
	set := func(inside bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inside = inside
	}
	set(true)
	return func() { set(false) }
}

func (s *story) writeThere(path string) {
	for other, content := range s.vfs.all() {
		if other != path && twins(other, path) {
			if s.wanted == nil {
				return // refused
			}
			s.vfs.remove(other)
			s.replaced(content)
			s.want(other, "")
		}
	}
	token := s.token()
	before, _ := s.vfs.content(path)
	s.vfs.set(path, token)
	s.before[token] = before
	s.want(path, token)
	s.replaced(before)
}

// crash kills an engine. The end of its journal may be lost with the power.
func (s *story) crash(d *device, lost int) {
	saved := d.engine.state.log.Saved()
	if err := d.engine.Close(); err != nil {
		s.t.Fatalf("close: %v", err)
	}
	name := filepath.Join(d.dir, journalName)
	if s.wanted == nil {
		saved = 0 // the disk does not even keep what it said it would
	}
	if info, err := os.Stat(name); err == nil && lost < 200 {
		if err := os.Truncate(name, min(max(info.Size()-int64(lost), saved), info.Size())); err != nil {
			s.t.Fatal(err)
		}
		s.lossy = true
	}
	s.open(d)
}

// wipe has the VFS lose everything. What only the VFS had is lost. If it does
// not tell, its new versions may look like successors of the old ones, so that
// nobody can know that what it had before is worth keeping.
func (s *story) wipe(tells bool) {
	var kept []string
	for _, d := range s.devices {
		for _, content := range s.below(d.dir) {
			kept = append(kept, content)
		}
	}
	s.vfs.mu.Lock()
	var had []string
	for _, versions := range s.vfs.files {
		for _, v := range versions {
			had = append(had, string(v.content))
		}
	}
	instance := s.vfs.instance
	s.vfs.mu.Unlock()
	s.mu.Lock()
	s.lossy = s.lossy || !tells
	for token := range s.live {
		if !slices.Contains(kept, token) || !tells && slices.Contains(had, token) {
			delete(s.live, token)
		}
	}
	s.mu.Unlock()
	if tells {
		instance += "'"
	}
	s.vfs.wipe(instance)
	s.lied = true // what was agreed on with the old one means nothing to the new one
}

// below is every content in a folder, kept ones too.
func (s *story) below(dir string) map[string]string {
	m := make(map[string]string)
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "journal" && e.Name() != "lock" {
			data, _ := os.ReadFile(path)
			m[path] = string(data)
		}
		return nil
	})
	return m
}

// apply gives everybody the time to come to rest.
func (s *story) settle() {
	s.setMode("good")
	s.mu.Lock()
	s.inside, s.calm = true, true // no more edits, no more lost answers
	s.mu.Unlock()
	// A dozen rounds are enough, if the machine is not too slow for the patience
	// of the links.
	for round, deadline := 0, time.Now().Add(time.Minute); round < 12 || round < 1000 && time.Now().Before(deadline); round++ {
		s.advance(10 * time.Minute)
		calm := true
		for _, d := range s.devices {
			if d.breaker.Probe(s.t.Context()) != nil {
				calm = false
				continue
			}
			if err := d.engine.Sync(s.t.Context()); err != nil {
				s.t.Fatalf("sync of %s: %v", d.name, err)
			}
			calm = calm && d.engine.Status().Standing == Synced
		}
		if calm && s.equal() {
			return
		}
	}
}

func (s *story) equal() bool {
	there := s.vfs.all()
	for _, d := range s.devices {
		here := s.tree(d)
		for path := range here {
			if s.wanted == nil && s.refused(d, path, there) {
				delete(here, path)
			}
		}
		if len(here) != len(there) {
			return false
		}
		for path, content := range here {
			if there[path] != content {
				return false
			}
		}
	}
	return true
}

// refused reports whether a file is left alone because of one that has taken its
// name in the VFS but for the case, and is said to be.
func (s *story) refused(d *device, path string, there map[string]string) bool {
	if _, ok := there[path]; ok {
		return false
	}
	said := false
	for at := path; at != "."; at, _ = split(at) {
		f, ok := d.engine.File(at)
		said = said || ok && f.Standing == Failed && (strings.Contains(f.Reason, "case") || strings.Contains(f.Reason, "beside"))
	}
	for other := range there {
		if said && twins(strings.ToLower(other), strings.ToUpper(path)) {
			return true
		}
	}
	return false
}

// tree is the content of a device's folder.
func (s *story) tree(d *device) map[string]string {
	m := make(map[string]string)
	for path, content := range s.below(d.dir) {
		rel, _ := filepath.Rel(d.dir, path)
		if rel = filepath.ToSlash(rel); !strings.HasPrefix(rel, tree.Private) {
			m[rel] = content
		}
	}
	return m
}

func (s *story) check() {
	if !s.equal() {
		for _, d := range s.devices {
			files, _ := d.engine.Files("", 100)
			s.t.Logf("%s: %+v %+v", d.name, files, d.engine.state.open)
		}
		s.t.Fatalf("no agreement:\nVFS %v\none %v %+v\ntwo %v %+v", short(s.vfs.all()),
			short(s.tree(s.devices[0])), s.devices[0].engine.Status(), short(s.tree(s.devices[1])), s.devices[1].engine.Status())
	}
	found := make(map[string]bool)
	reported := make(map[string]bool)
	for _, d := range s.devices {
		for _, content := range s.below(d.dir) {
			found[content] = true
		}
		for _, l := range d.engine.Losers() {
			reported[hex.EncodeToString(l.SHA256[:])] = true
			reported[fmt.Sprintf("%s@%d", l.Path, l.Version)] = true // garbled, perhaps, but there
		}
		if st := d.engine.Status(); st.Standing != Synced {
			files, _ := d.engine.Files("", 100)
			s.t.Fatalf("%s is %+v: %+v", d.name, st, files)
		}
	}
	s.checkWinners()
	for path, versions := range s.vfs.files {
		for _, v := range versions {
			sum := sha256.Sum256(v.content)
			if s.lossy || reported[hex.EncodeToString(sum[:])] || reported[fmt.Sprintf("%s@%d", path, v.Version)] {
				found[string(v.content)] = true
			}
		}
	}
	for token := range s.live {
		if !found[token] {
			s.t.Fatalf("%.20q is lost; VFS %v, versions %v, losers %v", token, short(s.vfs.all()), s.history(), reported)
		}
	}
}

// checkWinners asks every loser who the winner was: a content that it was made
// of knowing it was no rival.
func (s *story) checkWinners() {
	if s.lossy || s.lied {
		return // what was known then is not known any more
	}
	contents := make(map[Sum]string)
	for token := range s.before {
		contents[sha256.Sum256([]byte(token))] = token
	}
	for _, d := range s.devices {
		for _, l := range d.engine.Losers() {
			if l.Deleted || l.Winner.Deleted {
				continue
			}
			winner := contents[l.Winner.SHA256]
			for token := contents[l.SHA256]; token != ""; token = s.before[token] {
				if token == winner {
					s.t.Fatalf("%s: %.20q lost to %.20q, which it replaced: %+v, %v", d.name, contents[l.SHA256], winner, l, s.history())
				}
			}
		}
	}
}

// history is every version, for people.
func (s *story) history() []string {
	var list []string
	for path, versions := range s.vfs.files {
		for _, v := range versions {
			list = append(list, fmt.Sprintf("%s@%d %.12q %t", path, v.Version, v.content, v.Deleted))
		}
	}
	slices.Sort(list)
	return list
}

func (d *device) String() string { return d.name }

func (d *device) GoString() string { return d.name }

func short(m map[string]string) map[string]string {
	for path, content := range m {
		m[path] = content[:min(len(content), 14)]
	}
	return m
}
