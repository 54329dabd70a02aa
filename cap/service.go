package cap

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/announce"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Service]. Everything but the last lines is needed, whose
// zero values mean the defaults.
type Options struct {
	Caps   records.Table[Cap]
	Groups records.Table[Group]
	Data   records.Table[Datum]
	// RemoveAll removes up to 1000 records or none: 3003 if one has changed,
	// 3001 if one is gone.
	RemoveAll func(ctx context.Context, list []Removal) error
	Publish   func(protocol.Recipients, protocol.Message) (receivers int, err error)
	// Retained yields the topics, covered by a filter, that a message is
	// retained on.
	Retained   func(filter string) iter.Seq2[string, protocol.SpaceID]
	Skills     Skills
	Dispatcher Dispatcher // carries out group.dispatch
	Rollouts   Rollouts   // the same where it has a plan, or the group a selector
	// MayName is the reason why a principal may not declare a Cap of an id, and
	// MayBind why it may not have a skill own a Cap or join a group; nil if it may.
	// A nil func permits all.
	MayName func(space protocol.SpaceID, id string, who *protocol.Principal) error
	MayBind func(space protocol.SpaceID, id protocol.SkillID, who *protocol.Principal) error
	// MembershipLost is called when a principal may have lost access to the channel
	// of a Cap. It must not block.
	MembershipLost func(protocol.SpaceID, protocol.CapID)

	Topics   protocol.Topics
	BridgeID string // sender_id of events, default "aibridge"
	Log      *slog.Logger
	Now      func() time.Time
}

func (o *Options) setDefaults() {
	if o.Topics.Root() == "" {
		o.Topics = protocol.NewTopics("")
	}
	if o.BridgeID == "" {
		o.BridgeID = "aibridge"
	}
	if o.Retained == nil {
		o.Retained = func(string) iter.Seq2[string, protocol.SpaceID] {
			return func(func(string, protocol.SpaceID) bool) {}
		}
	}
	if o.MayName == nil {
		o.MayName = func(protocol.SpaceID, string, *protocol.Principal) error { return nil }
	}
	if o.MayBind == nil {
		o.MayBind = func(protocol.SpaceID, protocol.SkillID, *protocol.Principal) error { return nil }
	}
	if o.MembershipLost == nil {
		o.MembershipLost = func(protocol.SpaceID, protocol.CapID) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// A Service keeps Caps and their groups. Its methods may be called at the same
// time by many goroutines.
type Service struct {
	opts  Options
	index *index
	past  *history
	news  *announce.Queue[announcement, dataRef]
	seq   uint64 // of events, counted by their publisher
	locks locks
}

// New makes a service. It follows its tables from then on, so it comes before
// they are loaded; [Service.Run] comes after.
func New(o Options) *Service {
	o.setDefaults()
	s := &Service{opts: o, index: newIndex(), past: newHistory(), news: announce.New[announcement, dataRef](maxAnnouncements)}
	o.Caps.OnChange(s.capChanged)
	o.Groups.OnChange(s.groupChanged)
	o.Data.OnChange(s.dataChanged)
	return s
}

// Run withdraws the retained values of removed data, publishes the last value
// of all data, and then every change, until ctx ends. Changes before Run are
// not published.
func (s *Service) Run(ctx context.Context) error {
	s.news.Begin()
	s.withdrawLeftovers()
	for _, d := range s.opts.Data.All() {
		s.news.Value(d.ref())
	}
	s.announce(ctx)
	return nil
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(declare, s.Declare),
		commands.New(update, s.Update),
		commands.New(query, s.Query),
		commands.New(remove, s.Remove),
		commands.New(memberAdd, s.AddMember),
		commands.New(memberUpdate, s.UpdateMember),
		commands.New(memberRemove, s.RemoveMember),
		commands.New(linkAdd, s.AddLink),
		commands.New(linkRemove, s.RemoveLink),
		commands.New(dataSet, s.SetData),
		commands.New(dataGet, s.GetData),
		commands.New(dataList, s.ListData),
		commands.New(groupDeclare, s.DeclareGroup),
		commands.New(groupRemove, s.RemoveGroup),
		commands.New(groupQuery, s.QueryGroup),
		commands.New(groupList, s.ListGroups),
		commands.New(groupDispatch, s.Dispatch),
		commands.New(rolloutPause, s.PauseRollout),
		commands.New(rolloutResume, s.ResumeRollout),
		commands.New(rolloutRetry, s.RetryRollout),
		commands.New(rolloutMembers, s.ListRolloutMembers),
	}
}
