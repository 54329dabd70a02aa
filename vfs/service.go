package vfs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/announce"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Service]. Store, Groups and Remotes are needed.
type Options struct {
	Store   *Store
	Groups  records.Table[Group]
	Remotes records.Table[Remote]
	// Members holds the participants of the groups of Caps; nil means that there are
	// none.
	Members Members
	// MayName is asked whether a principal may use a group of this name, to read or to write
	// it, besides everything else; nil means yes. It is called for every message, so it must
	// be fast.
	MayName func(who *protocol.Principal, group string, write bool) error
	// Dial makes the client of a remote VFS, nil if there can be none. The
	// credential is the one that was registered with it.
	Dial func(r Remote, credential string) (Files, error)
	// Sealer keeps credentials at rest; without one none can be registered.
	Sealer Sealer
	// Publish publishes an event of a group; without it there are no events.
	Publish  func(to protocol.Recipients, m protocol.Message) (receivers int, err error)
	Topics   protocol.Topics
	BridgeID string

	Log *slog.Logger
	Now func() time.Time
}

// A Sealer encrypts records, each bound to its purpose.
type Sealer interface {
	Seal(plain []byte, purpose string) ([]byte, error)
	Open(sealed []byte, purpose string) ([]byte, error)
}

// Members tells whether a principal takes part in a Cap or in a group of one. It is
// called for every message, so it must be fast.
type Members interface {
	// MayUseChannel reports whether a principal takes part in a Cap.
	MayUseChannel(who *protocol.Principal, id protocol.CapID, send bool) bool
	// MayUseGroup reports whether a principal takes part in a group of a Cap,
	// to read what belongs to it or to write it.
	MayUseGroup(who *protocol.Principal, id protocol.CapID, group protocol.GroupID, write bool) bool
	// SharesGroup reports the same for a group of that name in any Cap of an
	// owner.
	SharesGroup(who *protocol.Principal, owner protocol.Party, group protocol.GroupID, write bool) bool
}

// nobody is [Members] without participants.
type nobody struct{}

func (nobody) MayUseChannel(*protocol.Principal, protocol.CapID, bool) bool { return false }
func (nobody) MayUseGroup(*protocol.Principal, protocol.CapID, protocol.GroupID, bool) bool {
	return false
}
func (nobody) SharesGroup(*protocol.Principal, protocol.Party, protocol.GroupID, bool) bool {
	return false
}

// A Service gives principals access to files, their own and their groups', in any
// VFS.
type Service struct {
	opts Options
	news *announce.Queue[change, groupID]
	seq  uint64 // of the last event; of the goroutine that publishes them

	mu      sync.Mutex
	clients map[string]client // by key of the remote
}

// A client is the client of a remote VFS as it was registered.
type client struct {
	of    *Remote
	files Files
}

// New makes a service. It follows its tables from then on, so it comes before
// they are loaded.
func New(o Options) *Service {
	if o.Members == nil {
		o.Members = nobody{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{opts: o, clients: make(map[string]client), news: announce.New[change, groupID](maxChangesWaiting)}
	if o.Publish != nil {
		s.news.Begin()
		o.Store.OnChange(s.changed)
	}
	return s
}

// Store is the bridge's own store. Uploads in parts go there before they become files.
func (s *Service) Store() *Store { return s.opts.Store }

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(syncAll, s.Sync),
		commands.New(syncTo, s.SyncTo),
		commands.New(syncFrom, s.SyncFrom),
		commands.New(list, s.List),
		commands.New(groupList, s.ListGroups),
		commands.New(versionList, s.Versions),
		commands.New(restore, s.Restore),
		commands.New(remove, s.Delete),
		commands.New(copyFile, s.Copy),
		commands.New(moveFile, s.Move),
		commands.New(register, s.Register),
		commands.New(unregister, s.Unregister),
		commands.New(status, s.Status),
		commands.New(health, s.Health),
	}
}

// Mirror are the files that the mirror of a space's Caps goes to: the VFS that
// was registered for it, or the bridge's own store.
func (s *Service) Mirror(space protocol.SpaceID) Files {
	return mirror{s, space}
}

// A mirror looks up where the mirror goes each time: it may be registered
// elsewhere meanwhile.
type mirror struct {
	service *Service
	space   protocol.SpaceID
}

// For returns the files of a group that a principal may read, or write. To a
// reader, another principal's group looks empty.
func (s *Service) For(ctx context.Context, who *protocol.Principal, group string, write bool) (Files, error) {
	if err := CheckGroup(group); err != nil {
		return nil, err
	}
	if !write && s.hidden(who, group) {
		return s.opts.Store.Space(nowhere), nil
	}
	if err := s.admit(ctx, who, group, write); err != nil {
		return nil, err
	}
	files, err := s.where(who.Home(), group)
	if err == nil && group == MirrorGroup && (write || !privileged(who)) {
		files = &mirrorReader{files, s, who}
	}
	return files, err
}

// Usage is the use of the bridge's own VFS by a principal's space, for managers of the
// space. Others see the use by the groups that they may read.
func (s *Service) Usage(ctx context.Context, who *protocol.Principal) (Usage, error) {
	files := s.opts.Store.Space(who.Home())
	usage, err := measure(ctx, files)
	if err != nil || who.Manages(who.Home()) {
		return usage, err
	}
	usage = Usage{}
	for _, group := range s.GroupsFor(who) {
		_, bytes := files.size(group)
		usage.Used += bytes
	}
	return usage, nil
}
